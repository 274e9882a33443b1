"""Every system's match counts by sentence and by document, and what follows: scores, intervals, pairwise tests.

s-BLEU, chrF and TER are functions of summed counts of sentences, d-BLEU of documents (`docnmt.scoring.metrics`). So the
score of any part of the text is computed from the counts that are already there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

import numpy as np

from docnmt.report.texts import Texts
from docnmt.scoring.bootstrap import Comparison, paired_bootstrap
from docnmt.scoring.metrics import Evaluation, evaluate_systems


@dataclass(frozen=True)
class Interval:
    """A score and the middle 95 % of its bootstrap samples; `low` and `high` are None where there are none."""

    score: float
    low: float | None = None
    high: float | None = None

    @property
    def ends(self) -> str:
        """The interval alone, or nothing."""
        return "" if self.low is None or self.high is None else f"{self.low:.1f}–{self.high:.1f}"

    def __str__(self) -> str:
        return f"{self.score:.1f} ({self.ends})" if self.ends else f"{self.score:.1f}"


@dataclass(frozen=True, eq=False)
class System:
    """A system's sentences and what they scored.

    Attributes:
        evaluation: counts (D, K) of every document, by metric.
        sentence_counts: (S, K) counts of every sentence, by metric; d-BLEU has none.
    """

    name: str
    sentences: Sequence[str]
    evaluation: Evaluation
    sentence_counts: dict[str, np.ndarray]

    def of_sentences(self, metric: str) -> np.ndarray:
        """(S,) every sentence's own score."""
        return np.array([self.evaluation.score(metric, counts) for counts in self.sentence_counts[metric]])


@dataclass(frozen=True)
class Bootstrap:
    """How intervals are drawn: `samples` times as many documents as there are, with `seed`."""

    samples: int
    seed: int

    def interval(self, evaluation: Evaluation, metric: str, counts: np.ndarray) -> Interval:
        """The score of the summed `counts` (D, K) of documents, with its interval if there are two documents."""
        score, documents = evaluation.score(metric, counts.sum(axis=0)), len(counts)
        if documents < 2:
            return Interval(score)
        sampled = [evaluation.score(metric, sums) for sums in _drawn(documents, self.samples, self.seed) @ counts]
        low, high = np.quantile(sampled, [0.025, 0.975])
        return Interval(score, float(low), float(high))


@lru_cache(maxsize=1)  # systems and metrics of one part of the text follow one another
def _drawn(documents: int, samples: int, seed: int) -> np.ndarray:
    """(B, D) how often each sample has each document: the draws of `paired_bootstrap`."""
    drawn: np.ndarray = np.random.default_rng(seed).multinomial(
        documents, np.full(documents, 1 / documents), size=samples
    )
    return drawn.astype(np.float64)


def measure(texts: Texts, *, tokenize: str, ter: bool) -> list[System]:
    """Count every system's matches, in words that sacreBLEU's tokenizer `tokenize` finds.

    Raises:
        UserError: sacreBLEU has no such tokenizer, or its package is missing.
    """
    sentences = list(texts.systems.values())
    found = evaluate_systems(sentences, texts.references, texts.document_offsets, tokenize=tokenize)
    if not ter:
        found = [each.without("TER") for each in found]
    parts = zip(texts.systems, sentences, found, strict=True)
    return [System(name, own, evaluation, evaluation.sentence_counts) for name, own, evaluation in parts]


def pairs(systems: Sequence[System], bootstrap: Bootstrap) -> dict[tuple[str, str], list[Comparison]]:
    """Every system with every later one, metric by metric; nothing for one document, from which nothing is drawn."""
    if systems[0].evaluation.documents < 2:
        return {}
    return {
        (one.name, other.name): paired_bootstrap(
            one.evaluation, other.evaluation, samples=bootstrap.samples, seed=bootstrap.seed
        )
        for one, other in combinations(systems, 2)
    }
