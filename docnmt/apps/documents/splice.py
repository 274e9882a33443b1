"""Formats that are text: segments are places of the source, and all between them stays byte for byte."""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from docnmt.apps.documents.segments import CloseMark, DocumentFile, Segment, Translated, pieces
from docnmt.apps.documents.text_file import decode, replaced
from docnmt.runtime.errors import UserError

#: How a mark is written: before and behind what it covers; of something fixed, the first is all of it.
Raw = tuple[str, str]


@dataclass(frozen=True)
class SegmentPlace:
    """A segment and where it stands: `source[begin:end]`; `raws` are its marks as they are written."""

    segment: Segment
    begin: int
    end: int
    raws: Sequence[Raw] = ()


class Spliced(DocumentFile):
    """A text whose segments are replaced where they stand."""

    encoding = "utf-8"

    def __init__(self, content: bytes, *, name: str, languages: tuple[str, str]) -> None:
        super().__init__(content, name=name, languages=languages)
        self.source = self._decoded()
        self.places = [place for place in self._places() if place.segment.text.strip()]
        self.segments = [place.segment for place in self.places]

    def _decoded(self) -> str:
        return decode(self.content, self.name, encoding=self.encoding)

    @abstractmethod
    def _places(self) -> Iterable[SegmentPlace]:
        """The segments in order."""

    def _render(self, place: SegmentPlace, text: Translated) -> str:
        """What is written for a segment."""
        return render(place, text, str)

    def _write(self, changed: Mapping[int, Translated]) -> bytes:
        changes = []
        for number, text in sorted(changed.items()):
            place = self.places[number]
            changes.append((place.begin, place.end, self._render(place, text)))
        begins, ends = [change[0] for change in changes], [0, *(change[1] for change in changes)]
        changes += [each for each in self._settings() if each[0] >= ends[bisect_right(begins, each[0])]]
        return self._encoded(replaced(self.source, sorted(changes, key=lambda change: change[:2])))

    def _settings(self) -> Iterable[tuple[int, int, str]]:
        """Where the file says its language and the like, and what a translation says; segments have their own."""
        return ()

    def _encoded(self, text: str) -> bytes:
        try:
            return text.encode(self.encoding)
        except UnicodeEncodeError as error:
            missing = text[error.start]
            raise UserError(
                f"{self.name}: is in {error.encoding}, which has no '{missing}'; convert the file to UTF-8 first"
            ) from error


def render(place: SegmentPlace, text: Translated, escape: Callable[[str], str]) -> str:
    """A translation with its marks as they are written; signs of emphasis around nothing would be text, and so would
    code right behind code, and formulas of TeX beside digits."""
    out, formula = [""], False
    nothing = around_nothing(place, text)
    for piece in pieces(place.segment.marks, text):
        if isinstance(piece, str):
            out.append(f" {escape(piece)}" if formula and piece[0].isdigit() else escape(piece))
            formula = False
        elif piece.number not in nothing:
            raw = place.raws[piece.number][isinstance(piece, CloseMark)]
            torn = raw[:1] == "`" == out[-1][-1:] or (raw[:1] == "$" and out[-1][-1:].isdigit())
            out.append(f" {raw}" if torn else raw)
            formula = raw[-1:] == "$"
    return "".join(out)


def around_nothing(place: SegmentPlace, text: Translated) -> set[int]:
    """The marks written as signs of emphasis that cover nothing in a translation."""
    same = (number for number, raw in enumerate(place.raws) if raw[1].startswith(raw[0]))
    return {number for number in same if text.spans[number][0] >= text.spans[number][1]}
