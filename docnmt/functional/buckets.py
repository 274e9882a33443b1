"""Packed spans in buckets of similar length, padded so that batched products can compute them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from docnmt.functional import costs
from docnmt.layout import Spans
from docnmt.runtime.transfer import to_device


@dataclass(frozen=True)
class Bucket:
    """Spans padded to one length, with the mask of keys that their queries may not see."""

    spans: int
    q_length: int
    k_length: int
    mask: Tensor | None  # (n or 1, 1, Lq or 1, Lk), 0 or -inf
    long: bool


@dataclass(frozen=True)
class BucketPlan:
    """Index arrays between packed rows (token, head) and padded rows (span, head, place), bucket by bucket.

    Padding repeats the last row of its own span, so that no other span can enter; it is masked as key and
    dropped as query.
    """

    heads: int
    buckets: list[Bucket]
    q_rows: Tensor  # which packed row each padded row shows
    k_rows: Tensor
    output_rows: Tensor  # 1 + the padded row of each packed one; 0 for queries without keys

    def pad(self, x: Tensor, side: Literal["q", "k"]) -> list[Tensor]:
        """Return packed rows (T, h, d) as one padded tensor (n, h, L, d) for each bucket."""
        shapes = [(b.spans, self.heads, b.q_length if side == "q" else b.k_length) for b in self.buckets]
        rows = x.flatten(0, 1).index_select(0, self.q_rows if side == "q" else self.k_rows)
        # split, not slices: the backward of each slice would fill a tensor of all rows
        parts = torch.split(rows, [math.prod(shape) for shape in shapes])
        return [part.view(*shape, -1) for part, shape in zip(parts, shapes, strict=True)]

    def unpad(self, outputs: Sequence[Tensor], v: Tensor) -> Tensor:
        """Return the buckets' outputs, (n, h, Lq, dv) each, as packed rows (Tq, h, dv); 0 for a query without keys."""
        nothing = v[:0].sum((0, 1))[None]  # 0 as an empty sum, which has a gradient as any other output
        rows = torch.cat([nothing, *(output.flatten(0, 2) for output in outputs)])
        return rows.index_select(0, self.output_rows).view(-1, self.heads, v.shape[-1])


def bucket_plan(q_spans: Spans, k_spans: Spans, heads: int, causal: bool) -> BucketPlan:
    """Return the plan of a pair of spans; it is cached with `q_spans`, so that all layers of a model share it."""
    return q_spans.derive((bucket_plan, k_spans, heads, causal), lambda: _make_plan(q_spans, k_spans, heads, causal))


def _make_plan(q_spans: Spans, k_spans: Spans, heads: int, causal: bool) -> BucketPlan:
    q_lengths, k_lengths = q_spans.lengths, k_spans.lengths
    long = q_lengths * k_lengths > costs.SPAN_LONG
    q_padded = np.where(long, q_lengths, _padded_length(q_lengths))
    k_padded = np.where(long, k_lengths, _padded_length(k_lengths))
    live = np.flatnonzero((q_lengths > 0) & (k_lengths > 0))
    kinds = np.stack([q_padded, k_padded, np.where(long, np.arange(len(long)), -1)], axis=1)[live]
    order = np.lexsort(kinds.T[::-1])
    borders = np.flatnonzero((np.diff(kinds[order], axis=0) != 0).any(axis=1)) + 1
    order = live[order]
    shapes, masks = [], []
    for members in np.split(order, borders) if len(order) else []:
        q_length, k_length = int(q_padded[members[0]]), int(k_padded[members[0]])
        is_long = bool(long[members[0]])
        masks.append(None if is_long else _mask(q_length, k_length, k_lengths[members], causal))
        shapes.append((len(members), q_length, k_length, is_long))
    q_rows, filled = _padded_rows(q_spans, order, q_padded, heads)
    output_rows = np.zeros(q_spans.num_tokens * heads, dtype=np.int64)
    output_rows[q_rows[filled]] = 1 + np.flatnonzero(filled)
    k_rows, _ = _padded_rows(k_spans, order, k_padded, heads)
    arrays: list[np.ndarray | Tensor] = [q_rows, k_rows, output_rows, *(mask for mask in masks if mask is not None)]
    arrived = iter(to_device(arrays, q_spans.offsets.device))
    rows = next(arrived), next(arrived), next(arrived)
    buckets = [
        Bucket(n, q_length, k_length, None if mask is None else next(arrived), is_long)
        for (n, q_length, k_length, is_long), mask in zip(shapes, masks, strict=True)
    ]
    return BucketPlan(heads, buckets, *rows)


def _padded_length(lengths: np.ndarray) -> np.ndarray:
    """Round lengths up to a multiple of 4 or more, about an eighth of the length; other spans have no influence."""
    step = np.maximum(4, 2 ** np.ceil(np.log2(np.maximum(lengths, 1))).astype(np.int64) // 8)
    padded: np.ndarray = -(-lengths // step) * step
    return padded


def _padded_rows(spans: Spans, order: np.ndarray, padded: np.ndarray, heads: int) -> tuple[np.ndarray, np.ndarray]:
    """Return for each padded row (span, head, place) its packed row (token, head), and False where it is padding."""
    widths = np.repeat(padded[order], heads)  # a run of places for each span and head
    place = np.arange(int(widths.sum())) - np.repeat(np.cumsum(widths) - widths, widths)
    last = np.repeat(np.repeat(spans.lengths[order] - 1, heads), widths)
    first = (spans.host[:-1][order, None] * heads + np.arange(heads)).reshape(-1)
    return np.repeat(first, widths) + np.minimum(place, last) * heads, place <= last


def _mask(q_length: int, k_length: int, k_lengths: np.ndarray, causal: bool) -> Tensor | None:
    """Return a mask (n or 1, 1, Lq or 1, Lk): -inf at padding and, when causal, later keys; None if all are visible."""
    place = np.arange(k_length)
    hidden = (place >= k_lengths[:, None])[:, None, None]
    if causal:
        future = place > np.arange(q_length)[:, None]
        # the future of every query already covers the padding when no query is beyond the keys
        hidden = future[None, None] if q_length <= k_lengths.min() else hidden | future
    return torch.zeros(hidden.shape).masked_fill_(torch.from_numpy(hidden), float("-inf")) if hidden.any() else None
