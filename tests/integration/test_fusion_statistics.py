"""The study's statistics against scipy, brute force and simulation."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

stats = pytest.importorskip("scipy.stats")
sys.path.insert(0, str(Path(__file__).parents[2] / "tools" / "fusion_matters"))
paired = pytest.importorskip("paired")

RNG = np.random.default_rng(1)


@pytest.mark.parametrize("n", [2, 5, 10])
def test_t_and_permutation_against_scipy(n: int) -> None:
    a, b = RNG.normal(size=n), RNG.normal(size=n)
    result = paired.compare(a, b)
    assert result.t_p == pytest.approx(stats.ttest_rel(a, b).pvalue)
    theirs = stats.permutation_test((a - b,), np.mean, permutation_type="samples", n_resamples=np.inf)
    assert result.permutation_p == pytest.approx(theirs.pvalue)
    assert result.interval == pytest.approx(stats.ttest_1samp(a - b, 0).confidence_interval(0.95))
    assert result.bootstrap[0] <= result.mean <= result.bootstrap[1]


def test_five_pairs_cannot_reach_five_percent() -> None:
    """The smallest two-sided exact p of five pairs is 2/32: what the paper's five seeds can show at best."""
    assert paired.permutation_p(np.array([1.0, 2, 3, 4, 5])) == pytest.approx(2 / 32)
    assert paired.permutation_p(np.arange(1.0, 11)) == pytest.approx(2 / 1024)


def test_random_signs_agree_with_all_signs() -> None:
    differences = RNG.normal(0.3, 1, size=12)
    sampled = paired.permutation_p(differences, exact_up_to=0)
    assert sampled == pytest.approx(paired.permutation_p(differences), abs=0.01)


@pytest.mark.parametrize(("n", "sd"), [(5, 3.2), (10, 1.0)])
def test_detectable_effect_is_found_four_times_of_five(n: int, sd: float) -> None:
    effect = paired.detectable_effect(n, sd)
    draws = np.random.default_rng(0).normal(effect, sd, size=(20_000, n))
    assert (stats.ttest_1samp(draws, 0, axis=1).pvalue < 0.05).mean() == pytest.approx(0.8, abs=0.01)


def test_pooled_sd_is_of_comparisons_whose_sd_is_known() -> None:
    several = [paired.compare(RNG.normal(size=n), np.zeros(n)) for n in (1, 2, 3, 5)]
    three, five = several[2].sd, several[3].sd
    assert paired.pooled_sd(several) == pytest.approx(((2 * three**2 + 4 * five**2) / 6) ** 0.5)
    assert np.isnan(paired.pooled_sd(several[:2]))


def test_papers_five_seeds_on_arxiv() -> None:
    assert paired.detectable_effect(5, 3.2) == pytest.approx(5.4, abs=0.2)


def test_no_difference_and_one_pair() -> None:
    """What cannot be known is said to be unknown, not to be 0 or certain."""
    same = paired.compare(np.ones(4), np.ones(4))
    assert (same.mean, same.sd, same.permutation_p, same.positive) == (0, 0, 1, 0)
    assert np.isnan(same.t_p)
    one = paired.compare(np.array([2.0]), np.array([1.0]))
    assert (one.mean, one.permutation_p) == (1, 1)
    assert np.isnan([one.sd, one.t_p, *one.interval, *one.bootstrap, paired.detectable_effect(1, 1.0)]).all()
    with pytest.raises(ValueError, match="one length"):
        paired.compare(np.ones(3), np.ones(4))


def test_holm() -> None:
    assert paired.holm(np.array([0.01, 0.04, 0.03])).tolist() == pytest.approx([0.03, 0.06, 0.06])
