"""Scores of parts of the text, with intervals: by position in the document, by document length, by sentence length."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from docnmt.apps.report.measure import Bootstrap, Interval
from docnmt.core.scoring.evaluation import Evaluation
from docnmt.core.scoring.text_parts import Part, parts

#: Of each way to divide a text: its heading, and what its parts' labels count.
TITLES = {
    "position": ("Position in the document", "sentence"),
    "document-length": ("Length of the document", "sentences"),
    "sentence-length": ("Length of the sentence", "words of the reference"),
}


@dataclass(frozen=True, eq=False)
class ScoredPart:
    """A part of the text; `scores` by metric hold one interval a system."""

    label: str
    sentences: int
    documents: int
    scores: dict[str, list[Interval]]


@dataclass(frozen=True, eq=False)
class Divided:
    """The text in parts; every sentence is in one of them."""

    name: str
    unit: str
    parts: Sequence[ScoredPart]


def divisions(systems: Mapping[str, Evaluation], bootstrap: Bootstrap) -> Iterator[Divided]:
    """The text in every way that `docnmt-score --by` has; in parts by the first system's counts, as it has."""
    first = next(iter(systems.values()))
    for by, titles in TITLES.items():
        whole = by == "document-length"  # then d-BLEU has scores, too
        yield Divided(*titles, [_scored(part, list(systems.values()), bootstrap, whole) for part in parts(by, first)])


def _scored(part: Part, systems: Sequence[Evaluation], bootstrap: Bootstrap, whole: bool) -> ScoredPart:
    """By counts of the documents, `whole` or of their sentences that are in the part."""
    document = np.searchsorted(systems[0].document_offsets, part.sentences, side="right") - 1
    scores: dict[str, list[Interval]] = {}
    for system in systems:
        for metric in system.counts if whole else system.sentence_counts:
            if whole:
                counts = system.counts[metric][part.documents]
            else:
                rows = system.sentence_counts[metric][part.sentences]
                counts = np.zeros((len(part.documents), rows.shape[1]))
                np.add.at(counts, np.searchsorted(part.documents, document), rows)
            scores.setdefault(metric, []).append(bootstrap.interval(system, metric, counts))
    return ScoredPart(part.label.replace("-", "–"), len(part.sentences), len(part.documents), scores)
