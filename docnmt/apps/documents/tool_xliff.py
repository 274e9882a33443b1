"""XLIFF of Trados Studio and memoQ: as XLIFF 1.2, and their own marks say that a translation is a machine's draft."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator

from docnmt.apps.documents.xliff import Xliff, segments_in
from docnmt.apps.documents.xml_file import Element, text_in
from docnmt.apps.documents.xml_tree import Unit

_SDL = "{http://sdl.com/FileTypes/SdlXliff/1.0}"


class _ToolXliff(Xliff):
    """XLIFF of a tool that keeps a state of its own for each text."""

    def _units(self) -> Iterator[Unit]:
        yield from super()._units()
        self._before = [texts for _, texts in self._targets()]

    def _targets(self) -> Iterator[tuple[Element, dict[str, str]]]:
        """Each unit and what is in its target, by the number of the segment, "" if it has none."""
        for unit in self._root.iter("{*}trans-unit"):
            target = unit.find("{*}target")
            marks = [] if target is None else segments_in(target)
            texts = {mark.get("mid") or "": text_in(mark) for mark in marks}
            yield unit, texts if texts or target is None else {"": text_in(target)}

    def _saved(self, parts: set[str]) -> bytes:
        for (unit, texts), before in zip(self._targets(), self._before, strict=True):
            for number, text in texts.items():
                if text.strip() and not before.get(number, "").strip():
                    self._draft(unit, number)
        return super()._saved(parts)

    @abstractmethod
    def _draft(self, unit: Element, number: str) -> None:
        """Marks a segment of a unit as translated by a machine, for somebody to look at."""


class SdlXliff(_ToolXliff):
    """SDLXLIFF."""

    def _draft(self, unit: Element, number: str) -> None:
        for segment in unit.iter(f"{_SDL}seg"):
            if segment.get("id") == number or not number:
                segment.set("conf", "Draft")
                segment.set("origin", "mt")


class MqXliff(_ToolXliff):
    """MQXLIFF; memoQ has a segment in each unit."""

    def _draft(self, unit: Element, number: str) -> None:
        for name in unit.attrib:
            if str(name).endswith("}status"):
                unit.set(name, "MachineTranslated")
