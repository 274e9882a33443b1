"""The metrics s-BLEU, d-BLEU, chrF and TER from sacreBLEU, as match counts of every sentence and document.

s-BLEU, chrF and TER compare sentences; d-BLEU compares documents, each its sentences joined by a space (Liu et al.
2020).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from docnmt.core.scoring.evaluation import Evaluation, sum_documents
from docnmt.core.scoring.ter import FastTER
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
) -> Evaluation:
    """Count the matches of a system's sentences.

    Args:
        hypotheses: S sentences; an empty one is a missing translation.
        references: one or more reference translations of S sentences each.
        document_offsets: (D+1,) sentence index where each document begins; the last entry is S.
        tokenize: sacreBLEU's tokenizer for BLEU.

    Raises:
        ValueError: there is no sentence or no reference, or their numbers of sentences differ.
        UserError: sacreBLEU lacks the tokenizer, or its package is missing.
    """
    return evaluate_systems([hypotheses], references, document_offsets, tokenize=tokenize)[0]


def evaluate_systems(
    systems: Sequence[Sequence[str]],
    references: Sequence[Sequence[str]],
    document_offsets: Sequence[int] | np.ndarray,
    *,
    tokenize: str = "13a",
) -> list[Evaluation]:
    """Evaluate several systems like `evaluate`; the references' n-grams, half of the work, are counted once.

    Raises:
        ValueError, UserError: see `evaluate`.
    """
    offsets = np.asarray(document_offsets, dtype=np.int64)
    for hypotheses in systems:
        _check(hypotheses, references, offsets)
    found = [Evaluation({}, {}, offsets, {}) for _ in systems]
    for name, (make, whole) in METRICS.items():
        metric = make(tokenize, [_joined(each, offsets) if whole else each for each in references])
        for evaluation, hypotheses in zip(found, systems, strict=True):
            counts = _counts(metric, _joined(hypotheses, offsets) if whole else hypotheses)
            evaluation.metrics[name] = metric
            evaluation.counts[name] = counts if whole else sum_documents(counts, offsets)
            if not whole:
                evaluation.sentence_counts[name] = counts
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


def _bleu(tokenize: str, references: Sequence[Sequence[str]]) -> BLEU:
    try:
        return BLEU(tokenize=tokenize, references=references)
    except (KeyError, AssertionError, ValueError):
        names = ", ".join(name for name in BLEU.TOKENIZERS if name != "none")
        raise UsageError(f"sacreBLEU has no tokenizer '{tokenize}'; there are {names}") from None
    except (ImportError, RuntimeError, OSError) as error:
        raise UserError(
            f"sacreBLEU's tokenizer '{tokenize}' needs a package or a download: {' '.join(str(error).split())}"
        ) from error


#: The metrics that are always printed, in display order: how each is made from a tokenizer and references, and whether
#: it compares documents instead of sentences.
METRICS: dict[str, tuple[Callable[[str, Sequence[Sequence[str]]], BLEU | CHRF | FastTER], bool]] = {
    "s-BLEU": (_bleu, False),
    "d-BLEU": (_bleu, True),
    "chrF": (lambda tokenize, references: CHRF(references=references), False),
    "TER": (lambda tokenize, references: FastTER(references=references), False),
}


def _counts(metric: BLEU | CHRF | FastTER, hypotheses: Sequence[str]) -> np.ndarray:
    """Return additive counts (n, K) of every line, as sacreBLEU sums them up and resamples in its own bootstrap."""
    return np.asarray(metric._extract_corpus_statistics(list(hypotheses), None), dtype=np.float64)
