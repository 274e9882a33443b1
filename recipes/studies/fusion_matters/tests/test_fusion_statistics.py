"""The study's statistics against scipy, brute force and simulation."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

stats = pytest.importorskip("scipy.stats")
sys.path.insert(0, str(Path(__file__).parents[1]))
paired = pytest.importorskip("paired")
power = pytest.importorskip("power")
two_way = pytest.importorskip("two_way")

RNG = np.random.default_rng(1)


@pytest.mark.parametrize("n", [2, 5, 10])
def test_t_and_permutation_against_scipy(n: int) -> None:
    a, b = RNG.normal(size=n), RNG.normal(size=n)
    result = paired.compare(a, b)
    assert result.t_p == pytest.approx(stats.ttest_rel(a, b).pvalue)
    theirs = stats.permutation_test((a - b,), np.mean, permutation_type="samples", n_resamples=np.inf)
    assert result.permutation_p == pytest.approx(theirs.pvalue)
    assert result.interval == pytest.approx(stats.ttest_1samp(a - b, 0).confidence_interval(0.95))


def test_five_pairs_cannot_reach_five_percent() -> None:
    """The smallest two-sided exact p of five pairs is 2/32: what the paper's five seeds can show at best."""
    assert paired.permutation_p(np.array([1.0, 2, 3, 4, 5])) == pytest.approx(2 / 32)
    assert paired.permutation_p(np.arange(1.0, 11)) == pytest.approx(2 / 1024)


def test_random_signs_agree_with_all_signs() -> None:
    differences = RNG.normal(0.3, 1, size=12)
    sampled = paired.permutation_p(differences, exact_up_to=0)
    assert sampled == pytest.approx(paired.permutation_p(differences), abs=0.01)


@pytest.mark.parametrize(("n", "sd"), [(2, 1.0), (3, 1.0), (5, 3.2), (10, 1.0)])
def test_detectable_effect_is_found_four_times_of_five(n: int, sd: float) -> None:
    effect = power.detectable_effect(n, sd)
    draws = np.random.default_rng(0).normal(effect, sd, size=(20_000, n))
    assert (stats.ttest_1samp(draws, 0, axis=1).pvalue < 0.05).mean() == pytest.approx(0.8, abs=0.01)


def test_power_of_two_differences_where_scipys_noncentral_t_is_nan() -> None:
    """A t-test of two differences finds 62 % at 8 sd; statsmodels has 11.55 for 80 %."""
    assert power.detectable_effect(2, 1.0) == pytest.approx(11.55, abs=0.02)
    assert power.t_test_power(2, 8.0) == pytest.approx(0.62, abs=0.01)
    assert power.t_test_power(5, 0.0) == pytest.approx(0.05, abs=1e-5), "the level, where there is no difference"
    critical = stats.t.isf(0.025, 9)
    theirs = stats.nct.sf(critical, 9, 10**0.5) + stats.nct.cdf(-critical, 9, 10**0.5)
    assert power.t_test_power(10, 1.0) == pytest.approx(theirs, abs=1e-6)
    assert np.isnan(power.t_test_power(1, 1.0))


def test_t_intervals_of_skewed_differences_are_too_narrow() -> None:
    """What the report says of exponential differences: 88 % for 3 and 5 pairs, 90 % for 10."""
    rng = np.random.default_rng(0)
    for n, held in ((3, 0.88), (5, 0.88), (10, 0.90)):
        draws = rng.exponential(size=(20_000, n)) - 1
        half = stats.t.isf(0.025, n - 1) * draws.std(1, ddof=1) / n**0.5
        assert (abs(draws.mean(1)) <= half).mean() == pytest.approx(held, abs=0.01)


@pytest.mark.parametrize(("of_seed", "of_item", "of_rest"), [(1.0, 0.0, 3.0), (0.0, 3.0, 3.0), (0.7, 2.0, 3.0)])
def test_two_way_intervals_hold_the_mean(of_seed: float, of_item: float, of_rest: float) -> None:
    """Of other seeds and other items, drawn anew: whichever of both the differences vary with."""
    rng = np.random.default_rng(0)
    seeds, items, held = 5, 60, 0
    for _ in range(1_500):
        effects = of_seed * rng.normal(size=(seeds, 1)) + of_item * rng.normal(size=(1, items))
        (low, high), p = two_way.two_way(2 + effects + of_rest * rng.normal(size=(seeds, items)))
        assert (p < 0.05) == (not low <= 0 <= high)
        held += low <= 2 <= high
    assert 0.93 <= held / 1_500 <= 0.99


def test_two_way_intervals_are_about_as_wide_as_the_wider_of_both() -> None:
    """Where seeds and items add nothing the estimated variance may be near 0, and its degrees of freedom, too."""
    rng = np.random.default_rng(0)
    for _ in range(300):
        differences = rng.normal(size=(5, 33))
        low, high = two_way.two_way(differences).interval
        alone = [stats.ttest_1samp(differences.mean(axis), 0).confidence_interval(0.95) for axis in (0, 1)]
        widest = max(interval.high - interval.low for interval in alone)
        assert widest <= (high - low) * (1 + 1e-9) <= 1.5 * widest


def test_two_way_intervals_of_no_spread_and_of_one_seed() -> None:
    one, same = two_way.two_way(np.ones((1, 5))), two_way.two_way(np.ones((3, 5)))
    assert np.isnan([*one.interval, one.p, same.p]).all()
    assert same.interval == (1, 1)
    by_seed = np.array([[1.0], [2.0], [4.0]]) + np.zeros((3, 50))
    expected = stats.ttest_1samp([1.0, 2, 4], 0)
    estimate = two_way.two_way(by_seed)
    assert estimate.interval == pytest.approx(tuple(expected.confidence_interval(0.95))), (
        "seeds alone: Student's t over them"
    )
    assert estimate.p == pytest.approx(expected.pvalue)


def test_papers_five_seeds_on_arxiv() -> None:
    assert power.detectable_effect(5, 3.2) == pytest.approx(5.4, abs=0.2)


def test_no_difference_and_one_pair() -> None:
    """What cannot be known is said to be unknown, not to be 0 or certain."""
    same = paired.compare(np.ones(4), np.ones(4))
    assert (same.mean, same.sd, same.permutation_p, same.positive) == (0, 0, 1, 0)
    assert np.isnan(same.t_p)
    one = paired.compare(np.array([2.0]), np.array([1.0]))
    assert (one.mean, one.permutation_p) == (1, 1)
    assert np.isnan([one.sd, one.t_p, *one.interval, power.detectable_effect(1, 1.0)]).all()
    with pytest.raises(ValueError, match="one length"):
        paired.compare(np.ones(3), np.ones(4))


def test_holm() -> None:
    assert paired.holm(np.array([0.01, 0.04, 0.03])).tolist() == pytest.approx([0.03, 0.06, 0.06])
    assert paired.holm(np.array([0.01, np.nan, 0.04])).tolist() == pytest.approx([0.02, np.nan, 0.04], nan_ok=True)
