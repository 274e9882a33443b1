"""Fusion operators: equations written a second way, packed against padded rows, gradients, nothing leaks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from types import SimpleNamespace

import pytest
import small_system
import torch
from torch import Tensor, nn

from docnmt.core.batch import PackedText
from docnmt.layout import DocumentLayout
from docnmt.modules.fusion import Fusion, build_fusion
from docnmt.other_tasks.classification import FusionClassifier
from docnmt.other_tasks.options import FusionClassifierConfig
from docnmt.registry import FUSIONS, MODELS, POSITIONS

D = 6
OFFSETS = torch.tensor([0, 3, 4, 4, 9])
VARIANTS = [
    *((name, {}) for name in FUSIONS.names()),
    ("gate_conv", {"scalar": True}),
    ("gate_conv", {"radius": 3}),
    ("gate_conv", {"radius": 0}),
    ("add", {"norm_after": True}),
    ("gate_conv", {"norm_after": True}),
]


def build(name: str, options: dict[str, object]) -> Fusion:
    torch.manual_seed(3)
    fusion = build_fusion(name, D, **options).double()
    for parameter in fusion.parameters():  # away from 0 and 1, where wrong terms would hide
        parameter.data += 0.3 * torch.randn_like(parameter)
    return fusion


def rows(count: int = 9) -> tuple[Tensor, Tensor]:
    torch.manual_seed(4)
    return torch.randn(2, count, D, dtype=torch.float64, requires_grad=True).unbind(0)


@pytest.mark.parametrize(("name", "options"), VARIANTS)
def test_packed_equals_each_sequence_alone_and_padded(name: str, options: dict[str, object]) -> None:
    fusion = build(name, options)
    e, p = rows()
    packed = fusion(e, p, OFFSETS)
    for begin, end in pairwise(OFFSETS.tolist()):
        alone = fusion(e[None, begin:end], p[None, begin:end])[0]
        torch.testing.assert_close(packed[begin:end], alone)
    assert packed.shape == e.shape
    same_length = fusion(e[:8].view(2, 4, D), p[:8].view(2, 4, D))
    torch.testing.assert_close(same_length.flatten(0, 1), fusion(e[:8], p[:8], torch.tensor([0, 4, 8])))


def first_way(name: str, w: dict[str, Tensor], e: Tensor, p: Tensor) -> Tensor:
    """One token, feature by feature, from the papers' equations."""
    both = torch.cat([e, p])
    mix: Callable[[Tensor], Tensor] = lambda g: g * e + (1 - g) * p  # noqa: E731
    linear = lambda n, x: w[f"{n}.weight"] @ x + w[f"{n}.bias"]  # noqa: E731
    network = lambda: linear("network.2", linear("network.0", both).relu())  # noqa: E731
    equations: dict[str, Callable[[], Tensor]] = {
        "add": lambda: e + p,
        "mul": lambda: e * p,
        "none": lambda: e,
        "scale": lambda: w["scales"][0] * e + w["scales"][1] * p,
        "concat": lambda: linear("projection", both),
        "concat_addition": lambda: linear("projection", both),
        "mlp": network,
        "gate_scalar": lambda: mix(1 / (1 + torch.exp(-linear("projection", both)))),
        "gate_vector": lambda: mix(1 / (1 + torch.exp(-linear("projection", both)))),
        "gate_mlp": lambda: mix(1 / (1 + torch.exp(-network()))),
        "gate_constant": lambda: mix(1 / (1 + torch.exp(-w["logit"]))),
        "gate_content": lambda: e / (1 + torch.exp(-linear("projection", e))),
    }
    return equations[name]()


@pytest.mark.parametrize("name", [name for name in FUSIONS.names() if name != "gate_conv"])
def test_equation(name: str) -> None:
    fusion, (e, p) = build(name, {}), rows()
    weights = dict(fusion.named_parameters())
    expected = torch.stack([first_way(name, weights, e[i], p[i]) for i in range(len(e))])
    torch.testing.assert_close(fusion(e, p, OFFSETS), expected)


@pytest.mark.parametrize("scalar", [False, True])
@pytest.mark.parametrize("radius", [0, 1, 2])
def test_gate_conv_is_torchs_depthwise_convolution(radius: int, scalar: bool) -> None:
    fusion, (e, p) = build("gate_conv", {"radius": radius, "scalar": scalar}), rows()
    kernel = fusion.weight.t()[:, None]  # (d, 1, 2K+1)
    score = torch.nn.functional.conv1d(p.t()[None], kernel, padding=radius, groups=D)[0].t()
    gate = torch.sigmoid(score.sum(1, keepdim=True) if scalar else score)
    torch.testing.assert_close(fusion(e, p), gate * e + (1 - gate) * p)


@pytest.mark.parametrize(("name", "options"), VARIANTS)
def test_gradients(name: str, options: dict[str, object]) -> None:
    fusion = build(name, options)
    e, p = (x.detach().requires_grad_() for x in rows())
    assert torch.autograd.gradcheck(lambda a, b: fusion(a, b, OFFSETS), (e, p))
    fusion(e, p, OFFSETS).pow(2).sum().backward()
    assert all(parameter.grad is not None and parameter.grad.abs().sum() > 0 for parameter in fusion.parameters())


