"""The text classifier: against stock PyTorch, packed against alone, paired across fusions, nonsense refused."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn

from docnmt.core.batch import PackedText
from docnmt.layout import DocumentLayout
from docnmt.modules.attention import SelfAttention
from docnmt.modules.layers import OwnStart
from docnmt.options import contradictions
from docnmt.other_tasks.classification import FusionClassifier
from docnmt.other_tasks.options import FusionClassifierConfig
from docnmt.registry import ATTENTIONS, FUSIONS, POSITIONS, register_attention

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


def build(config: FusionClassifierConfig, seed: int = 1) -> FusionClassifier:
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
    model = build(config).double().eval()
    together = model(packed(texts()))
    alone = torch.cat([model(packed([text])) for text in texts()])
    assert together.shape == (4, 3)
    torch.testing.assert_close(together, alone)
    assert torch.equal(together[2], model.output.bias), "a text without words has the mean 0"


@pytest.mark.parametrize(("norm", "activation"), [("post", "gelu"), ("post", "relu"), ("pre", "relu")])
def test_against_stock_pytorch(norm: str, activation: str) -> None:
    """The notebooks' model in their own way: padded, `nn.TransformerEncoder`, key padding mask, masked mean."""
    config = replace(SMALL, norm=norm, activation=activation)
    model = build(config).double().eval()
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


SHARED = ("embedding.tokens.", "layers.", "output.")


@pytest.mark.parametrize("config", combinations(), ids=label)
def test_shared_weights_are_identical_across_positions_and_fusions(config: FusionClassifierConfig) -> None:
    def shared(c: FusionClassifierConfig) -> dict[str, Tensor]:
        state = build(c, seed=5).state_dict()
        return {k: v for k, v in state.items() if k.startswith(SHARED) and ".position." not in k}

    reference, other = shared(SMALL), shared(config)
    assert reference.keys() == other.keys()
    assert all(torch.equal(reference[name], other[name]) for name in reference)
    assert not torch.equal(reference["output.weight"], build(config, seed=6).output.weight)


def test_equal_models_by_other_names_start_equal() -> None:
    """The notebooks' "relative" is a learned table, `scale` begins as `add`, no position is no position."""
    for one, other in (
        ({"position": "learned"}, {"position": "relative_input"}),
        ({"position_fusion": "add"}, {"position_fusion": "scale"}),
        ({"position": "none"}, {"position_fusion": "none"}),
    ):
        logits = [build(replace(SMALL, **values)).eval()(packed(texts())) for values in (one, other)]
        assert torch.equal(*logits)


def test_layers_start_different_from_each_other() -> None:
    first, second = build(SMALL).layers
    assert not torch.equal(first.attention.qkv.weight, second.attention.qkv.weight)


@pytest.mark.parametrize("config", combinations(), ids=label)
def test_dropout_masks_are_identical_across_positions_and_fusions(config: FusionClassifierConfig) -> None:
    def masks(config: FusionClassifierConfig) -> list[Tensor]:
        model, seen = build(config).train(), []
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


def test_building_a_model_leaves_the_surrounding_stream_alone() -> None:
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    FusionClassifier.build(SMALL, TASK)
    assert torch.equal(torch.rand(4), expected)


def test_scale_of_embeddings() -> None:
    with_scale, without = build(SMALL), build(replace(SMALL, scale_embeddings=False))
    assert with_scale.embedding.scale == 4.0
    assert without.embedding.scale == 1.0


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"position": "rope", "position_fusion": "gate_scalar"}, r"--position-fusion.*--position"),
        ({"position": "alibi", "position_fusion": "concat"}, r"--position-fusion.*--position"),
        ({"position": "relative", "position_fusion": "mlp"}, r"--position-fusion.*--position"),
        ({"position": "none", "position_fusion": "gate_mlp"}, r"--position-fusion.*--position"),
        ({"relative_horizon": 0, "position": "relative"}, "--relative-horizon"),
        ({"position": "multi_level", "levels": 3}, "--levels"),
        ({"position": "alibi", "norm_after_fusion": True}, r"--norm-after-fusion.*--position"),
        ({"embed_dim": 15, "heads": 3}, r"--embed-dim.*--position"),
        ({"embed_dim": 12, "position": "rope"}, r"--heads.*--position"),
        ({"attention": "linear", "position": "alibi"}, "--attention"),
        ({"attention": "linear", "position": "rope"}, "--attention"),
        ({"heads": 3}, "--heads"),
        ({"dropout": 1.0}, "--dropout"),
    ],
)
def test_options_that_contradict_are_refused(values: dict[str, object], message: str) -> None:
    problems = contradictions(replace(SMALL, **values))
    assert len(problems) == 1
    with pytest.raises(ValueError, match=message):
        raise ValueError(problems[0])


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"levels": 2}, "--position"),
        ({"max_positions": 9}, "--max-positions"),
        ({"gate_conv_scalar": True}, "--gate-conv-scalar"),
    ],
)
def test_options_without_effect_are_named(values: dict[str, object], message: str) -> None:
    (problem,) = contradictions(replace(SMALL, **values), values)
    assert message in problem


def test_an_attention_of_a_plugin_starts_as_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    class Shifted(SelfAttention, OwnStart):
        def reset_parameters(self) -> None:
            nn.init.constant_(self.output.bias, 3.0)

    monkeypatch.setattr(ATTENTIONS, "_entries", dict(ATTENTIONS._entries))
    register_attention("shifted")(Shifted)
    layers = build(replace(SMALL, attention="shifted")).layers
    assert all(bool((layer.attention.output.bias == 3).all()) for layer in layers)
