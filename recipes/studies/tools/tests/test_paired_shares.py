"""The score interval of paired shares against its definition, McNemar's z and all outcomes of few questions."""

from __future__ import annotations

import itertools
import math
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
paired_shares = pytest.importorskip("paired_shares")


@pytest.mark.parametrize(
    ("gained", "lost", "questions"), [(6, 1, 10), (0, 0, 20), (3, 0, 20), (40, 25, 300), (20, 0, 20)]
)
def test_interval_holds_the_share_and_turns_with_the_sides(gained: int, lost: int, questions: int) -> None:
    low, high = paired_shares.score_interval(gained, lost, questions)
    assert -1 <= low <= (gained - lost) / questions <= high <= 1
    assert high - low > 0.02, "never of no width"
    assert paired_shares.score_interval(lost, gained, questions) == pytest.approx((-high, -low))


@pytest.mark.parametrize(("gained", "lost"), [(9, 2), (10, 2), (11, 3), (12, 3), (20, 10), (20, 9)])
def test_zero_is_inside_where_mcnemars_z_is_small(gained: int, lost: int) -> None:
    """At no difference the score test is McNemar's: z = (b − c) / √(b + c), whatever the other questions."""
    low, _ = paired_shares.score_interval(gained, lost, 100)
    assert (low < 0) == ((gained - lost) / math.sqrt(gained + lost) < 1.959964)


@pytest.mark.parametrize(("share", "walds"), [(0.01, 0.85), (0.03, 1.0)])
def test_it_covers_where_few_answers_change(share: float, walds: float) -> None:
    """All outcomes of 60 questions, with their probability; where fewer change, Wald's holds the truth less often."""
    questions, shares = 60, (2 * share, share)
    score = wald = 0.0
    for gained, lost in itertools.product(range(25), repeat=2):
        rest = questions - gained - lost
        chance = math.comb(questions, gained) * math.comb(questions - gained, lost)
        chance *= shares[0] ** gained * shares[1] ** lost * (1 - sum(shares)) ** rest
        low, high = paired_shares.score_interval(gained, lost, questions)
        score += chance * (low <= share <= high)
        margin = 1.96 * math.sqrt(gained + lost - (gained - lost) ** 2 / questions)
        wald += chance * (abs(gained - lost - share * questions) <= margin)
    assert score > 0.93
    assert wald < walds


def test_even_splits_say_nothing() -> None:
    assert paired_shares.mcnemar(0, 0) == paired_shares.mcnemar(5, 5) == 1.0
    assert paired_shares.mcnemar(6, 1) == pytest.approx(0.125)
