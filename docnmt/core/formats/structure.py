"""The content of a parallel corpus, independent of its files' layout: sentences and document structure."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np


class Sentence(NamedTuple):
    """One sentence on all sides: the source first, then the references.

    `units` are the labels of the units that contain it, outermost first; `labels` further columns; `place` its
    place in the files, for messages. A side is "" if the sentence has no partner there.
    """

    texts: tuple[str, ...]
    units: tuple[str, ...] = ()
    labels: str = ""
    place: str = ""


class Blank(NamedTuple):
    """An empty line, which ends the open document."""


class DocumentStart(NamedTuple):
    """The beginning of a document; `name` is its name, if the layout has names."""

    name: str | None = None


class CorpusEnd(NamedTuple):
    """The end of one of a split's corpora; `levels`: whether it marks sections or paragraphs."""

    levels: bool


Event = Sentence | Blank | DocumentStart | CorpusEnd


@dataclass
class Facts:
    """Facts collected while a split is read, complete after the last event.

    Attributes:
        levels, labels: True if sections or paragraphs, and labels of sentences, are known; `labels` is right from the
            first sentence on, `levels` holds for the part read so far.
        notes: what was changed or left out while reading, for the report.
        inputs: size and hash of each file read.
    """

    levels: bool = False
    labels: bool = False
    notes: list[str] = field(default_factory=list)
    inputs: dict[str, dict[str, int | str]] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Structure:
    """The division of a corpus's sentences into documents and units.

    Attributes:
        document_offsets: (D+1,) int64, the sentence where each document begins; the last entry is S.
        blank_lines: (D+1,) int32, empty lines of the source file before each document and after the last.
        levels: (S, K) int32, known units above the sentence, outermost first; the index inside the parent unit.
    """

    document_offsets: np.ndarray
    blank_lines: np.ndarray
    levels: np.ndarray

    @property
    def num_sentences(self) -> int:
        """The number of sentences S."""
        return int(self.document_offsets[-1])

    @property
    def num_documents(self) -> int:
        """The number of documents D."""
        return len(self.document_offsets) - 1


class StructureBuilder:
    """Builds a `Structure` line by line."""

    def __init__(self) -> None:
        self._names: dict[int, str] = {}
        self._name: str | None = None
        self._documents = array("q")
        self._blank_lines = array("i")
        self._levels = array("i")
        self._sentences = self._blank = self._corpus = 0
        self._inside = False
        self._units: tuple[str, ...] = ()
        self._index: list[int] = []

    def sentences(self, events: Iterator[Event]) -> Iterator[Sentence]:
        """Yield the sentences of a reader's events and add all events to the structure."""
        for event in events:
            if isinstance(event, Sentence):
                self.sentence(event.units)
                yield event
            elif isinstance(event, DocumentStart):
                self.mark(event.name)
            elif isinstance(event, CorpusEnd):
                self.end(levels=event.levels)
            else:
                self.blank()

    def blank(self) -> None:
        """Add an empty line, which ends the document."""
        self._blank += 1
        self._inside = False

    def mark(self, name: str | None = None) -> None:
        """Add a line or element that begins a document; if no empty line is before it, it becomes one."""
        self._blank = max(self._blank, 1 if self._sentences else 0)
        self._inside = False
        self._name = name

    def sentence(self, units: tuple[str, ...] = ()) -> None:
        """Add a sentence, with the labels of the units that contain it, outermost first.

        A unit begins where its own or an outer label changes. All sentences have equally many labels.
        """
        if not self._inside:
            if self._name is not None:
                self._names[len(self._documents)] = self._name
            self._name = None
            self._documents.append(self._sentences)
            self._blank_lines.append(self._blank)
            self._blank, self._inside, self._index = 0, True, [0] * len(units)
        elif units != self._units:
            depth = next(k for k, (old, new) in enumerate(zip(self._units, units, strict=True)) if old != new)
            self._index[depth] += 1
            self._index[depth + 1 :] = [0] * (len(units) - depth - 1)
        self._units = units
        self._levels.extend(self._index)
        self._sentences += 1

    def end(self, *, levels: bool) -> None:
        """End a corpus; without `levels`, those of its sentences are unknown, which other corpora may have."""
        if not levels:
            begin = self._corpus * len(self._units)
            self._levels[begin:] = array("i", [-1]) * (len(self._levels) - begin)
        self._corpus = self._sentences

    @property
    def names(self) -> list[str]:
        """The names of the documents, "" for those without one; empty if none has a name."""
        return [self._names.get(number, "") for number in range(len(self._documents))] if self._names else []

    def build(self, *, known: bool = True) -> Structure:
        """Return the structure of all events; `known=False` drops the levels."""
        levels = np.asarray(self._levels, dtype=np.int32).reshape(self._sentences, -1 if self._sentences else 0)
        return Structure(
            np.append(np.asarray(self._documents, dtype=np.int64), self._sentences),
            np.append(np.asarray(self._blank_lines, dtype=np.int32), np.int32(self._blank)),
            levels if known else levels[:, :0],
        )


def renumber(levels: np.ndarray, document_offsets: np.ndarray) -> np.ndarray:
    """Renumber levels (S, K) from 0 without gaps, after sentences were removed or documents cut; unknown ones stay."""
    if not len(levels):
        return levels
    begins = np.zeros(len(levels), dtype=bool)  # True where a unit of this level, or of one above, begins
    begins[document_offsets[:-1][np.diff(document_offsets) > 0]] = True
    result = np.empty_like(levels)
    for depth in range(levels.shape[1]):
        parents = begins.copy()
        begins[1:] |= np.diff(levels[:, depth]) != 0
        count = np.cumsum(begins)
        result[:, depth] = count - count[np.maximum.accumulate(np.where(parents, np.arange(len(levels)), 0))]
    return np.where(levels < 0, levels, result)
