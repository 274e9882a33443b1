"""docnmt.testing: every built-in component passes its check, and what is wrong does not."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import plugins  # noqa: F401  registers them
import pytest
import torch
from torch import Tensor

from docnmt.core.models.config import TransformerConfig
from docnmt.modules.attention import CrossAttention, SelfAttention
from docnmt.modules.layers import FeedForward, Reads, Sublayer
from docnmt.registry import METRICS, MODELS, register_metric
from docnmt.testing import check_kind, check_metric, check_model, check_sublayer

ARCHITECTURES = [name for name in MODELS.names() if issubclass(MODELS.config(name) or object, TransformerConfig)]


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_every_architecture_does_what_models_must(arch: str) -> None:
    check_model(arch)


@pytest.mark.parametrize("sublayer", [
    SelfAttention(d_model=32, heads=2, d_head=16, causal=True),
    CrossAttention(d_model=32, heads=2, d_head=16),
    FeedForward(d_model=32, d_inner=8, activation="relu"),
])  # fmt: skip
def test_sublayers(sublayer: Sublayer) -> None:
    check_sublayer(sublayer)


class Ahead(FeedForward):
    """It reads the next token."""

    def forward(self, x: Tensor, reads: Reads | None = None) -> Tensor:
        return super().forward(x.roll(-1, 0))


class Otherwise(FeedForward):
    """Its step computes something else."""

    def step(self, x: Tensor, *rest: object) -> Tensor:
        return 2 * super().forward(x)


@pytest.mark.parametrize(("kind", "said"), [(Ahead, "causal"), (Otherwise, "step 0")])
def test_wrong_sublayers_are_found(kind: type[FeedForward], said: str) -> None:
    torch.manual_seed(0)
    with pytest.raises(AssertionError, match=said):
        check_sublayer(kind(d_model=32, d_inner=8, activation="relu"))


@pytest.mark.parametrize("name", METRICS.names())
def test_every_metric_does_what_metrics_must(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_metric(name)


class Same:
    """The share of the references' lines that are there."""

    signature = "same"

    def __init__(self, tokenize: str, references: list[list[str]]) -> None:
        self.references = references[0]

    def counts(self, lines: list[str]) -> np.ndarray:
        return np.array([[line == right, 1.0] for line, right in zip(lines, self.references, strict=True)])

    def score(self, sums: np.ndarray) -> float:
        return float(100 * sums[0] / sums[1])


@pytest.mark.parametrize(("change", "said"), [
    ({"signature": ""}, "signature"),
    ({"score": lambda self, sums: float(-sums[0])}, "lower_is_better"),
])  # fmt: skip
def test_wrong_metrics_are_found(change: dict[str, Any], said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(METRICS, "_entries", dict(METRICS._entries))
    register_metric("wrong")(type("Wrong", (Same,), change))
    with pytest.raises(AssertionError, match=said):
        check_metric("wrong")


def test_a_wrong_kind_is_found() -> None:
    with pytest.raises(AssertionError, match="no text"):
        check_kind("txt", b"\n")
