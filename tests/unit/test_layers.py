"""Position families: formulas by hand, relative invariance, unknown levels, and what attention makes of them."""

from __future__ import annotations

import copy
import itertools
import math
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from docnmt.core.units import ReadingPlan
from docnmt.layout import DocumentLayout
from docnmt.modules import layers
from docnmt.modules.layers import Dropout, FeedForward, Layer, Reads, Residual
from docnmt.modules.linear_layers import (
    BFloat16Linear,
    EightBitLinear,
    TrainedLinear,
    multiplies_eight_bits,
)
from docnmt.modules.positions import Alibi, MultiLevel, RelativeKeys, Rotary, Sinusoidal, build_position
from docnmt.runtime import device as tuning


@pytest.mark.parametrize(("name", "order"), [("sinusoidal", "pairs"), ("rope_input", "halves")])
def test_sinusoids_by_hand(name: str, order: str) -> None:
    encode = build_position(name, 8).input
    assert encode is not None
    for word in (0, 3, 700):  # 700 is past the table's first size
        angles = [word / 10000 ** (2 * f / 8) for f in range(4)]
        pairs = [(math.sin(a), math.cos(a)) for a in angles]
        expected = torch.tensor(pairs) if order == "pairs" else torch.tensor(pairs).t()
        torch.testing.assert_close(encode(torch.tensor([[word, -1, -1, -1]]))[0], expected.flatten())


def multi_level(**options: object) -> MultiLevel:
    torch.manual_seed(1)
    module = MultiLevel(16, **options)  # type: ignore[arg-type]
    module.unknown.data.normal_()
    return module.eval()


@pytest.mark.parametrize("learned", [False, True])
def test_multi_level_is_a_sum_over_levels(learned: bool) -> None:
    module = multi_level(levels=4, learned=learned, length=32)
    positions = torch.tensor([[4, 2, 1, 0], [4, 2, -1, -1], [0, -1, 3, 7]])
    expected = Sinusoidal(16)(positions)
    for i, level in enumerate(module.higher):
        for row in range(3):
            part = level(positions)[row] if positions[row, i + 1] >= 0 else module.unknown[i]
            expected[row] = expected[row] + module.scale[i] * part
    torch.testing.assert_close(module(positions), expected)


def test_level_dropout_hides_paragraphs_and_sections_in_training_only() -> None:
    module = multi_level(levels=4, level_dropout=1.0)
    known, hidden = torch.tensor([[4, 2, 1, 3]]), torch.tensor([[4, 2, -1, -1]])
    assert not torch.equal(module(known), module(hidden))
    module.train()
    assert torch.equal(module(known), module(hidden))


def test_rotary_scores_depend_on_the_distance_alone() -> None:
    torch.manual_seed(0)
    q, k = torch.randn(2, 1, 2, 8, dtype=torch.float64).unbind(0)
    at = lambda i, j: torch.einsum("thd,thd->h", *Rotary().rotate(q, k, torch.tensor([i]), torch.tensor([j])))  # noqa: E731
    torch.testing.assert_close(at(0, 0), torch.einsum("thd,thd->h", q, k))
    torch.testing.assert_close(at(7, 3), at(104, 100))
    assert not torch.allclose(at(7, 3), at(3, 7))
    by_hand = 0.0
    for f in range(4):  # one pair of features as a complex number turned by the distance
        a, b = torch.complex(q[0, 0, f], q[0, 0, f + 4]), torch.complex(k[0, 0, f], k[0, 0, f + 4])
        by_hand += (a * b.conj() * torch.exp(torch.tensor(4j * 10000 ** (-f / 4)))).real.item()
    assert at(7, 3)[0].item() == pytest.approx(by_hand)
    with pytest.raises(ValueError, match="7"):
        Rotary().rotate(q[..., :7], k[..., :7], torch.tensor([1]), torch.tensor([1]))


def test_relative_keys_are_shaws_equation() -> None:
    torch.manual_seed(0)
    module = RelativeKeys(8, max_distance=2).double()
    q, k = torch.randn(2, 5, 3, 8, dtype=torch.float64).unbind(0)
    scores = module.distance_scores(q, 4)
    assert scores.shape == (5, 3, 5)
    for i in range(5):
        for j in range(5):
            column = 2 + max(-2, min(2, j - i))
            shaw = (q[i] * (k[j] + module.weight[column])).sum(-1) / math.sqrt(8)
            torch.testing.assert_close((q[i] * k[j]).sum(-1) / math.sqrt(8) + scores[i, :, column], shaw)


