"""Segments → sentences for the model, what must not change in them, and back.
Placeholders, addresses and spaces are kept; translations of sentences become a segment's text again.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

from docnmt.apps.documents.projection import Span, equal_and_near, project, words
from docnmt.apps.documents.segments import BREAK, DocumentFile, Segment, Translated
from docnmt.runtime.languages import CJK, SOUTHEAST, WIDE_SIGNS, one_line, seam, unspaced

# Placeholders and other code in text, family by family: what a file declares, and what is clear without that.

#: A letter or digit of a script that parts words by spaces.
_SPACED = rf"[^\W{CJK}{SOUTHEAST}]"
#: What ends an address: a wide sign, or a letter without a space before it, as in 见https://a.b/c页.
_NO_ADDRESS = rf"(?![{WIDE_SIGNS}]|(?<=[A-Za-z0-9}}])[{CJK}{SOUTHEAST}])"
#: Placeholders by what a file calls them (the flags of a PO entry): what a checker of the format takes for one.
_PRINTF = (
    r"%(?:\d+\$)?[-+\ \#0'I]*(?:\d+|\*(?:\d+\$)?)?(?:\.(?:\d+|\*)?)?(?:hh|ll|[hlLqjzt])?"
    r"(?:<PRI\w+>|[diouxXeEfFgGaAcCsSpnm%@])"
)
_PYTHON = r"%(?:\([^()]*\))?[-+\ \#0]*(?:\d+|\*)?(?:\.(?:\d+|\*))?[hlL]?[diouxXeEfFgGcrsa%]"
_BRACES = r"\{\{|\}\}|\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}"
_PASCAL = r"%(?:\d+:)?-?(?:\d+|\*)?(?:\.(?:\d+|\*))?[dDeEfFgGmMnNpPsSuUxX%]"
_PERCENT = frozenset(
    {"c", "objc", "php", "perl", "javascript", "lua", "tcl", "awk", "elisp", "gcc-internal", "java-printf"}
)
_BRACED = frozenset({"python-brace", "csharp", "perl-brace", "rust"})
#: … and where nobody says it, what hardly is anything else; longer forms first, as the first that matches is taken.
_ADDRESSES = r"""
    (?:https?|ftp)://(?:\{\{[^{}\n]*\}\}|ENDS[^\s<>"'”»])*   # with templates, but
        (?:\{\{[^{}\n]*\}\}|ENDS[^\s<>"'”».,;:!?)\]}])      # without the full stop behind them
    | (?<!\w)www\.[\w-]+\.(?:ENDS[^\s<>"'”»])*ENDS[^\s<>"'”».,;:!?)\]}]
    | (?<!_SPACED)(?<![.+-])(?:_SPACED|[.+-])+@(?:_SPACED|-)+(?:\.(?:_SPACED|-)+)+
    | (?<![\w.\-/\\])(?:[A-Za-z]:\\|~/|\.{1,2}/|/(?=[\w.-]{1,80}/))[\w.\-/\\]*\w      # /usr/bin/env C:\temp
    | (?<![\w.\-/\\])(?:[\w.-]{1,80}[/\\]){0,20}[\w-][\w.-]{0,80}\.                  # images/logo.png
        (?:png|jpe?g|gif|svg|webp|ico|mp[34]|pdf|docx?|xlsx?|pptx?|txt|md|csv|html?|css|jsx?|tsx?|json|ya?ml|toml|xml
        |ini|cfg|conf|log|py|java|sh|exe|dll|zip|gz|tar)(?![\w-])
    | (?<![\w&\#])\#(?:[0-9A-Fa-f]{8}|[0-9A-Fa-f]{6}|(?=[A-Fa-f]*\d)[0-9A-Fa-f]{3})(?!\w)   # a colour
""".replace("ENDS", _NO_ADDRESS).replace("_SPACED", _SPACED)
_PERCENTS = r"""
    %%[A-Za-z_]\w*%%                                            # %%VAR%%
    | %%(?:[dfsx](?![^\W_]))?                                     # %%s: a %s that another format will read
    | (?<![\d%])%[A-Za-z_][\w.]+%(?!\w)                         # %minutes%
    | %\{[^{}\s]*\} | %<\w+>[-+0]*\d{0,4}(?:\.\d+)?[a-z]        # %{x} %<x>d of Ruby
    | %\([\w.]+\)[-+\#0]*\d{0,4}(?:\.\d+)?[a-zA-Z]               # %(name)s of Python
    | (?<![\d%])%(?:\d+\$)?[-+\#0']*(?:\d{1,4}|\*)?(?:\.(?:\d+|\*))?(?:hh|ll|[hlLqjzt])?
      [diouxXeEfFgGaAcrspn@](?![^\W_])
    | (?<![\d%])%(?:[sd]|(?:\d{1,4}\$)?(?:0?\d{1,4})?(?:\.\d{1,4})?[dsfx](?<=\d.))   # … before a letter: %dx%d %.3fs
    | (?<![\d%])%[A-Za-z](?![^\W_])                             # %B of a date
    | (?<![\w%])(?:(?:%\d{1,2}%(?!\d))+|(?:%L?\d{1,2})+(?!\w)) # %1% of Boost, %1 of Qt, also in a row
"""
_TEMPLATES = r"""
    <%.{0,300}?%> | <\?.{0,300}?\?> | \{%.{0,300}?%\} | \{\#.{0,300}?\#\}
    | \{{3}(?!\{{3}).{0,1000}?\}\}\} | [\#$]?\{\{(?!\{{4}).{0,1000}?\}\}    # a long row of braces begins one at its end
    | \{\s*[\w.-]+\s*,\s*(?:number|date|time|spellout|ordinal|duration|list)\s*(?:,[^{}]*)?\}   # {0,date,short} of ICU
    | \{\$[\w.-]+(?:\s[^{}]*)?\}                                # {$name} of Angular and MessageFormat 2
    | [\#$]\{[^{}\s]+\} | \{/?\s*(?:[\w.!\[\]-]+(?::[^{}\s]*)?\s*|:[^{}\s]*\s*)?\}  # ${name} {name} {x:>10}
    | \$t\([^()\s]+\) | \$\([A-Za-z_]\w*\) | \$[A-Za-z_][\w@]*\$(?!\w) | \$[A-Za-z_]\w*    # $NAME$ of Chrome
    | \\\(.{1,300}?\\\) | \\\[.{1,300}?\\\] | \$\$[^$]{1,300}\$\$    # formulas of TeX
"""
_MARKUP = r"""
    (?::[\w+.-]{1,40}){1,3}:`[^`]{1,300}` | ``(?!`)(?:`?(?!(?<=[\w.,;:!?…])'')[^`]){1,300}``    # roles and code of reST
    | (?<![\w`])`[^`'\s](?:[^`'\n]{0,300}[^`'\s])?`(?:__?|(?!\w))
    | (?<!\w)\|[\w](?:[\w\ .-]{0,60}\w)?\|(?!\w) | \[[\w*\#.-]{1,60}\]_    # substitutions and notes of reST
    | (?<!\w)[BCEFILSXZ]<(?:[^<>\s]|E<\w+>)+> | (?<!\w)[CFLX]<[^<>]{1,300}>   # POD
    | (?<!\w)[BCEFILSXZ]<<(?:[ ][^\n]{1,300}?[ ]|<[ ][^\n]{1,300}?[ ]>)>>(?!>)  # POD whose text has angle brackets
    | \\f(?:[A-Z0-9]|\([A-Z]{2}|\[\w*\]) | \\\*?\(\w\w | \\\*\w | \\\*\[\w+\] | \\[-&|] | \\e(?!\w)   # roff
    | </?[A-Za-z][\w:.-]*(?:\s[^<>]*)?/?> | </?\d{1,3}\s?/?>     # tags, also <0> of React
    | _x[0-9A-F]{4}_                                           # a character of Excel
    | \[\^[\w-]+\] | \[[ xX]\](?=\s) | \[![\w-]+\][+-]? | \[\[[^\[\]\n]{1,200}\]\]    # [^1] [x] [!NOTE] [[page]]
    | \{:?[ \t]*(?:[\#.]|[\w:-]+=)[^{}\n]{0,200}\}                 # {#name .class} behind a heading
    | \{\\[^{}]*\}                                             # {\an8} of subtitles
    | (?<![^\s(\[{`"'=|/<“„«‘])(?<![.,;:!?…)\]\w]["'])(?:--[a-z][\w-]+(?!.{0,99}\w--(?![\w-]))  # options, no dashes
      |-(?:[a-zB-DF-HJ-NP-XZ]|(?<=[^.!?…\s]\s-)[AEIOY]))(?![\w-])
    | &[A-Za-z][\w.]+; | &\#\w+; | (?<!\w)&(?:amp|copy|[gl]t|nbsp|not|quot|reg)(?!\w)    # browsers take these, too
"""
_NAMES = r"""
    (?<![\w-])__[A-Za-z]\w{0,60}?__(?!\w) | (?<![\w\#&])\#[A-Za-z_][\w.-]{0,60}\#(?!\w)       # __name__ #name#
    | (?<![\w~])~[A-Za-z_][\w.-]{0,60}~(?![\w~]) | \[X\d+X\]   # ~name~, and what Weblate puts for a placeholder
    | (?<![\w:/.@\\]):[a-z_][a-z0-9_]+:? (?![\w:])                 # :attribute :smile:
    | (?<![\w@./])@(?:\.\w+)?:(?:\([\w.-]+\)|\w[\w.-]*(?<=\w))    # @:key of Vue
    | (?<![\w@./])@[A-Za-z_][\w-]*                              # @count
    | (?<![\w\#&;])\#(?![\w\#])                                  # the number in a plural of ICU
    | [\U0001f1e6-\U0001faff\u2600-\u27bf](?:[\ufe0f\u200d\U0001f1e6-\U0001faff\u2600-\u27bf])*   # signs in pictures
"""
#: … and in the messages of a program, which a text for readers may have in another sense: [name] $1
_MESSAGES = r"""
    \[\$\d{1,2}(?=\s) | \[[A-Za-z_][\w.-]{0,60}\](?![(\[]) | (?<![\w$])\$\d{1,2}(?![\d.,]*\d)
"""
#: The flag of a message of a program.
MESSAGE = "message"


def _compiled(*families: str) -> re.Pattern[str]:
    """An expression in which letters of scripts without spaces are no part of the word beside them."""
    whole = "|".join(families)
    for edge in ("(?!", "(?<!"):
        whole = whole.replace(rf"{edge}\w)", f"{edge}{_SPACED})").replace(rf"{edge}[\w", f"{edge}{_SPACED}){edge}[")
    return re.compile(whole.replace(r"(?![^\W_])", rf"(?![^\W_{CJK}{SOUTHEAST}])"), re.VERBOSE)


@cache
def _placeholders(flags: tuple[str, ...]) -> re.Pattern[str] | None:
    """What the format that a file declares takes for placeholders; None if it declares none that is known."""
    said = {flag.removesuffix("-format") for flag in flags}
    families = [_PYTHON] if "python" in said else []
    families += [_PRINTF] if said & _PERCENT else []
    families += [_BRACES] if said & _BRACED else []
    families += [_PASCAL] if "object-pascal" in said else []
    return _compiled(*families) if families else None


@cache
def pattern(flags: tuple[str, ...]) -> re.Pattern[str]:
    """What finds all that is not to be translated in a text with such placeholders."""
    declared = _placeholders(flags)
    families = () if declared is None else (declared.pattern,)
    plain = (_PERCENTS,) if declared is None else ()
    messages = (_MESSAGES,) if MESSAGE in flags else ()
    return _compiled(_ADDRESSES, *families, *plain, _TEMPLATES, _MARKUP, *messages, _NAMES)


def _declared(text: str, flags: tuple[str, ...]) -> list[str]:
    """The placeholders that the declared format finds in a text, sorted; none if nothing is declared."""
    declared = _placeholders(flags)
    return [] if declared is None else sorted(match[0] for match in declared.finditer(text))


#: Placeholders that neither have a name nor a number: what they stand for depends on their order.
_ORDERED = re.compile(r"%(?!\d+\$|[({<%L])[^%]*[A-Za-z@]|\{(?:![rsa])?(?::[^{}]*)?\}")


def _ordered(text: str, flags: tuple[str, ...]) -> list[str]:
    """The placeholders of a text whose order has a meaning."""
    return [match[0] for match in pattern(flags).finditer(text) if _ORDERED.fullmatch(match[0])]


# What stands in text and is not to be translated: addresses, placeholders, tags.

#: One of these stands in all that is looked for.
_ANY = re.compile(r"[@/\\#%<>{}$`\[\]|&~_\u2600-\u27bf\U0001f1e6-\U0001faff]" rf"|(?<!{_SPACED})[-:]|:\w|\.\w")
_LETTER = re.compile(r"[^\W\d_]")


def fixed_spans(text: str, flags: tuple[str, ...] = ()) -> list[tuple[int, int]]:
    """Where addresses, placeholders and tags stand in a text; `flags` say what placeholders are, as those of PO do."""
    if _ANY.search(text) is None:  # as most sentences, which a search for all would take a hundred times as long
        return []
    return [match.span() for match in pattern(flags).finditer(text)]


def _has_words(text: str, spans: Collection[tuple[int, int]]) -> bool:
    """Whether a text has a letter outside of `spans`, which are in order and do not overlap."""
    return any(_LETTER.search(part) for part in between(text, spans))


def between(text: str, spans: Collection[tuple[int, int]]) -> Iterator[str]:
    """The parts of a text before, between and behind `spans`: one more than these."""
    index = 0
    for begin, end in spans:
        yield text[index:begin]
        index = end
    yield text[index:]


def places_of(wanted: Collection[str], text: str) -> list[tuple[int, int]]:
    """Where these texts stand in another one as they are, from left to right, the longest first, and not in words."""
    if not wanted:
        return []
    patterns = []
    for one in sorted(set(wanted), key=lambda one: (-len(one), one)):
        ends = one[-1].isalnum() and one[0] not in "%\\"  # %d may stand before a letter
        begin = rf"(?<!{_SPACED})" if one[0].isalnum() else ""
        patterns.append(begin + re.escape(one) + (rf"(?!{_SPACED})" if ends else ""))
    return [match.span() for match in re.finditer("|".join(patterns), text)]


# A segment's sentences, as they are divided for a model, and what is not to change in them.

Split = Callable[[str], list[str]]


@dataclass
class SegmentPart:
    """A sentence of a segment: `segment.text[begin:end]`.

    Attributes:
        number: the segment's. fixed: what does not change in it, in order. given: its translation, if there is one.
        text: the translation, None as long as there is none. placed: where `fixed` stands in it. pairs: characters that
            belong together. checked: whether a translation must have the same placeholders.
    """

    segment: Segment
    begin: int
    end: int
    fixed: list[Span] = field(default_factory=list)
    given: str | None = None
    text: str | None = None
    placed: list[Span] = field(default_factory=list)
    pairs: list[Span] = field(default_factory=list)
    number: int = 0
    checked: bool = True

    @property
    def source(self) -> str:
        """The sentence."""
        return self.segment.text[self.begin : self.end]


def parts_of(segment: Segment, split: Split, split_target: Split, *, protect: bool = True) -> list[SegmentPart]:
    """The sentences of a segment; with `protect` what is found to be code in them does not change."""
    whole = SegmentPart(segment, 0, len(segment.text), _fixed_in(segment, protect=protect))
    if segment.translation is not None:
        return _given(segment, split, split_target)
    if not segment.text.strip():
        return []
    if not _has_words(segment.text, whole.fixed):
        line = one_line(segment.text)
        return [SegmentPart(Segment(line, units=segment.units), 0, len(line), given=line)]
    parts: list[SegmentPart] = []
    begins = [begin for begin, _ in whole.fixed]
    line_begin = 0
    for line in segment.text.split(BREAK):
        letters = [index for index, sign in enumerate(line, line_begin) if not sign.isspace()]
        first = 0
        for sentence in split(line):  # which may have other white space
            if not sentence.strip():
                continue
            last = first + len("".join(sentence.split())) - 1
            index, begin, first = letters[first], letters[last] + 1, last + 1
            around = bisect_left(begins, index) - 1
            if parts and around >= 0 and parts[-1].end < whole.fixed[around][1]:  # it does not end inside of it
                parts[-1].end = begin
            else:
                parts.append(SegmentPart(segment, index, begin))
        line_begin += len(line) + 1
    for part in parts:
        inside = whole.fixed[bisect_left(begins, part.begin) : bisect_left(begins, part.end)]
        part.checked = protect
        part.fixed = [(b - part.begin, e - part.begin) for b, e in inside if e <= part.end]
        if not _has_words(part.source, part.fixed):
            part.given = part.source
    return parts


def _given(segment: Segment, split: Split, split_target: Split) -> list[SegmentPart]:
    """A segment with its translation: as sentences if both have equally many, else as one."""
    target = segment.translation or ""
    sources, targets = (
        [sentence for line in text.split(BREAK) for sentence in divide(line)]
        for text, divide in ((segment.text, split), (target, split_target))
    )
    if not sources or not targets:
        return []
    if len(sources) != len(targets):
        sources, targets = [one_line(segment.text)], [one_line(target)]
    pairs = zip(sources, targets, strict=True)
    return [SegmentPart(Segment(one, units=segment.units), 0, len(one), given=given) for one, given in pairs]


def _fixed_in(segment: Segment, *, protect: bool = True) -> list[Span]:
    """What does not change in a segment: what its format says, and what is found between."""
    marked = sorted({(m.begin, m.end) for m in segment.marks if m.fixed and m.begin < m.end})
    spans, index = [], 0
    for text, mark in zip(between(segment.text, marked), [*marked, None], strict=True):
        codes = fixed_spans(text, segment.flags) if protect else []
        spans += [(index + begin, index + end) for begin, end in codes]
        if mark is not None:
            spans.append(mark)
            index = mark[1]
    return [(begin, end) for begin, end in spans if segment.text[begin:end] != BREAK]


def changing_text(segment: Segment) -> str:
    """What a translation may lose of a segment: its text without what is fixed; empty if no model writes it anew."""
    fixed = _fixed_in(segment)
    if segment.translation is not None or not _has_words(segment.text, fixed):
        return ""
    return " ".join(" ".join(between(segment.text, fixed)).split())


# Spaces that no line breaks at.

_SPACE = re.compile(r"((?<!\w)\w{1,40}|[^\w\s])([\u00a0\u2007\u202f])(?=(\w{1,40}|[^\w\s]))")
#: Pairs of words that are looked for.
_MOST = 50


def _no_break(source: str, text: str) -> str:
    """A translation with the no-break spaces that its source has between the same words, as of numbers and units."""
    pairs = dict.fromkeys(match.groups() for match in _SPACE.finditer(source))
    for before, space, behind in [*pairs][:_MOST]:
        text = re.sub(rf"(?<!\w){re.escape(before)} (?={re.escape(behind)}(?!\w))", f"{before}{space}", text)
    return text


# A document's segments as sentences for a model, and its translations put together as segments again.

#: A sentence with more different things that are fixed is translated between them; to find each everywhere takes long.
MOST = 200


class SegmentSentence(NamedTuple):
    """What a model reads: `given` is its translation if there is one; `units` and `segment`, the number, say where it
    stands; `fixed` are its parts that are to come through as they are."""

    text: str
    given: str | None
    units: tuple[str, str]
    segment: int = 0
    fixed: Sequence[Span] = ()


#: A model: the translation of each sentence that is not given, in order.
_Translate = Callable[[Sequence[SegmentSentence]], Iterator[str]]
#: For pairs of a sentence and its translation, pairs of characters of both that belong together.
Align = Callable[[Sequence[tuple[str, str]]], Sequence[Sequence[Span]]]


def translated(
    document: DocumentFile,
    translate: _Translate,
    *,
    split: Split,
    split_target: Split,
    align: Align | None = None,
    protect: bool = True,
) -> list[Translated]:
    """A translation for each of the document's segments, in order.

    What the file has a translation of keeps it, and what has no words stays; the model reads both as given.

    Args:
        split, split_target: divide a line of each language into sentences.
        align: says where formats of the source stand in the translation; None: equal words and distances say it.
        protect: whether what is found in text to be code comes through, beside what the format says of it.
    """
    apart = [parts_of(segment, split, split_target, protect=protect) for segment in document.segments]
    for number, parts_of_segment in enumerate(apart):
        for part in parts_of_segment:
            part.number = number
    parts = [part for parts_of_segment in apart for part in parts_of_segment]
    answers, waiting = translate([_sentence(part) for part in parts]), [part for part in parts if part.given is None]
    again = [part for part, answer in zip(waiting, answers, strict=True) if not accept(part, answer)]
    if again:
        _in_pieces(parts, again, translate)
    formatted = [any(not m.fixed or m.begin == m.end for m in segment.marks) for segment in document.segments]
    _aligned([part for part in waiting if formatted[part.number]], align)
    return [_joined(document, number, parts_of_segment) for number, parts_of_segment in enumerate(apart)]


def _aligned(parts: Sequence[SegmentPart], align: Align | None) -> None:
    wanted = [part for part in parts if not part.pairs]  # of those that are translated in pieces they are known
    if align is None:
        for part in wanted:
            part.pairs = _pairs(part.source, part.text or "", part.fixed, part.placed)
        return
    for part, pairs in zip(wanted, align([(part.source, part.text or "") for part in wanted]), strict=True):
        part.pairs = [*pairs, *((one[0], other[0]) for one, other in zip(part.fixed, part.placed, strict=True))]


def _sentence(part: SegmentPart) -> SegmentSentence:
    given = part.text if part.given is None else part.given
    return SegmentSentence(part.source, given, part.segment.units, part.number, part.fixed)


def accept(part: SegmentPart, answer: str) -> bool:
    """Takes a translation, if all that is fixed came through."""
    text = _no_break(part.source, answer.replace(BREAK, " "))
    placed = _places(part.source, part.fixed, text)
    flags, checked = part.segment.flags, (_declared, _ordered) if part.checked else ()
    if placed is None or any(signs(text, flags) != signs(part.source, flags) for signs in checked):
        return False
    part.text, part.placed = text, placed
    return True


def _pairs(source: str, target: str, fixed: Sequence[Span], placed: Sequence[Span]) -> list[Span]:
    source_words, target_words = words(source, fixed), words(target, sorted(placed))
    pairs = equal_and_near([source[b:e] for b, e in source_words], [target[b:e] for b, e in target_words])
    return [(source_words[i][0], target_words[j][0]) for i, j in pairs]


def _places(source: str, fixed: Sequence[Span], target: str) -> list[Span] | None:
    """Where each of `fixed` stands in the translation; None if one is missing or there too often."""
    wanted = {source[begin:end] for begin, end in fixed}
    if len(wanted) > MOST:
        return None
    sides = [places_of(wanted, text) for text in (source, target)]
    by_text: dict[str, deque[Span]] = {text: deque() for text in wanted}
    for begin, end in sides[1]:
        by_text[target[begin:end]].append((begin, end))
    partner: dict[Span, Span] = {}
    for begin, end in sides[0]:
        if not by_text[source[begin:end]]:
            return None
        partner[begin, end] = by_text[source[begin:end]].popleft()
    if any(by_text.values()) or not all(tuple(span) in partner for span in fixed):
        return None
    return [partner[span] for span in fixed]


def _in_pieces(parts: Sequence[SegmentPart], again: Sequence[SegmentPart], translate: _Translate) -> None:
    """Translates some sentences between what is fixed in them; all others are given."""
    wanted = {id(part) for part in again}
    sentences: list[SegmentSentence] = []
    for part in parts:
        if id(part) in wanted:
            sentences += [SegmentSentence(text, None, part.segment.units, part.number) for text in pieces_of(part)]
        else:
            sentences.append(_sentence(part))
    answers = translate(sentences)
    for part in again:
        piece_by_piece(part, answers)
    if next(answers, None) is not None:
        raise ValueError("more translations than sentences")


def pieces_of(part: SegmentPart) -> list[str]:
    """What a model translates of a sentence that is translated between what is fixed in it."""
    return [text.strip() for text in between(part.source, part.fixed) if _has_words(text, ())]


def piece_by_piece(part: SegmentPart, answers: Iterator[str]) -> None:
    """The translation of a sentence from those of its pieces, with what is fixed between them."""
    out, source = "", part.source
    index, said = 0, {flag.removesuffix("-format") for flag in part.segment.flags}
    for text, span in zip(between(source, part.fixed), [*part.fixed, None], strict=True):
        bare = text.strip()
        if _has_words(text, ()):
            translation = _no_break(bare, next(answers).replace(BREAK, " ").strip())
            if "python" in said or said & _PERCENT:  # signs of the declared format stand for themselves
                translation = translation.replace("%", "%%")
            if said & (_BRACED - {"perl-brace"}):
                translation = translation.replace("{", "{{").replace("}", "}}")
            before, behind = text[: len(text) - len(text.lstrip())], text[len(text.rstrip()) :]
            if not before and index and _parted(bare[0], translation[:1]):
                before = " "
            if not behind and span is not None and _parted(bare[-1], translation[-1:]):
                behind = " "
            at, begin = index + len(before), len(out) + len(before)
            part.pairs += [(at + i, begin + j) for i, j in _pairs(bare, translation, (), ())]
            out += before + translation + behind
        else:
            part.pairs += [(index + k, len(out) + k) for k in range(len(text)) if not text[k].isspace()]
            out += text
        index += len(text)
        if span is not None:
            part.pairs.append((span[0], len(out)))
            part.placed.append((len(out), len(out) + span[1] - span[0]))
            out += source[span[0] : span[1]]
            index = span[1]
    part.text = out


def _parted(source: str, target: str) -> bool:
    """Whether a word of the translation needs a space where the source, in another script, has none."""
    return unspaced(source) and target.isalnum() and not unspaced(target)


def _joined(document: DocumentFile, number: int, parts: Sequence[SegmentPart]) -> Translated:
    segment = document.segments[number]
    if all(part.given is not None for part in parts):
        return document.unchanged(number)
    out, index, last = "", 0, ""  # the last translation that is not empty
    pairs: list[Span] = []
    places: dict[Span, Span] = {}  # what is fixed → where it is now
    breaks: dict[Span, Span] = {}  # likewise what stands between sentences
    ends: dict[int, int] = {}  # likewise where sentences end
    for part in [*parts, SegmentPart(segment, len(segment.text), len(segment.text), given="")]:
        text = (part.text or "") if part.given is None else part.given
        space = segment.text[index : part.begin]
        if BREAK in space:
            for k in range(len(space)):
                breaks[index + k, index + k + 1] = len(out) + k, len(out) + k + 1
            last = ""
        elif last and text:
            spaced = space or seam(segment.text[max(0, index - 9) : index], segment.text[index : index + 9])
            space = seam(last, text) and (space if spaced else " ")
        out += space
        last = text or last
        aligned = [(k, k) for k in range(len(text))] if part.given is not None else part.pairs
        pairs += [(part.begin + i, len(out) + j) for i, j in aligned]
        placed = part.placed if part.given is None else part.fixed
        for (b, e), (begin, end) in zip(part.fixed, placed, strict=True):
            places[part.begin + b, part.begin + e] = len(out) + begin, len(out) + end
        out += text
        index = part.end
        ends[index] = len(out)
    now = breaks | places
    marked = {n: now[m.begin, m.end] for n, m in enumerate(segment.marks) if m.fixed and m.begin < m.end}
    for n, mark in enumerate(segment.marks):  # what touches the end of a sentence touches that of its translation
        if mark.fixed and mark.begin == mark.end in ends and mark.parent < 0 and not mark.apart:
            marked[n] = (ends[mark.end],) * 2
    whole = sorted(places), sorted(places.values())
    return Translated(out, project(segment.marks, segment.text, out, pairs, placed=marked, whole=whole))
