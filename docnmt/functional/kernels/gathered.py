"""Sums over the rows that a query has gathered, one for each sentence that it keeps, without a copy of these rows."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

#: Queries of a program.
_QUERIES = 32


def gathered_sum(rows: Tensor, place: Tensor, weights: Tensor, kind: torch.dtype) -> Tensor:
    """Σ over i of weights[h, q, i] · rows[place[h, q, i]], where the weight is not 0; sums in float32.

    Args:
        rows: (A, d); a row of weight 0 may hold anything. place: (h, Tq, t) int64. weights: (h, Tq, t).

    Returns:
        (Tq, h, d) of type `kind`.
    """
    heads, queries, t = place.shape
    out = rows.new_empty(queries, heads, rows.shape[-1], dtype=kind)
    _sum[triton.cdiv(queries, _QUERIES), heads](
        rows,
        place,
        weights,
        out,
        queries,
        rows.shape[-1],
        T=t,
        D=triton.next_power_of_2(rows.shape[-1]),
        QUERIES=_QUERIES,
    )
    return out


def gathered_dot(rows: Tensor, place: Tensor, nothing: Tensor, x: Tensor) -> Tensor:
    """x[q, h] · rows[place[h, q, i]], 0 where `nothing`: (h, Tq, t) float32, of x (Tq, h, d)."""
    heads, queries, t = place.shape
    out = rows.new_empty(heads, queries, t, dtype=torch.float32)
    _dot[triton.cdiv(queries, _QUERIES), heads](
        rows,
        place,
        nothing,
        x.contiguous(),
        out,
        queries,
        rows.shape[-1],
        T=t,
        D=triton.next_power_of_2(rows.shape[-1]),
        QUERIES=_QUERIES,
    )
    return out


@triton.jit
def _sum(rows, place, weights, out, queries, d, T: tl.constexpr, D: tl.constexpr, QUERIES: tl.constexpr):
    head = tl.program_id(1)
    query = tl.program_id(0) * QUERIES + tl.arange(0, QUERIES)
    column = tl.arange(0, D)
    live = query < queries
    total = tl.zeros([QUERIES, D], tl.float32)
    for i in range(T):
        at = (head.to(tl.int64) * queries + query) * T + i
        weight = tl.load(weights + at, mask=live, other=0.0).to(tl.float32)
        row = tl.load(place + at, mask=live, other=0)
        used = (live & (weight != 0))[:, None] & (column < d)[None, :]
        found = tl.load(rows + row[:, None] * d + column[None, :], mask=used, other=0.0).to(tl.float32)
        total += found * weight[:, None]
    to = (query.to(tl.int64)[:, None] * tl.num_programs(1) + head) * d + column[None, :]
    tl.store(out + to, total.to(out.dtype.element_ty), mask=live[:, None] & (column < d)[None, :])


@triton.jit
def _dot(rows, place, nothing, x, out, queries, d, T: tl.constexpr, D: tl.constexpr, QUERIES: tl.constexpr):
    head = tl.program_id(1)
    query = tl.program_id(0) * QUERIES + tl.arange(0, QUERIES)
    column = tl.arange(0, D)
    live = query < queries
    there = live[:, None] & (column < d)[None, :]
    own = (query.to(tl.int64)[:, None] * tl.num_programs(1) + head) * d + column[None, :]
    value = tl.load(x + own, mask=there, other=0.0).to(tl.float32)
    for i in range(T):
        at = (head.to(tl.int64) * queries + query) * T + i
        used = (live & (tl.load(nothing + at, mask=live, other=1) == 0))[:, None] & (column < d)[None, :]
        row = tl.load(place + at, mask=live, other=0)
        found = tl.load(rows + row[:, None] * d + column[None, :], mask=used, other=0.0).to(tl.float32)
        tl.store(out + at, tl.sum(found * value, 1), mask=live)
