"""Engine 1: places in a text. Plain text, tagged text, and every format that is spliced.
A reader yields (begin, end, segment); the writer replaces these ranges and nothing else.
"""

from __future__ import annotations

import codecs
import re
import unicodedata
from abc import abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise

from docnmt.apps.documents import icu
from docnmt.apps.documents.segments import (
    BREAK,
    SPACE,
    DocumentFile,
    Inline,
    Segment,
    Translated,
    counted,
    expect,
    matched,
    pieces,
)
from docnmt.apps.documents.sentences import MESSAGE, fixed_spans
from docnmt.runtime.languages import unspaced
from docnmt.runtime.system import UserError

# Text in files: decoding with clear messages, and pieces of it that get other text.

#: Codecs of Python that no file is in; some take the square of its size.
_NO_TEXT = frozenset({"idna", "punycode", "raw-unicode-escape", "undefined", "unicode-escape"})


def decode(content: bytes, name: str, *, encoding: str = "utf-8") -> str:
    """A file's text, a byte order mark included as its first character; a UserError names the byte that is none."""
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise UserError(f"{name}: not UTF-8 but UTF-16, by its byte order mark; convert it: iconv -f UTF-16 -t UTF-8")
    try:
        if codecs.lookup(encoding).name in _NO_TEXT:
            raise LookupError(encoding)
        text = content.decode(encoding)
    except LookupError as error:
        raise UserError(f"{name}: says that its encoding is '{encoding}', which is not known; convert it") from error
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise UserError(
            f"{name}:{line}: byte {error.start + 1:,} of the file (0x{content[error.start]:02X}) is not valid "
            f"{encoding}; convert the file, for example with iconv -f LATIN1 -t UTF-8"
        ) from error
    if "\0" in text:
        raise UserError(f"{name}:{text.count(chr(10), 0, text.index(chr(0))) + 1}: NUL byte; this is not a text file")
    return text


def replaced(source: str, changes: Iterable[tuple[int, int, str]]) -> str:
    """A text in which parts, given from left to right as (begin, end, new text), are replaced."""
    out, index = [], 0
    for begin, end, text in changes:
        out += [source[index:begin], text]
        index = end
    return "".join([*out, source[index:]])


# Formats that are text: segments are places of the source, and all between them stays byte for byte.

#: What ends a line.
_END = re.compile(r"\r\n?|\n")
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
        places = counted(self.read_places(), lambda place: place.segment.text)
        self.places = [place for place in places if place.segment.text.strip()]
        self.segments = [place.segment for place in self.places]

    def _decoded(self) -> str:
        return decode(self.content, self.name, encoding=self.encoding)

    @cached_property
    def _line_ends(self) -> list[int]:
        return [match.end() for match in _END.finditer(self.source)]

    def line(self, index: int) -> int:
        """The number of the line, from 1, that a place of `source` is in."""
        return bisect_right(self._line_ends, index) + 1

    def refused(self, index: int, message: str) -> UserError:
        """The error for what is wrong at a place of `source`; what the end lacks is missing in the last line."""
        return UserError(f"{self.name}:{self.line(min(index, len(self.source.rstrip())))}: {message}")

    @abstractmethod
    def read_places(self) -> Iterable[SegmentPlace]:
        """The segments, from left to right, and where each stands in `source`."""

    def rendered(self, place: SegmentPlace, text: Translated) -> str:
        """What is written for a segment."""
        return render(place, text, str)

    def _write(self, changed: Mapping[int, Translated]) -> bytes:
        changes = []
        for number, text in sorted(changed.items()):
            place = self.places[number]
            changes.append((place.begin, place.end, self.rendered(place, text)))
        begins, ends = [change[0] for change in changes], [0, *(change[1] for change in changes)]
        changes += [setting for setting in self._settings() if setting[0] >= ends[bisect_right(begins, setting[0])]]
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
            raw = place.raws[piece.number][piece.kind == "close"]
            torn = raw[:1] == "`" == out[-1][-1:] or (raw[:1] == "$" and out[-1][-1:].isdigit())
            out.append(f" {raw}" if torn else raw)
            formula = raw[-1:] == "$"
    return "".join(out)


def around_nothing(place: SegmentPlace, text: Translated) -> set[int]:
    """The marks written as signs of emphasis that cover nothing in a translation."""
    same = (number for number, raw in enumerate(place.raws) if raw[1].startswith(raw[0]))
    return {number for number in same if text.spans[number][0] >= text.spans[number][1]}


# Text in which tags stand as text: messages of PO files, subtitles.

