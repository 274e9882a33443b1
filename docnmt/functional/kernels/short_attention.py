"""Attention inside short sentences: several of them share a tile, in which a word sees the words of its own sentence.

A program has a block of packed queries, whatever sentences they belong to, and goes through the keys from the first
key of its first sentence to the last key of its last: for sentences of 16 words and blocks of 64, about 80. Flash
attention over sequences of many lengths begins a block of 64 or 128 rows for each sentence instead. The softmax is
computed in one pass over the blocks of keys (Dao 2023, FlashAttention-2, algorithms 1 and 2). The backward pass is one
launch: some programs compute the gradients of a block of queries, the others those of a block of keys, so that nothing
is added up between programs and the result does not depend on their order.
"""

from __future__ import annotations

from typing import Protocol

import torch
import triton
import triton.language as tl
from torch import Tensor

from docnmt.functional.autograd import PassContext
from docnmt.functional.kernels.blocks import LOG2E, rows_of, softmax_step, strides
from docnmt.layout import Spans

#: Of the forward and of the backward pass: queries and keys of a block (tl.dot takes 16 at least), warps of a program.
#: Fastest on an H200, of seven and of nine (docs/results/scale.md).
_SHORT_TILE = {"BLOCK_Q": 64, "BLOCK_K": 32, "num_warps": 4, "num_stages": 1}
_SHORT_TILE_BACK = {"BLOCK_Q": 32, "BLOCK_K": 32, "num_warps": 2, "num_stages": 1}


def short_attention(q: Tensor, k: Tensor, v: Tensor, q_spans: Spans, k_spans: Spans, *, causal: bool = False) -> Tensor:
    """Softmax attention in which query span i reads key span i only; 0 where that is empty.

    A value that is not finite spoils the rows of its block, not only those of its own span.

    Args:
        q: (Tq, h, d). k, v: (Tk, h, d), of one type, d a power of two from 16 to 128; the last dimension contiguous.
        q_spans, k_spans: as many spans of the rows of `q` and of `k`.
        causal: a key is visible when its index in its span is not greater than the query's in its own.

    Returns:
        (Tq, h, d); the sums are in float32.
    """
    out: Tensor = _Short.apply(q, k, v, q_spans, k_spans, causal)  # type: ignore[no-untyped-call]
    return out


class _ShortContext(PassContext, Protocol):
    """What the passes of `_Short` share."""

    spans: tuple[Spans, Spans]
    causal: bool


