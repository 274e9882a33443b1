"""Formats that are XML: a document is one tree or several, and segments are places in them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from docnmt.apps.documents.segments import DocumentFile, Segment, Translated


class Unit(NamedTuple):
    """A segment, what puts a translation in its place, and which part of the document that is in."""

    segment: Segment
    fill: Callable[[Translated], None]
    part: str = ""


class Tree(DocumentFile):
    """A document whose trees are read again for writing, so that it may be written more than once."""

    def __init__(self, content: bytes, *, name: str, languages: tuple[str, str]) -> None:
        super().__init__(content, name=name, languages=languages)
        self.segments = [unit.segment for unit in self._read()]

    def _read(self) -> list[Unit]:
        return [unit for unit in self._units() if unit.segment.text.strip()]

    def _write(self, changed: Mapping[int, Translated]) -> bytes:
        units = self._read()
        for number, text in changed.items():
            units[number].fill(text)
        return self._saved({units[number].part for number in changed})

    @abstractmethod
    def _units(self) -> Iterable[Unit]:
        """Reads the document anew; its segments in order."""

    @abstractmethod
    def _saved(self, parts: set[str]) -> bytes:
        """What `_units` has read, of which these parts have changed."""
