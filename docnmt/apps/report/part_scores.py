"""Scores of parts of the text, with intervals: by position in the document, by document length, by sentence length."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from docnmt.apps.report.measure import Bootstrap, Interval
from docnmt.core.scoring.evaluation import Evaluation
from docnmt.core.scoring.text_parts import TextPart, parts

#: For each division of a text: its heading, and the unit of its parts' labels.
TITLES = {
    "position": ("Position in the document", "sentence"),
    "document-length": ("Length of the document", "sentences"),
    "sentence-length": ("Length of the sentence", "words of the reference"),
}


@dataclass(frozen=True, eq=False)
class ScoredPart:
    """A part of the text; `scores` has one interval per system for each metric."""

    label: str
    sentences: int
    documents: int
    scores: dict[str, list[Interval]]


@dataclass(frozen=True, eq=False)
class Divided:
    """A text divided into parts; every sentence is in one of them."""

    name: str
    unit: str
    parts: Sequence[ScoredPart]


def divisions(systems: Mapping[str, Evaluation], bootstrap: Bootstrap) -> Iterator[Divided]:
    """Yield the text in every division of `docnmt-score --by`; as there, parts are by the first system's counts."""
    first = next(iter(systems.values()))
    for by, titles in TITLES.items():
        whole = by == "document-length"  # then d-BLEU has scores, too
        yield Divided(*titles, [_scored(part, list(systems.values()), bootstrap, whole) for part in parts(by, first)])


def _scored(part: TextPart, systems: Sequence[Evaluation], bootstrap: Bootstrap, whole: bool) -> ScoredPart:
    """Score a part by counts of its documents, `whole` or only their sentences in the part."""
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
