"""packed_attention against a loop over spans, values and gradients, in float64."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from docnmt.functional import packed as costs
from docnmt.functional.packed import packed_attention
from docnmt.layout import Spans

LENGTHS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), min_size=1, max_size=6)
ROUTES = st.sampled_from(["bucket", "long"])


def spans(lengths: list[int]) -> Spans:
    return Spans(torch.tensor([0, *torch.tensor(lengths).cumsum(0).tolist()]))


def by_span(
    q: Tensor, k: Tensor, v: Tensor, q_spans: Spans, k_spans: Spans, causal: bool, near: Tensor | None
) -> Tensor:
    """The definition, a span, a head and a query at a time."""
    out = torch.zeros(len(q), q.shape[1], v.shape[2], dtype=q.dtype)
    for n in range(len(q_spans)):
        a, b = int(q_spans.offsets[n]), int(q_spans.offsets[n + 1])
        c, d = int(k_spans.offsets[n]), int(k_spans.offsets[n + 1])
        for i in range(a, b):
            last = min(d, c + i - a + 1) if causal else d
            if last == c:
                continue
            scores = torch.einsum("hd,jhd->hj", q[i], k[c:last]) / q.shape[-1] ** 0.5
            if near is not None:
                radius = near.shape[-1] // 2
                columns = radius + (torch.arange(last - c) - (i - a)).clamp(-radius, radius)
                scores = scores + (near if near.dim() == 2 else near[i])[:, columns]
            out[i] = torch.einsum("hj,jhd->hd", scores.softmax(-1), v[c:last])
    return out


def leaf(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


@settings(max_examples=30)
@given(LENGTHS, st.booleans(), st.sampled_from(["none", "shared", "by query"]), ROUTES)
def test_equals_the_loop_over_spans(lengths: list[tuple[int, int]], causal: bool, distance: str, route: str) -> None:
    torch.manual_seed(len(lengths))
    q_spans, k_spans = spans([a for a, _ in lengths]), spans([b for _, b in lengths])
    q, k, v = leaf(q_spans.num_tokens, 2, 4), leaf(k_spans.num_tokens, 2, 4), leaf(k_spans.num_tokens, 2, 3)
    near = {"none": None, "shared": leaf(2, 7), "by query": leaf(len(q), 2, 7)}[distance]
    inputs = [x for x in (q, k, v, near) if x is not None]
    with pytest.MonkeyPatch.context() as patch:
        if route == "long":  # every span alone, in small blocks
            patch.setattr(costs, "SPAN_LONG", 0)
            patch.setattr(costs, "SPAN_BLOCK", 50)
        fast = packed_attention(q, k, v, q_spans, k_spans, causal=causal, distance_scores=near)
        weight = torch.randn_like(fast)
        with torch.no_grad():  # long spans go another way then
            assert torch.allclose(
                fast, packed_attention(q, k, v, q_spans, k_spans, causal=causal, distance_scores=near), atol=1e-12
            )
        fast_grads = torch.autograd.grad((fast * weight).sum(), inputs, allow_unused=True)
    slow = by_span(q, k, v, q_spans, k_spans, causal, near)
    assert torch.allclose(fast, slow, atol=1e-12)
    if not slow.requires_grad:
        return
    slow_grads = torch.autograd.grad((slow * weight).sum(), inputs, allow_unused=True)
    for one, other in zip(fast_grads, slow_grads, strict=True):
        one, other = (torch.zeros(1, dtype=torch.float64) if g is None else g for g in (one, other))
        assert torch.allclose(one, other, atol=1e-12)


def test_a_span_does_not_see_its_neighbours() -> None:
    q_spans, together = spans([5, 9, 30]), leaf(44, 2, 4)
    out = packed_attention(together, together, together, q_spans, q_spans)
    alone = together[5:14]
    assert torch.allclose(out[5:14], packed_attention(alone, alone, alone, spans([9]), spans([9])), atol=1e-14)
    broken = together.detach().clone()
    broken[:5] = float("nan")
    assert torch.equal(packed_attention(broken, broken, broken, q_spans, q_spans)[5:], out[5:])


@pytest.mark.parametrize("longest", [0, 256])
def test_half_types_are_close_to_float32(longest: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(costs, "SPAN_LONG", longest)
    both, x = spans([6, 11]), torch.randn(17, 2, 8)
    full, half = (packed_attention(y, y, y, both, both) for y in (x, x.bfloat16()))
    assert half.dtype == torch.bfloat16
    assert torch.allclose(full, half.float(), atol=0.03)


@pytest.mark.parametrize(("q_lengths", "k_lengths", "message"), [([3, 4], [7], r"\b2 .*\b1 "), ([3], [3], "7 rows")])
def test_spans_that_do_not_fit_are_refused(q_lengths: list[int], k_lengths: list[int], message: str) -> None:
    x = torch.randn(7, 1, 2)
    with pytest.raises(ValueError, match=message):
        packed_attention(x, x, x, spans(q_lengths), spans(k_lengths))
