"""HTML: the text between block elements is a segment, elements inside of it are marks."""

from __future__ import annotations

import html
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from docnmt.apps.documents import html_attributes
from docnmt.apps.documents.begin_and_end import matched
from docnmt.apps.documents.html_elements import BLOCKS, CONTROLS, FIXED, OPEN, SKIPPED, UNSEEN, is_picture
from docnmt.apps.documents.html_language import renamed
from docnmt.apps.documents.html_tokens import Token, attributes, tokens
from docnmt.apps.documents.inline import Inline, is_reference
from docnmt.apps.documents.sections import Sections
from docnmt.apps.documents.segment import Translated
from docnmt.apps.documents.splice import Raw, SegmentPlace, Spliced, render
from docnmt.apps.documents.text_file import replaced
from docnmt.runtime.errors import UserError
from docnmt.runtime.languages import base

#: Signs that begin tags and entities, each of which takes a few hundred bytes of memory; a long book has a million.
_MOST = 1 << 21
#: Tokens of an element that refers to a note, at most.
_REFERENCE = 20
_STEPS = {"start": 1, "end": -1}
#: Elements whose language is not that of a text in the page: the page, and code, whose language may be one of programs.
_ANY_LANGUAGE = frozenset({"html", "body"}) | SKIPPED | FIXED
_LANGUAGE = re.compile(r"[A-Za-z]{2,3}(?:-[A-Za-z0-9]{1,8})*")
_CHARSET = re.compile(rb"""<(?:meta[^<>]*?charset|\?xml[^<>]*?encoding)\s*=\s*(?:["']\s*)?([\w.:-]+)""", re.IGNORECASE)


class Html(Spliced):
    """A page, in the encoding that it says."""

    def _decoded(self) -> str:
        said = _CHARSET.search(self.content[:4096])
        if said and not self.content.startswith(b"\xef\xbb\xbf"):
            self.encoding = said[1].decode("ascii")
            if self.encoding.lower() in ("iso-8859-1", "latin1", "ascii", "us-ascii"):
                self.encoding = "cp1252"  # as browsers do
        return super()._decoded()

    def _places(self) -> Iterator[SegmentPlace]:
        self._count(_MOST)
        return self._read(tokens(self.source))

    def _count(self, most: int) -> None:
        """Refuse a page of too many tags before it is read."""
        if self.source.count("<") + self.source.count("&") > most:
            raise UserError(f"{self.name}: has more than {most:,} tags and entities, too many for memory; divide it")

    def _read(self, found: Iterable[Token]) -> Iterator[SegmentPlace]:
        """The texts and the attributes that readers see, where they stand."""
        self._tokens, self._attributes = list(joined(self._foreign(found))), dict[str, str]()
        lines, line, counted = list[int](), 1, 0
        for token in self._tokens:
            if token.foreign and any(map(str.isalpha, _shown(self.source, token))):
                line, counted = line + self.source.count("\n", counted, token.begin), token.begin
                lines.append(line)
        named = ", ".join(map(str, dict.fromkeys(lines)))
        self.left = [f"text in another language, by its lang, in line {named}"] if named else []
        units = ("0", "0")
        places = [
            *segments(self.source, self._tokens, Sections()),
            *html_attributes.attribute_places(self.source, self._tokens),
        ]
        for place in sorted(places, key=lambda place: place.begin):
            if isinstance(place, html_attributes.AttributePlace):
                place = replace(place, segment=replace(place.segment, units=units))
            units = place.segment.units
            yield place

    def _foreign(self, found: Iterable[Token]) -> Iterator[Token]:
        """The same with what says that it is in another language as what is kept; the page itself may say anything."""
        source = base(self.languages[0]) if self.languages[0] else ""
        for token in found:
            raw = self.source[token.begin : token.end] if source and token.kind == "start" else ""
            if "lang" in raw.lower() and token.tag not in _ANY_LANGUAGE:
                said = {name: value.strip() for name, _, _, value in attributes(self.source, token.begin)}
                name = said.get("lang") or said.get("xml:lang") or ""
                if _LANGUAGE.fullmatch(name) and base(name) not in (source, "und", "mul", "mis"):
                    token = replace(token, kept=True, foreign=True)
            yield token

    def _write(self, changed: Mapping[int, Translated]) -> bytes:
        values = {
            n: each.value for n, each in enumerate(self.places) if isinstance(each, html_attributes.AttributePlace)
        }
        self._attributes = {values[number]: text.text for number, text in changed.items() if number in values}
        return super()._write({number: text for number, text in changed.items() if number not in values})

    def _settings(self) -> Iterator[tuple[int, int, str]]:
        return renamed(self.source, self._tokens, self.languages, self._attributes)

    def _render(self, place: SegmentPlace, text: Translated) -> str:
        raws = [(self._renamed(before), self._renamed(behind)) for before, behind in place.raws]
        return render(replace(place, raws=raws), text, escape)

    def _renamed(self, raw: str) -> str:
        """A mark with the target's language where it says the source's, and with its attributes translated."""
        if not self._attributes and "lang" not in raw.lower():
            return raw
        return replaced(raw, renamed(raw, joined(tokens(raw)), self.languages, self._attributes))

    def _encoded(self, text: str) -> bytes:
        return text.encode(self.encoding, errors="xmlcharrefreplace")


def escape(text: str) -> str:
    """Text as HTML has it."""
    return html.escape(text, quote=False)


