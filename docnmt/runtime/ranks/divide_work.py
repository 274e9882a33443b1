"""Division of work among processes so that they wait little for each other."""

from __future__ import annotations

import heapq
from collections.abc import Sequence


def deal(costs: Sequence[int], ranks: int) -> list[list[int]]:
    """Divide work among processes so that they wait little: the costliest piece first, each to the least loaded rank.

    Args:
        costs: (N,) cost of each piece.

    Returns:
        For each rank the numbers of its pieces, ascending; none if there are fewer pieces than ranks.
    """
    loads = [(0, rank) for rank in range(ranks)]
    hands: list[list[int]] = [[] for _ in range(ranks)]
    for piece in sorted(range(len(costs)), key=lambda number: -costs[number]):  # stable: equal ones in order
        load, rank = heapq.heappop(loads)
        hands[rank].append(piece)
        heapq.heappush(loads, (load + int(costs[piece]), rank))
    return [sorted(hand) for hand in hands]
