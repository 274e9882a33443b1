"""Kernelised attention with relative positions in linear time (Favier and Dal'Maz Silva 2023, "Scaleformer")."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import torch
from torch import Tensor

from docnmt.functional import costs
from docnmt.functional.autograd import PassContext
from docnmt.functional.buckets import bucket_plan
from docnmt.functional.linear_kernel import windowed_attention
from docnmt.layout import Spans

Backend = Literal["auto", "quadratic", "linear"]


def linear_attention(
    q: Tensor, k: Tensor, v: Tensor, rel_pos: Tensor | None = None, *,
    causal: bool = False, key_mask: Tensor | None = None, backend: Backend = "auto",
) -> Tensor:  # fmt: skip
    """Σ_j s_ij v_j / Σ_j s_ij with s_ij = φ(q_i)·φ(k_j) + φ(q_i)·φ(rel_pos[r + clip(j − i, −r, r)]), φ = elu + 1.

    Scaleformer, equations 9 to 11, with the sign of the distance that its algorithm 2 needs (equation 11 prints i − j).
    The linear backend takes time and memory in proportion to Lq + Lk; gradients are
    computed from the inputs again, so that nothing but the features and a state every few blocks is kept for them. They
    cannot be differentiated themselves.

    Args:
        q: (B, h, Lq, d). k: (B, h, Lk, d). v: (B, h, Lk, dv).
        rel_pos: (2r+1, d) or (h, 2r+1, d): row 0 is for keys r or more before the query, row 2r for r or more after it.
        causal: keys j ≤ i only, in numerator and denominator.
        key_mask: (B, Lk), False for padding, which is counted in neither.
        backend: "quadratic" (the equations), "linear", or "auto": the faster for this size.

    Returns:
        (B, h, Lq, dv) of v's type, computed in float32 at least; 0 for a query without keys.

    Raises:
        ValueError: shapes do not belong together, or the backend is unknown.
    """
    _check(q, k, v, rel_pos, key_mask, backend)
    with torch.autocast(q.device.type, enabled=False):
        values = with_one(v)  # (B, h, Lk, dv + 1)
        if key_mask is not None:  # whatever padding holds
            k, values = (x.masked_fill(~key_mask[:, None, :, None], 0) for x in (k, values))
        features_q, features_k = feature_map(q).flatten(0, 1), feature_map(k).flatten(0, 1)  # (B·h, L, d)
        rel = None if rel_pos is None else _rows_per_head(feature_map(rel_pos), q)
        mixed = _mix(features_q, features_k, values.flatten(0, 1), rel, causal, backend)
        return normalised(mixed).view(*q.shape[:3], v.shape[3]).to(v.dtype)


def relative_attention_term(
    q: Tensor, v: Tensor, rel_pos: Tensor, *, causal: bool = False, backend: Backend = "auto"
) -> Tensor:
    """Σ_j φ(q_i)·φ(rel_pos[r + clip(j − i, −r, r)]) v_j: the term S^rel V of equation 11 alone, unnormalised.

    Shapes, backends and errors as in `linear_attention`; Algorithm 2 of the paper, and its figure 4.
    """
    _check(q, None, v, rel_pos, None, backend)
    precise = torch.promote_types(v.dtype, torch.float32)
    with torch.autocast(q.device.type, enabled=False):
        rel = _rows_per_head(feature_map(rel_pos), q)
        mixed = _mix(feature_map(q).flatten(0, 1), None, v.to(precise).flatten(0, 1), rel, causal, backend)
        return mixed.view(*q.shape[:3], v.shape[3]).to(v.dtype)


def packed_linear_attention(
    q: Tensor, k: Tensor, v: Tensor, q_spans: Spans, k_spans: Spans, rel_pos: Tensor | None = None, *,
    causal: bool = False,
) -> Tensor:  # fmt: skip
    """`linear_attention` inside the spans of packed rows: query span i reads key span i only.

    Args:
        q: (Tq, h, d). k: (Tk, h, d). v: (Tk, h, dv).
        q_spans: spans of the rows of `q`. k_spans: as many spans of the rows of `k` and `v`.
        rel_pos: (2r+1, d) or (h, 2r+1, d); i and j are counted inside their spans.

    Returns:
        (Tq, h, dv); 0 for a query whose key span is empty.

    Raises:
        ValueError: shapes or spans do not belong together.
    """
    plan = bucket_plan(q_spans, k_spans, q.shape[1], False)
    outputs = []
    for bucket, qs, ks, vs in zip(plan.buckets, plan.pad(q, "q"), plan.pad(k, "k"), plan.pad(v, "k"), strict=True):
        key_mask = None if bucket.mask is None else bucket.mask[:, 0, 0] == 0  # (n, Lk)
        outputs.append(linear_attention(qs, ks, vs, rel_pos, causal=causal, key_mask=key_mask))
    return plan.unpad(outputs, v)


def feature_map(x: Tensor) -> Tensor:
    """φ(x) = elu(x) + 1, but without its rounding to 0 below −17; contiguous, float32 at least."""
    mapped: Tensor = _FeatureMap.apply(x.to(torch.promote_types(x.dtype, torch.float32)).contiguous())  # type: ignore[no-untyped-call]
    return mapped


class _FeatureMap(torch.autograd.Function):
    @staticmethod
    def forward(ctx: PassContext, x: Tensor) -> Tensor:
        """φ(x), piece by piece."""
        mapped = torch.empty_like(x)
        for part, out in _pieces(x, mapped):
            torch.clamp(part, max=0, out=out).exp_().add_(part.clamp(min=0))  # x + 1 above 0, exp(x) below
        ctx.save_for_backward(mapped)
        return mapped

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: PassContext, grad: Tensor) -> Tensor:
        """φ'(x) is min(φ(x), 1)."""
        (mapped,) = ctx.saved_tensors
        gradient = torch.empty_like(mapped)
        for part, of_part, out in _pieces(mapped, grad.contiguous(), gradient):
            torch.clamp(part, max=1, out=out).mul_(of_part)  # 1 above 0, exp(x) = φ(x) below
        return gradient


