"""Linear attention against equations 9 to 11 written out, values and gradients, in float64."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from attention_reference import assert_same_passes, spans
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from docnmt.functional import linear as costs
from docnmt.functional import linear_attention
from docnmt.functional.linear import LinearMemory, LinearState, packed_linear_attention

LENGTH = st.integers(0, 40)
HORIZON = st.sampled_from([None, 0, 1, 3, 9, 50])


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many blocks and several segments on short sequences."""
    monkeypatch.setattr(costs, "LINEAR_BLOCK", 4)
    monkeypatch.setattr(costs, "LINEAR_SEGMENT", 9)


def phi(x: Tensor) -> Tensor:
    return torch.nn.functional.elu(x) + 1


def by_the_equations(
    q: Tensor,
    k: Tensor | None,
    v: Tensor,
    rel: Tensor | None,
    causal: bool,
    mask: Tensor | None,
    normalise: bool = True,
) -> Tensor:
    """The matrix S of equations 9 and 11, written out, and its product with V."""
    queries, keys = q.shape[2], v.shape[2]
    scores = torch.zeros(*q.shape[:3], keys, dtype=q.dtype)
    if k is not None:
        scores = scores + phi(q) @ phi(k).transpose(2, 3)
    if rel is not None:
        r = rel.shape[-2] // 2
        row = torch.tensor([[r + max(-r, min(r, j - i)) for j in range(keys)] for i in range(queries)])
        embeddings = phi(rel)[..., row.view(queries, keys).long(), :].expand(q.shape[1], -1, -1, -1)  # (h, Lq, Lk, d)
        scores = scores + torch.einsum("bhid,hijd->bhij", phi(q), embeddings)
    visible = torch.tensor([[j <= i or not causal for j in range(keys)] for i in range(queries)]).view(queries, keys)
    scores = scores * visible
    if mask is not None:
        scores = scores * mask[:, None, None]
    total = scores.sum(-1, keepdim=True)
    if normalise:
        scores = scores / torch.where(total == 0, torch.ones_like(total), total)
    return scores @ v


