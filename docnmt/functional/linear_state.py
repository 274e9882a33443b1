"""Scaleformer one position at a time: states of constant size for generation, without gradients."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from docnmt.functional.linear import feature_map, normalised, with_one
from docnmt.layout import Spans


@dataclass
class LinearState:
    """What causal linear attention keeps of the positions so far, R rows of any age.

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
        """The next position of every row: q, k (R, h, d), v (R, h, dv) → (R, h, dv). Changes the state."""
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
        """The rows of both."""
        return LinearState(torch.cat([self.sums, other.sums]), torch.cat([self.recent, other.recent]))


@dataclass
class LinearMemory:
    """What cross-attention keeps of the keys of packed spans (sources), so that a query costs the same at every length.

    A step equals the same row of `packed_linear_attention(..., causal=False)`.

    Attributes:
        spans: of the rows of `values`.
        totals: (S, h, d, dv + 1), Σ φ(k) [v, 1]ᵀ over the keys of each span.
        values: (Tk + 1, h, dv + 1), [v, 1], and a row of 0 for every place outside of a span.
        cumulative: (Tk + 1, h, dv + 1) float64, sums of all values before each row: differences inside a span are exact
            enough not to depend on the spans before it.
    """

    spans: Spans
    totals: Tensor
    values: Tensor
    cumulative: Tensor

    @classmethod
    def build(cls, k: Tensor, v: Tensor, spans: Spans) -> LinearMemory:
        """k (Tk, h, d) and v (Tk, h, dv) of packed spans."""
        values = with_one(v)
        values = torch.cat([values, values.new_zeros(1, *values.shape[1:])])
        features = feature_map(k).transpose(0, 1)  # (h, Tk, d)
        totals = values.new_zeros(len(spans), *k.shape[1:], values.shape[2])
        for span, (begin, end) in enumerate(zip(spans.host[:-1], spans.host[1:], strict=True)):
            totals[span] = torch.matmul(features[:, begin:end].mT, values[begin:end].transpose(0, 1))
        cumulative = values.roll(1, 0).cumsum(0, dtype=torch.float64)  # the row of 0 first
        return cls(spans, totals, values, cumulative)

    def step(self, q: Tensor, span: Tensor, position: Tensor, rel_pos: Tensor | None = None) -> Tensor:
        """One query a row: q (R, h, d) at `position` (R,) of its own sequence, reading `span` (R,) → (R, h, dv)."""
        features = feature_map(q)[:, :, None]  # (R, h, 1, d)
        mixed = torch.matmul(features, self.totals.index_select(0, span))
        if rel_pos is not None:
            rel = feature_map(rel_pos).expand(q.shape[1], -1, -1)
            weights = torch.matmul(features, rel.mT)  # (R, h, 1, 2r+1)
            mixed = mixed + torch.matmul(weights, self._around(span, position, rel.shape[1] // 2))
        return normalised(mixed[:, :, 0]).to(self.values.dtype)

    def _around(self, span: Tensor, position: Tensor, horizon: int) -> Tensor:
        """(R, h, 2r+1, dv + 1): the values by distance from `position`; the first and last row are sums beyond it."""
        begin, end = self.spans.offsets[span], self.spans.offsets[span + 1]
        past = (begin + position - horizon + 1).clamp_min(begin).minimum(end)
        future = (begin + position + horizon).clamp_min(begin).minimum(end)
        if horizon == 0:  # one embedding for all keys
            return (self.cumulative[end] - self.cumulative[begin])[:, :, None].to(self.values.dtype)
        earlier = self.cumulative[past] - self.cumulative[begin]
        later = self.cumulative[end] - self.cumulative[future]
        rows = (begin + position)[:, None] + torch.arange(1 - horizon, horizon, device=span.device)  # (R, 2r-1)
        inside = (rows >= begin[:, None]) & (rows < end[:, None])
        near = self.values[rows.where(inside, len(self.values) - 1)]  # (R, 2r-1, h, dv + 1)
        ends = (earlier[:, :, None].to(near.dtype), near.transpose(1, 2), later[:, :, None].to(near.dtype))
        return torch.cat(ends, dim=2)
