"""HTML pages: tokens of the source → segments and attributes with their places.
Everything that is not translated keeps its bytes. Markdown and fragments use the same tokens.
"""

from __future__ import annotations

import html
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from docnmt.apps.documents.segments import (
    Inline,
    Sections,
    Translated,
    counted,
    expect,
    is_reference,
    matched,
    renamed,
    turned,
    unescaped,
)
from docnmt.apps.documents.text import Raw, SegmentPlace, Spliced, render, replaced
from docnmt.runtime.languages import base
from docnmt.runtime.system import UserError

# The elements of HTML: which stand between lines of text, which in them, and which hold none.

#: Elements that stand between lines of text; any other, also one that HTML does not know, stands in a line.
_BLOCKS = (
    "address article aside base blockquote body caption center col colgroup datalist dd details dialog dir div dl dt "
    "fieldset figcaption figure footer form frame frameset h1 h2 h3 h4 h5 h6 head header hgroup hr html legend li link "
    "main menu meta nav noframes noscript ol optgroup option p search section select summary table tbody td template "
    "tfoot th thead title tr ul"
)
#: Elements whose content is not translated: in a line of text, where some show no text to a model …
UNSEEN = {
    "svg": "picture", "audio": "picture", "video": "picture", "canvas": "picture", "map": "picture",
    "object": "picture", "math": "value", "rt": "", "rp": "", "rtc": "",
}  # fmt: skip
FIXED = frozenset({"code", "kbd", "samp", "var", "meter", "progress", "output"}) | frozenset(UNSEEN)
#: … and between lines.
_SKIPPED = "script style pre textarea iframe listing xmp plaintext"
SKIPPED = frozenset(_SKIPPED.split())
BLOCKS = frozenset(_BLOCKS.split()) | SKIPPED
#: Elements in lines that are lines of their own if there is no text between them.
_CONTROLS = frozenset({"button", "label"})
#: What readers see where no text is: of these, and of elements that have a class and no content, as icons have.
_PICTURES = frozenset({"img", "input", "embed"})
#: Elements whose end tag may be left out, and those that end them; a paragraph is ended by any block.
_OPEN = {
    "p": frozenset({"p"}), "li": frozenset({"li"}), "option": frozenset({"option", "optgroup"}),
    "dt": frozenset({"dt", "dd"}), "dd": frozenset({"dt", "dd"}), "tr": frozenset({"tr"}),
    "td": frozenset({"td", "th", "tr"}), "th": frozenset({"td", "th", "tr"}),
    "rt": frozenset({"rt", "rp"}), "rp": frozenset({"rt", "rp"}),
}  # fmt: skip


def is_picture(tag: str) -> bool:
    """Whether an element without text shows something: a picture, or whatever a page makes of an element of its own."""
    return tag in _PICTURES or "-" in tag


# The tokens of a page, as browsers see them (HTML Living Standard, 13.2.5), in time that grows with its size.

#: Elements that have no end.
_VOID = "area base br col embed hr img input link meta param source track wbr"
VOID = frozenset(_VOID.split())
#: Elements whose content has no tags: what ends it.
_RAW = {
    tag: re.compile(rf"</{tag}(?=[\s/>])", re.IGNORECASE) for tag in ("script", "style", "textarea", "xmp", "iframe")
}
_TEXT = re.compile(r"[^<]+|<")
_TAG = re.compile(r"<(/?)([A-Za-z][^\t\n\r\f />]*)")
_APART = re.compile(r"[\t\n\r\f /]*")
_NAME = re.compile(r"[^\t\n\r\f />][^\t\n\r\f />=]*")
_VALUE = re.compile(r"""[\t\n\r\f ]*=[\t\n\r\f ]*(?:(["'])|([^\t\n\r\f >]*))""")
_COMMENT_END = re.compile(r"--!?>")


@dataclass(frozen=True)
class Token:
    """A piece of the source, `source[begin:end]`: a `start` or `end` tag, one that is both (`void`), `text` or `other`.

    Attributes:
        tag: the element, in small letters. kept: it says that what is in it is not to be translated; foreign: as it
            is in another language than the page.
    """

    kind: str
    begin: int
    end: int
    tag: str = ""
    kept: bool = False
    foreign: bool = False


