"""What a document is to a translator: segments of text with marks.
The builder that divides inline content into segments, and the steps that write marks again around a translation.
"""

from __future__ import annotations

import html
import re
import sys
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import count, islice
from typing import Generic, Literal, NamedTuple, TypeVar

from docnmt.runtime.languages import base, right_to_left, seam, tag
from docnmt.runtime.system import UserError

#: Beginnings inside of each other; those that are deeper have no end.
DEEPEST = 100


def matched(steps: Iterable[tuple[int, Hashable]]) -> dict[int, int]:
    """For beginnings (1, name), by number, the ends (-1, name) that close them; no pair crosses another.

    An end closes the last beginning of its name, and those since then have none. Other steps are (0, …).
    """
    ends: dict[int, int] = {}
    waiting: list[tuple[int, Hashable]] = []
    for number, (step, name) in enumerate(steps):
        if step > 0 and len(waiting) < DEEPEST:
            waiting.append((number, name))
        elif step < 0:
            index = next((k for k in range(len(waiting) - 1, -1, -1) if waiting[k][1] == name), None)
            if index is not None:
                ends[waiting[index][0]] = number
                del waiting[index:]
    return ends


#: What stands in a segment's text for a break of lines that a translation must keep: it parts what is translated.
BREAK = "\n"


@dataclass(frozen=True)
class Mark:
    """Something inside a segment that is no text: `text[begin:end]` is what it covers, which may be nothing.

    Attributes:
        fixed: what it covers is not translated and comes through as it is, once: code, a placeholder, a picture, a
            break. Else it is a format around text: bold, a link.
        parent: the number of the mark around it, -1 if there is none. Marks are numbered as they open.
        apart: it covers nothing and stands at an end of a line, with white space between it and the text.
    """

    begin: int
    end: int
    fixed: bool = False
    parent: int = -1
    apart: bool = False


@dataclass(frozen=True)
class Segment:
    """A paragraph, cell, unit or subtitle.

    Attributes:
        text: without inline marks; its white space is one space or two, none at the ends, and `BREAK`s.
        translation: what the file says already, if it is a file of both languages.
        units: labels of the section and the paragraph, list or row that it stands in, as `Sentence.units`.
        flags: what placeholders it has, as PO says it: `c-format`, `no-c-format`.
    """

    text: str
    marks: tuple[Mark, ...] = ()
    translation: str | None = None
    units: tuple[str, str] = ("0", "0")
    flags: tuple[str, ...] = ()


@dataclass(frozen=True)
class Translated:
    """A segment's translation; `spans`: for each mark of the segment, which part of `text` it covers now."""

    text: str
    spans: tuple[tuple[int, int], ...] = ()


class DocumentFile(ABC):
    """A file that can be written again with other text.

    Attributes:
        segments: in reading order; all that has text, translated already or not.
        bilingual: whether source and translation both stand in the file, so that the source stays.
        left: what has text and is no segment, so that it stays as it is: the lines where it begins, as what in it is
            markup cannot be told, or the parts of a package, and what they are.
        notes: what a reader of the translation that was written last is to know.
    """

    bilingual = False
    notes: Sequence[str] = ()
    segments: Sequence[Segment]

    def __init__(self, content: bytes, *, name: str, languages: tuple[str, str]) -> None:
        self.content, self.name, self.languages = content, name, languages
        self.left: list[int | str] = []

    def unchanged(self, number: int) -> Translated:
        """What leaves segment `number` as it is: its own text, in a bilingual file the translation it has."""
        segment = self.segments[number]
        if self.bilingual:
            return Translated(segment.translation or "")
        return Translated(segment.text, tuple((mark.begin, mark.end) for mark in segment.marks))

    def write(self, texts: Sequence[Translated]) -> bytes:
        """The file with these texts, one for each segment; what is `unchanged` stays byte for byte.

        Raises:
            ValueError: there are more or fewer than segments, or one has lost a mark or changed what is fixed.
        """
        if len(texts) != len(self.segments):
            raise ValueError(f"{self.name}: {len(self.segments)} segments went in and {len(texts)} came out")
        changed = {number: text for number, text in enumerate(texts) if text != self.unchanged(number)}
        for number, text in changed.items():
            segment, where = self.segments[number], f"{self.name}, segment {number + 1}"
            if len(text.spans) != len(segment.marks):
                raise ValueError(f"{where}: {len(segment.marks)} marks went in and {len(text.spans)} came out")
            for mark, (begin, end) in zip(segment.marks, text.spans, strict=True):
                expected = segment.text[mark.begin : mark.end]
                if mark.fixed and text.text[begin:end] != expected:
                    raise ValueError(f"{where}: expected '{expected}' as it was, got '{text.text[begin:end]}'")
        return self._write(changed) if changed else self.content

    @abstractmethod
    def _write(self, changed: Mapping[int, Translated]) -> bytes:
        """The file with the segments that changed; may be called again."""