@pytest.mark.parametrize("arch", ["transformer", "hier_cond_transformer"])
def test_concatenation_begins_as_addition_in_a_model(arch: str) -> None:
    config = MODELS.config(arch)(embed_dim=D, heads=2, position_fusion="concat_addition")
    model = small_system.task().build_model(MODELS.get(arch), config)
    begun, (e, p) = [part for part in model.modules() if isinstance(part, Fusion)], rows()
    assert len(begun) == 2  # of source and target
    for fusion in begun:
        assert torch.equal(fusion.double()(e, p), e + p)


# The text classifier: against stock PyTorch, packed against alone, paired across fusions, nonsense refused.


TASK = SimpleNamespace(vocabulary_size=50, labels=("a", "b", "c"))
SMALL = FusionClassifierConfig(encoder_layers=2, embed_dim=16, heads=4, ffn_dim=32)
LENGTHS = [5, 1, 0, 9]


@dataclass
class Batch:
    text: PackedText


def packed(tokens: list[Tensor]) -> Batch:
    lengths = [len(t) for t in tokens]
    positions = torch.cat([torch.stack([torch.arange(n), *torch.full((3, n), -1)], dim=1) for n in lengths])
    layout = DocumentLayout.from_lengths([[n] for n in lengths])
    return Batch(PackedText(torch.cat(tokens), layout, positions))


def texts() -> list[Tensor]:
    torch.manual_seed(7)
    return [torch.randint(0, 50, (n,)) for n in LENGTHS]


def build_of_fusion(config: FusionClassifierConfig, seed: int = 1) -> FusionClassifier:
    torch.manual_seed(seed)
    return FusionClassifier.build(config, TASK)


def combinations() -> list[FusionClassifierConfig]:
    pairs = [(position, "add") for position in POSITIONS.names()]
    pairs += [("sinusoidal", fusion) for fusion in FUSIONS.names()]
    configs = [replace(SMALL, position=position, position_fusion=fusion) for position, fusion in pairs]
    return configs + [replace(SMALL, position=position, attention="linear") for position in ("sinusoidal", "relative")]


def label(config: FusionClassifierConfig) -> str:
    return f"{config.attention}-{config.position}-{config.position_fusion}"


@pytest.mark.parametrize("config", combinations(), ids=label)
def test_a_text_does_not_see_its_neighbours(config: FusionClassifierConfig) -> None:
    model = build_of_fusion(config).double().eval()
    together = model(packed(texts()))
    alone = torch.cat([model(packed([text])) for text in texts()])
    assert together.shape == (4, 3)
    torch.testing.assert_close(together, alone)
    assert torch.equal(together[2], model.output.bias), "a text without words has the mean 0"


@pytest.mark.parametrize(("norm", "activation"), [("post", "gelu"), ("post", "relu"), ("pre", "relu")])
def test_against_stock_pytorch(norm: str, activation: str) -> None:
    """The notebooks' model in their own way: padded, `nn.TransformerEncoder`, key padding mask, masked mean."""
    config = replace(SMALL, norm=norm, activation=activation)
    model = build_of_fusion(config).double().eval()
    layer = nn.TransformerEncoderLayer(16, 4, 32, activation=activation, batch_first=True, norm_first=norm == "pre")
    final = nn.LayerNorm(16) if norm == "pre" else None
    stock = nn.TransformerEncoder(layer, 2, norm=final, enable_nested_tensor=False).double().eval()
    for ours, theirs in zip(model.layers, stock.layers, strict=True):
        for mine, name in (
            (ours.attention.qkv.weight, "self_attn.in_proj_weight"),
            (ours.attention.qkv.bias, "self_attn.in_proj_bias"),
            (ours.attention.output.weight, "self_attn.out_proj.weight"),
            (ours.feed_forward.inner.weight, "linear1.weight"), (ours.feed_forward.inner.bias, "linear1.bias"),
            (ours.feed_forward.output.weight, "linear2.weight"), (ours.feed_forward.output.bias, "linear2.bias"),
        ):  # fmt: skip
            theirs.get_parameter(name).data.copy_(mine)
        theirs.self_attn.out_proj.bias.data.copy_(ours.attention.output.bias)
    chosen = [text for text in texts() if len(text)]
    batch = packed(chosen)
    longest = max(map(len, chosen))
    padded = torch.stack([nn.functional.pad(text, (0, longest - len(text))) for text in chosen])
    mask = torch.arange(longest)[None] >= torch.tensor([len(text) for text in chosen])[:, None]
    position = model.embedding.position(torch.arange(longest)[:, None].expand(-1, 4))
    x = model.embedding.tokens(padded) * 16**0.5 + position
    h = stock(x, src_key_padding_mask=mask) * ~mask[..., None]
    pooled = h.sum(1) / (~mask).sum(1, keepdim=True)
    torch.testing.assert_close(model(batch), model.output(pooled))


@pytest.mark.parametrize("config", combinations(), ids=label)
def test_dropout_masks_are_identical_across_positions_and_fusions(config: FusionClassifierConfig) -> None:
    def masks(config: FusionClassifierConfig) -> list[Tensor]:
        model, seen = build_of_fusion(config).train(), []
        for module in model.modules():
            if isinstance(module, nn.Dropout) and module.p > 0:
                module.register_forward_pre_hook(lambda _, inputs: (torch.ones_like(inputs[0]),))
                module.register_forward_hook(lambda _, inputs, output: seen.append(output != 0))
        torch.manual_seed(11)  # as training does before every update
        model(packed(texts()))
        return seen

    reference, other = masks(SMALL), masks(config)
    assert len(reference) == 5
    assert all(torch.equal(a, b) for a, b in zip(reference, other, strict=True))
