"""What kernels of attention share: blocks of rows of one head, and the softmax in one pass over blocks of keys."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

#: Kernels compute exponentials to the base of 2: exp(x) = 2^(x · LOG2E).
LOG2E = tl.constexpr(1.4426950408889634)


def strides(*tensors: Tensor) -> list[int]:
    """Of rows and of heads, for each tensor (rows, h, d)."""
    return [stride for x in tensors for stride in x.stride()[:2]]


@triton.jit
def rows_of(x, rows, live, head, row_stride, head_stride, D: tl.constexpr):
    """(rows, D) of one head; 0 for rows that are not there."""
    at = x + rows.to(tl.int64)[:, None] * row_stride + head * head_stride + tl.arange(0, D)[None, :]
    return tl.load(at, mask=live[:, None], other=0.0)


@triton.jit
def softmax_step(scores, seen, values, largest, total, mixed):
    """The softmax goes on by a block of keys (Dao 2023, FlashAttention-2, algorithm 1).

    scores, to the base of 2, and seen: (queries, keys). largest score so far, total of weights: (queries,). mixed:
    (queries, D), the sum of the values times weights.
    """
    scores = tl.where(seen, scores, -1e30)
    now = tl.maximum(largest, tl.max(scores, 1))
    weights = tl.where(seen, tl.exp2(scores - now[:, None]), 0.0)
    before = tl.exp2(largest - now)
    total = total * before + tl.sum(weights, 1)
    mixed = mixed * before[:, None] + tl.dot(weights.to(values.dtype), values, input_precision="ieee")
    return now, total, mixed