class _Short(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: _ShortContext, q: Tensor, k: Tensor, v: Tensor, q_spans: Spans, k_spans: Spans, causal: bool
    ) -> Tensor:
        """The output (Tq, h, d)."""
        q, k, v = (x if x.stride(2) == 1 else x.contiguous() for x in (q, k, v))
        rows, heads, width = q.shape
        out = q.new_empty(q.shape)
        lse = q.new_empty(heads, rows, dtype=torch.float32)
        places = q_spans.span_of_token, q_spans.offsets, k_spans.span_of_token, k_spans.offsets
        _attend_short[triton.cdiv(rows, _SHORT_TILE["BLOCK_Q"]), heads](
            q,
            k,
            v,
            out,
            lse,
            *places,
            rows,
            *strides(q, k, v),
            width**-0.5 * LOG2E.value,
            CAUSAL=causal,
            D=width,
            **_SHORT_TILE,
        )
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.spans, ctx.causal = (q_spans, k_spans), causal
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: _ShortContext, grad: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients of q, k and v."""
        q, k, v, out, lse = ctx.saved_tensors
        q_spans, k_spans = ctx.spans
        rows, heads, width = q.shape
        grad = grad.contiguous()
        dq, dk, dv = (x.new_empty(x.shape) for x in (q, k, v))
        places = q_spans.span_of_token, q_spans.offsets, k_spans.span_of_token, k_spans.offsets
        of_queries = triton.cdiv(rows, _SHORT_TILE_BACK["BLOCK_Q"])
        _attend_back[of_queries + triton.cdiv(len(k), _SHORT_TILE_BACK["BLOCK_Q"]), heads](
            q,
            k,
            v,
            out,
            grad,
            lse,
            dq,
            dk,
            dv,
            *places,
            rows,
            len(k),
            of_queries,
            *strides(q, k, v),
            width**-0.5,
            CAUSAL=ctx.causal,
            D=width,
            **_SHORT_TILE_BACK,
        )
        return dq, dk, dv, None, None, None


@triton.jit
def _range(of_row, offsets, first, last):
    """From the first row of the span of row `first` to the last of that of row `last`, on the other side."""
    return tl.load(offsets + tl.load(of_row + first)).to(tl.int32), tl.load(offsets + tl.load(of_row + last) + 1).to(
        tl.int32
    )


@triton.jit
def _visible(
    q_rows, q_live, q_of, q_offsets, k_rows, k_live, k_of, k_offsets, CAUSAL: tl.constexpr
):  # (queries, keys) bool
    q_span = tl.load(q_of + q_rows, mask=q_live, other=-1)
    k_span = tl.load(k_of + k_rows, mask=k_live, other=-2)
    seen = q_span[:, None] == k_span[None, :]
    if CAUSAL:
        q_place = q_rows - tl.load(q_offsets + q_span, mask=q_live, other=0)
        k_place = k_rows - tl.load(k_offsets + k_span, mask=k_live, other=0)
        seen = seen & (k_place[None, :] <= q_place[:, None])
    return seen


@triton.jit(do_not_specialize=["total_q"])  # which differs from batch to batch: no compiling for each
def _attend_short(
    q, k, v, out, lse, q_of, q_offsets, k_of, k_offsets, total_q,
    q_row, q_head, k_row, k_head, v_row, v_head, scale,
    CAUSAL: tl.constexpr, D: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(1)
    q_rows = tl.program_id(0) * BLOCK_Q + tl.arange(0, BLOCK_Q)
    q_live = q_rows < total_q
    begin, end = _range(
        q_of, k_offsets, tl.program_id(0) * BLOCK_Q, tl.minimum(tl.program_id(0) * BLOCK_Q + BLOCK_Q, total_q) - 1
    )
    queries = rows_of(q, q_rows, q_live, head, q_row, q_head, D)
    largest = tl.full([BLOCK_Q], -1e30, tl.float32)
    total = tl.zeros([BLOCK_Q], tl.float32)
    mixed = tl.zeros([BLOCK_Q, D], tl.float32)
    for first in range(begin, end, BLOCK_K):
        k_rows = first + tl.arange(0, BLOCK_K)
        k_live = k_rows < end
        keys = rows_of(k, k_rows, k_live, head, k_row, k_head, D)
        values = rows_of(v, k_rows, k_live, head, v_row, v_head, D)
        seen = _visible(q_rows, q_live, q_of, q_offsets, k_rows, k_live, k_of, k_offsets, CAUSAL)
        scores = tl.dot(queries, tl.trans(keys), input_precision="ieee") * scale
        largest, total, mixed = softmax_step(scores, seen, values, largest, total, mixed)
    some = total > 0
    mixed = mixed / tl.where(some, total, 1.0)[:, None]
    at = q_rows.to(tl.int64)[:, None] * (tl.num_programs(1) * D) + head * D + tl.arange(0, D)[None, :]
    tl.store(out + at, mixed.to(out.dtype.element_ty), mask=q_live[:, None])
    tl.store(lse + head * total_q + q_rows, largest + tl.log2(tl.where(some, total, 1.0)), mask=q_live)


@triton.jit(do_not_specialize=["total_q", "total_k", "of_queries"])
def _attend_back(
    q, k, v, out, grad, lse, dq, dk, dv, q_of, q_offsets, k_of, k_offsets, total_q, total_k, of_queries,
    q_row, q_head, k_row, k_head, v_row, v_head, scale,
    CAUSAL: tl.constexpr, D: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(1)
    row = tl.num_programs(1) * D  # of what is contiguous
    columns = tl.arange(0, D)
    if tl.program_id(0) < of_queries:
        first_row = tl.program_id(0) * BLOCK_Q
        q_rows = first_row + tl.arange(0, BLOCK_Q)
        q_live = q_rows < total_q
        begin, end = _range(q_of, k_offsets, first_row, tl.minimum(first_row + BLOCK_Q, total_q) - 1)
        queries = rows_of(q, q_rows, q_live, head, q_row, q_head, D)
        grads = rows_of(grad, q_rows, q_live, head, row, D, D)
        outs = rows_of(out, q_rows, q_live, head, row, D, D)
        level = tl.load(lse + head * total_q + q_rows, mask=q_live, other=0.0)
        read = tl.sum(grads.to(tl.float32) * outs.to(tl.float32), 1)
        sums = tl.zeros([BLOCK_Q, D], tl.float32)
        for first in range(begin, end, BLOCK_K):
            k_rows = first + tl.arange(0, BLOCK_K)
            k_live = k_rows < end
            keys = rows_of(k, k_rows, k_live, head, k_row, k_head, D)
            values = rows_of(v, k_rows, k_live, head, v_row, v_head, D)
            seen = _visible(q_rows, q_live, q_of, q_offsets, k_rows, k_live, k_of, k_offsets, CAUSAL)
            scores = tl.dot(queries, tl.trans(keys), input_precision="ieee") * (scale * LOG2E)
            weights = tl.where(seen, tl.exp2(tl.where(seen, scores, 0.0) - level[:, None]), 0.0)
            of_scores = weights * (tl.dot(grads, tl.trans(values), input_precision="ieee") - read[:, None])
            sums += tl.dot(of_scores.to(keys.dtype), keys, input_precision="ieee")
        at = q_rows.to(tl.int64)[:, None] * row + head * D + columns[None, :]
        tl.store(dq + at, (sums * scale).to(dq.dtype.element_ty), mask=q_live[:, None])
    else:
        first_row = (tl.program_id(0) - of_queries) * BLOCK_Q
        k_rows = first_row + tl.arange(0, BLOCK_Q)
        k_live = k_rows < total_k
        begin, end = _range(k_of, q_offsets, first_row, tl.minimum(first_row + BLOCK_Q, total_k) - 1)
        keys = rows_of(k, k_rows, k_live, head, k_row, k_head, D)
        values = rows_of(v, k_rows, k_live, head, v_row, v_head, D)
        of_keys = tl.zeros([BLOCK_Q, D], tl.float32)
        of_values = tl.zeros([BLOCK_Q, D], tl.float32)
        for first in range(begin, end, BLOCK_K):
            q_rows = first + tl.arange(0, BLOCK_K)
            q_live = q_rows < end
            queries = rows_of(q, q_rows, q_live, head, q_row, q_head, D)
            grads = rows_of(grad, q_rows, q_live, head, row, D, D)
            outs = rows_of(out, q_rows, q_live, head, row, D, D)
            level = tl.load(lse + head * total_q + q_rows, mask=q_live, other=0.0)
            read = tl.sum(grads.to(tl.float32) * outs.to(tl.float32), 1)
            seen = _visible(q_rows, q_live, q_of, q_offsets, k_rows, k_live, k_of, k_offsets, CAUSAL)
            scores = tl.dot(queries, tl.trans(keys), input_precision="ieee") * (scale * LOG2E)
            weights = tl.where(seen, tl.exp2(tl.where(seen, scores, 0.0) - level[:, None]), 0.0)
            of_values += tl.dot(tl.trans(weights).to(grads.dtype), grads, input_precision="ieee")
            of_scores = weights * (tl.dot(grads, tl.trans(values), input_precision="ieee") - read[:, None])
            of_keys += tl.dot(tl.trans(of_scores).to(queries.dtype), queries, input_precision="ieee")
        at = k_rows.to(tl.int64)[:, None] * row + head * D + columns[None, :]
        tl.store(dk + at, (of_keys * scale).to(dk.dtype.element_ty), mask=k_live[:, None])
        tl.store(dv + at, of_values.to(dv.dtype.element_ty), mask=k_live[:, None])
