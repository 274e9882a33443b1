"""A document in memory: its sentences, and the paragraphs and sections that contain them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from docnmt.core.formats.structure import Structure, StructureBuilder
from docnmt.runtime.errors import UserError


@dataclass(frozen=True)
class Document:
    """A document's sentences with their structure.

    Attributes:
        sentences: the sentences, in order.
        units: for each sentence the labels of the units that contain it, outermost first (section, paragraph), equally
            many for each; a unit begins where its own or an outer label changes. Empty: the structure is unknown.

    Raises:
        UserError: a field is no sequence, or the numbers of `units` and sentences, or of labels per sentence, differ.
    """

    sentences: tuple[str, ...]
    units: tuple[tuple[str, ...], ...] = ()

    def __post_init__(self) -> None:
        given: list[tuple[str, object]] = [("sentences", self.sentences), ("units", self.units)]
        for name, value in given:
            if isinstance(value, str) or not isinstance(value, Sequence):
                raise UserError(f"Document: {name}: expected a tuple, got {type(value).__name__}")
        if self.units and len(self.units) != len(self.sentences):
            raise UserError(f"Document: {len(self.sentences)} sentences and units of {len(self.units)}; expected equal")
        depths = {len(labels) for labels in self.units}
        if len(depths) > 1:
            raise UserError(f"Document: sentences have {min(depths)} to {max(depths)} labels of units; expected equal")

    @classmethod
    def nested(cls, parts: Sequence[Any]) -> Document:
        """Build a document from nested lists: paragraphs of sentences, sections of paragraphs of sentences, and so on.

        Raises:
            UserError: sentences have different depths, or an element is neither a text nor a list.
        """
        found: list[tuple[str, tuple[str, ...]]] = []

        def _walk(part: object, labels: tuple[str, ...]) -> None:  # a sentence, or a list of anything of this kind
            if isinstance(part, str):
                found.append((part, labels[:-1]))
            elif isinstance(part, (bytes, bytearray)) or not isinstance(part, Sequence):
                raise UserError(f"Document.nested: expected texts in lists, got {type(part).__name__}")
            else:
                for number, inner in enumerate(part):
                    _walk(inner, (*labels, str(number)))

        _walk(parts, ())
        return cls(tuple(text for text, _ in found), tuple(labels for _, labels in found))

    def take(self, places: Sequence[int]) -> Document:
        """Return a document of these sentences only."""
        units = tuple(self.units[n] for n in places) if self.units else ()
        return Document(tuple(self.sentences[n] for n in places), units)


def structure_of(documents: Sequence[Document]) -> Structure:
    """Return the structure of documents, empty ones included. Levels that only other documents have are -1."""
    tables = [_levels(document) for document in documents]
    depth = max((table.shape[1] for table in tables), default=0)
    padded = [np.pad(each, ((0, 0), (depth - each.shape[1], 0)), constant_values=-1) for each in tables]
    blank = np.ones(len(documents) + 1, dtype=np.int32)
    blank[[0, -1]] = 0
    return Structure(
        np.cumsum([0, *(len(document.sentences) for document in documents)], dtype=np.int64),
        blank,
        np.concatenate([np.zeros((0, depth), dtype=np.int32), *padded]),
    )


def _levels(document: Document) -> np.ndarray:
    """Return the levels (n, K) of one document."""
    builder = StructureBuilder()
    for labels in document.units or [()] * len(document.sentences):
        builder.sentence(labels)
    return builder.build().levels