def tokens(source: str) -> Iterator[Token]:
    """The source, token by token, without gaps; a tag, a comment or a script that does not end is all that follows."""
    index = 0
    while index < len(source):
        if (tag := _TAG.match(source, index)) is not None:
            token = _element(source, tag)
        elif source.startswith(("<!", "<?", "</"), index):
            token = Token("other", index, _markup_end(source, index))
        else:
            token = Token("text", index, _match(_TEXT, source, index).end())
        yield token
        index = token.end
        if token.kind == "start" and token.tag in _RAW:
            match = _RAW[token.tag].search(source, index)
            end = len(source) if match is None else match.start()
            if index < end:
                yield Token("other", index, end)
            index = end


def _element(source: str, tag: re.Match[str]) -> Token:
    """A tag with its attributes; one that does not end is no tag, and nor is anything behind it."""
    index, stays = tag.end(), False
    for name, _, end, value in attributes(source, tag.start()):
        index, words = end, value.lower().split()
        stays |= (name, words) == ("translate", ["no"]) or (name == "class" and "notranslate" in words)
    apart = _match(_APART, source, index)[0]
    index += len(apart)
    if index == len(source):
        return Token("other", tag.start(), index)
    element = tag[2].lower()
    if tag[1]:
        return Token("end", tag.start(), index + 1, element)
    alone = element in VOID or apart.endswith("/")
    return Token("void" if alone else "start", tag.start(), index + 1, element, stays)


def attributes(source: str, begin: int) -> Iterator[tuple[str, int, int, str]]:
    """The attributes of the tag that begins at a place: of each its name in small letters, where its value begins, with
    its quotes, where the attribute ends, and the value."""
    index = _match(_TAG, source, begin).end()
    while (index := _match(_APART, source, index).end()) < len(source) and source[index] != ">":
        name = _match(_NAME, source, index)
        begin, index, value = name.end(), name.end(), ""
        if (match := _VALUE.match(source, index)) is None:
            pass
        elif match[1] is None:
            begin, index, value = match.start(2), match.end(), match[2]
        elif (end := source.find(match[1], match.end())) >= 0:
            begin, index, value = match.start(1), end + 1, source[match.end() : end]
        else:
            begin = index = len(source)
        yield name[0].lower(), begin, index, unescaped(value)


def _markup_end(source: str, begin: int) -> int:
    """Where a comment ends, or what is taken for one: a declaration, an instruction, an end of nothing."""
    if source.startswith(("<!-->", "<!--->"), begin):
        return source.index(">", begin) + 1
    if source.startswith("<!--", begin):
        match = _COMMENT_END.search(source, begin + 4)
        return len(source) if match is None else match.end()
    closing = "]]>" if source.startswith("<![CDATA[", begin) else ">"
    end = source.find(closing, begin + 2)
    return len(source) if end < 0 else end + len(closing)


def _match(pattern: re.Pattern[str], source: str, begin: int) -> re.Match[str]:
    """Of a pattern that matches here, whatever stands there."""
    match = pattern.match(source, begin)
    assert match is not None
    return match


# Attributes that readers see or hear: alternative texts, hints, labels of buttons, what a page says of itself.

_SEEN = frozenset({"alt", "title", "placeholder", "aria-label", "aria-description", "aria-placeholder"})
_LABELLED = frozenset({"optgroup", "option", "track"})
_BUTTONS = frozenset({"submit", "button", "reset"})
_META = frozenset({"description", "og:title", "og:description", "twitter:title", "twitter:description"})


@dataclass(frozen=True)
class _AttributePlace(SegmentPlace):
    """An attribute's value. Equal ones have one translation, as marks are written without knowing where they stood."""

    value: str = ""


def _has_attributes(token: Token) -> bool:
    """Whether a token, of which elements that are kept are one each, is a tag whose attributes are translated."""
    if token.kept or token.kind not in ("start", "void", "fixed"):
        return False
    return token.tag == "textarea" or (token.kind != "fixed" and token.tag not in FIXED and token.tag not in SKIPPED)


def _values(raw: str, tag: str) -> Iterator[tuple[int, int, str]]:
    """What readers see of the attributes of a tag: where each value stands, with its quotes, and the value."""
    pairs = list(attributes(raw, 0))
    said = {name: value.lower().strip() for name, _, _, value in reversed(pairs)}
    for name, begin, end, value in pairs:
        shown = name in _SEEN and tag not in ("link", "meta")
        shown |= name == "label" and tag in _LABELLED
        shown |= name == "value" and tag == "input" and said.get("type") in _BUTTONS
        shown |= name == "content" and tag == "meta" and said.get("name", said.get("property")) in _META
        if shown and value.strip():
            yield begin, end, value


