"""Scaleformer's attention (eq. 9 to 11): quadratic, in windows with its backward pass, one position at a time.

Keys of any order are two products, q (Σ φ(k) [v, 1]ᵀ). What depends on order, masks and relative positions, takes
blocks of queries and *windows* of keys around them; all else acts through a state (`_windowed_attention`). Favier and
Dal'Maz Silva 2023, "Scaleformer". Shapes: N batch × heads, G blocks of a segment, c block, d width of queries, e of
values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor

from docnmt.functional.packed import bucket_plan
from docnmt.layout import Spans

#: Queries × keys up to which the quadratic form is faster: with relative positions, masked without, and neither.
LINEAR_RELATIVE, LINEAR_CAUSAL, LINEAR_PLAIN = 230 * 230, 270 * 270, 72 * 72
#: Queries of a block, and blocks, of all heads together, that are handled at once.
LINEAR_BLOCK, LINEAR_SEGMENT = 64, 64
#: Values between two sums that a `LinearMemory` keeps: a query reads up to twice as many beside its horizon.
LINEAR_SUMS = 8

# Blocks of queries and the windows of keys around them.


class _Geometry(NamedTuple):
    """The sizes of blocks and windows. The columns of a block's scores are [sum before] window [sum after]."""

    block: int  # queries of a block
    horizon: int  # r; 0 without relative positions
    causal: bool
    sums: bool  # True if sums of the values outside the window have columns of their own
    blocks: int  # of all queries
    segment: int  # blocks handled at once

    @property
    def window(self) -> int:  # keys
        return self.horizon + self.block + (0 if self.causal else self.horizon)

    @property
    def columns(self) -> int:
        return self.window + (0 if not self.sums else 1 if self.causal else 2)

    @property
    def shown(self) -> slice:  # the columns of the window
        return slice(int(self.sums), int(self.sums) + self.window)


