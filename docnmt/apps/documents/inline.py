"""The inside of a segment: built from tokens of any format, and taken apart in a translation's order."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Generic, TypeVar

from docnmt.apps.documents.segment import BREAK, Mark, Segment, Translated
from docnmt.apps.documents.steps import TEXT, Build, SegmentStep, with_placeholders, without_soft_breaks
from docnmt.runtime.errors import UserError

P = TypeVar("P")
#: White space that may become another one; a no-break space is a sign of its own.
SPACE = r"[^\S\u00a0\u2007\u202f]"
_SPACE, _ANY_SPACE = re.compile(rf"({SPACE}+)"), re.compile(r"(\s+)")
#: What shows where a word may be parted. A translation parts elsewhere, and a model would read parts of words.
_PARTS = re.compile("[\u00ad\u200b\u2060\ufeff]")
#: Marks of the writing direction, and joiners outside of the scripts whose letters they shape.
_UNSEEN = re.compile(
    "([\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]+"
    "|(?<=[A-Za-z\u00c0-\u052f])[\u200c\u200d]+(?=[A-Za-z\u00c0-\u052f]))"
)

#: What refers to a note: a number, several of them, one in brackets, a star.
_REFERENCE = re.compile(
    r"\[?\d{1,3}\]?(?:\s?[,;–-]\s?\[?\d{1,3}\]?){0,9}|\[(?:[a-z]{1,4}[ .]?)?\d{1,3}\]|\[[a-z*]\]|[*†‡§¶]{1,3}"
    r"|[¹²³⁰⁴-⁹]{1,3}"
)
#: What has exponents, beside single letters: units and functions.
_POWERED = (
    "sec min hour bar mol inch foot feet mile miles metre metres meter meters sin cos tan cot log exp chi "
    "km cm mm dm nm µm μm ft in yd mi kg ms ns ha kn mc dx dy dt xy ab gt vt pr πr"
)
_POWERS = frozenset(_POWERED.split())
_LAST_WORD = re.compile(r"[^\W\d_]+\Z")
#: Steps that are looked through for what a reference touches, and letters of it.
_NEAR = 40
#: The first letter of scripts in which a word may have one.
_FIRST_WIDE = "\u2e80"


def is_reference(touched: str, text: str, *, link: bool) -> bool:
    """Whether a link, or else a superscript, refers to a note: it touches a word or a sentence's end and is no power.

    Args:
        touched: what stands before it without white space. text: what it covers.
    """
    if not touched or not _REFERENCE.fullmatch(text):
        return False
    if link:
        return not (touched[-1].isdigit() and text[0].isdigit())
    word = _LAST_WORD.search(touched)
    if word is None:
        return not (touched[-1].isdigit() or touched[-1] in ")]}+-−/=")
    power = text in ("2", "3") and word[0].lower() in _POWERS
    return (len(word[0]) > 1 or word[0] >= _FIRST_WIDE) and not power


#: Characters that one segment may have, by far more than any model reads; each word of it takes a few hundred bytes.
LONGEST = 1 << 22
#: Marks and runs that one segment may have: each is looked at many times, and takes a kilobyte.
MOST_MARKS = 40_000


class TooLong(Exception):
    """A segment has more than this: `LONGEST` characters, or `MOST_MARKS` marks or runs."""


@contextmanager
def reading(name: str) -> Iterator[None]:
    """Reads segments of what is called so.

    Raises:
        UserError: one of them is too long, or has too many marks.
    """
    try:
        yield
    except TooLong as error:
        raise UserError(f"{name}: has a paragraph of more than {error}; divide it") from error


class Inline(Generic[P]):
    """Builds a segment's text and marks; each mark has a `payload`, by which its format writes it again.

    White space becomes single spaces, which do not begin or end a line, and a line break between characters of a script
    without spaces nothing. With `sign`, the payload of a few characters,
    the segment keeps white space at its ends, and directional marks, as marks that cover nothing.
    """

    def __init__(self, sign: Callable[[str], P] | None = None) -> None:
        self.payloads: list[P] = []
        self._sign = sign
        self._steps: list[SegmentStep] = []
        self._parents: list[int] = []
        self._open: list[int] = []
        self._length = 0  # characters of text
        self._begun = False  # whether there is text, or something that stands for it

    @property
    def begun(self) -> bool:
        """Whether there is text, or something that stands for it."""
        return self._begun

    @property
    def depth(self) -> int:
        """Formats that are open."""
        return len(self._open)

    @property
    def touched(self) -> str:
        """The end of what stands before what is added next, up to white space or a break."""
        parts, size = list[str](), 0
        for step in islice(reversed(self._steps), _NEAR):
            if step.kind in ("space", "break") or size > _NEAR:
                break
            if step.kind in TEXT:
                parts.append(step.text)
                size += len(step.text)
        return "".join(reversed(parts))[-_NEAR:]

    def text(self, text: str, hard: Callable[[str], P | None] | None = None) -> None:
        """Text of the paragraph; white space for which `hard` gives a payload is a break of lines.

        Raises:
            TooLong: it has more than `LONGEST` characters by now.
        """
        self._length += len(text)
        if self._length > LONGEST:
            raise TooLong(f"{LONGEST:,} characters")
        for number, part in enumerate(_ANY_SPACE.split(text) if hard else [text]):
            payload = hard(part) if hard and number % 2 else None
            if payload is None:
                self._text(part)
            else:
                self.hard(payload)

    def _text(self, text: str) -> None:
        for number, part in enumerate(_UNSEEN.split(_PARTS.sub("", text))):
            if number % 2:
                self.sign(part)
                continue
            for place, piece in enumerate(_SPACE.split(part)):
                if piece and place % 2 and self._sign and not self._begun:
                    self._add("empty", self._sign(piece), parent=None if "\n" in piece else -1)  # it stays at the end
                elif piece:
                    self._begun = self._begun or not place % 2
                    self._steps.append(SegmentStep("space" if place % 2 else "word", piece))

    def wide(self) -> None:
        """Two spaces that stay two, as some type behind a sentence."""
        self._steps.append(SegmentStep("space", "  ", seen="wide"))

    def sign(self, text: str) -> None:
        """Characters that no model sees; without a payload for them they are left out."""
        if self._sign is not None:
            self._add("empty", self._sign(text))

    def open(self, payload: P) -> None:
        """A format begins."""
        self._open.append(self._add("open", payload))

    def close(self) -> None:
        """The format that was opened last ends."""
        self._steps.append(SegmentStep("close", number=self._open.pop()))

    def fixed(self, payload: P, shown: str = "", seen: str = "") -> None:
        """Something that comes through as it is; `shown` is what a model sees of it, in one line.

        Where nothing is, readers may see something all the same: `seen` is "value" where it stands for text, and
        "picture" where it does not. If it then touches no word, a placeholder shows it; a picture at an end needs none.
        """
        shown = " ".join(shown.split())
        self._begun = True
        self._add("shown" if shown else "empty", payload, shown, seen)

    def hard(self, payload: P) -> None:
        """A break of lines."""
        self._add("break", payload, BREAK)

    def segment(
        self, *, translation: str | None = None, units: tuple[str, str] = ("0", "0"), flags: tuple[str, ...] = ()
    ) -> Segment:
        """What was built; formats that are still open end here."""
        while self._open:
            self.close()
        if self._sign is not None and self._steps and self._steps[-1].kind == "space":
            self.sign(self._steps.pop().text)
        text, marks = Build(with_placeholders(without_soft_breaks(self._steps)), self._parents).found()
        return Segment(text, marks, translation, units, flags)

    def _add(self, kind: str, payload: P, text: str = "", seen: str = "", parent: int | None = None) -> int:
        number = len(self.payloads)
        if number == MOST_MARKS:
            raise TooLong(f"{MOST_MARKS:,} marks")
        self.payloads.append(payload)
        around = self._open[-1] if self._open else -1
        self._parents.append(around if parent is None else parent)
        self._steps.append(SegmentStep(kind, text, number, seen))
        return number


@dataclass(frozen=True)
class OpenMark:
    """Mark `number` begins."""

    number: int


@dataclass(frozen=True)
class CloseMark:
    """Mark `number` ends."""

    number: int


@dataclass(frozen=True)
class FixedMark:
    """Mark `number`, which is fixed, stands here with all it covers."""

    number: int


Piece = OpenMark | CloseMark | FixedMark | str


def pieces(marks: Sequence[Mark], found: Translated) -> Iterator[Piece]:
    """A translation as text and marks in order.

    Formats stand in the formats that they stood in; what is fixed and covers text stands where this text is.
    """
    inside = _inside(marks, found.spans)
    place, last = 0, ""  # what was written last
    owed = False  # a space, before the next text
    alone = False  # whether the last piece is a mark that stands apart
    stack: list[tuple[int, Iterator[int]]] = [(-1, iter(inside.get(-1, ())))]
    while stack:
        around, children = stack[-1]
        number = next(children, None)
        if number is not None:
            end = found.spans[number][0]
        else:
            end = found.spans[around][1] if around >= 0 else len(found.text)
        if place < end:
            text = found.text[place:end]
            yield f" {text}" if owed and not text[0].isspace() else text
            place, last, owed, alone = end, text[-1], False, False
        if number is None:
            stack.pop()
            if around >= 0:
                yield CloseMark(around)
            continue
        if _stands_apart(number, marks, inside) and (owed or alone or (last and not last.isspace())):
            yield " "
            last, owed, alone = " ", False, False
        if not marks[number].fixed:
            yield OpenMark(number)
            stack.append((number, iter(inside.get(number, ()))))
            continue
        yield FixedMark(number)
        before, behind = found.text[max(place - 1, 0) : place], found.text[place : place + 1]
        if marks[number].apart and behind and not behind.isspace() and (before.isspace() or not before):
            owed = True
        alone = marks[number].apart
        place = max(place, found.spans[number][1])
        last = found.text[max(place - 1, 0) : place] or last


def _stands_apart(number: int, marks: Sequence[Mark], inside: Mapping[int, Sequence[int]]) -> bool:
    """Whether white space stands before a mark, or before what begins a format around nothing."""
    while not marks[number].fixed and marks[number].begin == marks[number].end and inside.get(number):
        number = inside[number][0]
    return marks[number].apart


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
