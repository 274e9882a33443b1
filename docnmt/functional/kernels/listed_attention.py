"""Attention of single queries, each to its own list of rows of a table, in one launch: a step of decoding."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

#: Rows of a list that a program reads at a time; its warps.
_LISTED_TILE = {"ROWS": 64, "num_warps": 2}


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
    return _attend_listed(q, keys, values, rows, offsets, None, added)


def attend_words(q: Tensor, keys: Tensor, values: Tensor, words: Tensor, lengths: Tensor) -> Tensor:
    """The same, where all heads of row r read the first `lengths[r]` of the words `words[r]`, (R, L) int64.

    Nothing of the launch depends on the numbers, so it can be part of a CUDA graph.
    """
    return _attend_listed(q, keys, values, words, None, lengths, None)


def attend_span(q: Tensor, keys: Tensor, values: Tensor, begins: Tensor, lengths: Tensor) -> Tensor:
    """The same, where all heads of row r read the `lengths[r]` words from `begins[r]` on, (R,) int64."""
    return _attend_listed(q, keys, values, None, begins, lengths, None)


def _attend_listed(
    q: Tensor, keys: Tensor, values: Tensor, rows: Tensor | None, begins: Tensor | None, lengths: Tensor | None,
    added: Tensor | None,
) -> Tensor:  # fmt: skip
    q, keys, values = (x.contiguous() for x in (q, keys, values))
    heads, width, wide = q.shape[1], q.shape[-1], values.shape[-1]
    out = values.new_empty(*q.shape[:2], wide)
    if len(q) == 0:
        return out
    stride = 0 if rows is None or lengths is None else rows.stride(0)
    _listed[(q.shape[0] * heads,)](
        q, keys, values, rows, begins, lengths, added, out, width**-0.5, width, wide, heads, stride,
        LISTS=lengths is None, SPANS=rows is None, ADDS=added is not None,
        D=triton.next_power_of_2(width), DV=triton.next_power_of_2(wide), **_LISTED_TILE,
    )  # fmt: skip
    return out


@triton.jit
def _listed(
    q, keys, values, rows, begins, lengths, added, out, scale, width, wide, heads, stride,
    LISTS: tl.constexpr, SPANS: tl.constexpr, ADDS: tl.constexpr, D: tl.constexpr, DV: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    query = tl.program_id(0).to(tl.int64)
    of, head = query // heads, query % heads
    if LISTS:
        first = tl.load(begins + query)
        count = tl.load(begins + query + 1) - first
    else:
        first = tl.load(begins + of) if SPANS else of * stride
        count = tl.load(lengths + of)
    column, to = tl.arange(0, D), tl.arange(0, DV)
    asked = tl.load(q + query * width + column, mask=column < width, other=0.0).to(tl.float32) * scale
    largest = tl.full([1], -1e30, tl.float32)
    total = tl.zeros([1], tl.float32)
    mixed = tl.zeros([DV], tl.float32)
    for start in range(0, count, ROWS):
        entry = start + tl.arange(0, ROWS)
        there = entry < count
        if SPANS:
            row = (first + entry) * heads + head
        else:
            row = tl.load(rows + first + entry, mask=there, other=0)
            if not LISTS:
                row = row * heads + head
        in_table = there[:, None] & (column < width)[None, :]
        key = tl.load(keys + row[:, None] * width + column[None, :], mask=in_table, other=0.0).to(tl.float32)
        score = tl.sum(key * asked[None, :], 1)
        if ADDS:
            score += tl.load(added + first + entry, mask=there, other=0.0).to(tl.float32)
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
