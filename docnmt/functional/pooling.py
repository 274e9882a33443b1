"""One vector for each span of a packed row: the largest or the mean of its tokens, feature by feature."""

from __future__ import annotations

from torch import Tensor

from docnmt.layout import Spans


def span_max(values: Tensor, spans: Spans) -> Tensor:
    """values (T, d) → (number of spans, d), the largest value of each feature; 0 for a span without tokens."""
    index = spans.span_of_token[:, None].expand_as(values)
    pooled = values.new_zeros(len(spans), values.shape[1])
    return pooled.scatter_reduce(0, index, values, "amax", include_self=False)


def span_sum(values: Tensor, spans: Spans) -> Tensor:
    """values (T, d) → (number of spans, d), the sum of each feature."""
    return values.new_zeros(len(spans), values.shape[1]).index_add(0, spans.span_of_token, values)


def span_mean(values: Tensor, spans: Spans) -> Tensor:
    """values (T, d) → (number of spans, d), the mean of each feature; 0 for a span without tokens."""
    return span_sum(values, spans) / spans.offsets.diff().clamp(min=1)[:, None].to(values.dtype)
