"""Softmax attention between the spans of packed rows: every block that reads a sentence, a window or a document.

Spans of similar length form a *bucket* and are padded there only, to a length that follows from the span's own. A
bucket is one `bmm + softmax + bmm`, the fastest exact way for short spans on a CPU. Long spans stand alone, without
padding, and keep no (query × key) tensor: `scaled_dot_product_attention` in training, block after block otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from docnmt.layout import Spans

#: Queries × keys of a span beyond which its scores are not kept for the backward pass.
LONG = 512 * 512
#: Queries × keys that one block of queries of a long span may hold.
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
    """Softmax attention in which query span i reads key span i only: softmax(scale · q kᵀ) v.

    The result of a span does not depend on the other spans beyond rounding: its padded length, and with it the order of
    every sum, follows from its own length. Where batched products give the same bits at every batch size
    (`docnmt.runtime.row_invariant`) and no gradient is recorded, it does not depend on them at all.

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
    heads, scale = q.shape[1], q.shape[-1] ** -0.5 if scale is None else scale
    plan = _plan(q_spans, k_spans, heads, causal)
    queries = plan.cut(q, "q") if scale == 1 else [x * scale for x in plan.cut(q, "q")]
    keys, values = plan.cut(k, "k"), plan.cut(v, "k")
    if distance_scores is None:
        near: Sequence[Tensor | None] = [None] * len(plan.buckets)
    elif distance_scores.dim() == 3:
        near = plan.cut(distance_scores, "q")
    else:
        near = [distance_scores[:, None].expand(1, -1, bucket.q_length, -1) for bucket in plan.buckets]
    outputs = [v[:0].sum((0, 1))[None]]  # what a query without keys reads: 0 as an empty sum, which has a gradient
    for bucket, qs, ks, vs, ns in zip(plan.buckets, queries, keys, values, near, strict=True):
        read = _attend_long(qs, ks, vs, ns, causal) if bucket.long else _attend(qs, ks, vs, ns, bucket.mask)
        outputs.append(read.flatten(0, 2))
    return torch.cat(outputs).index_select(0, plan.output_rows).view(*q.shape[:2], v.shape[-1])


@dataclass(frozen=True)
class _Bucket:
    """Spans padded to one length, and what their queries may not see."""

    spans: int
    q_length: int
    k_length: int
    mask: Tensor | None  # (n or 1, 1, Lq or 1, Lk), 0 or -inf
    long: bool


@dataclass(frozen=True)
class _Plan:
    """Index arrays between packed rows (token, head) and padded rows (span, head, place), bucket by bucket.

    Padding shows the last row of its own span, so that nothing can leak from another one; it is masked as key and
    dropped as query.
    """

    heads: int
    buckets: list[_Bucket]
    q_rows: Tensor  # which packed row each padded row shows
    k_rows: Tensor
    output_rows: Tensor  # 1 + the padded row of each packed one; 0 for queries without keys

    def cut(self, x: Tensor, side: Literal["q", "k"]) -> list[Tensor]:
        """Packed rows (T, h, d) as one (n, h, L, d) for each bucket."""
        shapes = [(b.spans, self.heads, b.q_length if side == "q" else b.k_length) for b in self.buckets]
        rows = x.flatten(0, 1).index_select(0, self.q_rows if side == "q" else self.k_rows)
        # split, not slices: the backward of each slice would fill a tensor of all rows
        parts = torch.split(rows, [math.prod(shape) for shape in shapes])
        return [part.view(*shape, -1) for part, shape in zip(parts, shapes, strict=True)]


def _plan(q_spans: Spans, k_spans: Spans, heads: int, causal: bool) -> _Plan:
    """The plan of a pair of spans, made once: all layers of a model share it."""
    key = (packed_attention, k_spans, heads, causal)
    if key not in q_spans.plans:
        q_spans.plans[key] = _make_plan(q_spans, k_spans, heads, causal)
    plan: _Plan = q_spans.plans[key]
    return plan


