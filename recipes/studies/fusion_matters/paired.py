"""What paired runs can tell: mean ± sd, paired t, an exact permutation test, an interval, Holm's adjustment."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
from scipy_stats import stats


@dataclass(frozen=True)
class PairedComparison:
    """One variant against a reference, seed by seed; differences are variant − reference.

    What few pairs cannot tell is NaN: of one pair all but the mean and the permutation's p (1), of equal differences
    what Student's t needs their sd for.

    Attributes:
        n: pairs. mean, sd: of the differences (sd with n − 1). positive: how many differences are above 0.
        t_p: two-sided p of the paired t-test. permutation_p: two-sided exact p, all 2ⁿ signs of the differences.
        interval: 95 % interval of the mean by Student's t, which holds the true mean in 95 % of cases at every n if
            differences are normal, and in fewer if they are skewed: of exponential ones in 88 % for 5 pairs and 90 %
            for 10. (A percentile bootstrap is worse with so few: of normal ones 50 % for 2, 84 % for 5, 90 % for 10.)
    """

    n: int
    mean: float
    sd: float
    positive: int
    t_p: float
    permutation_p: float
    interval: tuple[float, float]


def compare(variant: np.ndarray, reference: np.ndarray) -> PairedComparison:
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
    return PairedComparison(
        n=n,
        mean=mean,
        sd=sd,
        positive=int((differences > 0).sum()),
        t_p=paired_t(differences),
        permutation_p=permutation_p(differences),
        interval=(mean - half, mean + half),
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


def holm(p_values: np.ndarray) -> np.ndarray:
    """p-values (m,) adjusted for the m comparisons that have one by Holm's step-down method; NaN stays."""
    p_values = np.asarray(p_values, dtype=np.float64)
    known = np.flatnonzero(~np.isnan(p_values))
    order = known[np.argsort(p_values[known])]
    result = np.full(len(p_values), math.nan)
    result[order] = np.minimum(np.maximum.accumulate(p_values[order] * np.arange(len(order), 0, -1)), 1.0)
    return result
