"""What a document is to a translator: segments of plain text with marks, and what comes back for each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

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
    """A segment's translation.

    Attributes:
        spans: for each mark of the segment, which part of `text` it covers now.
    """

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
    left: Sequence[int | str] = ()
    notes: Sequence[str] = ()
    segments: Sequence[Segment]

    def __init__(self, content: bytes, *, name: str, languages: tuple[str, str]) -> None:
        self.content, self.name, self.languages = content, name, languages

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
            _check(self.segments[number], text, f"{self.name}, segment {number + 1}")
        return self._write(changed) if changed else self.content

    @abstractmethod
    def _write(self, changed: Mapping[int, Translated]) -> bytes:
        """The file with the segments that changed; may be called again."""


def _check(segment: Segment, text: Translated, place: str) -> None:
    """Every mark is there, and what is fixed is what it was.

    Raises:
        ValueError: it is not so.
    """
    if len(text.spans) != len(segment.marks):
        raise ValueError(f"{place}: {len(segment.marks)} marks went in and {len(text.spans)} came out")
    for mark, (begin, end) in zip(segment.marks, text.spans, strict=True):
        expected = segment.text[mark.begin : mark.end]
        if mark.fixed and text.text[begin:end] != expected:
            raise ValueError(f"{place}: expected '{expected}' as it was, got '{text.text[begin:end]}'")
