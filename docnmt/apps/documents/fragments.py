"""Pieces of XML and HTML that a program sends, not files: each is text with tags, and several are one document."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from xml.parsers import expat

from docnmt.apps.documents.html import Html, escape, tokens
from docnmt.apps.documents.segments import DocumentFile, Inline, Translated
from docnmt.apps.documents.text import Raw, SegmentPlace, Spliced, render
from docnmt.runtime.system import UserError

_WRAP = "docnmt"
#: What stands before the first element of a document, and what may stand in a DOCTYPE before it ends.
_PROLOG, _DOCTYPE = re.compile(r"\s*(<\?|<!--|<!DOCTYPE(?=\s))"), re.compile(r"[\[\]>\"']|<!--|<\?")
#: Tags that one piece may have.
_MOST = 1 << 17
_LINES = re.compile(r"((?<!\s)\s*\n\s*)")


class Fragments(DocumentFile):
    """Several documents as one, whose segments are read in order. Its content is theirs, parted by NULs."""

    def __init__(self, parts: Sequence[DocumentFile]) -> None:
        super().__init__(self._together([part.content for part in parts]), name=parts[0].name, languages=("", ""))
        self._parts = parts
        self.segments = [
            replace(segment, units=(f"{number}.{segment.units[0]}", f"{number}.{segment.units[1]}"))
            for number, part in enumerate(parts)
            for segment in part.segments
        ]

    @staticmethod
    def apart(content: bytes) -> list[str]:
        """The texts of the documents in what `write` gives."""
        return content.decode().split("\0")

    @staticmethod
    def _together(contents: Sequence[bytes]) -> bytes:
        return b"\0".join(contents)

    def _write(self, changed: Mapping[int, Translated]) -> bytes:
        contents, before = [], 0
        for part in self._parts:
            own = range(len(part.segments))
            contents.append(part.write([changed.get(before + n, part.unchanged(n)) for n in own]))
            before += len(own)
        return self._together(contents)


class HtmlFragment(Html):
    """A piece of a page, which is text already; elements called as in `kept` stay as they are."""

    def __init__(self, text: str, *, name: str, kept: Collection[str] = ()) -> None:
        self._kept = {tag.lower() for tag in kept}
        super().__init__(text.encode(), name=name, languages=("", ""))

    def _decoded(self) -> str:
        return Spliced._decoded(self)  # what it says of its encoding was of other bytes

    def read_places(self) -> Iterator[SegmentPlace]:
        self._count(_MOST)
        return self._read(
            replace(token, kept=True) if token.kind == "start" and token.tag in self._kept else token
            for token in tokens(self.source)
        )


@dataclass(slots=True)
class _Piece:
    """Of XML: an `open` or `close` tag, an `empty` element, `text`, or something `other`: `source[begin:end]`.

    Attributes:
        said: the element's name, or the text without references, of which `texts` are parts. partner: of a tag, the
            number of its other one.
    """

    kind: str
    begin: int
    said: str = ""
    end: int = 0
    partner: int = -1
    texts: list[str] = field(default_factory=list)


class XmlFragment(Spliced):
    """A piece of XML. Its elements stand in sentences as marks, but for those that part the text.

    Args:
        parting: elements that no sentence goes beyond, nor beyond those around them.
        kept: elements that stay as they are, with what is in them. lines: line breaks end sentences.
    """

    def __init__(
        self, text: str, *, name: str, parting: Collection[str] = (), kept: Collection[str] = (), lines: bool = True
    ) -> None:
        self._parting, self._kept, self._lines = frozenset(parting), frozenset(kept), lines
        super().__init__(text.encode(), name=name, languages=("", ""))

    def read_places(self) -> Iterator[SegmentPlace]:
        pieces = _pieces(self.source, self.name)
        parts = self._parts(pieces)
        begin = place = paragraph = 0
        while place < len(pieces):
            piece = pieces[place]
            if place in parts:
                yield from self._segment(pieces, begin, place, paragraph)
                begin, paragraph = place + 1, paragraph + 1
            elif piece.kind == "open" and piece.said in self._kept:
                place = piece.partner
            place += 1
        yield from self._segment(pieces, begin, place, paragraph)

    def _parts(self, pieces: Sequence[_Piece]) -> set[int]:
        """The tags that part the text, by number."""
        found: set[int] = set()
        around: list[int] = []
        number = 0
        while number < len(pieces):
            piece = pieces[number]
            if piece.kind == "close":
                around.pop()
            elif piece.kind == "open" and piece.said in self._kept:
                number = piece.partner
            elif piece.kind in ("open", "empty"):
                around += [number] if piece.kind == "open" else []
                if piece.said in self._parting:
                    found.add(number)
                    found |= self._around(pieces, around, found)
            number += 1
        return found

    def _around(self, pieces: Sequence[_Piece], around: Sequence[int], found: Collection[int]) -> set[int]:
        """The tags of the elements that are open, the inner ones first, up to one that is known already."""
        tags: set[int] = set()
        for outer in reversed(around):
            if pieces[outer].partner in found:
                break
            tags |= {outer, pieces[outer].partner}
        return tags

    def _segment(self, pieces: Sequence[_Piece], first: int, last: int, paragraph: int) -> Iterator[SegmentPlace]:
        """What stands between two tags that part the text."""
        inline: Inline[Raw] = Inline()
        place = first
        while place < last:
            piece = pieces[place]
            raw = self.source[piece.begin : piece.end]
            if piece.kind == "text":
                self._text(inline, piece.said, inner=(place > first, place < last - 1))
            elif piece.kind == "open" and piece.said in self._kept:
                inside = "".join(each.said for each in pieces[place : piece.partner] if each.kind == "text")
                inline.fixed((self.source[piece.begin : pieces[piece.partner].end], ""), inside)
                place = piece.partner
            elif piece.kind == "open":
                end = pieces[piece.partner]
                inline.open((raw, self.source[end.begin : end.end]))
            elif piece.kind == "close":
                inline.close()
            else:
                inline.fixed((raw, ""))
            place += 1
        bare = self._bare(pieces, first, last)
        yield SegmentPlace(inline.segment(units=("0", str(paragraph))), *bare, inline.payloads)

    def _bare(self, pieces: Sequence[_Piece], first: int, last: int) -> tuple[int, int]:
        """Where a segment begins and ends, without the white space around it."""
        if first >= last:
            return 0, 0
        begin, end = pieces[first].begin, pieces[last - 1].end
        if pieces[first].kind == "text":
            raw = self.source[begin : pieces[first].end]
            begin += len(raw) - len(raw.lstrip())
        if pieces[last - 1].kind == "text":
            raw = self.source[pieces[last - 1].begin : end]
            end -= len(raw) - len(raw.rstrip())
        return begin, max(begin, end)

    def _text(self, inline: Inline[Raw], text: str, *, inner: tuple[bool, bool]) -> None:
        """Adds text; line breaks at the ends of a segment are not of it."""
        parts = _LINES.split(text) if self._lines else [text]
        for number, part in enumerate(parts):
            ends = (number == 1 and not parts[0], number == len(parts) - 2 and not parts[-1])
            if number % 2 and not (ends[0] and not inner[0]) and not (ends[1] and not inner[1]):
                inline.hard((part, ""))
            else:
                inline.text(part)

    def rendered(self, place: SegmentPlace, text: Translated) -> str:
        return render(place, text, escape)


def _prolog_end(source: str) -> int:
    """Where what a document of XML may begin with ends: a declaration, comments and a DOCTYPE, which is not read."""
    end = 0
    while match := _PROLOG.match(source, end):
        place, inside = match.end(), False
        ends = {"<?": "?>", "<!--": "-->"}
        if match[1] in ends:
            found = source.find(ends[match[1]], place)
            if found < 0:
                return end
            end = found + len(ends[match[1]])
            continue
        while stop := _DOCTYPE.search(source, place):
            place = stop.end()
            if stop[0] in ("[", "]"):
                inside = stop[0] == "["
            elif stop[0] != ">":
                closing = ends.get(stop[0], stop[0])
                found = source.find(closing, place)
                if found < 0:
                    return end
                place = found + len(closing)
            elif not inside:
                break
        if stop is None:
            return end
        end = place
    return end


def _pieces(source: str, name: str) -> list[_Piece]:
    """XML as expat reads it, inside of an element, where nothing can be declared, without what stands before it.

    Raises:
        UserError: it is not well-formed.
    """
    if source.count("<") + source.count("&") > _MOST:
        raise UserError(f"{name}: has more than {_MOST:,} tags and entities, too many for memory; divide it")
    before = _prolog_end(source)
    content = f"<{_WRAP}>{source[before:]}</{_WRAP}>".encode()
    parser = expat.ParserCreate("UTF-8")
    found: list[_Piece] = []
    waiting: list[int] = []

    def add(kind: str, said: str = "", partner: int = -1) -> None:
        found.append(_Piece(kind, parser.CurrentByteIndex, said, partner=partner))

    def start(tag: str, attributes: object) -> None:
        waiting.append(len(found))
        add("open", tag)

    def end(tag: str) -> None:
        opened = waiting.pop()
        found[opened].partner = len(found)
        add("close", tag, opened)

    def text(part: str = "") -> None:
        """Of lines, references and CDATA sections expat tells one by one."""
        if found[-1].kind != "text":
            add("text")
        found[-1].texts.append(part)

    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler = text
    parser.StartCdataSectionHandler = parser.EndCdataSectionHandler = text
    parser.CommentHandler = lambda comment: add("other")
    parser.ProcessingInstructionHandler = lambda target, data: add("other")
    try:
        parser.Parse(content, True)
    except expat.ExpatError as error:
        place = f"line {error.lineno + source.count(chr(10), 0, before)}"
        raise UserError(f"{name}: is not well-formed XML: {expat.ErrorString(error.code)}, {place}") from error
    return [replace(piece, begin=before + piece.begin, end=before + piece.end) for piece in _placed(found, content)]


def _placed(found: Sequence[_Piece], content: bytes) -> list[_Piece]:
    """The pieces inside of the outer element, which know where they stand in the text; an element around nothing is one
    piece."""
    begins = [piece.begin for piece in found]
    characters = _Characters(content, len(f"<{_WRAP}>"))
    kept: list[_Piece] = []
    number_of: dict[int, int] = {}
    number = 1
    while number < len(found) - 1:
        piece = found[number]
        number_of[number] = len(kept)
        kept.append(piece)
        if piece.kind == "open" and piece.partner == number + 1:
            piece.kind = "empty"
            number += 1
        piece.begin, piece.end = characters.at(piece.begin), characters.at(begins[number + 1])
        piece.said = piece.said or "".join(piece.texts)
        number += 1
    for piece in kept:
        if piece.kind in ("open", "close"):
            piece.partner = number_of[piece.partner]
    return kept


class _Characters:
    """Places in bytes as places in text, asked from left to right."""

    def __init__(self, content: bytes, before: int) -> None:
        self._content, self._byte, self._character = content, before, 0

    def at(self, byte: int) -> int:
        """The character that begins at a byte."""
        self._character += len(self._content[self._byte : byte].decode())
        self._byte = byte
        return self._character