# What a translation says of itself where a file says its language.


def renamed(said: str, languages: tuple[str, str]) -> str | None:
    """The target's tag where the source's language is said; None for another one."""
    return tag(languages[1]) if base(said) == base(languages[0]) else None


def turned(languages: tuple[str, str]) -> str:
    """The direction of the translation, `ltr` or `rtl`, if it is not that of the source; else nothing."""
    to_left = right_to_left(languages[1])
    return "" if to_left == right_to_left(languages[0]) else "rtl" if to_left else "ltr"


# What stands in a segment, step by step, as text with marks.

#: Steps that are text.
_TEXT = ("word", "shown")
_NUMBERED = re.compile(r"\{(\d{1,9})\}")


class _Step(NamedTuple):
    """What was added: a `word`, a `space`, or what mark `number` is: `open`, `close`, `shown`, `empty`, `break`."""

    kind: str
    text: str = ""
    number: int = -1
    seen: str = ""


def _without_soft_breaks(steps: Sequence[_Step]) -> list[_Step]:
    """The same without line breaks between characters of a script that has no spaces."""
    if not any(step.kind == "space" and "\n" in step.text for step in steps):
        return list(steps)
    hard = []
    for step, (before, behind) in zip(steps, _sides(steps), strict=True):
        soft = step.kind == "space" and "\n" in step.text and before.kind in _TEXT and behind.kind in _TEXT
        if not soft or seam(before.text, behind.text):
            hard.append(step)
    return hard


def _with_placeholders(steps: Sequence[_Step]) -> list[_Step]:
    """The same with placeholders for what readers see and models would not."""
    shown = list(steps)
    there = {int(name) for step in steps for name in _NUMBERED.findall(step.text)}
    names = (f"{{{number}}}" for number in count() if number not in there)
    sides = _sides(steps)
    words = [number for number, step in enumerate(steps) if step.kind in _TEXT]
    for number, step in enumerate(steps):
        if step.kind != "empty" or not step.seen:
            continue
        before, behind = sides[number]
        touches = (before.kind in _TEXT and before.text[-1].isalnum()) or (
            behind.kind in _TEXT and behind.text[0].isalnum()
        )
        if not touches and (step.seen == "value" or (words and words[0] < number < words[-1])):
            shown[number] = step._replace(kind="shown", text=next(names))
    return shown


def _sides(steps: Sequence[_Step]) -> list[tuple[_Step, _Step]]:
    """For each step the text, space or break before and behind it; space at an end of a line is none."""
    edge = _Step("edge")
    around: list[list[_Step]] = []
    for order in (range(len(steps)), range(len(steps) - 1, -1, -1)):
        last, near = edge, [edge] * len(steps)
        for number in order:
            near[number] = last
            kind = steps[number].kind
            if kind in ("word", "shown", "break") or (kind == "space" and last.kind not in ("edge", "break")):
                last = steps[number]
        around.append(near)
    return list(zip(*around, strict=True))


def _built(steps: Sequence[_Step], parents: Sequence[int]) -> tuple[str, tuple[Mark, ...]]:
    """The text, and where the marks stand in it."""
    parts, length, space = list[str](), 0, ""
    marks = [Mark(0, 0, parent=parent) for parent in parents]
    waiting: list[int] = []  # marks that stand behind a space that is not written yet
    for step, (before, behind) in zip(steps, _sides(steps), strict=True):
        number = step.number
        if step.kind == "space":
            wider = max(space, step.text if step.seen else " ")
            space = wider if parts and parts[-1] != BREAK else ""
        elif step.kind == "close":
            begin = marks[number].begin
            marks[number] = Mark(begin, max(begin, length), parent=parents[number])
        elif step.kind in ("open", "empty"):
            empty = step.kind == "empty"
            inside = before.kind == behind.kind == "space"  # then there is white space between words in any case
            apart = empty and before.kind not in _TEXT and behind.kind not in _TEXT and not inside
            marks[number] = Mark(length, length, empty, parents[number], apart)
            if space and not apart and not (inside and empty):
                waiting.append(number)
        else:
            if space and step.kind != "break":
                parts.append(space)
                length += len(space)
                for mark_number in waiting:
                    mark = marks[mark_number]
                    marks[mark_number] = Mark(length, max(length, mark.end), mark.fixed, mark.parent, mark.apart)
            space = ""
            waiting.clear()
            parts.append(step.text)
            length += len(step.text)
            if number >= 0:
                marks[number] = Mark(length - len(step.text), length, True, parents[number])
    return "".join(parts), tuple(marks)


