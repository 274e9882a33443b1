"""What a plan of reading and a layer refuse, and how a plan narrows."""

from __future__ import annotations

import itertools
import sys
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from docnmt.core.units import ReadingPlan
from docnmt.layout import DocumentLayout
from docnmt.modules import layers
from docnmt.modules.attention import SelfAttention
from docnmt.modules.layers import FeedForward, Layer, Reads, Residual


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"written": 0}, "written"),
        ({"written": "2"}, "'2'"),
        ({"written": True}, "written"),
        ({"written": 2, "joined": True, "stride": 3}, "stride 3"),
        ({"written": None, "stride": 1}, "stride"),
        ({"written": 2, "earlier": 1}, "earlier 1"),
        ({"written": None, "joined": True, "earlier": 1}, "earlier 1"),
        ({"written": 2, "around": 1}, "around 1"),
        ({"written": None, "joined": True, "own_text": True}, "own_text"),
        ({"written": 1, "positions": "word"}, "positions"),
        ({"written": 1, "masked_context": 1.0}, "masked_context"),
        ({"written": None, "dropped_context": 1.0}, "dropped_context"),
        ({"written": 1, "dropped_context": 0.5}, "dropped_context"),
    ],
)
def test_a_senseless_plan_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ReadingPlan(**settings)


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


@pytest.mark.parametrize(
    ("names", "blocks", "message"),
    [
        (["attention"], [("attention",), ()], r"\(\)"),
        (["attention"], ["attention"], "tuples"),
        (["attention", "other"], [("attention",)], "attention, other"),
        (["attention"], [("attention",), ("attention",)], "attention, attention"),
        (["attention", "attention_residual"], [("attention",), ("attention_residual",)], "attention_residual"),
        (["residual"], [("residual",)], "residual"),
    ],
)
def test_a_layer_knows_all_its_sublayers(names: list[str], blocks: list[Any], message: str) -> None:
    made = {name: SelfAttention(d_model=4, heads=1, d_head=4) for name in names}
    with pytest.raises(ValueError, match=message):
        Layer(made, blocks, residual=partial(Residual, d_model=4, dropout=0.0, norm="pre"))


def test_misspelt_names_are_refused() -> None:
    with pytest.raises(ValueError, match=r"activation:.*'tanh'"):
        FeedForward(d_model=4, d_inner=8, activation="tanh")
    with pytest.raises(ValueError, match="norm:"):
        Residual(d_model=4, dropout=0.0, norm="Pre")


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