@pytest.mark.parametrize("heads", [1, 4, 6, 8, 12])
def test_alibi(heads: int) -> None:
    slopes = Alibi(heads).slopes
    assert len(set(slopes.tolist())) == heads
    if heads & (heads - 1) == 0:
        torch.testing.assert_close(slopes, torch.tensor([2.0 ** (-8 * (i + 1) / heads) for i in range(heads)]))
    scores = Alibi(heads).distance_scores(torch.zeros(7, heads, 4), 6)
    assert scores.shape == (heads, 13)
    torch.testing.assert_close(scores[:, 6 - 4], -4 * slopes)
    torch.testing.assert_close(scores, scores.flip(1))


# Dropout on a CPU: shares, scale, gradients, independence of the four numbers that share a draw.


def dropped(p: float, *shape: int, seed: int = 0) -> torch.Tensor:
    torch.manual_seed(seed)
    return Dropout(p)(torch.ones(shape))


@pytest.mark.parametrize("p", [0.05, 0.1, 0.5, 0.9])
def test_the_share_is_p_and_the_mean_stays(p: float) -> None:
    y = dropped(p, 1000, 1001)
    deviation = (p * (1 - p) / y.numel()) ** 0.5
    assert float((y == 0).double().mean()) == pytest.approx(p, abs=5 * deviation + 2**-16)
    assert float(y.double().mean()) == pytest.approx(1, abs=5 * deviation / (1 - p) + 2**-16)
    assert len(y.unique()) == 2


def test_numbers_of_one_draw_are_independent() -> None:
    four = (dropped(0.5, 100_000, 4) > 0).double() - 0.5
    assert ((four.T @ four) / len(four) - 0.25 * torch.eye(4)).abs().max() < 5 * 0.25 / len(four) ** 0.5


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("shape", [(7,), (3, 5), (0, 4), (2, 3, 3)])
def test_gradients_are_dropped_where_numbers_are(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    x = torch.randn(shape, dtype=dtype, requires_grad=True)
    y = Dropout(0.5)(x)
    assert (y.shape, y.dtype) == (x.shape, dtype)
    (gradient,) = torch.autograd.grad(y, x, torch.ones_like(y))
    torch.testing.assert_close(y, x * gradient)
    assert set(gradient.unique().tolist()) <= {0.0, 2.0}


# Linear layers of whole numbers against the same sums by NumPy, and against the layers that they replace.


#: By what the processor has, too: a layer that computes wrongly must not skip its own test.
HERE = multiplies_eight_bits() or torch.cpu._is_vnni_supported()
whole_numbers = pytest.mark.skipif(not HERE, reason="no products of whole numbers here")


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


@whole_numbers
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("width", "outputs"), [(64, 48), (128, 512), (512, 100), (33, 40)])
def test_products_are_those_of_whole_numbers(width: int, outputs: int, bias: bool) -> None:
    layer = nn.Linear(width, outputs, bias=bias)
    x = torch.randn(17, width) * torch.logspace(-3, 3, 17)[:, None]
    weight, rows = layer.weight.detach().numpy(), x.numpy()
    weight_scale = (np.abs(weight).max(1) / np.float32(127)).astype(np.float32)
    row_scale = (np.abs(rows).max(1) / np.float32(127)).astype(np.float32)
    rounded = np.rint(weight / weight_scale[:, None]).astype(np.int64)
    whole = np.floor((rows / row_scale[:, None] + np.float32(128.5)).astype(np.float32)).astype(np.int64) - 128
    wanted = (whole @ rounded.T) * weight_scale.astype(np.float64) * row_scale[:, None].astype(np.float64)
    if bias:
        wanted += layer.bias.detach().numpy()
    with torch.inference_mode():
        computed = EightBitLinear(layer)(x).numpy()
    np.testing.assert_allclose(computed, wanted, rtol=1e-5, atol=1e-6 * np.abs(wanted).max(1, keepdims=True).max())


@whole_numbers
def test_a_row_depends_on_no_other_row() -> None:
    layer = EightBitLinear(nn.Linear(128, 96))
    x = torch.randn(70, 128)
    with torch.inference_mode():
        whole = layer(x)
        for count in (1, 2, 3, 4, 7, 16, 33, 64):
            assert torch.equal(layer(x[3 : 3 + count]), whole[3 : 3 + count])
        x[5] *= 1000
        assert torch.equal(layer(x)[6:], whole[6:])


@pytest.mark.parametrize("bias", [True, False])
def test_bfloat16_rounds_inputs_weights_and_results(bias: bool) -> None:
    layer, x = nn.Linear(96, 64, bias=bias), torch.randn(3, 5, 96)
    rounded = nn.Linear(96, 64, bias=bias).double()
    rounded.load_state_dict({name: value.bfloat16().double() for name, value in layer.state_dict().items()})
    with torch.inference_mode():
        computed, wanted = BFloat16Linear(layer)(x), rounded(x.bfloat16().double())
    assert computed.dtype == torch.float32
    assert torch.equal(computed, computed.bfloat16().float())
    torch.testing.assert_close(computed.double(), wanted, rtol=2**-8, atol=1e-3)
    assert layer.weight.dtype == torch.float32