# The inside of a segment: built from tokens of any format, and taken apart in a translation's order.

P = TypeVar("P")
T = TypeVar("T")
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
_LAST_WORD = re.compile(r"(?<![^\W\d_])[^\W\d_]+\Z")
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


# How much a document may have: readers say early what it has at least, so that too much is refused before it is read.

#: A number of more digits than Python reads.
_HUGE = re.compile(r"&#(?=[0-9]{4000})[0-9]+;?")


def unescaped(text: str) -> str:
    """`html.unescape`, also of numbers that no character has, however long."""
    return html.unescape(_HUGE.sub("\ufffd", text) if "&#" in text else text)


class Allowance(NamedTuple):
    """Texts, words and characters that are translated of one document, at most."""

    texts: int = sys.maxsize
    words: int = sys.maxsize
    characters: int = sys.maxsize


class TooMuch(Exception):
    """A document has more than its `Allowance`."""


_allowance = ContextVar[Allowance]("allowance")


@contextmanager
def allowed(allowance: Allowance) -> Iterator[None]:
    """Documents that are read inside may have so much, and no more."""
    before = _allowance.set(allowance)
    try:
        yield
    finally:
        _allowance.reset(before)


def expect(texts: int = 0, words: int = 0, characters: int = 0) -> None:
    """A reader knows that its document has at least so much; `TooMuch` if it may not."""
    most = _allowance.get(Allowance())
    if texts > most.texts or words > most.words or characters > most.characters:
        counts = zip(("texts", "words", "characters of text"), (texts, words, characters), most, strict=True)
        name, count, allowed = next((name, count, allowed) for name, count, allowed in counts if count > allowed)
        raise TooMuch(f"{count:,} {name} or more; expected at most {allowed:,}")


def counted(items: Iterable[T], text: Callable[[T], str]) -> Iterator[T]:
    """The same, as long as it may be so much; `TooMuch` as soon as it is more."""
    texts = words = characters = 0
    for item in items:
        if stripped := text(item).strip():
            texts, words, characters = texts + 1, words + len(stripped.split()), characters + len(stripped)
            expect(texts, words, characters)
        yield item


#: Characters that one segment may have, by far more than any model reads; each word of it takes a few hundred bytes.
LONGEST = 1 << 22
#: Marks and runs that one segment may have: each is looked at many times, and takes a kilobyte.
MOST_MARKS = 40_000


class TooLong(Exception):
    """A segment has more than this: `LONGEST` characters, or `MOST_MARKS` marks or runs."""


@contextmanager
def reading(name: str) -> Iterator[None]:
    """Reads segments of what is called so; a UserError says that one is too long, or has too many marks."""
    try:
        yield
    except TooLong as error:
        raise UserError(f"{name}: has a paragraph of more than {error}; divide it") from error


class Inline(Generic[P]):
    """Builds a segment's text and marks; each mark has a `payload`, by which its format writes it again.

    White space becomes single spaces, which do not begin or end a line, and a line break between characters of a script
    without spaces nothing. With `sign`, the payload of a few characters, the segment keeps white space at its ends, and
    directional marks, as marks that cover nothing. `begun`: there is text, or something that stands for it.
    """

    def __init__(self, sign: Callable[[str], P] | None = None) -> None:
        self.payloads: list[P] = []
        self._sign = sign
        self._steps: list[_Step] = []
        self._parents: list[int] = []
        self._open: list[int] = []
        self._length = self._words = 0  # characters of text, and words in it
        self.begun = False

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
            if step.kind in _TEXT:
                parts.append(step.text)
                size += len(step.text)
        return "".join(reversed(parts))[-_NEAR:]

    def text(self, text: str, hard: Callable[[str], P | None] | None = None) -> None:
        """Text of the paragraph; white space for which `hard` gives a payload is a break of lines."""
        self._length += len(text)
        if self._length > LONGEST:
            raise TooLong(f"{LONGEST:,} characters")
        expect(characters=self._length)
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
            pieces = _SPACE.split(part)
            self._words += len(pieces) // 2
            expect(words=self._words)
            for index, piece in enumerate(pieces):
                if piece and index % 2 and self._sign and not self.begun:
                    self._add("empty", self._sign(piece), parent=None if "\n" in piece else -1)  # it stays at the end
                elif piece:
                    self.begun = self.begun or not index % 2
                    self._steps.append(_Step("space" if index % 2 else "word", piece))

    def wide(self) -> None:
        """Two spaces that stay two, as some type behind a sentence."""
        self._steps.append(_Step("space", "  ", seen="wide"))

    def sign(self, text: str) -> None:
        """Characters that no model sees; without a payload for them they are left out."""
        if self._sign is not None:
            self._add("empty", self._sign(text))

    def open(self, payload: P) -> None:
        """A format begins."""
        self._open.append(self._add("open", payload))

    def close(self) -> None:
        """The format that was opened last ends."""
        self._steps.append(_Step("close", number=self._open.pop()))

    def fixed(self, payload: P, shown: str = "", seen: str = "") -> None:
        """Something that comes through as it is; `shown` is what a model sees of it, in one line.

        Where nothing is, readers may see something all the same: `seen` is "value" where it stands for text, and
        "picture" where it does not. If it then touches no word, a placeholder shows it; a picture at an end needs none.
        """
        shown = " ".join(shown.split())
        self.begun = True
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
        if not self.payloads and not any(step.seen or "\n" in step.text for step in self._steps):  # as most
            line = "".join(step.text if step.kind == "word" else " " for step in self._steps)
            return Segment(" ".join(filter(None, line.split(" "))), (), translation, units, flags)
        text, marks = _built(_with_placeholders(_without_soft_breaks(self._steps)), self._parents)
        return Segment(text, marks, translation, units, flags)

    def _add(self, kind: str, payload: P, text: str = "", seen: str = "", parent: int | None = None) -> int:
        number = len(self.payloads)
        if number == MOST_MARKS:
            raise TooLong(f"{MOST_MARKS:,} marks")
        self.payloads.append(payload)
        around = self._open[-1] if self._open else -1
        self._parents.append(around if parent is None else parent)
        self._steps.append(_Step(kind, text, number, seen))
        return number