def _quoted(text: str, sign: str) -> str:
    """A value in quotation marks, those that it had before if it had some."""
    if sign != "'":
        return f'"{html.escape(text)}"'
    return "'" + html.escape(text, quote=False).replace("'", "&#x27;") + "'"


# The tags of a translated page: its language, its direction, and the texts of attributes.

_LANG = re.compile(r"(?i)(\s(?:xml:)?lang\s*=\s*[\"']?)([A-Za-z][\w-]*)(?=[\"'\s/>])")
_LANGUAGE_META = re.compile(r"""(?i)["'\s=](?:content-)?language["'\s>]""")
_CONTENT = re.compile(r"""(?i)(\bcontent\s*=\s*["']?)([\w-]+)""")
_DIR = re.compile(r"""(?i)(\sdir\s*=\s*["']?)(?:ltr|rtl)""")


def _renamed(
    source: str, page: Iterable[Token], languages: tuple[str, str], texts: Mapping[str, str]
) -> Iterator[tuple[int, int, str]]:
    """Tags that say the source's language, `dir` of <html> if it turns, and attributes, as a translation has them."""
    side = turned(languages)

    def new_name(match: re.Match[str]) -> str:
        return match[1] + (renamed(match[2], languages) or match[2])

    for token in page:
        if not _has_attributes(token):
            continue
        raw = source[token.begin : token.end]
        values = (value for value in _values(raw, token.tag) if value[2] in texts) if texts else ()
        new = replaced(raw, ((begin, end, _quoted(texts[value], raw[begin])) for begin, end, value in values))
        if token.kind != "fixed":
            new = _LANG.sub(new_name, new)
        if token.tag == "meta" and _LANGUAGE_META.search(raw):
            new = _CONTENT.sub(new_name, new)
        if token.tag in ("html", "body") and side:
            new, there = _DIR.subn(rf"\g<1>{side}", new)
            new = new if there or token.tag == "body" else f'{new[:5]} dir="{side}"{new[5:]}'
        if new != raw:
            yield token.begin, token.end, new


# HTML: the text between block elements is a segment, elements inside of it are marks.

#: Tokens of an element that refers to a note, at most.
_REFERENCE = 20
_STEPS = {"start": 1, "end": -1}
#: Elements whose language is not that of a text in the page: the page, and code, whose language may be one of programs.
_ANY_LANGUAGE = frozenset({"html", "body"}) | SKIPPED | FIXED
_LANGUAGE = re.compile(r"[A-Za-z]{2,3}(?:-[A-Za-z0-9]{1,8})*")
#: What begins a line of text.
_PARAGRAPH = re.compile(r"<(?:p|div|li|d[dt]|t[dh]|h[1-6])(?:\s[^<>]*)?>\s*[^\s<>&]", re.IGNORECASE)
_CHARSET = re.compile(rb"""<(?:meta[^<>]*?charset|\?xml[^<>]*?encoding)\s*=\s*(?:["']\s*)?([\w.:-]+)""", re.IGNORECASE)

_LATIN = ("iso-8859-1", "latin1", "ascii", "us-ascii")
#: What browsers take for another encoding; what can be read up to here is not in UTF-16.
_BROWSERS = {
    **dict.fromkeys(("utf-16", "utf-16le", "utf-16be"), "utf-8"),
    **dict.fromkeys(("gb2312", "gbk"), "gb18030"),
    **dict.fromkeys(("shift_jis", "shift-jis", "sjis"), "cp932"),
    "euc-kr": "cp949",
}


