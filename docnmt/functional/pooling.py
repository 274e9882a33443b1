"""One vector for each span of a packed row: the largest or the mean of its tokens, feature by feature."""

from __future__ import annotations

import torch
from torch import Tensor

from docnmt.layout import Spans


def span_max(values: Tensor, spans: Spans, rows: Tensor | None = None) -> Tensor:
    """The largest value of each feature in each span; 0 for a span without tokens.

    Of equal values the first is taken to be the largest: it alone gets the gradient.

    Args:
        values: (T, d), a row a token; or (R, d) with `rows`.
        rows: (T,), the row of each token, where tokens share rows.

    Returns:
        (number of spans, d).
    """
    if rows is None:
        rows = torch.arange(len(values), device=values.device)
    if not (values.requires_grad and torch.is_grad_enabled() and values.device.type == "cpu"):
        index = spans.span_of_token[:, None].expand(-1, values.shape[1])
        pooled = values.new_zeros(len(spans), values.shape[1])
        return pooled.scatter_reduce(0, index, values.index_select(0, rows), "amax", include_self=False)
    largest, chosen = _largest(values.detach(), rows, spans)
    read = values.gather(0, chosen).masked_fill(torch.from_numpy(spans.lengths == 0)[:, None], 0)
    return torch.where(largest.isnan(), largest, read)


def _largest(values: Tensor, rows: Tensor, spans: Spans) -> tuple[Tensor, Tensor]:
    """The largest value of each feature in each span, and the first row that has it: both (number of spans, d).

    Span by span, which stays in the cache: 4 times faster on CPU than `scatter_reduce` and its backward pass.
    """
    largest = values.new_zeros(len(spans), values.shape[1])
    chosen = torch.zeros(largest.shape, dtype=torch.int64)
    for span, own in enumerate(rows.split(spans.lengths.tolist())):
        if count := len(own):
            block = values.index_select(0, own)  # (L, d)
            largest[span] = block.amax(0)
            # what `block.max(0)` gives, 6 times faster on CPU: both of its passes are of the kind that is vectorised
            backwards = torch.arange(count, 0, -1, dtype=torch.uint8 if count < 256 else torch.int32)
            first = count - ((block == largest[span]) * backwards[:, None]).amax(0).to(torch.int64)
            chosen[span] = own.index_select(0, first.clamp(max=count - 1))  # a column with a NaN equals nothing
    return largest, chosen


def span_mean(values: Tensor, spans: Spans, rows: Tensor | None = None) -> Tensor:
    """The mean of each feature in each span; 0 for a span without tokens. Arguments as in `span_max`."""
    tokens = values if rows is None else values.index_select(0, rows)
    total = values.new_zeros(len(spans), values.shape[1]).index_add(0, spans.span_of_token, tokens)
    return total / spans.offsets.diff().clamp(min=1)[:, None].to(values.dtype)
