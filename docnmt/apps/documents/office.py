"""Packages whose parts with text are XML, each read by itself: DOCX and ODT."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator

from docnmt.apps.documents.inline import reading
from docnmt.apps.documents.package import Package
from docnmt.apps.documents.xml_file import Element, count_elements, parse, written
from docnmt.apps.documents.xml_tree import Tree, Unit
from docnmt.runtime.errors import UserError


class Office(Package, Tree):
    """A package whose parts with text are trees."""

    def _units(self) -> Iterator[Unit]:
        self._roots: dict[str, Element] = {}
        with self._opened() as package:
            parts = list(self._parts(package.namelist()))
            # all are unpacked, so that what cannot be copied is refused before anything is translated
            self._originals = {info.filename: text for info, text in self._unpacked(package) if info.filename in parts}
        count_elements(self._originals.values(), self.name)
        for part in parts:
            self._roots[part] = parse(self._originals[part], f"{self.name}: {part}")
            with reading(f"{self.name}: {part}"):
                yield from self._part(self._roots[part], part)
        if not self._roots:
            raise UserError(f"{self.name}: holds no text that a document of this kind has; is it one?")

    def _saved(self, parts: set[str]) -> bytes:
        return self._copied({part: written(self._roots[part], self._originals[part]) for part in parts})

    @abstractmethod
    def _parts(self, names: Iterable[str]) -> Iterable[str]:
        """Which of these parts have text, in reading order."""

    @abstractmethod
    def _part(self, root: Element, part: str) -> Iterator[Unit]:
        """The segments of a part."""
