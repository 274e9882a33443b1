"""Parts of a text, by place of sentences and by length of sentences or documents, and the scores of each part.

Every sentence is in one part, and scores are functions of summed counts, so the parts' counts add up to the text's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from docnmt.core.scoring.metrics import Evaluation
from docnmt.runtime.picture import picture_form, write_picture

#: The first values of parts: 1, 2, 3-4, 5-8 … sentences; 1-5, 6-10 … tokens.
_DOUBLING = (1, 2, *(2**n + 1 for n in range(1, 40)))
_TOKENS = (1, 6, 11, 16, 21, 31, 41, 61)
_COLUMN_OF_LENGTH = 1  # in the counts of s-BLEU: tokens of the reference


@dataclass(frozen=True, eq=False)
class TextPart:
    """A part of a text: sentences (n,) with a property that `label` names, and the documents that have some of them."""

    label: str
    sentences: np.ndarray
    documents: np.ndarray


def parts(by: str, evaluation: Evaluation) -> list[TextPart]:
    """Divide the text into parts that are not empty, in ascending order.

    Args:
        by: `position` in the document, from 1; `document-length` in sentences; `sentence-length` in the tokens that
            BLEU sees in the reference (of several, in the one nearest in length).
    """
    offsets = evaluation.document_offsets
    lengths = np.diff(offsets)  # (D,)
    document = np.repeat(np.arange(len(lengths)), lengths)  # (S,)
    begins = _TOKENS if by == "sentence-length" else _DOUBLING
    if by == "position":
        values = np.arange(offsets[-1]) - offsets[document] + 1
    elif by == "document-length":
        values = lengths[document]
    else:
        values = evaluation.sentence_counts["s-BLEU"][:, _COLUMN_OF_LENGTH]
    which = np.maximum(np.searchsorted(begins, values, side="right") - 1, 0)  # a line without a token is in the first
    chosen = [(part, np.flatnonzero(which == part)) for part in np.unique(which).tolist()]
    labels = [f"{a}-{b - 1}" if b - a > 1 else str(a) for a, b in pairwise(begins)] + [f"{begins[-1]}-"]
    return [TextPart(labels[part], sentences, np.unique(document[sentences])) for part, sentences in chosen]


@dataclass(frozen=True, eq=False)
class PartScores:
    """The scores of every part: `scores[system][part]` by metric; the systems' names are for display."""

    by: str
    parts: Sequence[TextPart]
    scores: dict[str, list[dict[str, float]]]

    @classmethod
    def of(cls, by: str, systems: dict[str, Evaluation]) -> PartScores:
        """Score the parts for systems that were evaluated on the same sentences."""
        found, whole = parts(by, next(iter(systems.values()))), by == "document-length"
        return cls(
            by,
            found,
            {
                name: [each.of_part(part.sentences, part.documents if whole else None) for part in found]
                for name, each in systems.items()
            },
        )

    def __str__(self) -> str:
        names = [f"{metric}{suffix}" for metric in self._metrics for suffix in self._suffixes]
        rows = ["\t".join([self.by, "sentences", "documents", *names])]
        for number, part in enumerate(self.parts):
            values = (rows[number][metric] for metric in self._metrics for rows in self.scores.values())
            counts = (str(len(part.sentences)), str(len(part.documents)))
            rows.append("\t".join([part.label, *counts, *(f"{value:.2f}" for value in values)]))
        return "\n".join(rows)

    @property
    def _metrics(self) -> list[str]:
        return list(next(iter(self.scores.values()))[0])

    @property
    def _suffixes(self) -> list[str]:
        return ["", *(f" ({name})" for name in list(self.scores)[1:])]

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON types."""
        return {
            "by": self.by,
            "parts": [
                {
                    "part": part.label,
                    "sentences": len(part.sentences),
                    "documents": len(part.documents),
                    **{name: rows[number] for name, rows in self.scores.items()},
                }
                for number, part in enumerate(self.parts)
            ],
        }

    def draw(self, path: Path) -> None:
        """Draw a picture with a panel per metric and a line per system.

        Raises:
            UserError: matplotlib is not installed or cannot write this kind of file.
        """
        form = picture_form("--plot", path)
        from matplotlib.figure import Figure

        figure = Figure(figsize=(4.2 * len(self._metrics), 3.4), layout="constrained")
        for axis, metric in zip(figure.subplots(1, len(self._metrics), squeeze=False)[0], self._metrics, strict=True):
            for name, rows in self.scores.items():
                axis.plot([part.label for part in self.parts], [row[metric] for row in rows], marker="o", label=name)
            axis.set(title=metric, xlabel=self.by.replace("-", " "))
            axis.tick_params(axis="x", rotation=40)
            axis.grid(alpha=0.3)
        figure.axes[0].legend()
        write_picture(figure, path, form)
