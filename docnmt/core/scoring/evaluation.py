"""A system's scores, and the match counts of sentences and documents from which they are computed.

Counts add up, so the scores of the corpus, of a document, of any part of the text and of a bootstrap sample are the
same function of other sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from docnmt.registry import builtin  # noqa: F401  (registers every metric)
from docnmt.registry.registry import METRICS
from docnmt.runtime.progress import how_many


@dataclass(frozen=True)
class Scores:
    """A system's scores on a corpus by metric, with sacreBLEU's signatures, which say how each was computed."""

    values: dict[str, float]
    signatures: dict[str, str]
    sentences: int
    documents: int

    def __getitem__(self, name: str) -> float:
        return self.values[name]

    def __str__(self) -> str:
        width = max(map(len, self.values))
        lines = [f"{name:<{width}} = {value:6.2f}  {self.signatures[name]}" for name, value in self.values.items()]
        counts = how_many(self.sentences, "sentence"), how_many(self.documents, "document")
        return "\n".join([*lines, f"({' in '.join(counts)})"])

    def to_dict(self) -> dict[str, Any]:
        """Return the entry in `scores.json`: every metric under its name, signatures and counts."""
        return {
            **self.values,
            "signatures": self.signatures,
            "sentences": self.sentences,
            "documents": self.documents,
        }


def lower_is_better(metric: str) -> bool:
    """Tell whether lower is better: as its registration says, or as for losses, perplexities and edit rates."""
    if metric in METRICS:
        return METRICS.get(metric).lower_is_better
    return metric.lower() in ("loss", "nll", "ppl", "ter")


class Metric(Protocol):
    """A metric of a plug-in, made for some references (`register_metric`)."""

    @property
    def signature(self) -> str:
        """Everything that the number depends on, as in sacreBLEU's signatures: `nrefs:1|case:lc`."""

    def counts(self, lines: Sequence[str]) -> np.ndarray:
        """Return the counts (n, K) of the lines of a translation; those of any lines together are their sums."""

    def score(self, sums: np.ndarray) -> float:
        """Return the score of summed counts (K,); those of no line are zeros."""


class _Score(Protocol):
    score: float


class Summed(Protocol):
    """A score of summed counts; the part of sacreBLEU's interface that is used."""

    def _compute_score_from_stats(self, stats: list[Any]) -> _Score: ...

    def get_signature(self) -> object:
        """Return everything that the number depends on, in sacreBLEU's manner."""


@dataclass(frozen=True, eq=False)
class Evaluation:
    """A system's match counts.

    Attributes:
        counts: metric → (D, K) float64, the additive counts of every document.
        metrics: metric → the object that computes a score from summed counts.
        document_offsets: (D+1,) sentence index where each document begins.
        sentence_counts: metric → (S, K), the counts of every sentence, for all metrics but d-BLEU.
    """

    counts: dict[str, np.ndarray]
    metrics: dict[str, Summed]
    document_offsets: np.ndarray
    sentence_counts: dict[str, np.ndarray]

    @property
    def documents(self) -> int:
        """The number of documents D."""
        return len(self.document_offsets) - 1

    def score(self, name: str, counts: np.ndarray) -> float:
        """Return the metric's value for summed counts (K,)."""
        return float(self.metrics[name]._compute_score_from_stats(counts.tolist()).score)

    @cached_property
    def scores(self) -> Scores:
        """The scores of the whole corpus."""
        values = {name: self.score(name, counts.sum(axis=0)) for name, counts in self.counts.items()}
        signatures = {name: str(self.metrics[name].get_signature()) for name in self.counts}
        return Scores(values, signatures, int(self.document_offsets[-1]), self.documents)

    def of_documents(self) -> list[dict[str, float]]:
        """Return every document's own scores."""
        return [
            {name: self.score(name, counts[document]) for name, counts in self.counts.items()}
            for document in range(self.documents)
        ]

    def of_sentences(self, name: str) -> list[float]:
        """Return every sentence's own score by a metric."""
        return [self.score(name, counts) for counts in self.sentence_counts[name]]

    def of_part(self, sentences: np.ndarray, documents: np.ndarray | None = None) -> dict[str, float]:
        """Return the scores of sentences (n,); d-BLEU only if `documents` are given, which must consist of them."""
        found = {}
        for name, counts in self.counts.items():
            if documents is not None:
                found[name] = self.score(name, counts[documents].sum(axis=0))
            elif name in self.sentence_counts:
                found[name] = self.score(name, self.sentence_counts[name][sentences].sum(axis=0))
        return found

    def including(self, name: str, metric: Summed, counts: np.ndarray) -> Evaluation:
        """Return the evaluation with one more metric, of which every sentence has `counts` (S, K)."""
        return replace(
            self,
            counts={**self.counts, name: sum_documents(counts, self.document_offsets)},
            metrics={**self.metrics, name: metric},
            sentence_counts={**self.sentence_counts, name: counts},
        )


def sum_documents(counts: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Sum counts of sentences (S, K) to counts of documents (D, K)."""
    sums = np.concatenate([np.zeros((1, counts.shape[1])), np.cumsum(counts, axis=0)])
    difference: np.ndarray = sums[offsets[1:]] - sums[offsets[:-1]]
    return difference
