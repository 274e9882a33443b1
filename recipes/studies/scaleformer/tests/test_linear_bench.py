"""The paper's algorithms, as the bench measures them, are a third way to the same numbers."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

from docnmt.functional import linear_attention, relative_attention_term
from docnmt.functional.linear import feature_map


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1]))
    monkeypatch.delitem(sys.modules, "linear_ways", raising=False)
    return importlib.import_module("linear_ways")


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("queries", "keys"), [(7, 7), (3, 30), (30, 3), (40, 40), (90, 70)])
@pytest.mark.parametrize("horizon", [1, 5, 16])
def test_algorithms_1_and_2_agree(bench: ModuleType, causal: bool, queries: int, keys: int, horizon: int) -> None:
    q, k, v = (torch.randn(2, 3, length, 4, dtype=torch.float64) for length in (queries, keys, keys))
    rel = torch.randn(2 * horizon + 1, 4, dtype=torch.float64)
    ours = linear_attention(q, k, v, rel, causal=causal, backend="linear")
    for algorithm in (bench.paper, bench.paper_in_one_pass):
        assert torch.allclose(algorithm(q, k, v, rel, causal=causal), ours, atol=1e-10)
    term = bench.algorithm_2(feature_map(q), feature_map(rel), v)
    assert torch.allclose(term, relative_attention_term(q, v, rel, backend="linear"), atol=1e-10)


@pytest.mark.parametrize("length", [64, 192])
def test_the_plain_chunked_form_agrees(bench: ModuleType, length: int) -> None:
    q, k, v = (torch.randn(2, 3, length, 4, dtype=torch.float64) for _ in range(3))
    ours = linear_attention(q, k, v, causal=True, backend="quadratic")
    assert torch.allclose(bench.chunked(q, k, v, v), ours, atol=1e-10)
