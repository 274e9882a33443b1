"""HTML: the text between block elements is a segment, elements inside of it are marks."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping, Sequence

from docnmt.apps.documents.begin_and_end import matched
from docnmt.apps.documents.html_tokens import Token, tokens
from docnmt.apps.documents.inline import Inline
from docnmt.apps.documents.sections import Sections
from docnmt.apps.documents.segment import Translated
from docnmt.apps.documents.splice import Place, Raw, Spliced, render

#: Elements that stand in a line of text.
_INLINE = (
    "a abbr acronym b bdi bdo big cite data del dfn em font i ins label mark nobr q ruby s small span strike "
    "strong sub sup time tt u"
)
INLINE = frozenset(_INLINE.split())
#: Elements whose content is not translated, in a line of text.
_FIXED = "code kbd samp var math svg object audio video canvas map meter progress output button select"
FIXED = frozenset(_FIXED.split())
_IN_LINES = INLINE | FIXED | {"br", "img", "wbr", "input"}
#: … and between lines.
_SKIPPED = "script style pre textarea template noscript iframe listing xmp plaintext"
SKIPPED = frozenset(_SKIPPED.split())
_STEPS = {"start": 1, "end": -1}
_CHARSET = re.compile(rb"""<(?:meta[^>]*?charset|\?xml[^>]*?encoding)\s*=\s*["']?\s*([\w.:-]+)""", re.IGNORECASE)


class Html(Spliced):
    """A page, in the encoding that it says."""

    def _decoded(self) -> str:
        said = _CHARSET.search(self.content[:4096])
        if said and not self.content.startswith(b"\xef\xbb\xbf"):
            self.encoding = said[1].decode("ascii")
            if self.encoding.lower() in ("iso-8859-1", "latin1", "ascii", "us-ascii"):
                self.encoding = "cp1252"  # as browsers do
        return super()._decoded()

    def _places(self) -> Iterator[Place]:
        return segments(self.source, list(tokens(self.source)), Sections())

    def _render(self, place: Place, text: Translated) -> str:
        return render(place, text, escape)

    def _encoded(self, text: str) -> bytes:
        return text.encode(self.encoding, errors="xmlcharrefreplace")


def escape(text: str) -> str:
    """Text as HTML has it."""
    return html.escape(text, quote=False)


def segments(source: str, found: Sequence[Token], sections: Sections) -> Iterator[Place]:
    """The segments of a page or of a part of it."""
    line: list[Token] = []
    ends = _ends(found)
    place = 0
    while place < len(found):
        token = found[place]
        last = place
        if token.kind == "start" and (token.kept or token.tag in FIXED or token.tag in SKIPPED):
            last = ends.get(place) or (_left_open(found, place, ends) if token.kept else place)
        if token.kind == "end" and token.tag in FIXED:  # its start is missing
            token = Token("other", token.begin, token.end)
        if token.tag in _IN_LINES or token.kind in ("text", "other"):
            kind = "fixed" if last > place or token.tag in FIXED else token.kind
            line.append(Token(kind, token.begin, found[last].end, token.tag))
        else:
            yield from _segment(source, line, sections)
            line = []
            sections.element(token.tag, begins=token.kind == "start")
        place = last + 1
    yield from _segment(source, line, sections)


def _ends(found: Sequence[Token]) -> dict[int, int]:
    """For each start tag, by number, the end tag of the same name that closes it, if there is one."""
    ends: dict[int, int] = {}
    waiting: dict[str, list[int]] = {}
    for number, token in enumerate(found):
        if token.kind == "start":
            waiting.setdefault(token.tag, []).append(number)
        elif token.kind == "end" and waiting.get(token.tag):
            ends[waiting[token.tag].pop()] = number
    return ends


def _left_open(found: Sequence[Token], start: int, ends: Mapping[int, int]) -> int:
    """The last token of an element whose end tag is left out, as HTML allows for some: it ends where the next of its
    kind begins, or where the element around it ends."""
    tag = found[start].tag
    if tag not in _OPEN:
        return start
    place = start + 1
    while place < len(found):
        token = found[place]
        follows = token.tag in _OPEN[tag] or (tag == "p" and token.tag not in _IN_LINES)
        if token.kind == "end" or (token.kind in ("start", "void") and follows):
            break
        place = ends.get(place, place) + 1
    return place - 1


#: Elements whose end tag may be left out, and those that end them; a paragraph is ended by any block.
_OPEN = {
    "p": frozenset({"p"}), "li": frozenset({"li"}), "option": frozenset({"option", "optgroup"}),
    "dt": frozenset({"dt", "dd"}), "dd": frozenset({"dt", "dd"}), "tr": frozenset({"tr"}),
    "td": frozenset({"td", "th", "tr"}), "th": frozenset({"td", "th", "tr"}),
}  # fmt: skip


def _segment(source: str, line: list[Token], sections: Sections) -> Iterator[Place]:
    """What stands between two block elements, if there is text in it."""
    line = _trimmed(source, line)
    if not line:
        return
    inline: Inline[Raw] = Inline()
    ends = _matched(line)
    closing = set(ends.values())
    for number, token in enumerate(line):
        raw = source[token.begin : token.end]
        if token.kind == "text":
            inline.text(html.unescape(raw))
        elif token.kind == "fixed":
            inline.fixed((raw, ""), _shown(raw))
        elif token.tag == "br":
            inline.hard((raw, ""))
        elif number in ends:
            end = line[ends[number]]
            inline.open((raw, source[end.begin : end.end]))
        elif number in closing:
            inline.close()
        else:
            inline.fixed((raw, ""))
    yield Place(inline.segment(units=sections.units), line[0].begin, line[-1].end, inline.payloads)
    sections.paragraph()


def _trimmed(source: str, line: list[Token]) -> list[Token]:
    """Without what is around the text: comments, pictures and elements with nothing to translate."""
    has_text = [
        number for number, token in enumerate(line)
        if token.kind in ("text", "fixed") and _shown(source[token.begin : token.end]).strip()
    ]  # fmt: skip
    if not any(line[number].kind == "text" for number in has_text):
        return []
    first, last = has_text[0], has_text[-1]
    ends = _matched(line)
    for begin, end in ends.items():  # elements that reach into the text stay whole
        if begin < first <= end <= last or first <= begin <= last < end:
            first, last = min(first, begin), max(last, end)
    return _bare(source, line[first : last + 1])


def _bare(source: str, line: list[Token]) -> list[Token]:
    """Without the white space around the first and the last text."""
    for at in (0, -1):
        token = line[at]
        if token.kind == "text":
            raw = source[token.begin : token.end]
            begin = token.begin + (len(raw) - len(raw.lstrip()) if at == 0 else 0)
            end = token.end - (len(raw) - len(raw.rstrip()) if at == -1 else 0)
            line[at] = Token("text", begin, end)
    return line


def _matched(line: Sequence[Token]) -> dict[int, int]:
    """Start tags and their end tags, by number; those that cross another element are left out."""
    return matched((_STEPS.get(token.kind, 0), token.tag) for token in line)


def _shown(raw: str) -> str:
    """What is seen of a piece of HTML."""
    return html.unescape(re.sub(r"<[^<>]*>", "", raw))
