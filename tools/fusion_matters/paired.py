"""What paired runs can tell: mean ± sd, paired t, an exact permutation test, bootstrap intervals, detectable effect."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from scipy import stats


@dataclass(frozen=True)
class PairedComparison:
    """One variant against a reference, seed by seed; differences are variant − reference.

    Attributes:
        n: pairs. mean, sd: of the differences (sd with n − 1). positive: how many differences are above 0.
        t_p: two-sided p of the paired t-test. permutation_p: two-sided exact p, all 2ⁿ signs of the differences.
        interval: 95 % bootstrap interval of the mean (percentiles over 10,000 resamples of the pairs).
        detectable: the true mean that a two-sided t-test at 5 % finds with probability 80 % at this n and sd.
    """

    n: int
    mean: float
    sd: float
    positive: int
    t_p: float
    permutation_p: float
    interval: tuple[float, float]
    detectable: float


def compare(variant: np.ndarray, reference: np.ndarray, *, resamples: int = 10_000, seed: int = 0) -> PairedComparison:
    """Compare two vectors (n,) of scores, paired by index.

    With one pair nothing can be tested: p-values are 1, the interval is the difference, the detectable effect infinite.

    Raises:
        ValueError: not two vectors of one length, or no pairs.
    """
    variant, reference = np.asarray(variant, dtype=np.float64), np.asarray(reference, dtype=np.float64)
    if variant.shape != reference.shape or variant.ndim != 1 or not len(variant):
        raise ValueError(f"expected two vectors of one length above 0, got {variant.shape} and {reference.shape}")
    differences = variant - reference
    n, mean = len(differences), float(differences.mean())
    sd = float(differences.std(ddof=1)) if n > 1 else 0.0
    draws = np.random.default_rng(seed).integers(0, n, size=(resamples, n))
    low, high = np.percentile(differences[draws].mean(axis=1), [2.5, 97.5])
    return PairedComparison(
        n=n,
        mean=mean,
        sd=sd,
        positive=int((differences > 0).sum()),
        t_p=paired_t(differences),
        permutation_p=permutation_p(differences),
        interval=(float(low), float(high)),
        detectable=detectable_effect(n, sd),
    )


def paired_t(differences: np.ndarray) -> float:
    """Two-sided p of Student's t-test that the mean difference is 0."""
    n = len(differences)
    if n < 2 or not differences.std():
        return 1.0 if n < 2 or not differences.any() else 0.0
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


def detectable_effect(n: int, sd: float, *, level: float = 0.05, power: float = 0.8) -> float:
    """The smallest true mean of n paired differences with this sd that a two-sided t-test finds with `power`."""
    if n < 2:
        return float("inf")
    if not sd:
        return 0.0
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
