"""Text in which tags stand as text: messages of PO files, subtitles."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from itertools import pairwise

from docnmt.apps.documents import icu
from docnmt.apps.documents.begin_and_end import matched
from docnmt.apps.documents.inline import SPACE, Inline
from docnmt.apps.documents.placeholders import MESSAGE
from docnmt.apps.documents.segment import BREAK, Translated
from docnmt.apps.documents.splice import Raw
from docnmt.apps.documents.untranslatable import fixed_spans

_TAG = re.compile(r"<(/?)([A-Za-z][\w:-]*|\d{1,3})(?:\.[\w.-]+)?(?:\s[^<>]*)?(/?)>")
_BEGIN = frozenset("-–—♪♫#*•>")  # what would seem to begin something at the beginning of a line
_SPACE = re.compile(rf"{SPACE}+")
#: A link of Markdown whose text has no other marks.
_LINK = re.compile(r"(?<![\\!\]])\[([^\[\]<>()|\n]+)\]\([^()\s<>]+\)")
#: What stands between pieces of text, beside tags, which have numbers.
_FIXED, _BREAKS, _LINK_BEGINS, _LINK_ENDS = -1, -2, -3, -4
_CHOICE = r"(?:\{\d+\}|[\[\]](?:\d+|\*)\s?,\s?(?:\d+|\*)[\[\]])"
_CHOSEN, _PIPE = re.compile(_CHOICE), re.compile(rf"(?<!\|)\|(?!\|)(?:\s?{_CHOICE})?")


def add(
    inline: Inline[Raw], source: str, hard: Callable[[re.Match[str]], bool], place: int = 0, end: int | None = None,
    decoded: Callable[[str], str] = str,
) -> None:  # fmt: skip
    """Adds `source[place:end]`, whose white space is a break where `hard` says so; `decoded` says what text means."""
    end = len(source) if end is None else end
    for match in _SPACE.finditer(source, place, end):
        inline.text(decoded(source[place : match.start()]))
        if hard(match):
            inline.hard((match[0], ""))
        elif match[0] == "  ":
            inline.wide()
        else:
            inline.text(" ")
        place = match.end()
    inline.text(decoded(source[place:end]))


def read(
    source: str,
    hard: Callable[[re.Match[str]], bool],
    fixed: Sequence[tuple[int, int]] = (),
    breaks: Sequence[tuple[int, int]] = (),
    decoded: Callable[[str], str] = str,
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
        add(inline, source, hard, place, begin, decoded)
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
    add(inline, source, hard, place, decoded=decoded)
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


def wrapped(text: Translated, width: int) -> Translated:
    """The same with lines of at most so many characters, where words allow it: spaces become line breaks."""
    characters = list(text.text)
    begin = 0
    space: int | None = None  # the last one in this line
    for place, character in enumerate(characters):
        if character == BREAK:
            if space is not None and place - begin > width:
                characters[space] = BREAK
            begin, space = place + 1, None
        elif character == " " and text.text[place + 1 : place + 2] not in _BEGIN:
            if space is not None and place - begin > width:
                characters[space] = BREAK
                begin = space + 1
            space = place
    if space is not None and len(characters) - begin > width:
        characters[space] = BREAK
    return Translated("".join(characters), text.spans)


def balanced(text: Translated, lines: int) -> Translated:
    """The same in at most so many lines, the longest of which is as short as can be."""
    there = text.text.count(BREAK)
    widths = range(len(text.text) // lines, len(text.text))  # in wider lines there are never more of them
    wide = bisect_left(widths, True, key=lambda width: wrapped(text, width).text.count(BREAK) - there < lines)
    return wrapped(text, widths.start + wide)
