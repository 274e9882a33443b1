"""Attention of single queries, each to its own list of rows of a table, in one launch: a step of decoding."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

#: Rows of a list that a program reads at a time; its warps.
_TILE = {"ROWS": 64, "num_warps": 2}


def listed_attention(
    q: Tensor, keys: Tensor, values: Tensor, rows: Tensor, offsets: Tensor, added: Tensor | None = None
) -> Tensor:
    """Softmax(q·k/√d + added) v over the rows of each query's list; 0 for an empty list. No gradient.

    A query's result depends on its own list alone.

    Args:
        q: (R, h, d). keys: (T, h, d). values: (T, h, d_v). d and d_v may be any.
        rows: (n,) int64, rows of the tables (T·h, …), list behind list. offsets: (R·h + 1,), where the lists begin.
        added: (n,), to be added to the scores.

    Returns:
        (R, h, d_v), in the type of `values`; computed in float32.
    """
    q, keys, values = (x.contiguous() for x in (q, keys, values))
    width, wide = q.shape[-1], values.shape[-1]
    out = values.new_empty(*q.shape[:2], wide)
    if len(rows) == 0:
        return out.zero_()
    _listed[(q.shape[0] * q.shape[1],)](
        q, keys, values, rows, offsets, added, out, width**-0.5, width, wide,
        ADDS=added is not None, D=triton.next_power_of_2(width), DV=triton.next_power_of_2(wide), **_TILE,
    )  # fmt: skip
    return out


@triton.jit
def _listed(
    q, keys, values, rows, offsets, added, out, scale, width, wide,
    ADDS: tl.constexpr, D: tl.constexpr, DV: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    query = tl.program_id(0).to(tl.int64)
    first, last = tl.load(offsets + query), tl.load(offsets + query + 1)
    column, to = tl.arange(0, D), tl.arange(0, DV)
    asked = tl.load(q + query * width + column, mask=column < width, other=0.0).to(tl.float32) * scale
    largest = tl.full([1], -1e30, tl.float32)
    total = tl.zeros([1], tl.float32)
    mixed = tl.zeros([DV], tl.float32)
    for start in range(first, last, ROWS):
        place = start + tl.arange(0, ROWS)
        there = place < last
        row = tl.load(rows + place, mask=there, other=0)
        in_table = there[:, None] & (column < width)[None, :]
        key = tl.load(keys + row[:, None] * width + column[None, :], mask=in_table, other=0.0).to(tl.float32)
        score = tl.sum(key * asked[None, :], 1)
        if ADDS:
            score += tl.load(added + place, mask=there, other=0.0).to(tl.float32)
        score = tl.where(there, score, -1e30)
        now = tl.maximum(largest, tl.max(score, 0))
        weight = tl.where(there, tl.exp(score - now), 0.0)
        before = tl.exp(largest - now)
        of_values = there[:, None] & (to < wide)[None, :]
        value = tl.load(values + row[:, None] * wide + to[None, :], mask=of_values, other=0.0).to(tl.float32)
        total = total * before + tl.sum(weight, 0)
        mixed = mixed * before + tl.sum(value * weight[:, None], 0)
        largest = now
    mixed = mixed / tl.where(total > 0, total, 1.0)
    tl.store(out + query * wide + to, mixed.to(out.dtype.element_ty), mask=to < wide)