class MarkPiece(NamedTuple):
    """Mark `number` begins (`open`), ends (`close`), or stands here with all it covers (`fixed`)."""

    kind: Literal["open", "close", "fixed"]
    number: int


def pieces(marks: Sequence[Mark], translation: Translated) -> Iterator[MarkPiece | str]:
    """A translation as text and marks in order.

    Formats stand in the formats that they stood in; what is fixed and covers text stands where this text is.
    """
    inside = _inside(marks, translation.spans)
    index, last = 0, ""  # what was written last
    owed = False  # a space, before the next text
    alone = False  # whether the last piece is a mark that stands apart
    stack: list[tuple[int, Iterator[int]]] = [(-1, iter(inside.get(-1, ())))]
    while stack:
        around, children = stack[-1]
        number = next(children, None)
        if number is not None:
            end = translation.spans[number][0]
        else:
            end = translation.spans[around][1] if around >= 0 else len(translation.text)
        if index < end:
            text = translation.text[index:end]
            yield f" {text}" if owed and not text[0].isspace() else text
            index, last, owed, alone = end, text[-1], False, False
        if number is None:
            stack.pop()
            if around >= 0:
                yield MarkPiece("close", around)
            continue
        if _stands_apart(number, marks, inside) and (owed or alone or (last and not last.isspace())):
            yield " "
            last, owed, alone = " ", False, False
        if not marks[number].fixed:
            yield MarkPiece("open", number)
            stack.append((number, iter(inside.get(number, ()))))
            continue
        yield MarkPiece("fixed", number)
        before, behind = translation.text[max(index - 1, 0) : index], translation.text[index : index + 1]
        if marks[number].apart and behind and not behind.isspace() and (before.isspace() or not before):
            owed = True
        alone = marks[number].apart
        index = max(index, translation.spans[number][1])
        last = translation.text[max(index - 1, 0) : index] or last


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
    parent = -1
    while True:
        children = formats.get(parent, [])
        index = bisect_right(children, begin, key=lambda number: spans[number][0]) - 1
        if index < 0 or spans[children[index]][1] < end:
            return parent
        parent = children[index]


# Which section and which paragraph, list or row a segment stands in.

_HEADINGS = frozenset({"h1", "h2", "h3", "h4", "h5", "h6"})
#: What is one unit as a whole.
_TOGETHER = frozenset({"ul", "ol", "dl", "tr"})


class Sections:
    """Counts units while a document is read: a heading opens a section; a list or a table's row is like a paragraph."""

    def __init__(self) -> None:
        self._section = self._paragraph = self._together = 0

    @property
    def units(self) -> tuple[str, str]:
        """Of what is read now."""
        return str(self._section), str(self._paragraph)

    def heading(self) -> None:
        """A heading begins."""
        self._section += 1
        self._paragraph += 1

    def paragraph(self) -> None:
        """A segment has ended."""
        if not self._together:
            self._paragraph += 1

    def together(self, *, begins: bool) -> None:
        """A list or a row begins or ends."""
        self._together = max(0, self._together + (1 if begins else -1))
        if not self._together:
            self._paragraph += 1

    def element(self, tag: str, *, begins: bool) -> None:
        """A block element of HTML."""
        if tag in _HEADINGS and begins:
            self.heading()
        elif tag in _TOGETHER:
            self.together(begins=begins)
