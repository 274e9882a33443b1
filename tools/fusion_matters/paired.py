"""What paired runs can tell: mean ± sd, paired t, an exact permutation test, intervals, detectable effect."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from scipy import stats


@dataclass(frozen=True)
class PairedComparison:
    """One variant against a reference, seed by seed; differences are variant − reference.

    What few pairs cannot tell is NaN: of one pair all but the mean and the permutation's p (1), of equal differences
    what Student's t needs their sd for.

    Attributes:
        n: pairs. mean, sd: of the differences (sd with n − 1). positive: how many differences are above 0.
        t_p: two-sided p of the paired t-test. permutation_p: two-sided exact p, all 2ⁿ signs of the differences.
        interval: 95 % interval of the mean by Student's t, which holds the true mean in 95 % of cases at every n if
            differences are normal.
        bootstrap: 95 % bootstrap interval of the mean (percentiles over 10,000 resamples of the pairs), which needs no
            normality but is too narrow for few pairs: 51 % for 2, 75 % for 3, 84 % for 5, 89 % for 10.
    """

    n: int
    mean: float
    sd: float
    positive: int
    t_p: float
    permutation_p: float
    interval: tuple[float, float]
    bootstrap: tuple[float, float]


def compare(variant: np.ndarray, reference: np.ndarray, *, resamples: int = 10_000, seed: int = 0) -> PairedComparison:
    """Compare two vectors (n,) of scores, paired by index.

    Raises:
        ValueError: not two vectors of one length, or no pairs.
    """
    variant, reference = np.asarray(variant, dtype=np.float64), np.asarray(reference, dtype=np.float64)
    if variant.shape != reference.shape or variant.ndim != 1 or not len(variant):
        raise ValueError(f"expected two vectors of one length above 0, got {variant.shape} and {reference.shape}")
    differences = variant - reference
    n, mean = len(differences), float(differences.mean())
    sd = float(differences.std(ddof=1)) if n > 1 else math.nan
    half = float(stats.t.isf(0.025, n - 1)) * sd / math.sqrt(n) if n > 1 else math.nan
    draws = np.random.default_rng(seed).integers(0, n, size=(resamples, n))
    low, high = np.percentile(differences[draws].mean(axis=1), [2.5, 97.5]) if n > 1 else (math.nan, math.nan)
    return PairedComparison(
        n=n,
        mean=mean,
        sd=sd,
        positive=int((differences > 0).sum()),
        t_p=paired_t(differences),
        permutation_p=permutation_p(differences),
        interval=(mean - half, mean + half),
        bootstrap=(float(low), float(high)),
    )


def paired_t(differences: np.ndarray) -> float:
    """Two-sided p of Student's t-test that the mean difference is 0; NaN where all are equal, as of one pair."""
    n = len(differences)
    if np.ptp(differences) < 1e-9:
        return math.nan
    t = differences.mean() / (differences.std(ddof=1) / np.sqrt(n))
    return float(2 * stats.t.sf(abs(t), n - 1))


def permutation_p(differences: np.ndarray, *, exact_up_to: int = 16, draws: int = 100_000) -> float:
    """Two-sided p: how often random signs give a mean at least as far from 0; all 2ⁿ signs are counted up to n = 16.

    Beyond, `draws` random ones with the observed one added (so p is never 0).
    """
    n = len(differences)
    observed = abs(differences.sum())
    if n <= exact_up_to:
        signs = np.array(list(itertools.product((1.0, -1.0), repeat=n)))
        return float((np.abs(signs @ differences) >= observed - 1e-12).mean())
    signs = np.random.default_rng(0).choice((1.0, -1.0), size=(draws, n))
    return float(((np.abs(signs @ differences) >= observed - 1e-12).sum() + 1) / (draws + 1))


def pooled_sd(comparisons: Iterable[PairedComparison]) -> float:
    """The sd of a difference over several comparisons of three pairs or more, weighted by n − 1; NaN without any.

    The sd of three differences is hardly known: its own 95 % interval goes from half of it to six times of it.
    """
    known = [(c.n - 1, c.sd) for c in comparisons if c.n > 2]
    weight = sum(freedom for freedom, _ in known)
    return math.sqrt(sum(freedom * sd**2 for freedom, sd in known) / weight) if known else math.nan


def detectable_effect(n: int, sd: float, *, level: float = 0.05, power: float = 0.8) -> float:
    """The smallest true mean of n paired differences with this sd that a two-sided t-test finds with `power`.

    NaN for one pair, and where the sd is unknown or 0.
    """
    if n < 2 or not sd > 0:
        return math.nan
    critical = stats.t.isf(level / 2, n - 1)

    def found(effect: float) -> float:
        centre = effect / sd * np.sqrt(n)
        return float(stats.nct.sf(critical, n - 1, centre) + stats.nct.cdf(-critical, n - 1, centre))

    low, high = 0.0, sd
    while found(high) < power:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if found(middle) >= power else (middle, high)
    return high


def holm(p_values: np.ndarray) -> np.ndarray:
    """p-values (m,) adjusted for m comparisons by Holm's step-down method."""
    p_values = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p_values)
    adjusted = np.maximum.accumulate(p_values[order] * np.arange(len(p_values), 0, -1))
    result = np.empty(len(p_values))
    result[order] = np.minimum(adjusted, 1.0)
    return result
