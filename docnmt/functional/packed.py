"""Softmax attention between the spans of packed rows: every block that reads a sentence, a window or a document.

Spans of similar length form a *bucket* and are padded there only, to a length that depends on the span alone. A bucket is
one `bmm + softmax + bmm`, the fastest exact way for short spans on a CPU. Long spans stand alone, unpadded, and store no
(query × key) tensor.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from docnmt.layout import Spans

#: Queries × keys of a span beyond which its scores are not stored for the backward pass.
LONG = 512 * 512
#: Scores of a head that one block of queries of a long span may hold.
BLOCK = 1 << 20


def packed_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    q_spans: Spans,
    k_spans: Spans,
    *,
    causal: bool = False,
    distance_scores: Tensor | None = None,
    scale: float | None = None,
) -> Tensor:
    """Softmax attention in which query span i reads key span i only: softmax(q·kᵀ·scale) v.

    The result of a span does not depend on the other spans beyond rounding: its padded length, and with it the order of
    every sum, follows from its own length.

    Args:
        q: (Tq, h, d). k: (Tk, h, d). v: (Tk, h, dv).
        q_spans: spans of the rows of `q`. k_spans: as many spans of the rows of `k` and `v`.
        causal: a key is visible when its index in its span is not greater than the query's in its own.
        distance_scores: (h, 2r+1) or (Tq, h, 2r+1), added before the softmax: column r + clip(j − i, −r, r) for query i
            and key j, both counted inside their spans. Serves ALiBi and relative positions (Shaw et al. 2018).
        scale: 1/√d when None.

    Returns:
        (Tq, h, dv); 0 for a query whose key span is empty. The softmax is computed in float32 at least.

    Raises:
        ValueError: shapes or spans do not belong together.
    """
    _check(q, k, v, q_spans, k_spans, distance_scores)
    plan = _plan(q_spans, k_spans, q.device)
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    queries = _Regroup.apply(q, plan.q_rows, plan.q_slots) * scale  # (P, h, d), bucket by bucket
    keys, values = (_Regroup.apply(x, plan.k_rows, plan.k_slots) for x in (k, v))
    near = distance_scores
    if near is not None and near.dim() == 3:
        near = _Regroup.apply(near, plan.q_rows, plan.q_slots)
    outputs = [values[:0]]  # so that an output without a single pair has a gradient, 0, like any other
    for bucket in plan.buckets:
        scores_by_distance = near[bucket.q_slice] if near is not None and near.dim() == 3 else near
        attend = _attend_long if bucket.long else _attend
        parts = (bucket.cut(queries, "q"), bucket.cut(keys, "k"), bucket.cut(values, "k"))
        outputs.append(attend(*parts, bucket.key_lengths, scores_by_distance, causal).flatten(0, 1))
    output: Tensor = _Ungroup.apply(torch.cat(outputs), plan.q_rows, plan.q_slots, plan.q_filled)
    return output


class _Regroup(torch.autograd.Function):
    """Rows of a packed tensor in the plan's padded order. Every row stands there once, so the backward gathers too."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, rows: Tensor, slots: Tensor) -> Tensor:
        ctx.save_for_backward(slots)
        return x.index_select(0, rows)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:  # type: ignore[override]
        (slots,) = ctx.saved_tensors
        return _rows_or_zero(grad, slots), None, None