def _make_plan(q_spans: Spans, k_spans: Spans, heads: int, causal: bool) -> _Plan:
    device = q_spans.offsets.device
    q_lengths, k_lengths = q_spans.lengths, k_spans.lengths
    long = q_lengths * k_lengths > LONG
    q_padded = np.where(long, q_lengths, _padded_length(q_lengths))
    k_padded = np.where(long, k_lengths, _padded_length(k_lengths))
    live = np.flatnonzero((q_lengths > 0) & (k_lengths > 0))
    kinds = np.stack([q_padded, k_padded, np.where(long, np.arange(len(long)), -1)], axis=1)[live]
    order = np.lexsort(kinds.T[::-1])
    borders = np.flatnonzero((np.diff(kinds[order], axis=0) != 0).any(axis=1)) + 1
    order = live[order]
    buckets = []
    for members in np.split(order, borders) if len(order) else []:
        q_length, k_length = int(q_padded[members[0]]), int(k_padded[members[0]])
        is_long = bool(long[members[0]])
        mask = None if is_long else _mask(q_length, k_length, k_lengths[members], causal)
        mask = mask if mask is None else mask.to(device)
        buckets.append(_Bucket(len(members), q_length, k_length, mask, is_long))
    q_rows, filled = _padded_rows(q_spans, order, q_padded, heads)
    output_rows = np.zeros(q_spans.num_tokens * heads, dtype=np.int64)
    output_rows[q_rows[filled]] = 1 + np.flatnonzero(filled)
    k_rows, _ = _padded_rows(k_spans, order, k_padded, heads)
    return _Plan(heads, buckets, *(torch.from_numpy(rows).to(device) for rows in (q_rows, k_rows, output_rows)))


def _padded_length(lengths: np.ndarray) -> np.ndarray:
    """Rounded up to about an eighth: few buckets, little padding, and a function of the span's own length alone."""
    step = np.maximum(4, 2 ** np.ceil(np.log2(np.maximum(lengths, 1))).astype(np.int64) // 8)
    padded: np.ndarray = -(-lengths // step) * step
    return padded


def _padded_rows(spans: Spans, order: np.ndarray, padded: np.ndarray, heads: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows (span, head, place) of the spans in `order`: which row (token, head) each shows, and whether it is real."""
    widths = np.repeat(padded[order], heads)  # a run of places for each span and head
    place = np.arange(int(widths.sum())) - np.repeat(np.cumsum(widths) - widths, widths)
    last = np.repeat(np.repeat(spans.lengths[order] - 1, heads), widths)
    first = (spans.host[:-1][order, None] * heads + np.arange(heads)).reshape(-1)
    return np.repeat(first, widths) + np.minimum(place, last) * heads, place <= last


def _mask(q_length: int, k_length: int, k_lengths: np.ndarray, causal: bool) -> Tensor | None:
    """(n or 1, 1, Lq or 1, Lk), -inf for what must not be seen: padding, and the future when causal."""
    place = np.arange(k_length)
    hidden = (place >= k_lengths[:, None])[:, None, None]
    if causal:
        future = place > np.arange(q_length)[:, None]
        # the future of every query already covers the padding when no query stands beyond the keys
        hidden = future[None, None] if q_length <= k_lengths.min() else hidden | future
    return torch.zeros(hidden.shape).masked_fill_(torch.from_numpy(hidden), float("-inf")) if hidden.any() else None


def _attend(q: Tensor, k: Tensor, v: Tensor, near: Tensor | None, mask: Tensor | None, first: int = 0) -> Tensor:
    """One bucket: q (n, h, Lq, d) scaled, k and v (n, h, Lk, ·), near (n or 1, h, Lq, 2r+1) → (n, h, Lq, dv).

    `first` is the place in its span of the first query.
    """
    scores = torch.matmul(q, k.mT)  # (n, h, Lq, Lk)
    if near is not None:
        place = first + torch.arange(q.shape[2], device=q.device)[:, None]
        radius = near.shape[-1] // 2
        column = radius + (torch.arange(k.shape[2], device=q.device) - place).clamp(-radius, radius)  # (Lq, Lk)
        scores = scores + near.gather(3, column.expand(*near.shape[:2], -1, -1))
    if mask is not None:
        scores += mask
    return torch.matmul(scores.softmax(-1, dtype=torch.promote_types(scores.dtype, torch.float32)).to(v.dtype), v)


def _attend_long(q: Tensor, k: Tensor, v: Tensor, near: Tensor | None, causal: bool) -> Tensor:
    """One long span, as `_attend`. A block of queries is computed again when gradients are asked for."""
    recorded = torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in (q, k, v, near))
    if near is None and (recorded or q.is_cuda):
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal, scale=1.0)
    step = max(1, BLOCK // k.shape[2])
    blocks = []
    for first in range(0, q.shape[2], step):
        rows = slice(first, min(first + step, q.shape[2]))
        seen = min(k.shape[2], rows.stop) if causal else k.shape[2]
        hidden = torch.full((rows.stop - first, seen), float("-inf"), device=q.device).triu(first + 1)
        inputs = (q[:, :, rows], k[:, :, :seen], v[:, :, :seen], None if near is None else near[:, :, rows])
        arguments = (*inputs, hidden if causal else None, first)
        blocks.append(checkpoint(_attend, *arguments, use_reentrant=False) if recorded else _attend(*arguments))
    return torch.cat(blocks, dim=2)


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
