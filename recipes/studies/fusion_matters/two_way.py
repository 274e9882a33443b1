"""A mean over seeds and test items at once: what another training would give, tested on other texts of the kind."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy_stats import stats


class TwoWay(NamedTuple):
    """The 95 % interval of a mean difference and the two-sided p that it is 0; NaN where they cannot be known."""

    interval: tuple[float, float]
    p: float


def two_way(differences: np.ndarray) -> TwoWay:
    """Of (S, I) differences, S seeds crossed with I test items, both drawn at random.

    The variance of the mean is what seeds and items add: (MS_seeds + MS_items − MS_rest) / (S·I), in a two-way layout
    of random effects; Student's t with Satterthwaite's degrees of freedom. The interval is never narrower, and p never
    smaller, than over seeds or over items alone (after Cameron, Gelbach and Miller 2011). Nothing of one seed or item.
    """
    seeds, items = differences.shape
    if seeds < 2 or items < 2:
        return TwoWay((math.nan, math.nan), math.nan)
    mean, by_seed, by_item = float(differences.mean()), differences.mean(1), differences.mean(0)
    rest = differences - by_seed[:, None] - by_item[None, :] + mean
    squares = np.array([items * by_seed.var(ddof=1), seeds * by_item.var(ddof=1),
                        (rest**2).sum() / ((seeds - 1) * (items - 1))])  # fmt: skip
    freedom = np.array([seeds - 1, items - 1, (seeds - 1) * (items - 1)])
    half, p = 0.0, math.nan
    for signs in ([1, 1, -1], [1, 0, 0], [0, 1, 0]):
        variance = float(squares @ signs)
        if variance > 0 and (signs[2] == 0 or variance >= squares[:2].max()):  # a difference near 0 has hardly a degree
            degrees = variance**2 / float(((np.abs(signs) * squares) ** 2 / freedom).sum())
            error = math.sqrt(variance / (seeds * items))
            half = max(half, float(stats.t.isf(0.025, degrees)) * error)
            p = float(np.fmax(p, 2 * stats.t.sf(abs(mean) / error, degrees)))
    return TwoWay((mean - half, mean + half), p)
