"""Intervals of scores and pairwise tests, by bootstrap over documents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

import numpy as np

from docnmt.core.scoring.bootstrap import Comparison, paired_bootstrap
from docnmt.core.scoring.evaluation import Evaluation


@dataclass(frozen=True)
class Interval:
    """A score and the middle 95 % of its bootstrap samples; `low` and `high` are None without samples."""

    score: float
    low: float | None = None
    high: float | None = None

    @property
    def ends(self) -> str:
        """The interval alone, or an empty text."""
        return "" if self.low is None or self.high is None else f"{self.low:.1f}–{self.high:.1f}"

    def __str__(self) -> str:
        return f"{self.score:.1f} ({self.ends})" if self.ends else f"{self.score:.1f}"


@dataclass(frozen=True)
class Bootstrap:
    """The bootstrap's settings: `samples` draws of as many documents as there are, with `seed`."""

    samples: int
    seed: int

    def interval(self, evaluation: Evaluation, metric: str, counts: np.ndarray) -> Interval:
        """Return the score of the summed `counts` (D, K) of documents, with its interval if there are two documents."""
        score, documents = evaluation.score(metric, counts.sum(axis=0)), len(counts)
        if documents < 2:
            return Interval(score)
        sampled = [evaluation.score(metric, sums) for sums in _drawn(documents, self.samples, self.seed) @ counts]
        low, high = np.quantile(sampled, [0.025, 0.975])
        return Interval(score, float(low), float(high))

    def pairs(self, systems: Mapping[str, Evaluation]) -> dict[tuple[str, str], list[Comparison]]:
        """Compare every system with every later one, metric by metric; nothing for a text of one document."""
        if next(iter(systems.values())).documents < 2:
            return {}
        return {
            (one, other): paired_bootstrap(systems[one], systems[other], samples=self.samples, seed=self.seed)
            for one, other in combinations(systems, 2)
        }


@lru_cache(maxsize=1)  # systems and metrics of one part of the text follow one another
def _drawn(documents: int, samples: int, seed: int) -> np.ndarray:
    """Draw samples (B, D): how often each has each document, as in `paired_bootstrap`."""
    drawn: np.ndarray = np.random.default_rng(seed).multinomial(
        documents, np.full(documents, 1 / documents), size=samples
    )
    return drawn.astype(np.float64)
