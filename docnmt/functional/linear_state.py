"""Scaleformer one position at a time: states of constant size for generation, without gradients."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from docnmt.functional import costs
from docnmt.functional.linear import feature_map, normalised, with_one
from docnmt.layout import Spans


@dataclass
class LinearState:
    """The state of causal linear attention after the positions so far, for R rows of any length.

    A step equals the same row of `linear_attention(..., causal=True)` and costs the same at every position.

    Attributes:
        sums: (R, h, d, dv + 1), Σ φ(k) [v, 1]ᵀ over all keys + Σ φ(rel_pos[0]) [v, 1]ᵀ over those beyond the horizon.
        recent: (R, h, r, dv + 1), the last r values [v, 1], oldest first; 0 where there was none yet.
    """

    sums: Tensor
    recent: Tensor

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
        value = with_one(v)
        features_q, arrived = feature_map(q)[:, :, None], feature_map(k)[..., None]  # (R, h, 1, d), (R, h, d, 1)
        if rel_pos is None:
            self.sums += arrived * value[:, :, None]
            return normalised(torch.matmul(features_q, self.sums)[:, :, 0]).to(v.dtype)
        rel = feature_map(rel_pos).expand(q.shape[1], -1, -1)  # (h, 2r+1, d)
        horizon = rel.shape[1] // 2
        window = torch.cat([self.recent, value[:, :, None]], dim=2)  # (R, h, r + 1, dv + 1)
        # the oldest value of the window is r positions back now: it joins the far past
        features = torch.cat([arrived, rel[:, 0, :, None].expand_as(arrived)], dim=3)  # (R, h, d, 2)
        self.sums += torch.matmul(features, torch.stack([value, window[:, :, 0]], dim=2))
        self.recent = window[:, :, 1:]
        near = torch.matmul(features_q, rel[:, 1 : horizon + 1].mT)  # (R, h, 1, r)
        mixed = torch.matmul(features_q, self.sums) + torch.matmul(near, self.recent)
        return normalised(mixed[:, :, 0]).to(v.dtype)

    def select(self, rows: Tensor) -> LinearState:
        """The state of the given rows, in that order; rows may repeat or vanish."""
        return LinearState(self.sums.index_select(0, rows), self.recent.index_select(0, rows))

    def append(self, other: LinearState) -> LinearState:
        """Return a state with the rows of both, those of `other` last."""
        return LinearState(torch.cat([self.sums, other.sums]), torch.cat([self.recent, other.recent]))


@dataclass
class LinearMemory:
    """Sums over the keys of packed spans (sources) for cross-attention; a query costs the same at every length.

    A step equals the same row of `packed_linear_attention(..., causal=False)`. Without relative positions only the
    totals are kept, and at horizon 0, with one embedding for all keys, one more sum a span. Otherwise the values are
    kept, to read those inside the horizon, and sums of all before and after every 8th of them, for the others.

    Attributes:
        spans: of the keys.
        totals: (S, h, d, dv + 1), Σ φ(k) [v, 1]ᵀ over the keys of each span.
        values: (Tk, h, dv + 1), [v, 1]; no row where no horizon needs them.
        first_block: (S,) int64, the first row of each span in `before` and `after`.
        before, after: (B, h, dv + 1), the values of a span before its position 8·b, and from there on.
    """

    spans: Spans
    totals: Tensor
    values: Tensor
    first_block: Tensor
    before: Tensor
    after: Tensor

    @classmethod
    def build(cls, k: Tensor, v: Tensor, spans: Spans, *, horizon: int | None = None) -> LinearMemory:
        """Return the memory of k (Tk, h, d), v (Tk, h, dv); `horizon` is r of the relative positions, None without."""
        values = with_one(v)
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
        return normalised(mixed[:, :, 0]).to(self.values.dtype)

    def _relative(self, weights: Tensor, span: Tensor, position: Tensor) -> Tensor:
        """Sum each row's span, weighted by distance from −r to r: weights (R, h, 1, 2r+1) → (R, h, 1, dv + 1)."""
        horizon, block = weights.shape[-1] // 2, self.first_block[span]
        if horizon == 0:
            return weights * self.after[block][:, :, None]
        begin, end = self.spans.offsets[span], self.spans.offsets[span + 1]
        length = end - begin
        width = costs.LINEAR_SUMS
        low = (position - horizon + 1).clamp_min(0).minimum(length) // width  # values before this block: row 0
        high = ((position + horizon).minimum(length) + width - 1) // width  # from this one on: row 2r
        place = low[:, None] * width + torch.arange(2 * (horizon + width) - 3, device=span.device)  # (R, W)
        inside = place < (high * width).minimum(length)[:, None]
        distance = (place - position[:, None]).clamp(-horizon, horizon) + horizon
        near = weights.gather(3, distance[:, None, None].expand(-1, weights.shape[1], -1, -1))  # (R, h, 1, W)
        near = near.masked_fill(~inside[:, None, None], 0)
        rows = (begin[:, None] + place).clamp(max=len(self.values) - 1)
        mixed = torch.matmul(near, self.values[rows].transpose(1, 2))
        mixed = mixed + weights[..., :1] * self.before[block + low][:, :, None]
        return mixed + weights[..., -1:] * self.after[block + high][:, :, None]


def _sums_outside(values: Tensor, spans: Spans, horizon: int | None) -> tuple[Tensor, Tensor, Tensor]:
    """Return `first_block`, `before` and `after` of a `LinearMemory`."""
    starts, lengths = spans.offsets[:-1], spans.offsets.diff()
    if horizon is None:
        return torch.zeros_like(starts), values[:0].clone(), values[:0].clone()
    block = costs.LINEAR_SUMS if horizon else max(1, spans.max_length)
    counts = lengths // block + 2  # the last one is empty
    first = counts.cumsum(0) - counts
    span = spans.span_of_token
    of_token = first[span] + (torch.arange(len(values), device=span.device) - starts[span]) // block
    sums = values.new_zeros(int(counts.sum()), *values.shape[1:]).index_add(0, of_token, values).double()
    until = sums.cumsum(0) - sums  # over all spans: exact enough for differences not to depend on the spans before
    own = torch.repeat_interleave(torch.arange(len(counts), device=span.device), counts)
    before, after = until - until[first[own]], until[(first + counts - 1)[own]] - until
    return first, before.to(values.dtype), after.to(values.dtype)
