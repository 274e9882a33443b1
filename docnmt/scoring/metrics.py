"""s-BLEU, d-BLEU, chrF and TER from sacreBLEU, kept as match counts of every sentence and document.

All four are functions of counts that add up, so the scores of the corpus, of a document, of any part of the text and of
a bootstrap sample are the same function of other sums. s-BLEU, chrF and TER compare sentences; d-BLEU compares
documents, each its sentences joined by a space (Liu et al. 2020).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from docnmt.errors import UserError
from docnmt.scoring.ter import FastTER

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


class Summed(Protocol):
    """A score of summed counts; what is used of a sacreBLEU metric."""

    def _compute_score_from_stats(self, stats: list[Any]) -> Any: ...  # numbers → what has the value as its `score`

    def get_signature(self) -> object: ...


@dataclass(frozen=True, eq=False)
class Evaluation:
    """A system's match counts.

    Attributes:
        counts: metric → (D, K) float64, the additive counts of every document.
        metrics: metric → what turns summed counts into a score.
        document_offsets: (D+1,) sentence index where each document begins.
        sentence_counts: metric → (S, K), those of every sentence, of all metrics but d-BLEU.
    """

    counts: dict[str, np.ndarray]
    metrics: dict[str, Summed]
    document_offsets: np.ndarray
    sentence_counts: dict[str, np.ndarray]

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

    def of_sentences(self, name: str) -> list[float]:
        """Every sentence's own score by a metric."""
        return [self.score(name, counts) for counts in self.sentence_counts[name]]

    def of_part(self, sentences: np.ndarray, documents: np.ndarray | None = None) -> dict[str, float]:
        """Scores of the sentences (n,) with these numbers; d-BLEU only where they are all of these `documents`."""
        found = {}
        for name, counts in self.counts.items():
            if documents is not None:
                found[name] = self.score(name, counts[documents].sum(axis=0))
            elif name in self.sentence_counts:
                found[name] = self.score(name, self.sentence_counts[name][sentences].sum(axis=0))
        return found

    def without(self, metric: str) -> Evaluation:
        """The same with one metric less."""
        return replace(
            self,
            counts={name: counts for name, counts in self.counts.items() if name != metric},
            metrics={name: kind for name, kind in self.metrics.items() if name != metric},
            sentence_counts={name: counts for name, counts in self.sentence_counts.items() if name != metric},
        )

    def including(self, name: str, metric: Summed, counts: np.ndarray) -> Evaluation:
        """The same with one metric more, of which every sentence has `counts` (S, K)."""
        return replace(
            self,
            counts={**self.counts, name: _sum_documents(counts, self.document_offsets)},
            metrics={**self.metrics, name: metric},
            sentence_counts={**self.sentence_counts, name: counts},
        )


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
    return evaluate_systems([hypotheses], references, document_offsets, tokenize=tokenize)[0]


def evaluate_systems(
    systems: Sequence[Sequence[str]],
    references: Sequence[Sequence[str]],
    document_offsets: Sequence[int] | np.ndarray,
    *,
    tokenize: str = "13a",
) -> list[Evaluation]:
    """`evaluate` of several systems; the references' n-grams, half of the work, are counted once.

    Raises:
        ValueError, UserError: as `evaluate`.
    """
    offsets = np.asarray(document_offsets, dtype=np.int64)
    for hypotheses in systems:
        _check(hypotheses, references, offsets)
    kinds: dict[str, Callable[..., BLEU | CHRF | FastTER]] = {
        "s-BLEU": partial(_bleu, tokenize),
        "d-BLEU": partial(_bleu, tokenize),
        "chrF": CHRF,
        "TER": FastTER,
    }
    found = [Evaluation({}, {}, offsets, {}) for _ in systems]
    for name, kind in kinds.items():
        whole = name == "d-BLEU"
        metric = kind(references=[_joined(each, offsets) if whole else each for each in references])
        for evaluation, hypotheses in zip(found, systems, strict=True):
            counts = _counts(metric, _joined(hypotheses, offsets) if whole else hypotheses)
            evaluation.metrics[name] = metric
            evaluation.counts[name] = counts if whole else _sum_documents(counts, offsets)
            if not whole:
                evaluation.sentence_counts[name] = counts
        metric._ref_cache = None  # n-grams take more memory than all else
    return found


def _joined(sentences: Sequence[str], offsets: np.ndarray) -> list[str]:
    """(D,) documents as d-BLEU sees them; a missing sentence leaves no trace."""
    return [" ".join(filter(None, sentences[a:b])) for a, b in pairwise(offsets.tolist())]


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


def _bleu(tokenize: str, references: Sequence[Sequence[str]]) -> BLEU:
    try:
        return BLEU(tokenize=tokenize, references=references)
    except (KeyError, AssertionError, ValueError):
        names = ", ".join(name for name in BLEU.TOKENIZERS if name != "none")
        raise UserError(f"sacreBLEU has no tokenizer '{tokenize}'; there are {names}") from None
    except (ImportError, RuntimeError) as error:
        raise UserError(
            f"sacreBLEU's tokenizer '{tokenize}' needs a package: {' '.join(str(error).split())}"
        ) from error


def _counts(metric: BLEU | CHRF | FastTER, hypotheses: Sequence[str]) -> np.ndarray:
    """(n, K) additive counts of every line: what sacreBLEU itself sums up, and resamples in its own bootstrap."""
    return np.asarray(metric._extract_corpus_statistics(list(hypotheses), None), dtype=np.float64)


def _sum_documents(counts: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """(S, K) counts of sentences → (D, K) counts of documents."""
    sums = np.concatenate([np.zeros((1, counts.shape[1])), np.cumsum(counts, axis=0)])
    difference: np.ndarray = sums[offsets[1:]] - sums[offsets[:-1]]
    return difference
