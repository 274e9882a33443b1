"""The part of Scaleformer's attention that depends on order, in blocks: masked kernelised attention, relative terms.

Queries are cut into blocks. The keys around a block, at most r beyond it on either side, are its *window*: their scores
form one small matrix. Keys before the window act through a state, the sum of (φ(k) + φ(rel[0])) vᵀ, or
without keys through the sum of their values alone; keys after it through the sum of theirs. Segments of some blocks are
handled one after the other, so that what is intermediate stays in the cache; the backward pass keeps the states only
and computes the rest again.

Shape letters: N batch × heads, G blocks of a segment, c block, d width of queries, e width of values, r horizon.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from docnmt.functional import costs
from docnmt.functional.autograd import PassContext
from docnmt.functional.linear_windows import Geometry, add_windows, band_of, far_sums, outside_band, rows_at, windows_of


def windowed_attention(q: Tensor, k: Tensor | None, values: Tensor, rel: Tensor | None, *, causal: bool) -> Tensor:
    """Σ_j s_ij values_j with s_ij = q_i·k_j (causal only) + q_i·rel[r + clip(j − i, −r, r)], in linear time.

    Args:
        q: (N, Lq, d). k: (N, Lk, d) or None. Both after the feature map.
        values: (N, Lk, e). rel: (N, 2r+1, d), after the feature map, or None. `k` or `rel` must be given.
        causal: keys j ≤ i only. Without it `k` must be None: the keys' part is then a plain product.

    Returns:
        (N, Lq, e)
    """
    horizon = 0 if rel is None else rel.shape[1] // 2
    segment = max(1, costs.LINEAR_SEGMENT // max(1, len(q)))
    geometry = Geometry(costs.LINEAR_BLOCK, horizon, causal, k is None, -(-q.shape[1] // costs.LINEAR_BLOCK), segment)
    far = far_sums(values, geometry) if geometry.sums else None
    output: Tensor = _Windowed.apply(q, k, values, rel, far, geometry)  # type: ignore[no-untyped-call]
    return output


def _prefixes(increments: Tensor, carry: Tensor, *, reverse: bool = False) -> tuple[Tensor, Tensor]:
    """Return `carry` (N, d, e) + the earlier (later) increments (N, G, d, e) of each block, and the new carry."""
    blocks = increments.shape[1]
    ones = increments.new_ones(blocks, blocks)
    earlier = ones.triu(1) if reverse else ones.tril(-1)
    sums = torch.baddbmm(carry.flatten(1)[:, None], earlier.expand(len(carry), -1, -1), increments.flatten(2))
    last = 0 if reverse else -1
    sums = sums.view_as(increments)
    return sums.flatten(0, 1), sums[:, last] + increments[:, last]


class _Inputs(NamedTuple):
    q: Tensor
    k: Tensor | None
    values: Tensor
    rel: Tensor | None
    far: Tensor | None


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


def _segment(x: _Inputs, g: Geometry, first: int, outside: tuple[Tensor, Tensor]) -> _Segment:
    """Return the rows and scores of the segment that begins with block `first`."""
    n, blocks, begin = len(x.q), min(g.segment, g.blocks - first), first * g.block
    q = rows_at(x.q, begin, blocks * g.block).reshape(n * blocks, g.block, -1)
    values = windows_of(x.values, begin, blocks, g, None if x.far is None else x.far[:, first : first + blocks])
    past = None
    if x.k is None:
        scores = q.new_zeros(n * blocks, g.block, g.columns)
    else:
        keys = windows_of(x.k, begin, blocks, g)
        left, left_values = (rows_at(rows, begin - g.horizon, blocks * g.block) for rows in (x.k, x.values))
        left = left if x.rel is None else left + x.rel[:, :1]
        past = _Past(keys, *(rows.reshape(n * blocks, g.block, -1) for rows in (left, left_values)))
        scores = torch.bmm(q, keys.mT)
    if x.rel is not None:
        _add_relative_scores(scores, q, x.rel, g, outside)
    return _Segment(q, values, scores.tril_(g.horizon) if past is not None else scores, past)


def _add_relative_scores(scores: Tensor, q: Tensor, rel: Tensor, g: Geometry, outside: tuple[Tensor, Tensor]) -> None:
    """scores (N·G, c, columns) += q_i·rel[r + clip(j − i, −r, r)], nothing for the future when causal."""
    seen = rel[:, : g.horizon + 1] if g.causal else rel
    weights = torch.bmm(q.view(len(rel), -1, q.shape[2]), seen.mT).view(*q.shape[:2], -1)
    before, after = outside
    scores.addcmul_(weights[..., :1], before)
    if not g.causal:
        scores.addcmul_(weights[..., -1:], after)
    band_of(scores, g, weights.shape[2]).add_(weights)


def _relative_gradients(
    d_scores: Tensor, q: Tensor, rel: Tensor, g: Geometry, outside: tuple[Tensor, Tensor], d_q: Tensor, d_rel: Tensor
) -> None:
    """The adjoint of `_add_relative_scores`: adds to d_q (N·G, c, d) and d_rel (N, 2r+1, d)."""
    n, seen = len(rel), g.horizon + 1 if g.causal else rel.shape[1]
    before, after = outside
    d_weights = band_of(d_scores, g, seen).clone()
    d_weights[..., 0] += (d_scores * before).sum(2)
    if not g.causal:
        d_weights[..., -1] += (d_scores * after).sum(2)
    d_weights = d_weights.view(n, -1, seen)
    d_rel[:, :seen].baddbmm_(d_weights.mT, q.view(n, -1, rel.shape[2]))
    d_q.view(n, -1, rel.shape[2]).baddbmm_(d_weights, rel[:, :seen])


class _Context(PassContext, Protocol):
    """The context that the forward and backward pass of `_Windowed` share."""

    geometry: Geometry


class _Windowed(torch.autograd.Function):
    """Autograd function that saves its inputs and the state before each block; the rest is recomputed in backward."""

    @staticmethod
    def forward(
        ctx: _Context, q: Tensor, k: Tensor | None, values: Tensor, rel: Tensor | None, far: Tensor | None, g: Geometry
    ) -> Tensor:
        """Mixed values (N, Lq, e), segment by segment; the state is carried along."""
        x, outside = _Inputs(q, k, values, rel, far), outside_band(g, q)
        output = values.new_empty(*q.shape[:2], values.shape[2])
        state, kept = values.new_zeros(len(q), q.shape[2], values.shape[2]), []
        for first in range(0, g.blocks, g.segment):
            s = _segment(x, g, first, outside)
            mixed = torch.bmm(s.scores, s.values)
            if s.past is not None:
                increments = torch.bmm(s.past.left.mT, s.past.left_values).view(len(q), -1, *state.shape[1:])
                states, state = _prefixes(increments, state)
                mixed.baddbmm_(s.q, states)
                kept.append(states)
            rows = output[:, first * g.block : (first + g.segment) * g.block]
            rows.copy_(mixed.view(len(q), -1, values.shape[2])[:, : rows.shape[1]])
        ctx.geometry = g
        ctx.save_for_backward(q, k, values, rel, far, *kept)
        return output

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: _Context, grad: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients of all tensors, the last segment first."""
        q, k, values, rel, far, *kept = ctx.saved_tensors
        x, g = _Inputs(q, k, values, rel, far), ctx.geometry
        gradients, outside = _Gradients.zeros(x, g), outside_band(g, q)
        with torch.autocast(q.device.type, enabled=False):
            for first in reversed(range(0, g.blocks, g.segment)):
                states = kept[first // g.segment] if kept else None
                gradients.add(x, g, first, outside, states, grad)
        return (*gradients.finished(x, g), None)


@dataclass
class _Gradients:
    """Gradients of the inputs, to which segments add theirs, the last one first.

    Rows of keys and values begin r before the first key here, so that every window lies inside.
    """

    q: Tensor
    k: Tensor
    values: Tensor
    rel: Tensor | None
    far: Tensor | None
    state: Tensor  # of the state that the segment added last begins with

    @classmethod
    def zeros(cls, x: _Inputs, g: Geometry) -> _Gradients:
        """Gradients before the first segment is added."""
        n, width = len(x.q), x.q.shape[2]
        rows = max(g.horizon + x.values.shape[1], (g.blocks - 1) * g.block + -(-g.window // g.block) * g.block)
        return cls(
            torch.empty_like(x.q),
            x.q.new_zeros(n, 0 if x.k is None else rows, width),
            x.values.new_zeros(n, rows, x.values.shape[2]),
            None if x.rel is None else torch.zeros_like(x.rel),
            None if x.far is None else torch.zeros_like(x.far),
            x.q.new_zeros(n, width, x.values.shape[2]),
        )

    def add(
        self, x: _Inputs, g: Geometry, first: int, outside: tuple[Tensor, Tensor], states: Tensor | None, grad: Tensor
    ) -> None:
        """Add the gradients of the segment that begins with block `first`; `states` are those before each block."""
        s = _segment(x, g, first, outside)
        n, blocks, begin = len(x.q), len(s.q) // len(x.q), first * g.block
        d_mixed = rows_at(grad, begin, blocks * g.block).reshape(n * blocks, g.block, -1)
        d_scores = torch.bmm(d_mixed, s.values.mT)
        d_windows = torch.bmm(s.scores.mT, d_mixed)
        add_windows(self.values, d_windows, begin, g)
        if self.far is not None:
            sums = d_windows.view(n, blocks, g.columns, -1)
            self.far[:, first : first + blocks] = sums[:, :, :1] if g.causal else sums[:, :, :: g.columns - 1]
        d_q = torch.zeros_like(s.q)
        if s.past is not None and states is not None:
            d_q.baddbmm_(d_scores.tril_(g.horizon), s.past.keys).baddbmm_(d_mixed, states.mT)
            add_windows(self.k, torch.bmm(d_scores.mT, s.q), begin, g)
            self._add_states(s.past, torch.bmm(s.q.mT, d_mixed), begin, g)
        if x.rel is not None and self.rel is not None:
            _relative_gradients(d_scores, s.q, x.rel, g, outside, d_q, self.rel)
        rows = self.q[:, begin : begin + blocks * g.block]
        rows.copy_(d_q.view(n, blocks * g.block, -1)[:, : rows.shape[1]])

    def _add_states(self, past: _Past, increments: Tensor, begin: int, g: Geometry) -> None:
        """Add the gradients through the states; `increments` (N·G, d, e) are the blocks' parts of their gradient."""
        n = len(self.q)
        increments = increments.view(n, -1, *self.state.shape[1:])
        d_states, self.state = _prefixes(increments, self.state, reverse=True)
        d_left = torch.bmm(past.left_values, d_states.mT).view(n, -1, self.q.shape[2])
        rows = slice(begin, begin + d_left.shape[1])
        self.k[:, rows] += d_left
        self.values[:, rows] += torch.bmm(past.left, d_states).view(n, d_left.shape[1], -1)
        if self.rel is not None:
            self.rel[:, 0] += d_left.sum(1)

    def finished(self, x: _Inputs, g: Geometry) -> tuple[Tensor | None, ...]:
        """The gradients in the shapes of the inputs."""
        keys = slice(g.horizon, g.horizon + x.values.shape[1])
        return self.q, None if x.k is None else self.k[:, keys], self.values[:, keys], self.rel, self.far
