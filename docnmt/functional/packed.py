"""Softmax attention inside the spans of a packed row: every block that reads a sentence, a window or a document.

q, k, v (T, h, d) → spans of like length, padded to one *bucket* (n, h, L, d) → `bmm + softmax + bmm` → (T, h, d).
Long spans are computed alone and keep no (query × key) tensor; half types on a CUDA card go to kernels that need no
padding. And source2token, one query a sentence (Trankova and Rykunov, equations 1 and 2).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Literal, NamedTuple, cast

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from docnmt.functional.kernels import takes_short
from docnmt.layout import BoundedSpans, Spans
from docnmt.runtime.device import to_device

#: Queries × keys above which a span is computed alone and keeps no scores, 0.25 MB a head in float32.
SPAN_LONG = 256 * 256
#: Queries × keys that a block of queries of a long span with distance scores holds: 4 MB a head in float32.
SPAN_BLOCK = 1 << 20

# Buckets: packed spans, padded so that batched products can compute them.


@dataclass
class _Bucket:
    """Spans padded to one length, with the mask of keys that their queries may not see."""

    spans: int
    q_length: int
    k_length: int
    long: bool  # one span, without padding
    mask: Tensor | None = None  # (n or 1, 1, Lq or 1, Lk), 0 or -inf


@dataclass(frozen=True)
class _BucketPlan:
    """Index arrays between packed rows (token, head) and padded rows (span, head, place), padded by a span's last."""

    heads: int
    buckets: list[_Bucket]
    q_rows: Tensor  # which packed row each padded row shows
    k_rows: Tensor
    output_rows: Tensor  # 1 + the padded row of each packed one; 0 for queries without keys

    def pad(self, x: Tensor, side: Literal["q", "k"]) -> list[Tensor]:
        """Packed rows (T, h, d) → one padded tensor (n, h, L, d) for each bucket."""
        rows = x.flatten(0, 1).index_select(0, self.q_rows if side == "q" else self.k_rows)
        counts, shapes = [], []
        for bucket in self.buckets:
            length = bucket.q_length if side == "q" else bucket.k_length
            counts.append(bucket.spans * self.heads * length)
            shapes.append((bucket.spans, self.heads, length))
        # split, not slices: the backward of each slice would fill a tensor of all rows
        return [part.unflatten(0, shape) for part, shape in zip(rows.split(counts), shapes, strict=True)]

    def unpad(self, outputs: Sequence[Tensor], v: Tensor) -> Tensor:
        """The buckets' outputs, (n·h·Lq, dv) each → packed rows (Tq, h, dv); 0 for a query without keys."""
        nothing = v[:0].sum((0, 1))[None]  # 0 as an empty sum, which has a gradient as any other output
        return torch.cat([nothing, *outputs]).index_select(0, self.output_rows).view(-1, self.heads, v.shape[-1])


def bucket_plan(q_spans: Spans, k_spans: Spans, heads: int, causal: bool) -> _BucketPlan:
    """The plan of a pair of spans; it is kept with `q_spans`, so that all layers of a model share it."""
    arguments = q_spans, k_spans, heads, causal
    return q_spans.derive((bucket_plan, *arguments[1:]), partial(_make_plan, *arguments))


