"""Pieces of XML and HTML that a program sends, not files: each is text with tags, and several are one document."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise
from xml.parsers import expat

from docnmt.apps.documents.html import Html, Token, escape, tokens
from docnmt.apps.documents.segments import DocumentFile, Inline, Translated
from docnmt.apps.documents.text import Raw, SegmentPlace, Spliced, render
from docnmt.runtime.system import UserError

#: What may stand in a DOCTYPE and is no end of it.
_INSIDE = r"\"[^\"]*\"|'[^']*'|<!--.*?-->|<\?.*?\?>|<(?!!--|\?)"
#: What may stand before the first element: declarations, comments, a DOCTYPE, which is not read.
_PROLOG = re.compile(
    rf"(?:\s*(?><\?.*?\?>|<!--.*?-->|<!DOCTYPE(?=\s)(?>{_INSIDE}|[^\[>\"'<]|\[(?>{_INSIDE}|[^\]\"'<])*+\])*+>))*+",
    re.DOTALL,
)
#: Tags that one piece may have, and the element around it when it is read.
_MOST, _ROOT = 1 << 17, "<docnmt>"
_LINES = re.compile(r"((?<!\s)\s*\n\s*)")


class Fragments(DocumentFile):
    """Several documents as one, whose segments are read in order. Its content is theirs, parted by NULs."""

    def __init__(self, parts: Sequence[DocumentFile]) -> None:
        super().__init__(b"\0".join(part.content for part in parts), name=parts[0].name, languages=("", ""))
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

    def _write(self, changed: Mapping[int, Translated]) -> bytes:
        contents, before = [], 0
        for part in self._parts:
            numbers = range(len(part.segments))
            contents.append(part.write([changed.get(before + n, part.unchanged(n)) for n in numbers]))
            before += len(numbers)
        return b"\0".join(contents)


class HtmlFragment(Html):
    """A piece of a page, which is text already; elements called as in `kept` stay as they are."""

    most = _MOST

    def __init__(self, text: str, *, name: str, kept: Collection[str] = ()) -> None:
        self._kept = {tag.lower() for tag in kept}
        super().__init__(text.encode(), name=name, languages=("", ""))

    def _decoded(self) -> str:
        return Spliced._decoded(self)  # what it says of its encoding was of other bytes

    def _page(self) -> Iterator[Token]:
        for token in tokens(self.source):
            yield replace(token, kept=True) if token.kind == "start" and token.tag in self._kept else token


@dataclass(slots=True)
class _Piece:
    """A piece of XML, `source[begin:end]`; one that is `fixed` is an element with all that is in it."""

    kind: str  # open, close, text, empty, fixed, other
    begin: int
    end: int = 0
    tag: str = ""
    partner: int = -1  # of an open tag, the number of its other one
    texts: list[str] = field(default_factory=list)  # what it says, in parts


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
        pieces = _pieces(self.source, self.name, self._kept)
        begin = 0
        for paragraph, end in enumerate([*sorted(self._parts(pieces)), len(pieces)]):
            yield from self._segment(pieces, begin, end, paragraph)
            begin = end + 1

    def _parts(self, pieces: Sequence[_Piece]) -> set[int]:
        tags: set[int] = set()
        around: list[int] = []
        for number, piece in enumerate(pieces):
            if piece.kind == "close":
                around.pop()
            elif piece.kind in ("open", "empty"):
                around += [number] if piece.kind == "open" else []
                tags |= {number} if piece.tag in self._parting else set()
                for outer in reversed(around if piece.tag in self._parting else ()):  # and those around it
                    if pieces[outer].partner in tags:
                        break
                    tags |= {outer, pieces[outer].partner}
        return tags

    def _segment(self, pieces: Sequence[_Piece], first: int, last: int, paragraph: int) -> Iterator[SegmentPlace]:
        """What stands between two tags that part the text."""
        inline: Inline[Raw] = Inline()
        for index in range(first, last):
            piece = pieces[index]
            raw = self.source[piece.begin : piece.end]
            if piece.kind == "text":
                self._text(inline, "".join(piece.texts), inner=(index > first, index < last - 1))
            elif piece.kind == "open":
                closing = pieces[piece.partner]
                inline.open((raw, self.source[closing.begin : closing.end]))
            elif piece.kind == "close":
                inline.close()
            else:
                inline.fixed((raw, ""), "".join(piece.texts))
        begin, end = (pieces[first].begin, pieces[last - 1].end) if first < last else (0, 0)
        raw = self.source[begin:end]
        begin += len(raw) - len(raw.lstrip())
        end = begin + len(raw.strip())
        yield SegmentPlace(inline.segment(units=("0", str(paragraph))), begin, end, inline.payloads)

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


def _pieces(source: str, name: str, kept: Collection[str]) -> list[_Piece]:
    """XML that expat takes inside of an element, where nothing can be declared, without what stands before it."""
    if source.count("<") + source.count("&") > _MOST:
        raise UserError(f"{name}: has more than {_MOST:,} tags and entities, too many for memory; divide it")
    prolog = _PROLOG.match(source)
    before = prolog.end() if prolog else 0
    content = f"{_ROOT}{source[before:]}</docnmt>".encode()
    parser = expat.ParserCreate("UTF-8")
    pieces, waiting = list[_Piece](), list[int]()  # those that begin in `content`; open tags

    def begin(kind: str, tag: str = "") -> None:
        pieces.append(_Piece(kind, parser.CurrentByteIndex, tag=tag))

    def start(tag: str, attributes: object) -> None:
        waiting.append(len(pieces))
        begin("open", tag)

    def end(tag: str) -> None:
        opened = waiting.pop()
        if opened == len(pieces) - 1:
            pieces[opened].kind = "empty"
        elif tag in kept and waiting:
            texts = [text for piece in pieces[opened:] for text in piece.texts]
            pieces[opened:] = [_Piece("fixed", pieces[opened].begin, tag=tag, texts=texts)]
        else:
            pieces[opened].partner = len(pieces) - 1  # without the element around all
            begin("close", tag)

    def text(part: str = "") -> None:
        if pieces[-1].kind != "text":
            begin("text")
        pieces[-1].texts.append(part)

    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler, parser.StartCdataSectionHandler = text, text
    parser.CommentHandler = lambda comment: begin("other")
    parser.ProcessingInstructionHandler = lambda target, instruction: begin("other")
    try:
        parser.Parse(content, True)
    except expat.ExpatError as error:
        line = error.lineno + source.count("\n", 0, before)
        raise UserError(f"{name}: is not well-formed XML: {expat.ErrorString(error.code)}, line {line}") from error
    lengths = (len(content[one.begin : other.begin].decode()) for one, other in pairwise(pieces))
    for piece, (first, last) in zip(pieces, pairwise(accumulate(lengths, initial=before - len(_ROOT))), strict=False):
        piece.begin, piece.end = first, last
    return pieces[1:-1]
