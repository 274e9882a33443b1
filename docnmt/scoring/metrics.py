"""s-BLEU, d-BLEU, chrF and TER from sacreBLEU, kept as match counts of every document.

All four are functions of counts that add up, so the corpus score, a document's score and a bootstrap sample's score are
the same function of other sums. s-BLEU, chrF and TER compare sentences; d-BLEU compares documents, each its
sentences joined by a space (Liu et al. 2020).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from docnmt.errors import UserError

#: Names of the metrics in the order in which they are shown.
METRICS = ("s-BLEU", "d-BLEU", "chrF", "TER")
#: sacreBLEU's own choices for a target language; every other language is cut by `13a`.
_TOKENIZERS = {"zh": "zh", "ja": "ja-mecab", "ko": "ko-mecab"}


def bleu_tokenizer(language: str) -> str:
    """The name of the sacreBLEU tokenizer that goes with a target language."""
    return _TOKENIZERS.get(language.lower().replace("_", "-").partition("-")[0], "13a")


@dataclass(frozen=True)
class Scores:
    """A system's scores on a corpus, by metric, with sacreBLEU's signatures, which say how each was computed."""

    values: dict[str, float]
    signatures: dict[str, str]
    sentences: int
    documents: int

    def __getitem__(self, name: str) -> float:
        return self.values[name]

    def __str__(self) -> str:
        width = max(map(len, self.values))
        lines = [f"{name:<{width}} = {value:6.2f}  {self.signatures[name]}" for name, value in self.values.items()]
        return "\n".join([*lines, f"({self.sentences:,} sentences in {self.documents:,} documents)"])

    def to_dict(self) -> dict[str, Any]:
        """What `scores.json` holds: every metric under its name, signatures and counts."""
        return {
            **self.values,
            "signatures": self.signatures,
            "sentences": self.sentences,
            "documents": self.documents,
        }


@dataclass(frozen=True, eq=False)
class Evaluation:
    """A system's match counts.

    Attributes:
        counts: metric → (D, K) float64, the additive counts of every document.
        metrics: metric → the sacreBLEU object that turns summed counts into a score.
        document_offsets: (D+1,) sentence index where each document begins.
    """

    counts: dict[str, np.ndarray]
    metrics: dict[str, Metric]
    document_offsets: np.ndarray

    @property
    def documents(self) -> int:
        """D."""
        return len(self.document_offsets) - 1

    def score(self, name: str, counts: np.ndarray) -> float:
        """The metric's value for summed counts (K,)."""
        return float(self.metrics[name]._compute_score_from_stats(counts.tolist()).score)

    @cached_property
    def scores(self) -> Scores:
        """Of the whole corpus."""
        values = {name: self.score(name, counts.sum(axis=0)) for name, counts in self.counts.items()}
        signatures = {name: str(self.metrics[name].get_signature()) for name in self.counts}
        return Scores(values, signatures, int(self.document_offsets[-1]), self.documents)

    def of_documents(self) -> list[dict[str, float]]:
        """Every document's own scores."""
        return [
            {name: self.score(name, counts[document]) for name, counts in self.counts.items()}
            for document in range(self.documents)
        ]


def scored_sentences(references: Sequence[Sequence[str]]) -> list[int]:
    """The sentences that every reference has: where one is empty, there is nothing to compare with."""
    return [number for number, each in enumerate(zip(*references, strict=True)) if all(each)]


def evaluate(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    document_offsets: Sequence[int] | np.ndarray,
    *,
    tokenize: str = "13a",
) -> Evaluation:
    """Count the matches of a system's sentences.

    Args:
        hypotheses: S sentences; an empty one is a translation that is missing.
        references: one or more reference translations of S sentences each.
        document_offsets: (D+1,) sentence index where each document begins; the last entry is S.
        tokenize: sacreBLEU's tokenizer for BLEU.

    Raises:
        ValueError: there is no sentence or no reference, or their numbers of sentences differ.
        UserError: sacreBLEU has no such tokenizer, or its package is missing.
    """
    offsets = np.asarray(document_offsets, dtype=np.int64)
    _check(hypotheses, references, offsets)
    spans = list(pairwise(offsets))  # a missing sentence leaves no trace in its document
    joined = [[" ".join(filter(None, side[a:b])) for a, b in spans] for side in (hypotheses, *references)]
    metrics: dict[str, Metric] = {"s-BLEU": _bleu(tokenize), "d-BLEU": _bleu(tokenize), "chrF": CHRF(), "TER": TER()}
    counts = {}
    for name, metric in metrics.items():
        if name == "d-BLEU":
            counts[name] = _counts(metric, joined[0], joined[1:])
        else:
            counts[name] = _sum_documents(_counts(metric, hypotheses, references), offsets)
    return Evaluation(counts, metrics, offsets)


def _check(hypotheses: Sequence[str], references: Sequence[Sequence[str]], offsets: np.ndarray) -> None:
    if not references:
        raise ValueError("at least one reference is needed")
    if not len(hypotheses):
        raise ValueError("there is no sentence to score")
    for number, reference in enumerate(references):
        if len(reference) != len(hypotheses):
            raise ValueError(f"{len(hypotheses)} hypotheses, but {len(reference)} sentences in reference {number}")
    if len(offsets) < 2 or offsets[0] != 0 or offsets[-1] != len(hypotheses) or (np.diff(offsets) < 0).any():
        raise ValueError(
            f"document_offsets must rise from 0 to the {len(hypotheses)} sentences, got {offsets.tolist()}"
        )


def _bleu(tokenize: str) -> BLEU:
    try:
        return BLEU(tokenize=tokenize)
    except (KeyError, AssertionError, ValueError):
        names = ", ".join(name for name in BLEU.TOKENIZERS if name != "none")
        raise UserError(f"sacreBLEU has no tokenizer '{tokenize}'; there are {names}") from None
    except (ImportError, RuntimeError) as error:
        raise UserError(
            f"sacreBLEU's tokenizer '{tokenize}' needs a package: {' '.join(str(error).split())}"
        ) from error


def _counts(metric: Metric, hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> np.ndarray:
    """(n, K) additive counts of every line: what sacreBLEU itself sums up, and resamples in its own bootstrap."""
    return np.asarray(metric._extract_corpus_statistics(list(hypotheses), list(references)), dtype=np.float64)


def _sum_documents(counts: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """(S, K) counts of sentences → (D, K) counts of documents."""
    sums = np.concatenate([np.zeros((1, counts.shape[1])), np.cumsum(counts, axis=0)])
    difference: np.ndarray = sums[offsets[1:]] - sums[offsets[:-1]]
    return difference