def segments(source: str, found: Iterable[Token], sections: Sections) -> Iterator[SegmentPlace]:
    """The segments of a page or of a part of it, from its `joined` tokens."""
    line: list[Token] = []
    for token in found:
        if token.kind in ("text", "other") or token.tag not in BLOCKS:
            line.append(token)
        else:
            yield from _line(source, line, sections)
            line = []
            sections.element(token.tag, begins=token.kind in ("start", "fixed"))
    yield from _line(source, line, sections)


def joined(read: Iterable[Token]) -> Iterator[Token]:
    """The same with each element that is kept as one token, `fixed`."""
    found = list(read)
    ends = _ends(found)
    place = 0
    while place < len(found):
        token = found[place]
        last = place
        if token.kind == "start" and (token.kept or token.tag in FIXED or token.tag in SKIPPED):
            may_be_open = token.kept or token.tag in ("rt", "rp")
            last = ends.get(place) or (_left_open(found, place, ends) if may_be_open else place)
        if token.kind == "end" and token.tag in FIXED:  # its start is missing
            token = Token("other", token.begin, token.end)
        fixed = last > place or token.tag in FIXED
        yield replace(token, kind="fixed", end=found[last].end) if fixed else token
        place = last + 1


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
    if tag not in OPEN:
        return start
    place = start + 1
    while place < len(found):
        token = found[place]
        follows = token.tag in OPEN[tag] or (tag == "p" and token.tag in BLOCKS)
        if token.kind == "end" or (token.kind in ("start", "void") and follows):
            break
        place = ends.get(place, place) + 1
    return place - 1


def _line(source: str, line: Sequence[Token], sections: Sections) -> Iterator[SegmentPlace]:
    """What stands between two block elements: a segment, but buttons beside each other are one each."""
    controls, last = list[tuple[int, int]](), -1
    for begin, end in sorted(_matched(line).items()):
        if line[begin].tag in CONTROLS and begin > last:
            controls.append((begin, end))
            last = end
    cuts = {0, len(line)}
    for (begin, end), (following, ends) in pairwise(controls):
        if not any(_read(source, token) for token in line[end + 1 : following]):
            cuts |= {begin, end + 1, following, ends + 1}
    for begin, end in pairwise(sorted(cuts)):
        yield from _segment(source, list(line[begin:end]), sections)


def _segment(source: str, line: list[Token], sections: Sections) -> Iterator[SegmentPlace]:
    """A segment, if there is text in a line."""
    line = _trimmed(source, _with_icons(source, line))
    if not line:
        return
    inline: Inline[Raw] = Inline(lambda text: (text, ""))
    ends = _matched(line)
    closing = set(ends.values())
    number = 0
    while number < len(line):
        token = line[number]
        raw = source[token.begin : token.end]
        if token.kind == "text":
            inline.text(html.unescape(raw))
        elif token.kind == "fixed":
            inline.fixed((raw, ""), _shown(source, token), UNSEEN.get(token.tag, ""))
        elif token.tag == "br":
            inline.hard((raw, ""))
        elif number in ends and _refers(
            source, line[number : number + _REFERENCE], ends[number] - number, inline.touched
        ):
            inline.fixed((source[token.begin : line[ends[number]].end], ""))
            number = ends[number]
        elif number in ends:
            end = line[ends[number]]
            inline.open((raw, source[end.begin : end.end]))
        elif number in closing:
            inline.close()
        else:
            inline.fixed((raw, ""), seen="picture" if is_picture(token.tag) else "")
        number += 1
    yield SegmentPlace(inline.segment(units=sections.units), line[0].begin, line[-1].end, inline.payloads)
    sections.paragraph()


def _refers(source: str, few: Sequence[Token], last: int, touched: str) -> bool:
    """Whether an element, whose first and last of some tokens are told, refers to a note."""
    element = few[: last + 1]
    if last >= len(few) or few[0].tag not in ("a", "sup") or any(token.kind == "fixed" for token in element):
        return False
    tags = {token.tag for token in element if token.kind == "start"}
    text = "".join(html.unescape(source[token.begin : token.end]) for token in element if token.kind == "text")
    return is_reference(touched, text, link="a" in tags)


def _with_icons(source: str, line: Sequence[Token]) -> list[Token]:
    """The same with elements that hold nothing to read, as icons and links around pictures, as one token each."""
    ends, found, place = _matched(line), list[Token](), 0
    read = [n for n, token in enumerate(line) if _read(source, token)]
    while place < len(line):
        token, last = line[place], ends.get(place, place)
        if last > place and bisect_left(read, place) == bisect_left(read, last):
            inside = line[place + 1 : last]
            icon = any(is_picture(each.tag) or each.tag in UNSEEN for each in inside)
            icon = icon or is_picture(token.tag) or "class" in source[token.begin : token.end].lower()
            if not icon and any(each.kind == "text" for each in inside):  # a space between words
                found.append(token)
            else:
                found.append(Token("void", token.begin, line[last].end, "img" if icon else ""))
                place = last
        else:
            found.append(token)
        place += 1
    return found


def _read(source: str, token: Token) -> bool:
    """Whether there is something to read in a token; a line that ends is, too."""
    return token.tag == "br" or (token.kind in ("text", "fixed") and bool(_shown(source, token).strip()))


def _trimmed(source: str, line: list[Token]) -> list[Token]:
    """Without what is around the text: comments, pictures and elements with nothing to translate."""
    has_text = [number for number, token in enumerate(line) if token.tag != "br" and _read(source, token)]
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


def _shown(source: str, token: Token) -> str:
    """What a model sees of a piece of a page."""
    if token.kind == "fixed" and token.tag in UNSEEN:
        return ""
    return html.unescape(re.sub(r"<[^<>]*>", "", source[token.begin : token.end]))
