"""Softmax attention between the spans of packed rows: every block that reads a sentence, a window or a document.

Spans of similar length form a *bucket* and are padded there only, to a length that follows from the span's own. A
bucket is one `bmm + softmax + bmm`, the fastest exact way for short spans on a CPU, or without distance scores, from
`costs.SPAN_FUSED` on, one `scaled_dot_product_attention`. Long spans are computed alone, without padding, and keep no
(query × key) tensor: `scaled_dot_product_attention`, or block after block with distance scores. Half types on a CUDA
card go to flash attention as they are, unless there are distance scores.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from docnmt.functional import costs
from docnmt.functional.buckets import bucket_plan
from docnmt.functional.kernels import takes_short
from docnmt.functional.varlen import takes_varlen, varlen_packed_attention
from docnmt.layout import Spans


def packed_attention(
    q: Tensor, k: Tensor, v: Tensor, q_spans: Spans, k_spans: Spans, *,
    causal: bool = False, distance_scores: Tensor | None = None, scale: float | None = None,
) -> Tensor:  # fmt: skip
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
    if distance_scores is None and scale is None and (q_spans is k_spans or not causal) and takes_varlen(q, k, v):
        if takes_short(q, q_spans, k_spans):
            from docnmt.functional.kernels.attention import short_attention

            return short_attention(q, k, v, q_spans, k_spans, causal=causal)
        return varlen_packed_attention(q, k, v, q_spans, k_spans, causal=causal)
    heads, scale = q.shape[1], q.shape[-1] ** -0.5 if scale is None else scale
    plan = bucket_plan(q_spans, k_spans, heads, causal)
    queries = plan.pad(q, "q") if scale == 1 else [x * scale for x in plan.pad(q, "q")]
    keys, values = plan.pad(k, "k"), plan.pad(v, "k")
    if distance_scores is None:
        near: Sequence[Tensor | None] = [None] * len(plan.buckets)
    elif distance_scores.dim() == 3:
        near = plan.pad(distance_scores, "q")
    else:
        near = [distance_scores[:, None].expand(1, -1, bucket.q_length, -1) for bucket in plan.buckets]
    outputs = []
    for bucket, qs, ks, vs, ns in zip(plan.buckets, queries, keys, values, near, strict=True):
        fused = bucket.long or (q.device.type == "cpu" and bucket.q_length * bucket.k_length >= costs.SPAN_FUSED)
        if ns is None and fused:
            hidden = None if bucket.mask is None else bucket.mask.to(qs.dtype)  # a long span has none
            future = causal and bucket.long
            read = F.scaled_dot_product_attention(qs, ks, vs, attn_mask=hidden, is_causal=future, scale=1.0)
        elif ns is not None and bucket.long:
            read = _attend_long(qs, ks, vs, ns, causal)
        else:
            read = _attend(qs, ks, vs, ns, bucket.mask)
        outputs.append(read)
    return plan.unpad(outputs, v)


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


def _attend_long(q: Tensor, k: Tensor, v: Tensor, near: Tensor, causal: bool) -> Tensor:
    """One long span, as `_attend`, block after block: each is computed again when gradients are asked for."""
    recorded = torch.is_grad_enabled() and any(x.requires_grad for x in (q, k, v, near))
    step = max(1, costs.SPAN_BLOCK // k.shape[2])
    blocks = []
    for first in range(0, q.shape[2], step):
        rows = slice(first, min(first + step, q.shape[2]))
        seen = min(k.shape[2], rows.stop) if causal else k.shape[2]
        hidden = None
        if causal:
            hidden = torch.full((rows.stop - first, seen), float("-inf"), device=q.device).triu(first + 1)
        arguments = (q[:, :, rows], k[:, :, :seen], v[:, :, :seen], near[:, :, rows], hidden, first)
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