# Linear layers in training: what `nn.Linear` computes, and its gradients, by another library.


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(50, 24), (5, 7, 24), (1, 24), (0, 24), (24,)])
def test_the_layer_and_its_gradients_are_those_of_float64(shape: tuple[int, ...], bias: bool) -> None:
    with tuning.products_by("medium"):
        if tuning._product_error() > tuning.FLOAT32_ERROR:
            pytest.skip("oneDNN rounds to bfloat16 on this processor, and tune does not choose it")
    layer = nn.Linear(24, 40, bias=bias)
    exact, trained = copy.deepcopy(layer).double(), TrainedLinear(layer)
    x = torch.randn(shape, requires_grad=True)
    given = torch.randn(*shape[:-1], 40)

    def passes(module: nn.Module, x: Tensor) -> list[Tensor]:
        inputs = [x, *module.parameters()]
        y = module(x)
        return [y, *torch.autograd.grad(y, inputs, given.to(y.dtype))]

    expected = passes(exact, x.detach().double().requires_grad_())
    for tensor, right in zip(passes(trained, x), expected, strict=True):
        assert tensor.shape == right.shape
        torch.testing.assert_close(tensor.double(), right, rtol=1e-5, atol=1e-5)


def test_without_gradients_it_has_the_bits_of_the_layer_that_it_replaces() -> None:
    layer, x = nn.Linear(100, 300), torch.randn(77, 100)
    trained = TrainedLinear(layer)
    assert trained.weight is layer.weight
    assert [name for name, _ in trained.named_parameters()] == [name for name, _ in layer.named_parameters()]
    with torch.no_grad():
        assert torch.equal(trained(x), layer(x))


# What a plan of reading and a layer refuse, and how a plan narrows.


def test_a_window_narrows_what_is_read() -> None:
    sentence, document = ReadingPlan(written=1), ReadingPlan(written=None)
    joined, pair = ReadingPlan(written=None, joined=True), ReadingPlan(written=1, earlier=3, stride=1, joined=True)
    assert sentence.within(2) == sentence
    assert document.within(2).around == 2
    assert joined.within(2).written == 3
    assert (pair.within(1).written, pair.within(1).earlier) == (1, 1)
    assert [plan.noun for plan in (sentence, document, joined, pair)] == ["sentence", "document", "document", "window"]
    assert all(plan.within(None) == plan for plan in (sentence, document, joined, pair))
    with pytest.raises(ValueError, match="window:"):
        document.within(-1)


@pytest.mark.parametrize("norms", list(itertools.product(("pre", "post"), repeat=3)))
def test_kernels_compute_what_a_layer_computes_without(norms: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """For each order of norms in one layer, with the kernel replaced by its equation: output and gradients."""
    torch.manual_seed(0)
    names, order = ("first", "second", "third"), iter(norms)
    made = {name: FeedForward(d_model=6, d_inner=8, activation="relu") for name in names}
    residual = lambda: Residual(d_model=6, dropout=0.0, norm=next(order))  # noqa: E731
    layer = Layer(made, [(name,) for name in names], residual=residual)
    for parameter in layer.double().parameters():
        nn.init.normal_(parameter)
    x, weights = torch.randn(2, 5, 6, dtype=torch.float64)
    reads = Reads(DocumentLayout(torch.tensor([0, 5]), torch.tensor([0, 1])))

    def passed() -> list[Tensor]:
        out = layer(x, reads)
        return [out.detach(), *torch.autograd.grad((out * weights).sum(), list(layer.parameters()))]

    expected = passed()
    h = x
    for name, norm in zip(names, norms, strict=True):
        residual: Any = layer.residual((name,))
        h = h + made[name](residual.norm(h)) if norm == "pre" else residual.norm(h + made[name](h))
    torch.testing.assert_close(expected[0], h.detach())

    def at_once(x: Tensor, added: Tensor | None, norm: nn.LayerNorm | None, dropout: float) -> tuple[Tensor, Any]:
        total = x if added is None else x + added
        return total, None if norm is None else norm(total)

    def biased(x: Tensor, bias: Tensor, activation: str) -> Tensor:
        return torch.relu(x + bias)

    monkeypatch.setattr(layers, "takes_kernels", lambda *tensors: True)
    replaced = SimpleNamespace(residual_norm=at_once, bias_activation=biased)
    monkeypatch.setitem(sys.modules, "docnmt.functional.kernels.pointwise", replaced)
    for one, other in zip(passed(), expected, strict=True):
        torch.testing.assert_close(one, other)
