"""Text in which tags stand as text: messages of PO files, subtitles."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, pairwise

from docnmt.apps.documents import icu
from docnmt.apps.documents.segments import BREAK, SPACE, Inline, Translated, matched
from docnmt.apps.documents.sentences import MESSAGE, fixed_spans
from docnmt.apps.documents.splice import Raw
from docnmt.runtime.languages import unspaced

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
#: What stands between pieces of text, beside tags, which have numbers.
_FIXED, _BREAKS, _LINK_BEGINS, _LINK_ENDS = -1, -2, -3, -4
_CHOICE = r"(?:\{\d+\}|[\[\]](?:\d+|\*)\s?,\s?(?:\d+|\*)[\[\]])"
_CHOSEN, _PIPE = re.compile(_CHOICE), re.compile(rf"(?<!\|)\|(?!\|)(?:\s?{_CHOICE})?")


def add(
    inline: Inline[Raw], source: str, hard: Callable[[re.Match[str]], bool], place: int = 0, end: int | None = None,
    decode: Callable[[str], str] = str,
) -> None:  # fmt: skip
    """Adds `source[place:end]`, whose white space is a break where `hard` says so, and whose words are decoded."""
    end = len(source) if end is None else end
    for match in _SPACE.finditer(source, place, end):
        inline.text(decode(source[place : match.start()]))
        if hard(match):
            inline.hard((match[0], ""))
        elif match[0] == "  ":
            inline.wide()
        else:
            inline.text("\n" if "\n" in match[0] and inline.begun else " ")
        place = match.end()
    inline.text(decode(source[place:end]))


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
    ends = matched(map(_step, tags))
    closing = set(ends.values())
    stops = [(*match.span(), number) for number, match in enumerate(tags) if number in ends or number in closing]
    for link in _LINK.finditer(source):
        if bisect_left(begins, link.start()) == bisect_left(begins, link.end()):
            stops += [(link.start(), link.start() + 1, _LINK_BEGINS), (link.end(1), link.end(), _LINK_ENDS)]
    place = 0
    stops += [(begin, end, _FIXED) for begin, end in fixed] + [(begin, end, _BREAKS) for begin, end in breaks]
    for begin, end, number in sorted(stops):
        add(inline, source, hard, place, begin, decode)
        place = end
        if number == _FIXED:
            inline.fixed((source[begin:end], ""))
        elif number == _BREAKS:
            inline.hard((source[begin:end], ""))
        elif number == _LINK_BEGINS:
            inline.open(("[", source[source.index("](", end) : source.index(")", end) + 1]))
        elif number in ends:
            inline.open((source[begin:end], tags[ends[number]][0]))
        else:
            inline.close()
    add(inline, source, hard, place, decode=decode)
    return inline


def branches(source: str, *, pipes: bool = False) -> list[tuple[int, int]]:
    """What stands around the texts of a message that has several, with white space beside it: plurals and choices of
    ICU, variants of MessageFormat 2, and, with `pipes`, forms between `|`."""
    if found := icu.around_patterns(source) or (_pipes(source) if pipes and "|" in source else []):
        return [_with_space(source, *span) for span in found]
    try:
        pieces = list(icu.read(source).pieces())
    except icu.NoMessage:
        return []
    if len(pieces) == 1:  # without branches apostrophes are what they are
        return []
    found, place = list[tuple[int, int]](), 0
    for piece, is_text in pieces:
        begin = place
        place = _match(re.escape(piece).replace("'", "''?") if is_text else re.escape(piece), source, begin).end()
        if not is_text and piece[0] in "{}|":
            found.append(_with_space(source, begin, place))
    return found


def _with_space(source: str, begin: int, end: int) -> tuple[int, int]:
    while begin and source[begin - 1].isspace():
        begin -= 1
    space = _SPACE.match(source, end)
    return begin, space.end() if space else end


def _pipes(source: str) -> list[tuple[int, int]]:
    """The `|` between forms of one message, as vue-i18n and Laravel have them, with the numbers that choose a form."""
    fixed = fixed_spans(source, (MESSAGE,))
    ends = [end for _, end in fixed]
    free = [
        match
        for match in _PIPE.finditer(source)
        if (after := bisect_right(ends, match.start())) == len(fixed) or fixed[after][0] >= match.end()
    ]
    forms = [source[a:b] for a, b in pairwise([0, *(each for match in free for each in match.span()), len(source)])]
    if not all(any(map(str.isalnum, form)) for form in forms[::2]):
        return []
    spans = [match.span() for match in free]
    first = _CHOSEN.match(source)
    return [*([first.span()] if first and spans else []), *spans]


def _match(pattern: str, text: str, place: int) -> re.Match[str]:
    match = re.compile(pattern).match(text, place)
    assert match is not None  # the pieces are what was read
    return match


def _step(tag: re.Match[str]) -> tuple[int, str]:
    closes, alone = bool(tag[1]), bool(tag[3])
    return -closes if closes else not alone, tag[2]


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
    """Where lines end or may end: at breaks, at spaces, between characters of a script without spaces, and at the end.

    Words of South-east Asian scripts cannot be told, so that lines end at spaces there, if there are any.
    """
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