class Html(Spliced):
    """A page, in the encoding that it says.

    Translated: text between block elements, the title, buttons, options, labels; the base of ruby text; of attributes
    `alt`, `title`, `placeholder`, `aria-label`, `label`, the `value` of buttons, the description of the page (equal
    ones alike)
    Stays: tags and other attributes, comments, `script` `style` `pre` `textarea` `svg` …, elements with
    `translate="no"`; elements whose `lang` is another language than the source, which are named
    """

    #: What Latin 1 is to browsers.
    latin = "cp1252"
    #: Signs that begin tags and entities, each of which takes a few hundred bytes of memory; a long book has a million.
    most = 1 << 21

    def _decoded(self) -> str:
        said = _CHARSET.search(self.content[:4096])
        if said and not self.content.startswith(b"\xef\xbb\xbf"):
            name = said[1].decode("ascii")
            self.encoding = self.latin if name.lower() in _LATIN else _BROWSERS.get(name.lower(), name)
        return super()._decoded()

    def read_places(self) -> Iterator[SegmentPlace]:
        most = self.most
        if self.source.count("<") + self.source.count("&") > most:
            raise UserError(f"{self.name}: has more than {most:,} tags and entities, too many for memory; divide it")
        expect(texts=len(_PARAGRAPH.findall(self.source)))
        self._tokens, self._attributes = list(joined(self._foreign(self._page()))), dict[str, str]()
        foreign = (token for token in self._tokens if token.foreign)
        read = (token for token in foreign if any(map(str.isalpha, _shown(self.source, token))))
        named = ", ".join(map(str, dict.fromkeys(self.line(token.begin) for token in read)))
        self.left = [f"text in another language, by its lang, in line {named}"] if named else []
        texts = segments(self.source, self._tokens, Sections())
        places, units = list(counted(texts, lambda place: place.segment.text)), ("0", "0")
        for token in filter(_has_attributes, self._tokens):
            for begin, end, value in _values(self.source[token.begin : token.end], token.tag):
                inline: Inline[Raw] = Inline()
                inline.text(value)
                places.append(_AttributePlace(inline.segment(), token.begin + begin, token.begin + end, value=value))
        for place in sorted(places, key=lambda place: place.begin):
            if isinstance(place, _AttributePlace):
                place = replace(place, segment=replace(place.segment, units=units))
            units = place.segment.units
            yield place

    def _page(self) -> Iterator[Token]:
        return tokens(self.source)

    def _foreign(self, page: Iterable[Token]) -> Iterator[Token]:
        """The same with what says that it is in another language as what is kept; the page itself may say anything."""
        source = base(self.languages[0]) if self.languages[0] else ""
        for token in page:
            raw = self.source[token.begin : token.end] if source and token.kind == "start" else ""
            if "lang" in raw.lower() and token.tag not in _ANY_LANGUAGE:
                said = {name: value.strip() for name, _, _, value in attributes(self.source, token.begin)}
                name = said.get("lang") or said.get("xml:lang") or ""
                if _LANGUAGE.fullmatch(name) and base(name) not in (source, "und", "mul", "mis"):
                    token = replace(token, kept=True, foreign=True)
            yield token

    def _write(self, changed: Mapping[int, Translated]) -> bytes:
        values = {n: place.value for n, place in enumerate(self.places) if isinstance(place, _AttributePlace)}
        self._attributes = {values[number]: text.text for number, text in changed.items() if number in values}
        return super()._write({number: text for number, text in changed.items() if number not in values})

    def _settings(self) -> Iterator[tuple[int, int, str]]:
        return _renamed(self.source, self._tokens, self.languages, self._attributes)

    def rendered(self, place: SegmentPlace, text: Translated) -> str:
        raws = [(self._renamed(before), self._renamed(behind)) for before, behind in place.raws]
        return render(replace(place, raws=raws), text, escape)

    def _renamed(self, raw: str) -> str:
        """A mark with the target's language where it says the source's, and with its attributes translated."""
        if not self._attributes and "lang" not in raw.lower():
            return raw
        return replaced(raw, _renamed(raw, joined(tokens(raw)), self.languages, self._attributes))

    def _encoded(self, text: str) -> bytes:
        return text.encode(self.encoding, errors="xmlcharrefreplace")


def escape(text: str) -> str:
    """Text as HTML has it."""
    return html.escape(text, quote=False)


def segments(source: str, page: Iterable[Token], sections: Sections) -> Iterator[SegmentPlace]:
    """The segments of a page or of a part of it, from its `joined` tokens."""
    line: list[Token] = []
    for token in page:
        if token.kind in ("text", "other") or token.tag not in BLOCKS:
            line.append(token)
        else:
            yield from _line(source, line, sections)
            line = []
            sections.element(token.tag, begins=token.kind in ("start", "fixed"))
    yield from _line(source, line, sections)


