"""The inside of a segment: built from tokens of any format, and taken apart in a translation's order."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from docnmt.apps.documents.segment import BREAK, Mark, Segment, Translated

P = TypeVar("P")
_SPACE = re.compile(r"\s+")


class Inline(Generic[P]):
    """Builds a segment's text and marks; each mark has a `payload`, by which its format writes it again.

    White space becomes single spaces, which do not begin or end a line.
    """

    def __init__(self) -> None:
        self.payloads: list[P] = []
        self._marks: list[Mark] = []
        self._open: list[int] = []
        self._waiting: list[int] = []  # marks that stand behind a space that is not written yet
        self._parts: list[str] = []
        self._length = 0
        self._space = False
        self._spaced = -1  # the mark that was added last, if it covers nothing and stands behind a space

    @property
    def depth(self) -> int:
        """Formats that are open."""
        return len(self._open)

    def text(self, text: str) -> None:
        """Text of the paragraph."""
        if text and self._spaced >= 0:
            if text[0].isspace():
                self._marks[self._spaced] = replace(self._marks[self._spaced], apart=True)
            self._spaced = -1
        for number, word in enumerate(_SPACE.split(text)):
            self._space = self._space or number > 0
            if word:
                self._put(word)

    def open(self, payload: P) -> None:
        """A format begins."""
        self._open.append(self._add(payload, self._length, fixed=False))

    def close(self) -> None:
        """The format that was opened last ends."""
        number = self._open.pop()
        mark = self._marks[number]
        self._marks[number] = Mark(mark.begin, max(mark.begin, self._length), parent=mark.parent)

    def fixed(self, payload: P, shown: str = "") -> None:
        """Something that comes through as it is; `shown` is what a model sees of it, in one line."""
        if shown := " ".join(shown.split()):
            self._put(shown)
        spaced = self._space or not self._parts
        number = self._add(payload, self._length - len(shown), fixed=True)
        self._spaced = number if spaced and not shown else -1

    def hard(self, payload: P) -> None:
        """A break of lines."""
        self._space = False
        self._waiting.clear()
        self._parts.append(BREAK)
        self._length += 1
        self._add(payload, self._length - 1, fixed=True)

    def segment(self, *, translation: str | None = None, units: tuple[str, str] = ("0", "0")) -> Segment:
        """What was built; formats that are still open end here."""
        while self._open:
            self.close()
        return Segment("".join(self._parts), tuple(self._marks), translation, units)

    def _put(self, word: str) -> None:
        if self._space and self._parts and self._parts[-1] != BREAK:
            self._parts.append(" ")
            self._length += 1
            for number in self._waiting:
                mark = self._marks[number]
                self._marks[number] = Mark(self._length, self._length, mark.fixed, mark.parent)
        self._space = False
        self._waiting.clear()
        self._parts.append(word)
        self._length += len(word)

    def _add(self, payload: P, begin: int, *, fixed: bool) -> int:
        number, self._spaced = len(self._marks), -1
        if self._space and not fixed:
            self._waiting.append(number)
        self.payloads.append(payload)
        self._marks.append(Mark(begin, self._length, fixed, self._open[-1] if self._open else -1))
        return number


@dataclass(frozen=True)
class Open:
    """Mark `number` begins."""

    number: int


@dataclass(frozen=True)
class Close:
    """Mark `number` ends."""

    number: int


@dataclass(frozen=True)
class Fixed:
    """Mark `number`, which is fixed, stands here with all it covers."""

    number: int


Piece = Open | Close | Fixed | str


def pieces(marks: Sequence[Mark], found: Translated) -> Iterator[Piece]:
    """A translation as text and marks in order.

    Formats stand in the formats that they stood in; what is fixed and covers text stands where this text is.
    """
    inside = _inside(marks, found.spans)
    place = 0
    stack: list[tuple[int, Iterator[int]]] = [(-1, iter(inside.get(-1, ())))]
    while stack:
        around, children = stack[-1]
        number = next(children, None)
        if number is not None:
            end = found.spans[number][0]
        else:
            end = found.spans[around][1] if around >= 0 else len(found.text)
        if place < end:
            yield found.text[place:end]
            place = end
        if number is None:
            stack.pop()
            if around >= 0:
                yield Close(around)
        elif marks[number].fixed:
            apart = marks[number].apart
            if apart and place and not found.text[place - 1].isspace():
                yield " "
            yield Fixed(number)
            before, behind = found.text[max(place - 1, 0) : place], found.text[place : place + 1]
            if apart and not behind.isspace() and (before.isspace() or (behind and not before)):
                yield " "
            place = max(place, found.spans[number][1])
        else:
            yield Open(number)
            stack.append((number, iter(inside.get(number, ()))))


def _inside(marks: Sequence[Mark], spans: Sequence[tuple[int, int]]) -> dict[int, list[int]]:
    """For each format, and -1 for the whole, the marks right inside of it, from left to right."""
    formats: dict[int, list[int]] = {}
    for number, mark in enumerate(marks):
        if not mark.fixed:
            formats.setdefault(mark.parent, []).append(number)
    for children in formats.values():
        children.sort(key=lambda number: (spans[number], number))
    inside = {parent: list(children) for parent, children in formats.items()}
    for number, mark in enumerate(marks):
        if mark.fixed:
            begin, end = spans[number]
            parent = mark.parent if begin == end else _around(formats, spans, begin, end)
            inside.setdefault(parent, []).append(number)
    for children in inside.values():
        children.sort(key=lambda number: (spans[number], number))
    return inside


def _around(formats: dict[int, list[int]], spans: Sequence[tuple[int, int]], begin: int, end: int) -> int:
    """The innermost format around a part of the text."""
    parent = -1
    while True:
        children = formats.get(parent, [])
        place = bisect_right(children, begin, key=lambda number: spans[number][0]) - 1
        if place < 0 or spans[children[place]][1] < end:
            return parent
        parent = children[place]