class _Normalise(torch.autograd.Function):
    """Rows (…, e + 1): the first e columns divided by the last; 0 where that is 0."""

    @staticmethod
    def forward(ctx: PassContext, mixed: Tensor) -> Tensor:
        """(…, e + 1) → (…, e)."""
        total = mixed[..., -1:]
        total = total.masked_fill(total == 0, 1)  # then all else is 0, too
        output = mixed[..., :-1] / total  # the reciprocal of a very small number would be infinite
        ctx.save_for_backward(output, total)
        return output

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: PassContext, grad: Tensor) -> Tensor:
        """(…, e) → (…, e + 1)."""
        output, total = ctx.saved_tensors
        width = output.shape[-1]
        d_mixed = grad.new_empty(*grad.shape[:-1], width + 1)
        rows = grad.reshape(-1, width), output.view(-1, width), total.view(-1, 1), d_mixed.view(-1, width + 1)
        for of_output, out, by, of_mixed in zip(*(x.split(_rows(grad, width)) for x in rows), strict=True):
            torch.div(of_output, by, out=of_mixed[:, :-1])
            of_mixed[:, -1:] = -(of_mixed[:, :-1] * out).sum(-1, keepdim=True)
        return d_mixed


def _rows(x: Tensor, width: int) -> int:
    """Rows handled at once: on a CPU as many as stay in its cache, or each operation would read main memory anew."""
    return max(1, costs.LINEAR_PIECE // width) if x.device.type == "cpu" else max(1, x.numel())


def _pieces(*tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Contiguous tensors of one shape in flat pieces."""
    size = _rows(tensors[0], 1)
    yield from zip(*(x.view(-1).split(size) for x in tensors), strict=True)


def normalised(mixed: Tensor) -> Tensor:
    """Weighted sums of [v, 1], (…, dv + 1), as weighted means (…, dv); 0 where the weights add up to 0."""
    output: Tensor = _Normalise.apply(mixed)  # type: ignore[no-untyped-call]
    return output


def with_one(v: Tensor) -> Tensor:
    """[v, 1], float32 at least: the weighted sum of the ones is the denominator. v (..., dv) → (..., dv + 1)."""
    precise = torch.promote_types(v.dtype, torch.float32)
    return torch.cat([v.to(precise), v.new_ones(*v.shape[:-1], 1, dtype=precise)], dim=-1)


def _rows_per_head(rel: Tensor, q: Tensor) -> Tensor:
    """(2r+1, d) or (h, 2r+1, d) → (B·h, 2r+1, d)."""
    return rel.expand(*q.shape[:2], -1, -1).flatten(0, 1)


def _mix(q: Tensor, k: Tensor | None, values: Tensor, rel: Tensor | None, causal: bool, backend: Backend) -> Tensor:
    """Σ_j s_ij values_j of features q (N, Lq, d), k (N, Lk, d) or None, rel (N, 2r+1, d) or None."""
    pairs = q.shape[1] * values.shape[1]
    short = costs.LINEAR_RELATIVE if rel is not None else costs.LINEAR_CAUSAL if causal else costs.LINEAR_PLAIN
    if backend == "quadratic" or len(q) == 0 or pairs == 0 or (backend == "auto" and pairs <= short):
        return torch.bmm(_scores(q, k, values.shape[1], rel, causal), values)
    if causal:
        return windowed_attention(q, k, values, rel, causal=True)
    if k is None:
        return windowed_attention(q, None, values, rel, causal=False)
    total = torch.bmm(k.mT, values)
    if rel is None:
        return torch.bmm(q, total)
    return torch.baddbmm(windowed_attention(q, None, values, rel, causal=False), q, total)


def _scores(q: Tensor, k: Tensor | None, keys: int, rel: Tensor | None, causal: bool) -> Tensor:
    """(N, Lq, Lk): s_ij of equations 9 and 11."""
    scores = None
    if rel is not None:
        horizon = rel.shape[1] // 2
        distance = torch.arange(keys, device=q.device) - torch.arange(q.shape[1], device=q.device)[:, None]
        row = horizon + distance.clamp(-horizon, horizon)  # (Lq, Lk)
        scores = torch.bmm(q, rel.mT).gather(2, row.expand(len(q), -1, -1))
    if k is not None:
        scores = torch.bmm(q, k.mT) if scores is None else torch.baddbmm(scores, q, k.mT)
    assert scores is not None, "neither keys nor relative positions"
    return scores.tril_() if causal else scores


def _check(
    q: Tensor, k: Tensor | None, v: Tensor, rel_pos: Tensor | None, key_mask: Tensor | None, backend: Backend
) -> None:
    if backend not in ("auto", "quadratic", "linear"):
        raise ValueError(f"backend: expected auto, quadratic or linear, got {backend!r}")
    keys_fit = k is None or (k.shape[:3] == v.shape[:3] and k.shape[3] == q.shape[3])
    if q.dim() != 4 or v.dim() != 4 or q.shape[:2] != v.shape[:2] or not keys_fit:
        raise ValueError(
            "expected q (B, h, Lq, d), k (B, h, Lk, d), v (B, h, Lk, dv), got "
            f"{', '.join(str(tuple(x.shape)) for x in (q, k, v) if x is not None)}"
        )
    if rel_pos is not None and (
        rel_pos.dim() < 2
        or rel_pos.shape[-1] != q.shape[3]
        or rel_pos.shape[:-2] not in ((), q.shape[1:2])
        or rel_pos.shape[-2] % 2 == 0
    ):
        raise ValueError(
            f"rel_pos: expected (2r+1, d) or (h, 2r+1, d) with h, d = {q.shape[1]}, {q.shape[3]}, "
            f"got {tuple(rel_pos.shape)}"
        )
    if key_mask is not None and (key_mask.shape != (v.shape[0], v.shape[2]) or key_mask.dtype != torch.bool):
        raise ValueError(
            f"key_mask: expected (B, Lk) = {(v.shape[0], v.shape[2])} booleans, got {key_mask.dtype} "
            f"of shape {tuple(key_mask.shape)}"
        )