def _far_sums(values: Tensor, g: _Geometry) -> Tensor:
    """(N, blocks, 1 or 2, e): sums of the values before each block's window and, where it can be seen, after it."""
    n = max(g.blocks, -(-(values.shape[1] + g.horizon) // g.block))

    def sums(begin: int) -> Tensor:
        """(N, n, e): sums of the values of each of n blocks of keys, the first beginning at `begin`."""
        return _rows_at(values, begin, n * g.block).reshape(len(values), n, g.block, -1).sum(2)

    earlier = F.pad(sums(-g.horizon), (0, 0, 1, -1)).cumsum(1)
    if g.causal:
        return earlier[:, : g.blocks, None]
    later = F.pad(sums(g.horizon), (0, 0, -1, 1)).flip(1).cumsum(1).flip(1)
    return torch.stack([earlier, later], dim=2)[:, : g.blocks]


def _rows_at(x: Tensor, begin: int, count: int) -> Tensor:
    """x[:, begin : begin + count], with zeros for rows that do not exist."""
    length = x.shape[1]
    part = x[:, min(max(begin, 0), length) : min(max(begin + count, 0), length)]
    before = min(max(-begin, 0), count)
    after = count - before - part.shape[1]
    return F.pad(part, (0, 0, before, after)) if before or after else part


def _windows_of(x: Tensor, begin: int, blocks: int, g: _Geometry, far: Tensor | None = None) -> Tensor:
    """(N·G, columns, ·): the rows of the window of each block, and the far sums (N, G, 1 or 2, ·) around it."""
    rows = _rows_at(x, begin - g.horizon, (blocks - 1) * g.block + g.window)
    outer, row, inner = rows.stride()
    shape, strides = (len(x), blocks, g.window, x.shape[2]), (outer, g.block * row, row, inner)
    windows = rows.as_strided(shape, strides, rows.storage_offset())
    if far is not None:
        windows = torch.cat([far[:, :, :1], windows, far[:, :, 1:]], dim=2)
    return windows.reshape(-1, g.columns, x.shape[2])


def _add_windows(total: Tensor, windows: Tensor, begin: int, g: _Geometry) -> None:
    """The adjoint of `_windows_of`, on rows `total` that begin a horizon before the first key."""
    windows = windows.view(len(total), -1, g.columns, total.shape[2])[:, :, g.shown]
    blocks = windows.shape[1]
    for first in range(0, g.window, g.block):  # pieces of a block's length: windows overlap, these do not
        piece = windows[:, :, first : first + g.block]
        rows = total[:, begin + first : begin + first + blocks * g.block].view(len(total), blocks, g.block, -1)
        rows[:, :, : piece.shape[2]] += piece


def _band_of(scores: Tensor, g: _Geometry, width: int) -> Tensor:
    """A view (N·G, c, width) of scores (N·G, c, columns): for each query the keys from r positions back on."""
    outer, row, column = scores.stride()
    offset = scores.storage_offset() + g.shown.start
    return scores.as_strided((len(scores), g.block, width), (outer, row + column, column), offset)


# The part that depends on order. The keys around a block of queries, at most r beyond it on either side, are its
# window: their scores form one small matrix. Keys before it act through a state, the sum of (φ(k) + φ(rel[0])) vᵀ, or
# without keys through the sum of their values alone; keys after it through the sum of theirs. Segments of some blocks
# are handled one after the other, so that they stay in the cache; the backward pass keeps the states and computes the
# rest again.


def _windowed_attention(q: Tensor, k: Tensor | None, values: Tensor, rel: Tensor | None, *, causal: bool) -> Tensor:
    """Σ_j s_ij values_j, (N, Lq, e), with s_ij = q_i·k_j (causal only) + q_i·rel[r + clip(j − i, −r, r)]."""
    horizon = 0 if rel is None else rel.shape[1] // 2
    segment = max(1, LINEAR_SEGMENT // max(1, len(q)))
    geometry = _Geometry(LINEAR_BLOCK, horizon, causal, k is None, -(-q.shape[1] // LINEAR_BLOCK), segment)
    far = _far_sums(values, geometry) if geometry.sums else None
    return cast(Tensor, _Windowed.apply(q, k, values, rel, far, geometry))  # type: ignore[no-untyped-call]


def _prefixes(increments: Tensor, carry: Tensor, *, reverse: bool = False) -> tuple[Tensor, Tensor]:
    """`carry` (N, d, e) + the earlier (later) increments (N, G, d, e) of each block, and the new carry."""
    blocks = increments.shape[1]
    ones = increments.new_ones(blocks, blocks)
    earlier = ones.triu(1) if reverse else ones.tril(-1)
    sums = torch.baddbmm(carry.flatten(1)[:, None], earlier.expand(len(carry), -1, -1), increments.flatten(2))
    last = 0 if reverse else -1
    sums = sums.view_as(increments)
    return sums.flatten(0, 1), sums[:, last] + increments[:, last]


class _Inputs(NamedTuple):
    q: Tensor  # (N, Lq, d)
    k: Tensor | None  # (N, Lk, d)
    values: Tensor  # (N, Lk, e)
    rel: Tensor | None  # (N, 2r+1, d)
    far: Tensor | None  # (N, blocks, 1 or 2, e), of `_far_sums`
    geometry: _Geometry

    def outside_band(self) -> tuple[Tensor, Tensor]:
        """(c, columns): 1 where a key lies before, and after, the band of relative positions."""
        g, device = self.geometry, self.q.device
        column = torch.arange(g.columns, device=device) - torch.arange(g.block, device=device)[:, None]
        offset = column - g.shown.start  # 0 for the key r positions back
        return (offset < 0).to(self.q.dtype), (offset > 2 * g.horizon).to(self.q.dtype)


class _Past(NamedTuple):
    """Keys of one segment: those of the windows, and those that leave the window after each block."""

    keys: Tensor  # (N·G, columns, d)
    left: Tensor  # (N·G, c, d), φ(rel[0]) added
    left_values: Tensor  # (N·G, c, e)


class _Segment(NamedTuple):
    """The tensors of one segment that the forward and the backward pass need."""

    q: Tensor  # (N·G, c, d)
    values: Tensor  # (N·G, columns, e)
    scores: Tensor  # (N·G, c, columns)
    past: _Past | None


def _segment(x: _Inputs, first: int, outside: tuple[Tensor, Tensor]) -> _Segment:
    """The segment that begins with block `first`; `outside` are `outside_band`'s."""
    g = x.geometry
    n, blocks, begin = len(x.q), min(g.segment, g.blocks - first), first * g.block
    q = _rows_at(x.q, begin, blocks * g.block).reshape(n * blocks, g.block, -1)
    values = _windows_of(x.values, begin, blocks, g, None if x.far is None else x.far[:, first : first + blocks])
    past = None
    if x.k is None:
        scores = q.new_zeros(n * blocks, g.block, g.columns)
    else:
        keys = _windows_of(x.k, begin, blocks, g)
        left, left_values = (_rows_at(rows, begin - g.horizon, blocks * g.block) for rows in (x.k, x.values))
        left = left if x.rel is None else left + x.rel[:, :1]
        past = _Past(keys, *(rows.reshape(n * blocks, g.block, -1) for rows in (left, left_values)))
        scores = torch.bmm(q, keys.mT)
    if x.rel is not None:  # += q_i·rel[r + clip(j − i, −r, r)], nothing for the future when causal
        seen = x.rel[:, : g.horizon + 1] if g.causal else x.rel
        weights = torch.bmm(q.view(n, -1, q.shape[2]), seen.mT).view(*q.shape[:2], -1)
        scores.addcmul_(weights[..., :1], outside[0])
        if not g.causal:
            scores.addcmul_(weights[..., -1:], outside[1])
        _band_of(scores, g, weights.shape[2]).add_(weights)
    return _Segment(q, values, scores.tril_(g.horizon) if past is not None else scores, past)


class _Windowed(torch.autograd.Function):
    """Saves its inputs and the state before each block; the backward pass computes the rest again."""

    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor | None, values: Tensor, rel: Tensor | None, far: Tensor | None, g: _Geometry
    ) -> Tensor:
        x = _Inputs(q, k, values, rel, far, g)
        outside = x.outside_band()
        output = values.new_empty(*q.shape[:2], values.shape[2])
        state, all_states = values.new_zeros(len(q), q.shape[2], values.shape[2]), []
        for first in range(0, g.blocks, g.segment):
            s = _segment(x, first, outside)
            mixed = torch.bmm(s.scores, s.values)
            if s.past is not None:
                increments = torch.bmm(s.past.left.mT, s.past.left_values).view(len(q), -1, *state.shape[1:])
                states, state = _prefixes(increments, state)
                mixed.baddbmm_(s.q, states)
                all_states.append(states)
            rows = output[:, first * g.block : (first + g.segment) * g.block]
            rows.copy_(mixed.view(len(q), -1, values.shape[2])[:, : rows.shape[1]])
        ctx.geometry = g
        ctx.save_for_backward(q, k, values, rel, far, *all_states)
        return output

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        q, k, values, rel, far, *all_states = ctx.saved_tensors
        g, (n, _, width) = ctx.geometry, q.shape
        x = _Inputs(q, k, values, rel, far, g)
        outside = x.outside_band()
        rows = max(g.horizon + values.shape[1], (g.blocks - 1) * g.block + -(-g.window // g.block) * g.block)
        d_q, d_values = torch.empty_like(q), values.new_zeros(n, rows, values.shape[2])  # from a horizon before key 0
        d_k = None if k is None else q.new_zeros(n, rows, width)
        d_rel, d_far = (None if x is None else torch.zeros_like(x) for x in (rel, far))
        d_state = q.new_zeros(n, width, values.shape[2])  # of the state with which the segment after this one begins
        with torch.autocast(q.device.type, enabled=False):
            for first in reversed(range(0, g.blocks, g.segment)):
                s = _segment(x, first, outside)
                blocks, begin = len(s.q) // n, first * g.block
                d_mixed = _rows_at(grad, begin, blocks * g.block).reshape(n * blocks, g.block, -1)
                d_scores = torch.bmm(d_mixed, s.values.mT)
                d_windows = torch.bmm(s.scores.mT, d_mixed)
                _add_windows(d_values, d_windows, begin, g)
                if d_far is not None:
                    sums = d_windows.view(n, blocks, g.columns, -1)
                    d_far[:, first : first + blocks] = sums[:, :, :1] if g.causal else sums[:, :, :: g.columns - 1]
                d_segment_q = torch.zeros_like(s.q)
                if s.past is not None and d_k is not None:
                    states = all_states[first // g.segment]
                    d_segment_q.baddbmm_(d_scores.tril_(g.horizon), s.past.keys).baddbmm_(d_mixed, states.mT)
                    _add_windows(d_k, torch.bmm(d_scores.mT, s.q), begin, g)
                    increments = torch.bmm(s.q.mT, d_mixed).view(n, -1, *d_state.shape[1:])
                    d_states, d_state = _prefixes(increments, d_state, reverse=True)
                    d_left = torch.bmm(s.past.left_values, d_states.mT).view(n, -1, width)
                    left = slice(begin, begin + d_left.shape[1])
                    d_k[:, left] += d_left
                    d_values[:, left] += torch.bmm(s.past.left, d_states).view(n, d_left.shape[1], -1)
                    if d_rel is not None:
                        d_rel[:, 0] += d_left.sum(1)
                if rel is not None and d_rel is not None:
                    seen = g.horizon + 1 if g.causal else rel.shape[1]
                    d_weights = _band_of(d_scores, g, seen).clone()
                    d_weights[..., 0] += (d_scores * outside[0]).sum(2)
                    if not g.causal:
                        d_weights[..., -1] += (d_scores * outside[1]).sum(2)
                    d_weights = d_weights.view(n, -1, seen)
                    d_rel[:, :seen].baddbmm_(d_weights.mT, s.q.view(n, -1, width))
                    d_segment_q.view(n, -1, width).baddbmm_(d_weights, rel[:, :seen])
                of_segment = d_q[:, begin : begin + blocks * g.block]
                of_segment.copy_(d_segment_q.view(n, blocks * g.block, -1)[:, : of_segment.shape[1]])
        keys = slice(g.horizon, g.horizon + values.shape[1])
        return d_q, None if d_k is None else d_k[:, keys], d_values[:, keys], d_rel, d_far, None


# The equations, and which form computes them.

Backend = Literal["auto", "quadratic", "linear"]


def linear_attention(
    q: Tensor, k: Tensor, v: Tensor, rel_pos: Tensor | None = None, *,
    causal: bool = False, key_mask: Tensor | None = None, backend: Backend = "auto",
) -> Tensor:  # fmt: skip
    """Σ_j s_ij v_j / Σ_j s_ij with s_ij = φ(q_i)·φ(k_j) + φ(q_i)·φ(rel_pos[r + clip(j − i, −r, r)]), φ = elu + 1.

    Scaleformer, equations 9 to 11, with the sign of the distance that its algorithm 2 needs (equation 11 prints i − j).
    The linear backend takes time and memory in proportion to Lq + Lk. Gradients cannot be differentiated themselves.

    Args:
        q, k, v: (B, h, Lq, d), (B, h, Lk, d), (B, h, Lk, dv).
        rel_pos: (2r+1, d) or (h, 2r+1, d): row 0 is for keys r or more before the query, row 2r for r or more after it.
        causal: keys j ≤ i only, in numerator and denominator.
        key_mask: (B, Lk), False for padding, which is counted in neither.
        backend: "quadratic" (the equations), "linear", or "auto": the faster for this size.

    Returns:
        (B, h, Lq, dv) of v's type, computed in float32 at least; 0 for a query without keys.
    """
    _check(q, k, v, rel_pos, key_mask, backend)
    with torch.autocast(q.device.type, enabled=False):
        values = _with_one(v)  # (B, h, Lk, dv + 1)
        if key_mask is not None:  # whatever padding holds
            k, values = (x.masked_fill(~key_mask[:, None, :, None], 0) for x in (k, values))
        features_q, features_k = feature_map(q).flatten(0, 1), feature_map(k).flatten(0, 1)  # (B·h, L, d)
        rel = None if rel_pos is None else _rows_per_head(feature_map(rel_pos), q)
        mixed = _mix(features_q, features_k, values.flatten(0, 1), rel, causal, backend)
        return _normalised(mixed).view(*q.shape[:3], v.shape[3]).to(v.dtype)


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
    """`linear_attention` inside the spans of packed rows: query span i reads key span i only, and counts inside them.

    q (Tq, h, d), k (Tk, h, d), v (Tk, h, dv) → (Tq, h, dv); 0 for a query whose key span is empty.
    """
    plan = bucket_plan(q_spans, k_spans, q.shape[1], False)
    outputs = []
    for bucket, qs, ks, vs in zip(plan.buckets, plan.pad(q, "q"), plan.pad(k, "k"), plan.pad(v, "k"), strict=True):
        key_mask = None if bucket.mask is None else bucket.mask[:, 0, 0] == 0  # (n, Lk)
        outputs.append(linear_attention(qs, ks, vs, rel_pos, causal=causal, key_mask=key_mask).flatten(0, 2))
    return plan.unpad(outputs, v)


def feature_map(x: Tensor) -> Tensor:
    """φ(x) = elu(x) + 1, but without its rounding to 0 below −17; contiguous, float32 at least."""
    return cast(Tensor, _FeatureMap.apply(x.to(torch.promote_types(x.dtype, torch.float32)).contiguous()))  # type: ignore[no-untyped-call]


class _FeatureMap(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        mapped = x.clamp(max=0).exp_().add_(x.clamp(min=0))  # x + 1 above 0, exp(x) below
        ctx.save_for_backward(mapped)
        return mapped

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (mapped,) = ctx.saved_tensors
        return mapped.clamp(max=1).mul_(grad)  # type: ignore[no-any-return]  # 1 above 0, exp(x) = φ(x) below


def _normalised(mixed: Tensor) -> Tensor:
    """Weighted sums of [v, 1], (…, dv + 1), as weighted means (…, dv); 0 where the weights add up to 0."""
    return cast(Tensor, _Normalise.apply(mixed))  # type: ignore[no-untyped-call]


class _Normalise(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, mixed: Tensor) -> Tensor:
        total = mixed[..., -1:]
        total = total.masked_fill(total == 0, 1)  # then all else is 0, too
        output = mixed[..., :-1] / total  # the reciprocal of a very small number would be infinite
        ctx.save_for_backward(output, total)
        return output

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        output, total = ctx.saved_tensors
        d_values = grad / total
        return torch.cat([d_values, -(d_values * output).sum(-1, keepdim=True)], -1)


def _with_one(v: Tensor) -> Tensor:
    """[v, 1], float32 at least: the weighted sum of the ones is the denominator. v (..., dv) → (..., dv + 1)."""
    precise = torch.promote_types(v.dtype, torch.float32)
    return torch.cat([v.to(precise), v.new_ones(*v.shape[:-1], 1, dtype=precise)], dim=-1)


def _rows_per_head(rel: Tensor, q: Tensor) -> Tensor:
    """(2r+1, d) or (h, 2r+1, d) → (B·h, 2r+1, d)."""
    return rel.expand(*q.shape[:2], -1, -1).flatten(0, 1)


def _mix(q: Tensor, k: Tensor | None, values: Tensor, rel: Tensor | None, causal: bool, backend: Backend) -> Tensor:
    """Σ_j s_ij values_j of features q (N, Lq, d), k (N, Lk, d) or None, rel (N, 2r+1, d) or None."""
    pairs = q.shape[1] * values.shape[1]
    short = LINEAR_RELATIVE if rel is not None else LINEAR_CAUSAL if causal else LINEAR_PLAIN
    if backend == "quadratic" or len(q) == 0 or pairs == 0 or (backend == "auto" and pairs <= short):
        return torch.bmm(_scores(q, k, values.shape[1], rel, causal), values)
    if causal or k is None:
        return _windowed_attention(q, k, values, rel, causal=causal)
    total = torch.bmm(k.mT, values)
    if rel is None:
        return torch.bmm(q, total)
    return torch.baddbmm(_windowed_attention(q, None, values, rel, causal=False), q, total)


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
    if rel_pos is not None:
        heads, size = rel_pos.shape[:-2], rel_pos.shape[-2:]
        if len(size) < 2 or size[1] != q.shape[3] or size[0] % 2 == 0 or heads not in ((), q.shape[1:2]):
            raise ValueError(f"rel_pos: expected (2r+1, {q.shape[3]}), or that a head, got {tuple(rel_pos.shape)}")
    if key_mask is not None and (key_mask.shape != (v.shape[0], v.shape[2]) or key_mask.dtype != torch.bool):
        raise ValueError(
            f"key_mask: expected (B, Lk) = {(v.shape[0], v.shape[2])} booleans, got {key_mask.dtype} "
            f"of shape {tuple(key_mask.shape)}"
        )


# One position at a time: states of constant size for generation, without gradients.


@dataclass
class LinearState:
    """The state of causal linear attention after the positions so far, for R rows of any length.

    A step equals the same row of `linear_attention(..., causal=True)` and costs the same at every position.
    """

    any_memory: ClassVar[bool] = True
    sums: Tensor  # (R, h, d, dv + 1), Σ φ(k) [v, 1]ᵀ over all keys, and Σ φ(rel_pos[0]) [v, 1]ᵀ beyond the horizon
    recent: Tensor  # (R, h, r, dv + 1), the last r values [v, 1], oldest first; 0 where there was none yet

    @classmethod
    def empty(
        cls, rows: int, heads: int, width: int, value_width: int, horizon: int = 0, *, like: Tensor
    ) -> LinearState:
        """The state before the first position, float32 at least, on the device of `like`.

        `horizon`: r of the relative positions (0 without them too).
        """
        dtype = torch.promote_types(like.dtype, torch.float32)
        sums = like.new_zeros(rows, heads, width, value_width + 1, dtype=dtype)
        return cls(sums, like.new_zeros(rows, heads, horizon, value_width + 1, dtype=dtype))

    def step(self, q: Tensor, k: Tensor, v: Tensor, rel_pos: Tensor | None = None) -> Tensor:
        """Attend at the next position of every row and update the state: q, k (R, h, d), v (R, h, dv) → (R, h, dv)."""
        value = _with_one(v)
        features_q, arrived = feature_map(q)[:, :, None], feature_map(k)[..., None]  # (R, h, 1, d), (R, h, d, 1)
        if rel_pos is None:
            self.sums += arrived * value[:, :, None]
            return _normalised(torch.matmul(features_q, self.sums)[:, :, 0]).to(v.dtype)
        rel = feature_map(rel_pos).expand(q.shape[1], -1, -1)  # (h, 2r+1, d)
        horizon = rel.shape[1] // 2
        window = torch.cat([self.recent, value[:, :, None]], dim=2)  # (R, h, r + 1, dv + 1)
        # the oldest value of the window is r positions back now: it joins the far past
        features = torch.cat([arrived, rel[:, 0, :, None].expand_as(arrived)], dim=3)  # (R, h, d, 2)
        self.sums += torch.matmul(features, torch.stack([value, window[:, :, 0]], dim=2))
        self.recent = window[:, :, 1:]
        weights = torch.matmul(features_q, rel[:, 1 : horizon + 1].mT)  # (R, h, 1, r)
        mixed = torch.matmul(features_q, self.sums) + torch.matmul(weights, self.recent)
        return _normalised(mixed[:, :, 0]).to(v.dtype)

    def keep(self, rows: Tensor, slots: Tensor | None) -> None:
        """Keep these rows, in that order; rows may repeat or vanish."""
        self.sums, self.recent = self.sums.index_select(0, rows), self.recent.index_select(0, rows)

    def append(self, other: LinearState) -> None:
        self.sums, self.recent = torch.cat([self.sums, other.sums]), torch.cat([self.recent, other.recent])


@dataclass
class LinearMemory:
    """Sums over the keys of packed spans (sources) for cross-attention; a query costs the same at every length.

    A step equals the same row of `packed_linear_attention`. Without relative positions only the totals are kept, and at
    horizon 0, with one embedding for all keys, one more sum a span. Otherwise the values are kept, to read those inside
    the horizon, and sums of all before and after every 8th of them, for the others.
    """

    spans: Spans  # of the keys
    totals: Tensor  # (S, h, d, dv + 1), Σ φ(k) [v, 1]ᵀ over the keys of each span
    values: Tensor  # (Tk, h, dv + 1), [v, 1]; no row where no horizon needs them
    first_block: Tensor  # (S,) the first row of each span in `before` and `after`
    before: Tensor  # (B, h, dv + 1), the values of a span before its position 8·b
    after: Tensor  # and from there on

    @classmethod
    def build(cls, k: Tensor, v: Tensor, spans: Spans, *, horizon: int | None = None) -> LinearMemory:
        """The memory of k (Tk, h, d), v (Tk, h, dv); `horizon` is r of the relative positions, None without."""
        values = _with_one(v)
        features = feature_map(k).transpose(0, 1)  # (h, Tk, d)
        totals = values.new_zeros(len(spans), *k.shape[1:], values.shape[2])
        for span, (begin, end) in enumerate(zip(spans.host[:-1], spans.host[1:], strict=True)):
            totals[span] = torch.matmul(features[:, begin:end].mT, values[begin:end].transpose(0, 1))
        first, before, after = _sums_outside(values, spans, horizon)
        return cls(spans, totals, values if horizon else values[:0].clone(), first, before, after)

    def step(self, q: Tensor, span: Tensor, position: Tensor, rel_pos: Tensor | None = None) -> Tensor:
        """One query a row: q (R, h, d) at `position` (R,) of its own sequence, reading `span` (R,) → (R, h, dv).

        `rel_pos` has the horizon that the memory was built for.
        """
        features = feature_map(q)[:, :, None]  # (R, h, 1, d)
        mixed = torch.matmul(features, self.totals.index_select(0, span))
        if rel_pos is not None and self.spans.num_tokens:
            rel = feature_map(rel_pos).expand(q.shape[1], -1, -1)
            mixed = mixed + self._relative(torch.matmul(features, rel.mT), span, position)
        return _normalised(mixed[:, :, 0]).to(self.values.dtype)

    def _relative(self, weights: Tensor, span: Tensor, position: Tensor) -> Tensor:
        """Sum each row's span, weighted by distance from −r to r: weights (R, h, 1, 2r+1) → (R, h, 1, dv + 1)."""
        horizon, block = weights.shape[-1] // 2, self.first_block[span]
        if horizon == 0:
            return weights * self.after[block][:, :, None]
        begin, end = self.spans.offsets[span], self.spans.offsets[span + 1]
        length = end - begin
        width = LINEAR_SUMS
        low = (position - horizon + 1).clamp_min(0).minimum(length) // width  # values before this block: row 0
        high = ((position + horizon).minimum(length) + width - 1) // width  # from this one on: row 2r
        index = low[:, None] * width + torch.arange(2 * (horizon + width) - 3, device=span.device)  # (R, W)
        inside = index < (high * width).minimum(length)[:, None]
        distance = (index - position[:, None]).clamp(-horizon, horizon) + horizon
        inner = weights.gather(3, distance[:, None, None].expand(-1, weights.shape[1], -1, -1))  # (R, h, 1, W)
        inner = inner.masked_fill(~inside[:, None, None], 0)
        rows = (begin[:, None] + index).clamp(max=len(self.values) - 1)
        mixed = torch.matmul(inner, self.values[rows].transpose(1, 2))
        mixed = mixed + weights[..., :1] * self.before[block + low][:, :, None]
        return mixed + weights[..., -1:] * self.after[block + high][:, :, None]


def _sums_outside(values: Tensor, spans: Spans, horizon: int | None) -> tuple[Tensor, Tensor, Tensor]:
    starts, lengths = spans.offsets[:-1], spans.offsets.diff()
    if horizon is None:
        return torch.zeros_like(starts), values[:0].clone(), values[:0].clone()
    block = LINEAR_SUMS if horizon else max(1, spans.max_length)
    counts = lengths // block + 2  # the last one is empty
    first = counts.cumsum(0) - counts
    span = spans.span_of_token
    of_token = first[span] + (torch.arange(len(values), device=span.device) - starts[span]) // block
    sums = values.new_zeros(int(counts.sum()), *values.shape[1:]).index_add(0, of_token, values).double()
    until = sums.cumsum(0) - sums  # over all spans: exact enough for differences not to depend on the spans before
    span_of_block = torch.repeat_interleave(torch.arange(len(counts), device=span.device), counts)
    before, after = until - until[first[span_of_block]], until[(first + counts - 1)[span_of_block]] - until
    return first, before.to(values.dtype), after.to(values.dtype)
