"""The registered metrics as match counts of every sentence and document: s-BLEU, d-BLEU, chrF and others.

All but d-BLEU compare sentences; d-BLEU compares documents, each its sentences joined by a space (Liu et al. 2020).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
from sacrebleu.metrics.base import Metric as SacreBleuMetric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from docnmt.core.scoring.config import DEFAULT
from docnmt.core.scoring.evaluation import Evaluation, Metric, sum_documents
from docnmt.core.scoring.ter import FastTER
from docnmt.registry.registry import METRICS
from docnmt.runtime.errors import UsageError, UserError
from docnmt.runtime.languages import base

#: sacreBLEU's own choices for a target language; every other language is tokenized by `13a`.
_TOKENIZERS = {"zh": "zh", "ja": "ja-mecab", "ko": "ko-mecab"}


def bleu_tokenizer(language: str) -> str:
    """Return the name of sacreBLEU's tokenizer for a target language."""
    return _TOKENIZERS.get(base(language), "13a")


def scored_sentences(references: Sequence[Sequence[str]]) -> list[int]:
    """Return the sentences that every reference has: others cannot be scored."""
    return [number for number, each in enumerate(zip(*references, strict=True)) if all(each)]


def evaluate(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    document_offsets: Sequence[int] | np.ndarray,
    *,
    tokenize: str = "13a",
    metrics: Sequence[str] = DEFAULT,
) -> Evaluation:
    """Count the matches of a system's sentences.

    Args:
        hypotheses: S sentences; an empty one is a missing translation.
        references: one or more reference translations of S sentences each.
        document_offsets: (D+1,) sentence index where each document begins; the last entry is S.
        tokenize: sacreBLEU's tokenizer for BLEU.
        metrics: names of registered metrics.

    Raises:
        ValueError: there is no sentence or no reference, or their numbers of sentences differ.
        UserError: sacreBLEU lacks the tokenizer, or its package is missing.
    """
    return evaluate_systems([hypotheses], references, document_offsets, tokenize=tokenize, metrics=metrics)[0]


def evaluate_systems(
    systems: Sequence[Sequence[str]],
    references: Sequence[Sequence[str]],
    document_offsets: Sequence[int] | np.ndarray,
    *,
    tokenize: str = "13a",
    metrics: Sequence[str] = DEFAULT,
) -> list[Evaluation]:
    """Evaluate several systems like `evaluate`; the references' n-grams, half of the work, are counted once.

    Raises:
        ValueError, UserError: see `evaluate`.
    """
    offsets = np.asarray(document_offsets, dtype=np.int64)
    for hypotheses in systems:
        _check(hypotheses, references, offsets)
    found = [Evaluation({}, {}, offsets, {}) for _ in systems]
    for name in dict.fromkeys(metrics):
        kind = METRICS.get(name)
        whole = kind.of == "documents"
        made = kind.made(tokenize, [_joined(each, offsets) if whole else each for each in references])
        metric = made if isinstance(made, SacreBleuMetric) else _PluginMetric(name, made)
        for evaluation, hypotheses in zip(found, systems, strict=True):
            counts = _counts(metric, _joined(hypotheses, offsets) if whole else hypotheses)
            evaluation.metrics[name] = metric
            evaluation.counts[name] = counts if whole else sum_documents(counts, offsets)
            if not whole:
                evaluation.sentence_counts[name] = counts
        if isinstance(metric, SacreBleuMetric):
            metric._ref_cache = None  # n-grams take more memory than all else
    return found


def _joined(sentences: Sequence[str], offsets: np.ndarray) -> list[str]:
    """Join sentences to documents (D,) for d-BLEU; a missing sentence leaves no trace."""
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


def bleu(tokenize: str, references: Sequence[Sequence[str]], *, lowercase: bool = False) -> BLEU:
    """Return BLEU.

    Raises:
        UserError: sacreBLEU lacks the tokenizer, or its package is missing.
    """
    try:
        return BLEU(tokenize=tokenize, references=references, lowercase=lowercase)
    except (KeyError, AssertionError, ValueError):
        names = ", ".join(name for name in BLEU.TOKENIZERS if name != "none")
        raise UsageError(f"sacreBLEU has no tokenizer '{tokenize}'; there are {names}") from None
    except (ImportError, RuntimeError, OSError) as error:
        raise UserError(
            f"sacreBLEU's tokenizer '{tokenize}' needs a package or a download: {' '.join(str(error).split())}"
        ) from error


def lower_cased_bleu(tokenize: str, references: Sequence[Sequence[str]]) -> BLEU:
    """Return BLEU of texts in lower case."""
    return bleu(tokenize, references, lowercase=True)


def chrf(tokenize: str, references: Sequence[Sequence[str]]) -> CHRF:
    """Return chrF."""
    return CHRF(references=references)


def chrf_of_words(tokenize: str, references: Sequence[Sequence[str]]) -> CHRF:
    """Return chrF++."""
    return CHRF(references=references, word_order=2)


def ter(tokenize: str, references: Sequence[Sequence[str]]) -> FastTER:
    """Return TER."""
    return FastTER(references=references)


@dataclass(frozen=True)
class _PluginMetric:
    """A plug-in's metric with the part of sacreBLEU's interface that is used."""

    name: str
    metric: Metric

    def _extract_corpus_statistics(self, lines: list[str], references: None) -> np.ndarray:
        counts = np.asarray(self.metric.counts(lines), dtype=np.float64)
        if counts.ndim != 2 or len(counts) != len(lines):
            raise UserError(
                f"metric '{self.name}': counts() of {len(lines):,} lines has the shape {counts.shape}; expected "
                f"({len(lines)}, K)"
            )
        return counts

    def _compute_score_from_stats(self, stats: list[float]) -> SimpleNamespace:
        return SimpleNamespace(score=float(self.metric.score(np.asarray(stats))))

    def get_signature(self) -> str:
        """Return the metric's signature."""
        return self.metric.signature


def _counts(metric: SacreBleuMetric | _PluginMetric, hypotheses: Sequence[str]) -> np.ndarray:
    """Return additive counts (n, K) of every line, as sacreBLEU sums them up and resamples in its own bootstrap."""
    return np.asarray(metric._extract_corpus_statistics(list(hypotheses), None), dtype=np.float64)