def _make_plan(q_spans: Spans, k_spans: Spans, heads: int, causal: bool) -> _BucketPlan:
    lengths = np.stack([q_spans.lengths, k_spans.lengths])  # (2, n)
    long = lengths.prod(axis=0) > SPAN_LONG
    # up to a multiple of 4 or more, about an eighth of the length; other spans have no influence
    step = np.maximum(4, 2 ** np.ceil(np.log2(np.maximum(lengths, 1))).astype(np.int64) // 8)
    padded = np.where(long, lengths, -(-lengths // step) * step)
    live = np.flatnonzero((lengths > 0).all(axis=0))
    kinds = np.stack([*padded, np.where(long, np.arange(len(long)), -1)], axis=1)[live]
    order = np.lexsort(kinds.T[::-1])
    borders = np.flatnonzero((np.diff(kinds[order], axis=0) != 0).any(axis=1)) + 1
    order = live[order]
    buckets: list[_Bucket] = []
    masked: list[_Bucket] = []
    masks: list[np.ndarray] = []
    for members in np.split(order, borders) if len(order) else []:
        q_length, k_length = padded[:, members[0]].tolist()
        buckets.append(_Bucket(len(members), q_length, k_length, bool(long[members[0]])))
        if buckets[-1].long:
            continue
        k_lengths = lengths[1, members, None]
        hidden = (np.arange(k_length) >= k_lengths)[:, None, None]  # (n, 1, 1, Lk)
        if causal:
            future = np.arange(k_length) > np.arange(q_length)[:, None]
            # the future of every query already covers the padding when no query is beyond the keys
            hidden = future[None, None] if q_length <= k_lengths.min() else hidden | future
        if hidden.any():
            masked.append(buckets[-1])
            masks.append(np.where(hidden, -np.inf, 0).astype(np.float32))
    q_rows, filled = _padded_rows(q_spans, order, padded[0], heads)
    output_rows = np.zeros(q_spans.num_tokens * heads, dtype=np.int64)
    output_rows[q_rows[filled]] = 1 + np.flatnonzero(filled)
    k_rows, _ = _padded_rows(k_spans, order, padded[1], heads)
    rows = to_device([q_rows, k_rows, output_rows, *masks], q_spans.offsets.device)
    for bucket, mask in zip(masked, rows[3:], strict=True):
        bucket.mask = mask
    return _BucketPlan(heads, buckets, *rows[:3])


def _padded_rows(spans: Spans, order: np.ndarray, padded: np.ndarray, heads: int) -> tuple[np.ndarray, np.ndarray]:
    """Return for each padded row (span, head, place) its packed row (token, head), and False where it is padding."""
    widths = np.repeat(padded[order], heads)  # a run of places for each span and head
    position = np.arange(int(widths.sum())) - np.repeat(np.cumsum(widths) - widths, widths)
    last = np.repeat(np.repeat(spans.lengths[order] - 1, heads), widths)
    first = (spans.host[:-1][order, None] * heads + np.arange(heads)).reshape(-1)
    return np.repeat(first, widths) + np.minimum(position, last) * heads, position <= last


# Attention in half types on a CUDA card, by variable-length flash attention.
#
# The forward and backward kernels are passed as `Calls`: PyTorch's own on a card; in tests, a float64 implementation.


class Sequences(NamedTuple):
    """Offsets of N sequences of queries and keys, (N+1,) int32 each, and upper bounds of their lengths."""

    q: Tensor
    k: Tensor
    max_q: int
    max_k: int


class VarlenOutput(NamedTuple):
    """The output (rows, h, d) of a forward call, and the scores' log-sum-exp (h, rows), float32 at least."""

    out: Tensor
    lse: Tensor


class Calls(NamedTuple):
    """Softmax attention in which sequence i of the queries reads sequence i of the keys, and its gradients.

    Rows after the last sequence are neither read nor written. q (Tq, h, d), k and v (Tk, h, d), sequences, causal →
    output; and gradient of the output, q, k, v, output, sequences, causal → gradients of q, k and v. The latter takes
    weights as exp(score − `lse`) and the sum of an output's gradient times its value from `out`.
    """

    forward: Callable[[Tensor, Tensor, Tensor, Sequences, bool], VarlenOutput]
    backward: Callable[[Tensor, Tensor, Tensor, Tensor, VarlenOutput, Sequences, bool], tuple[Tensor, Tensor, Tensor]]


def _flash_forward(q: Tensor, k: Tensor, v: Tensor, at: Sequences, causal: bool) -> VarlenOutput:
    flash = torch.ops.aten._flash_attention_forward
    return VarlenOutput(*flash(q, k, v, *at, 0.0, causal, False, scale=q.shape[-1] ** -0.5)[:2])


def _flash_backward(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, read: VarlenOutput, at: Sequences, causal: bool
) -> tuple[Tensor, Tensor, Tensor]:
    flash, scale = torch.ops.aten._flash_attention_backward, q.shape[-1] ** -0.5
    seed, unused = q.new_zeros(2, dtype=torch.uint64), q.new_empty(0)  # of dropout, which there is none of
    dq, dk, dv = flash(grad, q, k, v, read.out, read.lse, *at, 0.0, causal, seed, unused, scale=scale)
    return dq, dk, dv


FLASH = Calls(_flash_forward, _flash_backward)


def takes_varlen(q: Tensor, k: Tensor, v: Tensor) -> bool:
    """Whether flash attention supports these tensors (rows, h, d): type, device and widths."""
    width = q.shape[-1]
    fits = q.is_cuda and q.dtype == k.dtype == v.dtype and q.dtype in (torch.bfloat16, torch.float16)
    fits = fits and v.shape[-1] == width and width % 8 == 0 and width <= 256
    return fits and q.numel() > 0 and k.numel() > 0 and _has_flash(q.device)


@lru_cache
def _has_flash(device: torch.device) -> bool:
    """Whether card and PyTorch have flash attention whose log-sum-exp is (h, rows), as earlier versions' is not."""
    names = [result.name for result in torch.ops.aten._flash_attention_forward.default._schema.returns]
    known = "rng_state" in names and torch.version.cuda is not None
    return known and torch.cuda.get_device_capability(device) >= (8, 0)


def varlen_packed_attention(
    q: Tensor, k: Tensor, v: Tensor, q_spans: Spans, k_spans: Spans, *, causal: bool = False, calls: Calls = FLASH
) -> Tensor:
    """`packed_attention` of half types, q (Tq, h, d), k and v (Tk, h, d); `causal` needs equal spans."""
    q_offsets, k_offsets = (x.derive(varlen_packed_attention, x.offsets.int) for x in (q_spans, k_spans))
    sequences = Sequences(q_offsets, k_offsets, max(1, q_spans.max_length), max(1, k_spans.max_length))
    return cast(Tensor, _Packed.apply(q, k, v, sequences, causal, calls))  # type: ignore[no-untyped-call]


class _Packed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, sequences: Sequences, causal: bool, calls: Calls) -> Tensor:
        read = calls.forward(q, k, v, sequences, causal)
        ctx.save_for_backward(q, k, v, *read)
        ctx.sequences, ctx.causal, ctx.calls = sequences, causal, calls
        return read.out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, *read = ctx.saved_tensors
        gradients = ctx.calls.backward(grad.contiguous(), q, k, v, VarlenOutput(*read), ctx.sequences, ctx.causal)
        return (*gradients, None, None, None)


# Attention inside spans.


def packed_attention(
    q: Tensor, k: Tensor, v: Tensor, q_spans: Spans, k_spans: Spans, *,
    causal: bool = False, distance_scores: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Softmax attention in which query span i reads key span i only: softmax(q kᵀ / √d) v.

    A span's result depends on the other spans by rounding only, as its padded length, and with it the order of every
    sum, follows from its own length; and not at all where batched products give the same bits at every batch size.

    Args:
        q, k, v: (Tq, h, d), (Tk, h, d), (Tk, h, dv), with as many spans of either side.
        causal: a key is visible when its index in its span is not greater than the query's in its own.
        distance_scores: (h, 2r+1) or (Tq, h, 2r+1), added before the softmax: column r + clip(j − i, −r, r) for query i
            and key j, both counted inside their spans. Serves ALiBi and relative positions (Shaw et al. 2018).

    Returns:
        (Tq, h, dv); 0 for a query whose key span is empty. The softmax is computed in float32 at least.
    """
    _check(q, k, v, q_spans, k_spans, distance_scores)
    if distance_scores is None and (q_spans is k_spans or not causal) and takes_varlen(q, k, v):
        if takes_short(q, q_spans, k_spans):
            from docnmt.functional.kernels.attention import short_attention

            return short_attention(q, k, v, q_spans, k_spans, causal=causal)
        return varlen_packed_attention(q, k, v, q_spans, k_spans, causal=causal)
    plan = bucket_plan(q_spans, k_spans, q.shape[1], causal)
    queries, keys, values = plan.pad(q * q.shape[-1] ** -0.5, "q"), plan.pad(k, "k"), plan.pad(v, "k")
    if distance_scores is None:
        distances: Sequence[Tensor | None] = [None] * len(plan.buckets)
    elif distance_scores.dim() == 3:
        distances = plan.pad(distance_scores, "q")
    else:
        distances = [distance_scores[:, None].expand(1, -1, bucket.q_length, -1) for bucket in plan.buckets]
    outputs = []
    for bucket, qs, ks, vs, ns in zip(plan.buckets, queries, keys, values, distances, strict=True):
        if not bucket.long:
            mixed = _attend(qs, ks, vs, ns, bucket.mask)
        elif ns is None:
            mixed = F.scaled_dot_product_attention(qs, ks, vs, is_causal=causal, scale=1.0)
        else:
            mixed = _attend_long(qs, ks, vs, ns, causal)
        outputs.append(mixed.flatten(0, 2))  # (n·h·Lq, dv)
    return plan.unpad(outputs, v)


def _attend(q: Tensor, k: Tensor, v: Tensor, distances: Tensor | None, mask: Tensor | None, first: int = 0) -> Tensor:
    """One bucket: q (n, h, Lq, d) scaled, from place `first` on, k and v (n, h, Lk, ·), near (n or 1, h, Lq, 2r+1)."""
    scores = torch.matmul(q, k.mT)  # (n, h, Lq, Lk)
    if distances is not None:
        position = first + torch.arange(q.shape[2], device=q.device)[:, None]
        radius = distances.shape[-1] // 2
        column = radius + (torch.arange(k.shape[2], device=q.device) - position).clamp(-radius, radius)  # (Lq, Lk)
        scores = scores + distances.gather(3, column.expand(*distances.shape[:2], -1, -1))
    if mask is not None:
        scores += mask
    return torch.matmul(scores.softmax(-1, dtype=torch.promote_types(scores.dtype, torch.float32)).to(v.dtype), v)


def _attend_long(q: Tensor, k: Tensor, v: Tensor, distances: Tensor, causal: bool) -> Tensor:
    """One long span, as `_attend`, block after block: each is computed again when gradients are asked for."""
    recorded = torch.is_grad_enabled() and any(x.requires_grad for x in (q, k, v, distances))
    step = max(1, SPAN_BLOCK // k.shape[2])
    blocks = []
    for first in range(0, q.shape[2], step):
        rows = slice(first, min(first + step, q.shape[2]))
        seen = min(k.shape[2], rows.stop) if causal else k.shape[2]
        hidden = None
        if causal:
            hidden = torch.full((rows.stop - first, seen), float("-inf"), device=q.device).triu(first + 1)
        arguments = (q[:, :, rows], k[:, :, :seen], v[:, :, :seen], distances[:, :, rows], hidden, first)
        blocks.append(checkpoint(_attend, *arguments, use_reentrant=False) if recorded else _attend(*arguments))
    return torch.cat(blocks, dim=2)


def _check(q: Tensor, k: Tensor, v: Tensor, q_spans: Spans, k_spans: Spans, distances: Tensor | None) -> None:
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
    if distances is not None and (distances.shape[:-1] not in shapes or distances.shape[-1] % 2 == 0):
        raise ValueError(
            f"packed_attention: distance_scores must be (h, 2r+1) or (Tq, h, 2r+1), got {tuple(distances.shape)} for q "
            f"{tuple(q.shape)}"
        )


# Source2token: one vector a sentence (equations 1 and 2).


def source2token(query: Tensor, keys: Tensor, values: Tensor, sentence_offsets: Tensor) -> Tensor:
    """Attention of one learned query over the tokens of each sentence: softmax(keys·query / √d_k) values → (S, h, d_v).

    query (h, d_k), keys (T, h, d_k), values (T, h, d_v); `sentence_offsets` (S+1,): where each sentence begins.
    """
    spans = Spans(sentence_offsets)
    _check_words(spans)
    if query.shape != keys.shape[1:] or keys.shape[:2] != values.shape[:2] or len(keys) != spans.num_tokens:
        raise ValueError(
            f"source2token: expected query (h, d_k), keys (T, h, d_k), values (T, h, d_v) with T = {spans.num_tokens} "
            f"from sentence_offsets, got {tuple(query.shape)}, {tuple(keys.shape)}, {tuple(values.shape)}"
        )
    if keys.dtype in (torch.float16, torch.bfloat16):
        return source2token(query.float(), keys.float(), values.float(), sentence_offsets).to(values.dtype)
    scores = torch.einsum("thd,hd->th", keys, query) / math.sqrt(query.shape[-1])
    weights = _spans_softmax(scores, spans)
    return _sum_over_spans(weights.unsqueeze(-1) * values, spans)


def weighted_means(scores: Tensor, words: Tensor, spans: Spans) -> Tensor:
    """The means (h, S, d) of each sentence's words, weighted by the softmax of their scores: source2token before W^V.

    scores (T, h); words (T, d), never copied for each head, in whose type the means are, computed in float32 at least.
    """
    _check_words(spans)
    tokens, heads = scores.shape
    precise = torch.promote_types(words.dtype, torch.float32)
    weights = _spans_softmax(scores.to(precise), spans).T.reshape(-1)  # (h·T,)
    token = torch.arange(tokens, device=words.device)
    begin = spans.offsets[:-1] + torch.arange(heads, device=words.device)[:, None] * tokens  # (h, S)
    means = F.embedding_bag(
        token.repeat(heads), words.to(precise), begin.flatten(), mode="sum", per_sample_weights=weights
    )
    return means.view(heads, len(spans), words.shape[1]).to(words.dtype)


def _spans_softmax(scores: Tensor, spans: Spans) -> Tensor:
    span = spans.span_of_token
    index = span.view(-1, *(1,) * (scores.dim() - 1)).expand_as(scores)
    top = scores.new_full((len(spans), *scores.shape[1:]), -torch.inf)
    top = top.scatter_reduce_(0, index, scores.detach(), "amax")
    exponentials = (scores - top.index_select(0, span)).exp()
    return exponentials / _sum_over_spans(exponentials, spans).index_select(0, span)


def _sum_over_spans(values: Tensor, spans: Spans) -> Tensor:
    return values.new_zeros((len(spans), *values.shape[1:])).index_add(0, spans.span_of_token, values)


def _check_words(spans: Spans) -> None:
    if isinstance(spans, BoundedSpans):
        return  # the host cannot look; a sentence without a token is then 0
    empty = (spans.lengths == 0).nonzero()[0]
    if len(empty):
        raise ValueError(f"source2token: sentence {empty[0]} has no token, so there is nothing to attend to")
