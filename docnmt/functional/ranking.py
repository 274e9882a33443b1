"""The best children of kept nodes for very many queries at once, each child with the place that names it.

A float32 score and a place are packed into one integer that orders as the two do: by score, equal scores by lowest
place. Sorting is then minima and maxima of whole rows, without a branch and without a look-up: a sorting network.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import torch
from torch import Tensor

#: Lower half of a packed integer: the place, counted from here down.
_LAST_PLACE = (1 << 32) - 1
_MAGNITUDE = (1 << 31) - 1  # the bits of a float32 without its sign


def best_children(scores: Tensor, parents: Tensor, t: int) -> Tensor:
    """Return the places of the t best children of T parents; of equal scores the lowest place is better.

    The children of place p have the places 2p and 2p + 1.

    Args:
        scores: (T, Q, 2) contiguous, of Q queries, T a power of two; no NaN. Overwritten.
        parents: (T, Q) int64 from 0 on, all different for one query where a child's score is not -inf.
        t: at most T.

    Returns:
        (t, Q) places in any order.
    """
    if scores.dtype != torch.float32:
        return _best_by_sorting(scores, parents, t)[1]
    return _places(torch.stack(_best(scores, parents, ordered=t < len(parents))[:t]))


def ranked_children(scores: Tensor, parents: Tensor, t: int) -> tuple[Tensor, Tensor]:
    """Return the scores and places of the t best children, (t, Q) each, best first. See `best_children`."""
    if scores.dtype != torch.float32:
        return _best_by_sorting(scores, parents, t)
    packed = torch.stack(_best(scores, parents, ordered=True)[:t])
    bits = (packed >> 32).to(torch.int32)
    bits.bitwise_xor_((bits >> 31).bitwise_and_(_MAGNITUDE))
    return bits.view(torch.float32), _places(packed)


def _best(scores: Tensor, parents: Tensor, *, ordered: bool) -> list[Tensor]:
    """T rows of packed children; largest first if they are to be ordered."""
    rows = list(_pack(scores, parents))  # T of (2, Q): left and right children, sorted apart
    _exchange(rows, *_sorting(len(rows)))
    best = [torch.maximum(left[0], right[1]) for left, right in zip(rows, reversed(rows), strict=True)]
    if ordered:
        _exchange(best, *_merging(len(rows)))
    return best


def _pack(scores: Tensor, parents: Tensor) -> Tensor:
    """→ (T, 2, Q) int64."""
    # IEEE 754 numbers order as integers of sign and magnitude do; adding 0 makes -0 the same as 0
    bits = scores.add_(0.0).view(torch.int32)
    bits.bitwise_xor_((bits >> 31).bitwise_and_(_MAGNITUDE))
    packed = parents.new_empty(len(scores), 2, scores.shape[1])
    packed.copy_(bits.transpose(1, 2)).bitwise_left_shift_(32)
    left = torch.rsub(parents, _LAST_PLACE, alpha=2)
    packed[:, 0] += left
    packed[:, 1] += left.sub_(1)
    return packed


def _places(packed: Tensor) -> Tensor:
    return _LAST_PLACE - packed.bitwise_and(_LAST_PLACE)


def _exchange(rows: list[Tensor], *comparators: tuple[int, int]) -> None:
    """Put the elementwise maximum of each pair of rows (i, j) at i and the minimum at j."""
    for i, j in comparators:
        rows[i], rows[j] = torch.maximum(rows[i], rows[j]), torch.minimum(rows[i], rows[j])


@lru_cache
def _sorting(n: int) -> tuple[tuple[int, int], ...]:
    """Batcher's odd-even merge sort of n rows, a power of two."""

    def _merge(first: int, size: int, step: int) -> Iterator[tuple[int, int]]:
        if 2 * step < size:
            yield from _merge(first, size, 2 * step)
            yield from _merge(first + step, size, 2 * step)
            yield from ((i, i + step) for i in range(first + step, first + size - step, 2 * step))
        else:
            yield first, first + step

    def _sort(first: int, size: int) -> Iterator[tuple[int, int]]:
        if size > 1:
            yield from _sort(first, size // 2)
            yield from _sort(first + size // 2, size // 2)
            yield from _merge(first, size, 1)

    return tuple(_sort(0, n))


@lru_cache
def _merging(n: int) -> tuple[tuple[int, int], ...]:
    """Return the comparators that sort n rows which first fall and then rise, or the reverse (a bitonic merge)."""
    halves = [1 << bit for bit in reversed(range(n.bit_length() - 1))]
    return tuple((i, i + half) for half in halves for i in range(n) if not i & half)


def _best_by_sorting(scores: Tensor, parents: Tensor, t: int) -> tuple[Tensor, Tensor]:
    """Return scores and places by ordinary sorting: for float64, which leaves no bits for a place."""
    places = torch.stack([2 * parents, 2 * parents + 1], 1).flatten(0, 1)  # (2T, Q)
    places, order = places.sort(0)
    scores = scores.transpose(1, 2).flatten(0, 1).gather(0, order)
    scores, best = scores.sort(dim=0, descending=True, stable=True)
    return scores[:t], places.gather(0, best[:t])