_TAG = re.compile(r"<(/?)([A-Za-z][\w:-]*|\d{1,3})(?:\.[\w.-]+)?(?:\s[^<>]*)?(/?)>")
_BEGIN = frozenset("-–—♪♫#*•>")  # what would seem to begin something at the beginning of a line
#: What begins no line, and what ends none, where lines end between characters (JIS X 4051, GB/T 15834).
_NO_BEGIN = frozenset(
    "!%),.:;?]}¢°·’”†‡›»℃∶、。〃々〉》」』】〕〗〙〞〟ぁぃぅぇぉっゃゅょゎゕゖ゛゜ゝゞァィゥェォッャュョヮヵヶ・ーヽヾ㈱！％），．：；？］｝～｡｣､･ｰ〜‥…"
    "ะาำๅๆฯະາຳໆຯ។៕៖ៗ၊။"
)
_NO_END = frozenset("$#([{£¥‘“‹«〈《「『【〔〖〘〝＄（［｛｢￡￥เแโใไເແໂໃໄ")
_SPACE = re.compile(f"{SPACE}+")
#: A link of Markdown whose text has no other marks.
_LINK = re.compile(r"(?<![\\!\]])\[([^\[\]<>()|\n]+)\]\([^()\s<>]+\)")
_CHOICE = r"(?:\{\d+\}|[\[\]](?:\d+|\*)\s?,\s?(?:\d+|\*)[\[\]])"
_CHOSEN, _PIPE = re.compile(_CHOICE), re.compile(rf"(?<!\|)\|(?!\|)(?:\s?{_CHOICE})?")


def add(
    inline: Inline[Raw], source: str, hard: Callable[[re.Match[str]], bool], index: int = 0, end: int | None = None,
    decode: Callable[[str], str] = str,
) -> None:  # fmt: skip
    """Adds `source[place:end]`, whose white space is a break where `hard` says so, and whose words are decoded."""
    end = len(source) if end is None else end
    for match in _SPACE.finditer(source, index, end):
        inline.text(decode(source[index : match.start()]))
        if hard(match):
            inline.hard((match[0], ""))
        elif match[0] == "  ":
            inline.wide()
        else:
            inline.text("\n" if "\n" in match[0] and inline.begun else " ")
        index = match.end()
    inline.text(decode(source[index:end]))


def read(
    source: str,
    hard: Callable[[re.Match[str]], bool],
    fixed: Sequence[tuple[int, int]] = (),
    breaks: Sequence[tuple[int, int]] = (),
    decode: Callable[[str], str] = str,
) -> Inline[Raw]:
    """The text and marks of a message: tags that open and close are formats, and so are links of Markdown; other tags
    are seen as they are. A model does not see what stands at `fixed`, and `breaks`, with the white space around them,
    part what it translates."""
    inline: Inline[Raw] = Inline(lambda text: (text, ""))
    begins = [begin for begin, _ in breaks]
    free = (tag for tag in _TAG.finditer(source) if bisect_left(begins, tag.start()) == bisect_left(begins, tag.end()))
    tags = list(free)
    ends = matched((-1 if tag[1] else int(not tag[3]), tag[2]) for tag in tags)
    marks = [(*tags[begin].span(), "open", tags[end][0]) for begin, end in ends.items()]
    marks += [(*tags[end].span(), "close", "") for end in ends.values()]
    for link in _LINK.finditer(source):
        if bisect_left(begins, link.start()) == bisect_left(begins, link.end()):
            marks.append((link.start(), link.start() + 1, "open", source[link.end(1) : link.end()]))
            marks.append((link.end(1), link.end(), "close", ""))
    marks += [(*span, "fixed", "") for span in fixed] + [(*span, "hard", "") for span in breaks]
    added = {"open": inline.open, "fixed": inline.fixed, "hard": inline.hard}
    index = 0
    for begin, end, kind, behind in sorted(marks):
        add(inline, source, hard, index, begin, decode)
        index = end
        if kind == "close":
            inline.close()
        else:
            added[kind]((source[begin:end], behind))
    add(inline, source, hard, index, decode=decode)
    return inline


def branches(source: str, *, pipes: bool = False) -> list[tuple[int, int]]:
    """What stands around the texts of a message that has several, with white space beside it: plurals and choices of
    ICU, variants of MessageFormat 2, and, with `pipes`, forms between `|`."""
    spans = []
    for begin, end in icu.around(source) or (_pipes(source) if pipes and "|" in source else []):
        while begin and source[begin - 1].isspace():
            begin -= 1
        space = _SPACE.match(source, end)
        spans.append((begin, space.end() if space else end))
    return spans