def leaf(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


@settings(max_examples=150)
@given(
    st.integers(1, 2), LENGTH, LENGTH, HORIZON, st.booleans(), st.booleans(), st.booleans(),
    st.sampled_from(["quadratic", "linear", "auto"]), st.integers(0, 2**16),
)  # fmt: skip
def test_equals_the_equations(
    batch: int, queries: int, keys: int, horizon: int | None, per_head: bool, causal: bool, masked: bool,
    backend: str, seed: int,
) -> None:  # fmt: skip
    torch.manual_seed(seed)
    q, k, v = leaf(batch, 2, queries, 3), leaf(batch, 2, keys, 3), leaf(batch, 2, keys, 2)
    rel = None if horizon is None else leaf(*([2] if per_head else []), 2 * horizon + 1, 3)
    mask = torch.rand(batch, keys) < 0.6 if masked else None
    fast = linear_attention(q, k, v, rel, causal=causal, key_mask=mask, backend=backend)
    inputs = [x for x in (q, k, v, rel) if x is not None]
    assert_same_passes(fast, by_the_equations(q, k, v, rel, causal, mask), inputs)


@pytest.mark.parametrize("backend", ["quadratic", "linear"])
@pytest.mark.parametrize("causal", [False, True])
def test_padding_may_hold_anything(backend: str, causal: bool) -> None:
    torch.manual_seed(0)
    q, k, v, rel = (torch.randn(2, 2, 5, 3), torch.randn(2, 2, 5, 3), torch.randn(2, 2, 5, 3), torch.randn(5, 3))
    mask = torch.tensor([[True, True, False, True, False], [True] * 5])
    clean = linear_attention(q, k, v, rel, causal=causal, key_mask=mask, backend=backend)
    hidden = ~mask[:, None, :, None]
    k, v = k.masked_fill(hidden, torch.nan), v.masked_fill(hidden, torch.inf)
    assert torch.equal(linear_attention(q, k, v, rel, causal=causal, key_mask=mask, backend=backend), clean)


@settings(max_examples=30)
@given(st.lists(st.tuples(LENGTH, LENGTH), min_size=1, max_size=5), HORIZON, st.booleans())
def test_packed_spans_are_separate_sequences(lengths: list[tuple[int, int]], horizon: int | None, causal: bool) -> None:
    q_spans, k_spans = (spans([pair[side] for pair in lengths]) for side in (0, 1))
    q, k, v = leaf(q_spans.num_tokens, 2, 3), leaf(k_spans.num_tokens, 2, 3), leaf(k_spans.num_tokens, 2, 2)
    rel = None if horizon is None else leaf(2 * horizon + 1, 3)
    parts = []
    for (a, b), (c, d) in zip(*(pairwise(side.host.tolist()) for side in (q_spans, k_spans)), strict=True):
        q_part, k_part, v_part = (x.transpose(0, 1)[None] for x in (q[a:b], k[c:d], v[c:d]))
        parts.append(by_the_equations(q_part, k_part, v_part, rel, causal, None)[0].transpose(0, 1))
    inputs = [x for x in (q, k, v, rel) if x is not None]
    fast = packed_linear_attention(q, k, v, q_spans, k_spans, rel, causal=causal)
    assert_same_passes(fast, torch.cat(parts), inputs)


@settings(max_examples=20)
@given(st.integers(1, 30), HORIZON)
def test_steps_equal_the_full_pass(length: int, horizon: int | None) -> None:
    q, k, v = (torch.randn(3, 2, length, width, dtype=torch.float64) for width in (3, 3, 2))
    rel = None if horizon is None else torch.randn(2, 2 * horizon + 1, 3, dtype=torch.float64)
    full = linear_attention(q, k, v, rel, causal=True)
    state = LinearState.empty(3, 2, 3, 2, horizon or 0, like=q)
    size = state.sums.numel(), state.recent.numel()
    rows = torch.tensor([2, 0, 1])  # a beam's order may change at every step
    order = torch.arange(3)
    for i in range(length):
        out = state.step(q[order, :, i], k[order, :, i], v[order, :, i], rel)
        assert torch.allclose(out, full[order, :, i], atol=1e-12)
        state.keep(rows, None)
        order = order[rows]
    assert (state.sums.numel(), state.recent.numel()) == size


def test_rows_of_other_ages_can_join() -> None:
    q, k, v = (torch.randn(2, 1, 9, 3, dtype=torch.float64) for _ in range(3))
    rel = torch.randn(5, 3, dtype=torch.float64)
    full = linear_attention(q, k, v, rel, causal=True)
    state = LinearState.empty(1, 1, 3, 3, 2, like=q)
    for i in range(4):
        state.step(q[:1, :, i], k[:1, :, i], v[:1, :, i], rel)
    state.append(LinearState.empty(1, 1, 3, 3, 2, like=q))
    for i in range(5):
        now = [torch.stack([x[0, :, 4 + i], x[1, :, i]]) for x in (q, k, v)]
        out = state.step(*now, rel)
        assert torch.allclose(out, torch.stack([full[0, :, 4 + i], full[1, :, i]]), atol=1e-12)


@settings(max_examples=20)
@given(st.lists(LENGTH, min_size=1, max_size=4), HORIZON)
def test_steps_of_cross_attention_equal_the_full_pass(lengths: list[int], horizon: int | None) -> None:
    q_spans, k_spans = spans([7] * len(lengths)), spans(lengths)
    q, k, v = (
        torch.randn(x.num_tokens, 2, w, dtype=torch.float64) for x, w in ((q_spans, 3), (k_spans, 3), (k_spans, 2))
    )
    rel = None if horizon is None else torch.randn(2, 2 * horizon + 1, 3, dtype=torch.float64)
    full = packed_linear_attention(q, k, v, q_spans, k_spans, rel)
    memory = LinearMemory.build(k, v, k_spans, horizon=horizon)
    position = torch.arange(len(q)) % 7
    out = memory.step(q, q_spans.span_of_token, position, rel)
    assert torch.allclose(out, full, atol=1e-12)


@pytest.mark.parametrize("backend", ["quadratic", "linear"])
@pytest.mark.parametrize("causal", [False, True])
def test_a_sum_too_small_to_invert_still_divides(backend: str, causal: bool) -> None:
    """At −46 features are 1e-20, so sums of products are below the least number whose reciprocal float32 can hold."""
    q = torch.full((1, 1, 5, 4), -46.0)
    v = torch.randn(1, 1, 5, 2, generator=torch.Generator().manual_seed(0))
    expected = v.cumsum(2) / torch.arange(1, 6).view(-1, 1) if causal else v.mean(2, keepdim=True).expand_as(v)
    out = linear_attention(q, q, v, causal=causal, backend=backend)
    torch.testing.assert_close(out, expected, rtol=1e-3, atol=1e-3)
