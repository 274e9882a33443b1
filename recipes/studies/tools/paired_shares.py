"""Two systems on the same questions: how unevenly they solve them."""

from __future__ import annotations

import math


def score_interval(gained: int, lost: int, questions: int, *, z: float = 1.959964) -> tuple[float, float]:
    """Tango's score interval (1998) of p₁ − p₂, two shares of the same questions: 95 % unless `z` says otherwise.

    `gained` questions only the first solves, `lost` only the second. The interval holds every difference that a score
    test does not refuse, with the variance that this difference would have, so it is never of no width, as Wald's is
    where no question changes, and keeps about 95 % where few do.
    """
    lower = _edge(gained, lost, questions, z)
    return lower, -_edge(lost, gained, questions, z)


def _edge(gained: int, lost: int, questions: int, z: float) -> float:
    """The smallest difference that is not refused as too small, by bisection."""
    low, high = -1.0, (gained - lost) / questions
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _score(middle, gained, lost, questions) > z else (low, middle)
    return high


def _score(difference: float, gained: int, lost: int, questions: int) -> float:
    """How many deviations the counts are above what a true difference of `difference` (above −1) would give."""
    b = (2 * questions - gained + lost) * difference - gained - lost
    c = -lost * difference * (1 - difference)
    share = (math.sqrt(max(b * b - 8 * questions * c, 0.0)) - b) / (4 * questions)  # most likely share of `lost`
    variance = questions * (2 * share + difference * (1 - difference))
    above = gained - lost - questions * difference
    return above / math.sqrt(variance) if variance > 1e-12 else (math.inf if above > 1e-12 else 0.0)


def mcnemar(gained: int, lost: int) -> float:
    """Two-sided exact p of so uneven a split of the questions that changed, were either side as likely."""
    changed = gained + lost
    tail = sum(math.comb(changed, k) for k in range(min(gained, lost) + 1))
    return min(1.0, 2 * tail / 2**changed)
