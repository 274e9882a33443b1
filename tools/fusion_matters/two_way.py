"""An interval over seeds and test items at once: for another training, tested on other texts of the kind."""

from __future__ import annotations

import math

import numpy as np
from scipy import stats


def two_way_interval(differences: np.ndarray, *, level: float = 0.95) -> tuple[float, float]:
    """Interval of the mean of (S, I) differences, S seeds crossed with I test items, both drawn at random.

    The variance of the mean is what seeds and items add: (MS_seeds + MS_items − MS_rest) / (S·I), in a two-way layout
    of random effects; Student's t with Satterthwaite's degrees of freedom. Never narrower than the interval over seeds
    or over items alone (after Cameron, Gelbach and Miller 2011). NaN for one seed or one item.
    """
    seeds, items = differences.shape
    if seeds < 2 or items < 2:
        return math.nan, math.nan
    mean, by_seed, by_item = differences.mean(), differences.mean(1), differences.mean(0)
    rest = differences - by_seed[:, None] - by_item[None, :] + mean
    squares = np.array([items * by_seed.var(ddof=1), seeds * by_item.var(ddof=1),
                        (rest**2).sum() / ((seeds - 1) * (items - 1))])  # fmt: skip
    freedom = np.array([seeds - 1, items - 1, (seeds - 1) * (items - 1)])
    half = 0.0
    for signs in ([1, 1, -1], [1, 0, 0], [0, 1, 0]):
        variance = float(squares @ signs)
        if variance > 0 and (signs[2] == 0 or variance >= squares[:2].max()):  # a difference near 0 has hardly a degree
            degrees = variance**2 / float(((np.abs(signs) * squares) ** 2 / freedom).sum())
            half = max(half, stats.t.isf((1 - level) / 2, degrees) * math.sqrt(variance / (seeds * items)))
    return float(mean - half), float(mean + half)
