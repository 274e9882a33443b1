"""What a paired t-test of n differences can find."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from scipy_stats import optimize, stats


@cache
def _nodes() -> tuple[np.ndarray, np.ndarray]:
    """Places of the integral over the deviation that is measured, and their weights: (2000,) each."""
    places, weights = np.polynomial.legendre.leggauss(2_000)
    return places, weights


def t_test_power(n: int, effect: float, *, level: float = 0.05) -> float:
    """How often a two-sided t-test of n normal differences finds a true mean of `effect` deviations; NaN for one.

    With Z normal and S² = χ²/(n − 1), the test finds it where |Z + effect·√n| > t·S. So power is the mean over S of
    Φ(effect·√n − t·S) + Φ(−effect·√n − t·S), an integral over the quantiles of S. (SciPy's noncentral t is NaN for
    two differences at the distances that matter.)
    """
    if n < 2:
        return math.nan
    (places, weights), critical = _nodes(), stats.t.isf(level / 2, n - 1)
    deviation = np.sqrt(stats.chi2.ppf((places + 1) / 2, n - 1) / (n - 1))
    centre = abs(effect) * math.sqrt(n)
    powers = stats.norm.cdf(centre - critical * deviation) + stats.norm.cdf(-centre - critical * deviation)
    return float(weights @ powers / 2)


def detectable_effect(n: int, sd: float, *, level: float = 0.05, power: float = 0.8) -> float:
    """The smallest true mean of n paired differences with this sd that a two-sided t-test finds with `power`.

    NaN for one pair, and where the sd is unknown or 0.
    """
    if n < 2 or not sd > 0:
        return math.nan
    return sd * float(optimize.brentq(lambda effect: t_test_power(n, effect, level=level) - power, 0.0, 100.0))
