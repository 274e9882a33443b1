"""The part of Scaleformer's attention that depends on order, in blocks: masked kernelised attention, relative terms.

Queries are cut into blocks of `BLOCK`. The keys around a block, at most r beyond it on either side, are its *window*:
their scores form one small matrix. Keys before the window act through a state, the sum of φ(k) vᵀ, and through the sum
of their values; keys after it through the sum of theirs. Segments of some blocks are handled one after the other, so
that what is intermediate stays in the cache; the backward pass computes it again from the states at the borders.

Shape letters: N batch × heads, G blocks of a segment, c block, w window, d width of queries, e of values, r horizon.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

#: Queries of a block.
BLOCK = 64
#: Blocks, of all heads together, that are handled at once.
SEGMENT = 128


class Geometry(NamedTuple):
    """Where the blocks and windows of one call lie."""

    horizon: int  # r; 0 without relative positions
    causal: bool
    relative: bool
    blocks: int  # of all queries
    segment: int  # blocks handled at once

    @property
    def ahead(self) -> int:
        """Keys of a window after its block."""
        return 0 if self.causal else self.horizon

    @property
    def window(self) -> int:
        return self.horizon + BLOCK + self.ahead

    @property
    def before(self) -> int:
        """Columns of the score matrix before the window: 1 for the sum of all earlier values."""
        return int(self.relative)

    @property
    def columns(self) -> int:
        return self.before + self.window + int(self.relative and not self.causal)


def windowed_attention(q: Tensor, k: Tensor | None, values: Tensor, rel: Tensor | None, *, causal: bool) -> Tensor:
    """Σ_j s_ij values_j with s_ij = q_i·k_j (causal only) + q_i·rel[r + clip(j − i, −r, r)], in linear time.

    Args:
        q: (N, Lq, d). k: (N, Lk, d) or None. Both after the feature map.
        values: (N, Lk, e). rel: (N, 2r+1, d), after the feature map, or None. `k` or `rel` must be given.
        causal: keys j ≤ i only. Keys must not be given otherwise: their part is then a plain product.

    Returns:
        (N, Lq, e)
    """
    blocks = -(-q.shape[1] // BLOCK)
    horizon = 0 if rel is None else rel.shape[1] // 2
    geometry = Geometry(horizon, causal, rel is not None, blocks, max(1, SEGMENT // max(1, len(q))))
    far = None if rel is None else _far_sums(values, geometry)
    output: Tensor = _Windowed.apply(q, k, values, rel, far, geometry)
    return output


def _far_sums(values: Tensor, g: Geometry) -> Tensor:
    """(N, blocks, 1 or 2, e): sums of the values before each block's window and, where it can be seen, after it."""
    n = max(g.blocks, -(-(values.shape[1] + g.horizon) // BLOCK))

    def sums(shift: int) -> Tensor:
        """(N, n, e): sums of the values of each block of keys, blocks beginning at `shift`."""
        return _rows(values, shift, shift + n * BLOCK).reshape(len(values), n, BLOCK, -1).sum(2)

    earlier = F.pad(sums(-g.horizon), (0, 0, 1, -1)).cumsum(1)
    if g.causal:
        return earlier[:, : g.blocks, None]
    later = F.pad(sums(g.horizon), (0, 0, -1, 1)).flip(1).cumsum(1).flip(1)
    return torch.stack([earlier, later], dim=2)[:, : g.blocks]


def _rows(x: Tensor, start: int, stop: int) -> Tensor:
    """x[:, start:stop], with zeros where there is no such row."""
    length = x.shape[1]
    part = x[:, min(max(start, 0), length) : min(max(stop, 0), length)]
    before = min(max(-start, 0), stop - start)
    after = stop - start - before - part.shape[1]
    return F.pad(part, (0, 0, before, after)) if before or after else part


def _windows(x: Tensor, start: int, g: Geometry, blocks: int, far: Tensor | None = None) -> Tensor:
    """(N·G, columns, ·): the rows of each block's window; `far` (N, G, 1 or 2, ·) or zeros in the outer columns."""
    rows = _rows(x, start - g.horizon, start + blocks * BLOCK + g.ahead)
    if g.columns == BLOCK:
        return rows.reshape(-1, BLOCK, x.shape[2])
    out = x.new_zeros(len(x), blocks, g.columns, x.shape[2])
    step = rows.stride()
    shape, strides = (len(x), blocks, g.window, x.shape[2]), (step[0], BLOCK * step[1], step[1], step[2])
    out[:, :, g.before : g.before + g.window] = rows.as_strided(shape, strides, rows.storage_offset())
    if far is not None:
        out[:, :, 0] = far[:, :, 0]
        if not g.causal:
            out[:, :, -1] = far[:, :, 1]
    return out.flatten(0, 1)


def _add_windows(total: Tensor, windows: Tensor, start: int, g: Geometry) -> None:
    """The adjoint of `_windows`: add rows of windows (N·G, columns, ·) to the rows of `total` that they show."""
    n, _, width = total.shape
    windows = windows.view(n, -1, g.columns, width)[:, :, g.before : g.before + g.window]
    blocks = windows.shape[1]
    first = start - g.horizon
    rows = total.new_zeros(n, (blocks + -(-g.window // BLOCK)) * BLOCK, width)
    for at in range(0, g.window, BLOCK):  # pieces of a block's length: windows overlap, these do not
        piece = windows[:, :, at : at + BLOCK]
        rows[:, at : at + blocks * BLOCK].view(n, blocks, BLOCK, width)[:, :, : piece.shape[2]] += piece
    begin, end = max(first, 0), min(first + rows.shape[1], total.shape[1])
    if begin < end:
        total[:, begin:end] += rows[:, begin - first : end - first]


def _masks(g: Geometry, like: Tensor) -> tuple[Tensor, Tensor]:
    """(c, columns): 1 where a key lies before, and after, the band of relative positions."""
    offset = torch.arange(g.columns, device=like.device) - torch.arange(BLOCK, device=like.device)[:, None]
    return (offset <= 0).to(like.dtype), (offset > 2 * g.horizon + 1).to(like.dtype)


def _band(scores: Tensor, g: Geometry, width: int) -> Tensor:
    """A view of (N·G, c, columns): for each query the `width` columns from the horizon on."""
    outer, row, _ = scores.stride()
    offset = scores.storage_offset() + 1
    return scores.as_strided((len(scores), BLOCK, width), (outer, row + 1, 1), offset)


def _prefixes(increments: Tensor, carry: Tensor, *, reverse: bool = False) -> tuple[Tensor, Tensor]:
    """Sums of all earlier (later) increments (N, G, d, e), `carry` (N, d, e) included, and the carry to go on with."""
    n, blocks = increments.shape[:2]
    earlier = increments.new_ones(blocks, blocks).triu(1) if reverse else increments.new_ones(blocks, blocks).tril(-1)
    flat = increments.flatten(2)
    sums = torch.baddbmm(carry.view(n, 1, -1), earlier.expand(n, -1, -1), flat).view_as(increments)
    last = 0 if reverse else -1
    return sums, sums[:, last] + increments[:, last]


class _Segment(NamedTuple):
    """What forward and backward both need of one segment."""

    q: Tensor  # (N·G, c, d)
    keys: Tensor | None  # (N·G, columns, d)
    values: Tensor  # (N·G, columns, e)
    scores: Tensor  # (N·G, c, columns)
    states: Tensor | None  # (N·G, d, e)
    carry: Tensor | None


def _segment(
    q: Tensor, k: Tensor | None, values: Tensor, rel: Tensor | None, far: Tensor | None, g: Geometry,
    first: int, carry: Tensor | None,
) -> _Segment:  # fmt: skip
    """Scores and states of the blocks from `first` on."""
    n, blocks, start = len(q), min(g.segment, g.blocks - first), first * BLOCK
    queries = _rows(q, start, start + blocks * BLOCK).reshape(n * blocks, BLOCK, -1)
    value_rows = _windows(values, start, g, blocks, None if far is None else far[:, first : first + blocks])
    if rel is not None:
        seen = rel if not g.causal else rel[:, : g.horizon + 1]
        weights = torch.bmm(queries.view(n, blocks * BLOCK, -1), seen.mT).view(n * blocks, BLOCK, -1)
        before, after = _masks(g, q)
        scores = weights[..., :1] * before  # (N·G, c, columns)
        if not g.causal:
            scores.addcmul_(weights[..., -1:], after)
        _band(scores, g, weights.shape[-1]).copy_(weights)
    if k is None:
        return _Segment(queries, None, value_rows, scores, None, None)
    keys = _windows(k, start, g, blocks)
    products = torch.bmm(queries, keys.mT) if rel is None else scores.baddbmm_(queries, keys.mT)
    gone = slice(g.before, g.before + BLOCK)  # what is before the next block's window and not before this one's
    increments = torch.bmm(keys[:, gone].mT, value_rows[:, gone]).view(n, blocks, q.shape[2], -1)
    states, carry = _prefixes(increments, carry)
    return _Segment(queries, keys, value_rows, products.tril_(g.before + g.horizon), states.flatten(0, 1), carry)


class _Windowed(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor | None, values: Tensor, rel: Tensor | None, far: Tensor | None, g: Geometry
    ) -> Tensor:
        n, length = q.shape[:2]
        output = values.new_empty(n, length, values.shape[2])
        carry = values.new_zeros(n, q.shape[2], values.shape[2]) if k is not None else None
        carries = []
        for first in range(0, g.blocks, g.segment):
            carries.append(carry)
            s = _segment(q, k, values, rel, far, g, first, carry)
            carry = s.carry
            part = torch.bmm(s.scores, s.values)
            if s.states is not None:
                part.baddbmm_(s.q, s.states)
            part = part.view(n, -1, values.shape[2])
            output[:, first * BLOCK : first * BLOCK + part.shape[1]] = part[:, : length - first * BLOCK]
        ctx.geometry, ctx.carries = g, carries
        ctx.save_for_backward(q, k, values, rel, far)
        return output

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        q, k, values, rel, far = ctx.saved_tensors
        g = ctx.geometry
        n, length = q.shape[:2]
        d_q, d_values = torch.empty_like(q), torch.zeros_like(values)
        d_k, d_rel, d_far = (None if x is None else torch.zeros_like(x) for x in (k, rel, far))
        d_carry = None if k is None else torch.zeros_like(ctx.carries[0])
        for index in reversed(range(len(ctx.carries))):
            first = index * g.segment
            start = first * BLOCK
            s = _segment(q, k, values, rel, far, g, first, ctx.carries[index])
            blocks = len(s.q) // n
            d_out = _rows(grad, start, start + blocks * BLOCK).reshape(n * blocks, BLOCK, -1)
            d_scores = torch.bmm(d_out, s.values.mT)
            d_value_rows = torch.bmm(s.scores.mT, d_out)
            d_queries = torch.zeros_like(s.q)
            if k is not None:
                d_scores.tril_(g.before + g.horizon)
                d_queries.baddbmm_(d_out, s.states.mT).baddbmm_(d_scores, s.keys)
                d_keys = torch.bmm(d_scores.mT, s.q)
                increments = torch.bmm(s.q.mT, d_out).view(n, blocks, q.shape[2], -1)
                d_states, d_carry = _prefixes(increments, d_carry, reverse=True)
                gone = slice(g.before, g.before + BLOCK)
                d_keys[:, gone].baddbmm_(s.values[:, gone], d_states.flatten(0, 1).mT)
                d_value_rows[:, gone].baddbmm_(s.keys[:, gone], d_states.flatten(0, 1))
                _add_windows(d_k, d_keys, start, g)
            _add_windows(d_values, d_value_rows, start, g)
            if rel is not None:
                seen = g.horizon + 1 if g.causal else rel.shape[1]
                before, after = _masks(g, q)
                d_weights = _band(d_scores, g, seen).clone()  # (N·G, c, 2r+1)
                d_weights[..., 0] += (d_scores * before).sum(2)
                if not g.causal:
                    d_weights[..., -1] += (d_scores * after).sum(2)
                d_weights = d_weights.view(n, blocks * BLOCK, seen)
                d_queries.view(n, blocks * BLOCK, -1).baddbmm_(d_weights, rel[:, :seen])
                d_rel[:, :seen].baddbmm_(d_weights.mT, s.q.view(n, blocks * BLOCK, -1))
                d_far[:, first : first + blocks] = _far_rows(d_value_rows.view(n, blocks, g.columns, -1), g)
            d_q[:, start : start + blocks * BLOCK] = d_queries.view(n, blocks * BLOCK, -1)[:, : length - start]
        return d_q, d_k, d_values, d_rel, d_far, None


def _far_rows(windows: Tensor, g: Geometry) -> Tensor:
    return windows[:, :, :1] if g.causal else windows[:, :, :: g.columns - 1]