class _Ungroup(torch.autograd.Function):
    """From the padded order back to the packed one; what was padding is dropped, and has no gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, rows: Tensor, slots: Tensor, filled: Tensor) -> Tensor:
        ctx.save_for_backward(rows, filled)
        return _rows_or_zero(x, slots)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:  # type: ignore[override]
        rows, filled = ctx.saved_tensors
        return grad.index_select(0, rows) * filled[:, None, None], None, None, None


def _rows_or_zero(x: Tensor, slots: Tensor) -> Tensor:
    """x[slots], and 0 where a slot is -1: a row that no bucket holds (its own or its partner's span is empty)."""
    if len(x) == 0:
        return x.new_zeros(len(slots), *x.shape[1:])
    found = x.index_select(0, slots.clamp(min=0))
    return found.masked_fill_((slots < 0)[:, None, None], 0) if bool((slots < 0).any()) else found


@dataclass(frozen=True)
class _Bucket:
    """Spans padded to one length: where they stand in the padded rows, and how long their keys really are."""

    spans: int
    q_slice: slice
    k_slice: slice
    key_lengths: Tensor | None  # (n,) where keys are padded
    long: bool

    def cut(self, rows: Tensor, side: str) -> Tensor:
        """The bucket's part of padded rows (P, h, d) → (n, h, L, d)."""
        part = rows[self.q_slice if side == "q" else self.k_slice]
        return part.view(self.spans, -1, *part.shape[1:]).transpose(1, 2)


@dataclass(frozen=True)
class _Plan:
    """Index arrays between packed rows and padded rows. `filled` is 0 at padding; `slots` is -1 for rows left out."""

    buckets: list[_Bucket]
    q_rows: Tensor
    q_slots: Tensor
    q_filled: Tensor
    k_rows: Tensor
    k_slots: Tensor


def _padded_length(length: np.ndarray) -> np.ndarray:
    """Rounded up to about an eighth: few buckets, little padding, and a function of the span's own length alone."""
    step = np.maximum(4, 2 ** np.floor(np.log2(np.maximum(length, 1))).astype(np.int64) // 4)
    padded: np.ndarray = -(-length // step) * step
    return padded


def _plan(q_spans: Spans, k_spans: Spans, device: torch.device) -> _Plan:
    """The plan of a pair of spans, made once: all layers of a model share it."""
    key = ("packed", id(k_spans))
    kept = q_spans.plans.get(key)
    if kept is None or kept[0] is not k_spans:
        kept = q_spans.plans[key] = (k_spans, _make_plan(q_spans, k_spans, device))
    plan: _Plan = kept[1]
    return plan


def _make_plan(q_spans: Spans, k_spans: Spans, device: torch.device) -> _Plan:
    q_lengths, k_lengths = q_spans.lengths, k_spans.lengths
    long = q_lengths * k_lengths > LONG
    q_padded = np.where(long, q_lengths, _padded_length(q_lengths))
    k_padded = np.where(long, k_lengths, _padded_length(k_lengths))
    live = np.flatnonzero((q_lengths > 0) & (k_lengths > 0))
    order = live[np.lexsort((live * long[live], k_padded[live], q_padded[live]))]  # long spans stay by themselves
    keys = np.stack([q_padded[order], k_padded[order], np.where(long[order], order, -1)], axis=1)
    borders = np.flatnonzero((np.diff(keys, axis=0) != 0).any(axis=1)) + 1
    buckets, q_at, k_at = [], 0, 0
    for members in np.split(order, borders) if len(order) else []:
        n = len(members)
        q_size, k_size = n * int(q_padded[members[0]]), n * int(k_padded[members[0]])
        full = bool((k_lengths[members] == k_padded[members]).all())
        real = None if full else torch.from_numpy(k_lengths[members]).to(device)
        q_slice, k_slice = slice(q_at, q_at + q_size), slice(k_at, k_at + k_size)
        buckets.append(_Bucket(n, q_slice, k_slice, real, bool(long[members[0]])))
        q_at, k_at = q_at + q_size, k_at + k_size
    q_rows, q_slots, q_filled = _indices(q_spans, order, q_padded)
    k_rows, k_slots, _ = _indices(k_spans, order, k_padded)
    tensors = (torch.from_numpy(x).to(device) for x in (q_rows, q_slots, q_filled, k_rows, k_slots))
    return _Plan(buckets, *tensors)


def _indices(spans: Spans, order: np.ndarray, padded: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Padded rows of the spans in `order`: which packed row each shows, where each packed row went, which are real."""
    lengths, widths = spans.lengths[order], padded[order]
    place = np.arange(int(widths.sum())) - np.repeat(np.cumsum(widths) - widths, widths)  # inside its span
    filled = place < np.repeat(lengths, widths)
    rows = np.where(filled, np.repeat(spans.host[:-1][order], widths) + place, 0)
    slots = np.full(spans.num_tokens, -1, dtype=np.int64)
    slots[rows[filled]] = np.flatnonzero(filled)
    return rows.astype(np.int64), slots, filled


def _attend(
    q: Tensor, k: Tensor, v: Tensor, key_lengths: Tensor | None, near: Tensor | None, causal: bool, first: int = 0
) -> Tensor:
    """One bucket: q (n, h, Lq, d) scaled, k, v (n, h, Lk, ·) → (n, Lq, h, dv). `first`: the place of the first query."""
    scores = torch.matmul(q, k.transpose(-1, -2))  # (n, h, Lq, Lk)
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    keys = torch.arange(k.shape[2], device=k.device)
    distance = keys - (first + torch.arange(q.shape[2], device=k.device))[:, None]  # (Lq, Lk)
    if near is not None:
        scores = scores + _by_distance(near, distance, len(q))
    if causal:
        scores = scores.masked_fill(distance > 0, float("-inf"))
    if key_lengths is not None:
        scores = scores.masked_fill((keys >= key_lengths[:, None])[:, None, None], float("-inf"))
    return torch.matmul(scores.softmax(-1).to(v.dtype), v).transpose(1, 2)


def _by_distance(near: Tensor, distance: Tensor, spans: int) -> Tensor:
    """Scores by clipped distance, (h, 2r+1) or (n·Lq, h, 2r+1), as (n or 1, h, Lq, Lk)."""
    radius = near.shape[-1] // 2
    column = radius + distance.clamp(-radius, radius)  # (Lq, Lk)
    if near.dim() == 2:
        return near[:, column][None]
    near = near.view(spans, len(column), *near.shape[1:]).transpose(1, 2)  # (n, h, Lq, 2r+1)
    return near.gather(3, column.expand(*near.shape[:3], -1))


def _attend_long(
    q: Tensor, k: Tensor, v: Tensor, key_lengths: Tensor | None, near: Tensor | None, causal: bool
) -> Tensor:
    """One long span without a (query × key) tensor: the library's kernel, or blocks of queries computed again later."""
    if near is None:
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal, scale=1.0).transpose(1, 2)
    step = max(1, BLOCK // k.shape[2])
    blocks = []
    for first in range(0, q.shape[2], step):
        part = near[first : first + step] if near.dim() == 3 else near
        inputs = (q[:, :, first : first + step], k, v, None, part, causal, first)
        blocks.append(
            checkpoint(_attend, *inputs, use_reentrant=False) if torch.is_grad_enabled() else _attend(*inputs)
        )
    return torch.cat(blocks, dim=1)


def _check(q: Tensor, k: Tensor, v: Tensor, q_spans: Spans, k_spans: Spans, near: Tensor | None) -> None:
    if q.dim() != 3 or k.dim() != 3 or v.dim() != 3 or q.shape[1:] != k.shape[1:] or k.shape[:2] != v.shape[:2]:
        raise ValueError(
            "packed_attention: expected q (Tq, h, d), k (Tk, h, d), v (Tk, h, dv), got "
            f"{tuple(q.shape)}, {tuple(k.shape)}, {tuple(v.shape)}"
        )
    if len(q_spans) != len(k_spans):
        raise ValueError(f"packed_attention: {len(q_spans)} query spans and {len(k_spans)} key spans; expected as many")
    for name, rows, spans in (("q", q, q_spans), ("k", k, k_spans)):
        if len(rows) != spans.num_tokens:
            raise ValueError(f"packed_attention: {name} has {len(rows)} rows and its spans {spans.num_tokens}")
    shapes = (q.shape[1:2], (len(q), q.shape[1]))
    if near is not None and (near.shape[:-1] not in shapes or near.shape[-1] % 2 == 0):
        raise ValueError(
            f"packed_attention: distance_scores must be (h, 2r+1) or (Tq, h, 2r+1), got {tuple(near.shape)} for q "
            f"{tuple(q.shape)}"
        )