def joined(read: Iterable[Token]) -> Iterator[Token]:
    """The same with each element that is kept as one token, `fixed`."""
    page = list(read)
    ends = _ends(page)
    index = 0
    while index < len(page):
        token = page[index]
        last = index
        if token.kind == "start" and (token.kept or token.tag in FIXED or token.tag in SKIPPED):
            may_be_open = token.kept or token.tag in ("rt", "rp")
            last = ends.get(index) or (_left_open(page, index, ends) if may_be_open else index)
        if token.kind == "end" and token.tag in FIXED:  # its start is missing
            token = Token("other", token.begin, token.end)
        fixed = last > index or token.tag in FIXED
        yield replace(token, kind="fixed", end=page[last].end) if fixed else token
        index = last + 1


def _ends(page: Sequence[Token]) -> dict[int, int]:
    """For each start tag, by number, the end tag of the same name that closes it, if there is one."""
    ends: dict[int, int] = {}
    waiting: dict[str, list[int]] = {}
    for number, token in enumerate(page):
        if token.kind == "start":
            waiting.setdefault(token.tag, []).append(number)
        elif token.kind == "end" and waiting.get(token.tag):
            ends[waiting[token.tag].pop()] = number
    return ends


def _left_open(page: Sequence[Token], start: int, ends: Mapping[int, int]) -> int:
    """The last token of an element whose end tag is left out: before the next of its kind, or the end around it."""
    tag = page[start].tag
    if tag not in _OPEN:
        return start
    index = start + 1
    while index < len(page):
        token = page[index]
        follows = token.tag in _OPEN[tag] or (tag == "p" and token.tag in BLOCKS)
        if token.kind == "end" or (token.kind in ("start", "void") and follows):
            break
        index = ends.get(index, index) + 1
    return index - 1


def _line(source: str, line: Sequence[Token], sections: Sections) -> Iterator[SegmentPlace]:
    """What stands between two block elements: a segment, but buttons beside each other are one each."""
    controls, last = list[tuple[int, int]](), -1
    for begin, end in sorted(_matched(line).items()):
        if line[begin].tag in _CONTROLS and begin > last:
            controls.append((begin, end))
            last = end
    cuts = {0, len(line)}
    for (begin, end), (following, ends) in pairwise(controls):
        if not any(_read(source, token) for token in line[end + 1 : following]):
            cuts |= {begin, end + 1, following, ends + 1}
    for begin, end in pairwise(sorted(cuts)):
        yield from _segment(source, list(line[begin:end]), sections)


def _segment(source: str, line: list[Token], sections: Sections) -> Iterator[SegmentPlace]:
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
            inline.text(unescaped(raw))
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
    """Whether an element, the first `last + 1` of some tokens, refers to a note."""
    element = few[: last + 1]
    if last >= len(few) or few[0].tag not in ("a", "sup") or any(token.kind == "fixed" for token in element):
        return False
    tags = {token.tag for token in element if token.kind == "start"}
    text = "".join(unescaped(source[token.begin : token.end]) for token in element if token.kind == "text")
    return is_reference(touched, text, link="a" in tags)


def _with_icons(source: str, line: Sequence[Token]) -> list[Token]:
    """The same with elements that hold nothing to read, as icons and links around pictures, as one token each."""
    ends, tokens_with_icons, index = _matched(line), list[Token](), 0
    read = [n for n, token in enumerate(line) if _read(source, token)]
    while index < len(line):
        token, last = line[index], ends.get(index, index)
        if last > index and bisect_left(read, index) == bisect_left(read, last):
            inside = line[index + 1 : last]
            icon = any(is_picture(inner.tag) or inner.tag in UNSEEN for inner in inside)
            icon = icon or is_picture(token.tag) or "class" in source[token.begin : token.end].lower()
            if not icon and any(inner.kind == "text" for inner in inside):  # a space between words
                tokens_with_icons.append(token)
            else:
                tokens_with_icons.append(Token("void", token.begin, line[last].end, "img" if icon else ""))
                index = last
        else:
            tokens_with_icons.append(token)
        index += 1
    return tokens_with_icons


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
    line = line[first : last + 1]
    for at in (0, -1):  # without the white space around the first and the last text
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
    return unescaped(re.sub(r"<[^<>]*>", "", source[token.begin : token.end]))