def _pipes(source: str) -> list[tuple[int, int]]:
    """The `|` between forms of one message, as vue-i18n and Laravel have them, with the numbers that choose a form."""
    fixed = fixed_spans(source, (MESSAGE,))
    ends = [end for _, end in fixed]
    free = [
        match
        for match in _PIPE.finditer(source)
        if (after := bisect_right(ends, match.start())) == len(fixed) or fixed[after][0] >= match.end()
    ]
    forms = [source[a:b] for a, b in pairwise([0, *(bound for match in free for bound in match.span()), len(source)])]
    if not all(any(map(str.isalnum, form)) for form in forms[::2]):
        return []
    spans = [match.span() for match in free]
    first = _CHOSEN.match(source)
    return [*([first.span()] if first and spans else []), *spans]


def display_width(text: str) -> int:
    """Columns that a text takes: wide characters two, combining and unseen ones none."""
    return len(text) if text.isascii() else sum(map(_columns, text))


def _columns(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def wrapped(text: Translated, width: int) -> Translated:
    """The same with lines of at most so many columns, where words and signs allow it.

    Spaces become line breaks; in scripts without spaces, lines may end between characters.
    """
    columns = [*accumulate(map(_columns, text.text), initial=0)]
    ends, begin = list[int](), 0
    last: int | None = None  # where this line may end
    for at in _line_ends(text.text):
        if last is not None and columns[at] - columns[begin] > width:
            ends.append(last)
            begin = last + text.text.startswith(" ", last)
        last = at
        if text.text.startswith(BREAK, at):
            begin, last = at + 1, None
    cuts = [0, *ends, len(text.text)]
    lines = [text.text[a:b] for a, b in pairwise(cuts)]
    lines[1:] = [line.removeprefix(" ") for line in lines[1:]]
    added = [at for at in ends if not text.text.startswith(" ", at)]
    spans = [(begin + bisect_right(added, begin), end + bisect_left(added, end)) for begin, end in text.spans]
    return Translated(BREAK.join(lines), tuple((begin, max(begin, end)) for begin, end in spans))


def _line_ends(text: str) -> Iterator[int]:
    """Where lines end or may end; where words cannot be told, as in Thai, at spaces if there are any."""
    bare = " " not in text
    for at, character in enumerate(text):
        before, behind = text[at - 1 : at], text[at + 1 : at + 2]
        if character == BREAK or (character == " " and behind not in _BEGIN):
            yield at
        elif before and not before.isspace() and (unspaced(before, all=bare) or unspaced(character, all=bare)):
            closes = character in _NO_BEGIN or unicodedata.category(character) in ("Mn", "Mc", "Me", "Cf", "Pe", "Pf")
            opens = before in _NO_END or unicodedata.category(before) in ("Ps", "Pi")
            pair = before == character in "—…―"
            if not (closes or opens or pair or character in _BEGIN or character.isspace()):
                yield at
    yield len(text)


def balanced(text: Translated, lines: int) -> Translated:
    """The same in at most so many lines, the longest of which is as short as can be."""
    there, whole = text.text.count(BREAK), display_width(text.text)
    widths = range(whole // lines, whole)  # in wider lines there are never more of them
    wide = bisect_left(widths, True, key=lambda width: wrapped(text, width).text.count(BREAK) - there < lines)
    return wrapped(text, widths.start + wide)


# Plain text: a line is a segment, tabs and wide spaces part what is translated, blank lines part paragraphs.

_LINE = re.compile(r"[^\r\n]+")
_TEXT_LINE = re.compile(r"[^\s\ufeff][^\r\n]*")


class PlainText(Spliced):
    """A text file in UTF-8, each of whose lines keeps its place.

    Translated: lines; a tab, or three spaces and more, separate two texts
    Stays: blank lines, indentation, columns
    """

    def read_places(self) -> Iterator[SegmentPlace]:
        paragraph, last = 0, 0
        lines = _TEXT_LINE.findall(self.source)
        expect(texts=len(lines))
        expect(words=sum(len(line.split()) for line in lines))
        for match in _LINE.finditer(self.source):
            if match[0].strip("\ufeff").strip():
                paragraph += len(_END.findall(self.source, last, match.start())) > 1
                last = match.end()
                yield place_of(self.source, *match.span(), units=("0", str(paragraph)))


def place_of(source: str, begin: int, end: int, *, units: tuple[str, str] = ("0", "0")) -> SegmentPlace:
    """A segment that is text and nothing else, without the white space around it; tabs and wide spaces part it."""
    text = source[begin:end].strip("\ufeff").strip()
    begin = source.index(text, begin, end)
    inline: Inline[Raw] = Inline(lambda sign: (sign, ""))
    add(inline, text, lambda space: len(space[0]) > 2 or not set("\t\f\v\u2028\u2029").isdisjoint(space[0]))
    return SegmentPlace(inline.segment(units=units), begin, begin + len(text), inline.payloads)
