"""Scores of parts of the text: by position in the document, by the document's length, by the sentence's length."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from sacrebleu.metrics.bleu import BLEU

from docnmt.report.measured import Bootstrap, Interval, System

#: Where sentences' lengths are divided, in words of the reference.
SENTENCE_LENGTHS = (1, 6, 11, 16, 21, 31, 41, 61)


@dataclass(frozen=True, eq=False)
class Part:
    """Sentences that have something in common; `scores` by metric hold one interval a system."""

    label: str
    sentences: int
    documents: int
    scores: dict[str, list[Interval]]


@dataclass(frozen=True, eq=False)
class Division:
    """The text in parts; every sentence is in one of them."""

    name: str
    unit: str
    parts: Sequence[Part]


def divisions(
    systems: Sequence[System], reference: Sequence[str], tokenize: str, bootstrap: Bootstrap
) -> list[Division]:
    """The text by position, by document length and by the words that the tokenizer `tokenize` finds in `reference`."""
    offsets = systems[0].evaluation.document_offsets
    lengths = np.diff(offsets)  # (D,)
    document = np.repeat(np.arange(len(lengths)), lengths)  # (S,)
    position = np.arange(offsets[-1]) - offsets[document] + 1
    tokenizer = BLEU(tokenize=tokenize).tokenizer
    words = np.array([len(tokenizer(line).split()) for line in reference])
    doubling = [1, 2, *(2**n + 1 for n in range(1, 40))]  # 1, 2, 3-4, 5-8 …
    values = (
        ("Position in the document", "sentence", position, doubling),
        ("Length of the document", "sentences", lengths[document], doubling),
        ("Length of the sentence", "words of the reference", words, SENTENCE_LENGTHS),
    )
    return [
        Division(name, unit, [_part(*each, document, systems, bootstrap) for each in _ranges(value, begins)])
        for name, unit, value, begins in values
    ]


def _ranges(values: np.ndarray, begins: Sequence[int]) -> Iterator[tuple[str, np.ndarray]]:
    """Of every range that holds a value, its label and the (n,) sentences in it; the first takes all below it, too."""
    which = np.maximum(np.searchsorted(begins, values, side="right") - 1, 0)
    for number in np.unique(which):
        first, following = begins[number], begins[number + 1] if number + 1 < len(begins) else None
        last = "" if following is None else following - 1
        yield f"{first}" if last == first else f"{first}–{last}", np.flatnonzero(which == number)


def _part(
    label: str, chosen: np.ndarray, document: np.ndarray, systems: Sequence[System], bootstrap: Bootstrap
) -> Part:
    """Of `chosen` (n,) sentences, summed by those documents that have some."""
    documents, of = np.unique(document[chosen], return_inverse=True)
    scores: dict[str, list[Interval]] = {}
    for metric in systems[0].sentence_counts:
        for system in systems:
            rows = system.sentence_counts[metric][chosen]
            counts = np.zeros((len(documents), rows.shape[1]))
            np.add.at(counts, of, rows)
            scores.setdefault(metric, []).append(bootstrap.interval(system.evaluation, metric, counts))
    return Part(label, len(chosen), len(documents), scores)
