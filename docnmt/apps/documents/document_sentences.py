"""A document's segments as sentences for a model, and its translations put together as segments again.

What is fixed inside a sentence (code, placeholders, addresses) is shown to the model as it stands. Where the
translation does not have all of it exactly as often, the sentence is translated once more in parts, between what is
fixed, with all other translations of the document given; so the promise holds whatever the model does.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol

from docnmt.apps.documents.placeholders import ordered, placeholders, without_placeholders
from docnmt.apps.documents.projection import Span, equal_and_near, project, words
from docnmt.apps.documents.segment_parts import SegmentPart, Split, parts_of
from docnmt.apps.documents.segments import BREAK, DocumentFile, Segment, Translated
from docnmt.apps.documents.spaces import no_break
from docnmt.apps.documents.untranslatable import between, has_words, places_of
from docnmt.runtime.languages import seam, unspaced

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


class TranslateSentences(Protocol):
    """A model: the translation of each sentence that is not given, in order."""

    def __call__(self, sentences: Sequence[SegmentSentence], /) -> Iterator[str]: ...


#: For pairs of a sentence and its translation, pairs of characters of both that belong together.
Align = Callable[[Sequence[tuple[str, str]]], Sequence[Sequence[Span]]]


def translated(
    document: DocumentFile,
    translate: TranslateSentences,
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
    for number, each in enumerate(apart):
        for part in each:
            part.number = number
    parts = [part for each in apart for part in each]
    answers = translate([_sentence(part) for part in parts])
    again = [part for part in parts if part.given is None and not accept(part, next(answers))]
    _end(answers)
    if again:
        _in_pieces(parts, again, translate)
    formatted = [_has_formats(segment) for segment in document.segments]
    _aligned([part for part in parts if part.given is None and formatted[part.number]], align)
    return [_joined(document, number, found) for number, found in enumerate(apart)]


def _has_formats(segment: Segment) -> bool:
    """Whether a segment has marks whose places depend on which word stands for which."""
    return any(not mark.fixed or mark.begin == mark.end for mark in segment.marks)


def _aligned(parts: Sequence[SegmentPart], align: Align | None) -> None:
    """Finds the pairs of sentences that are not translated in pieces, for which they are known."""
    wanted = [part for part in parts if not part.pairs]
    if align is None:
        for part in wanted:
            part.pairs = _pairs(part.source, part.text or "", part.fixed, part.placed)
        return
    for part, pairs in zip(wanted, align([(part.source, part.text or "") for part in wanted]), strict=True):
        part.pairs = [*pairs, *((one[0], other[0]) for one, other in zip(part.fixed, part.placed, strict=True))]


def _end(answers: Iterator[str]) -> None:
    if next(answers, None) is not None:
        raise ValueError("more translations than sentences")


def _sentence(part: SegmentPart) -> SegmentSentence:
    return SegmentSentence(
        part.source, part.text if part.given is None else part.given, part.segment.units, part.number, part.fixed
    )


def accept(part: SegmentPart, answer: str) -> bool:
    """Takes a translation, if all that is fixed came through."""
    text = no_break(part.source, answer.replace(BREAK, " "))
    placed = _places(part.source, part.fixed, text)
    flags, checked = part.segment.flags, (placeholders, ordered) if part.checked else ()
    if placed is None or any(kept(text, flags) != kept(part.source, flags) for kept in checked):
        return False
    part.text, part.placed = text, placed
    return True


def _pairs(source: str, target: str, fixed: Sequence[Span], placed: Sequence[Span]) -> list[Span]:
    """Pairs of characters of aligned words."""
    here, there = words(source, fixed), words(target, sorted(placed))
    pairs = equal_and_near([source[b:e] for b, e in here], [target[b:e] for b, e in there])
    return [(here[i][0], there[j][0]) for i, j in pairs]


def _places(source: str, fixed: Sequence[Span], target: str) -> list[Span] | None:
    """Where each of `fixed` stands in the translation, or None if one of them is missing or there too often, or
    if they are too many for it to be likely."""
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


def _in_pieces(parts: Sequence[SegmentPart], again: Sequence[SegmentPart], translate: TranslateSentences) -> None:
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
    _end(answers)


def pieces_of(part: SegmentPart) -> list[str]:
    """What a model translates of a sentence that is translated between what is fixed in it."""
    return [text.strip() for text in between(part.source, part.fixed) if has_words(text, ())]


def piece_by_piece(part: SegmentPart, answers: Iterator[str]) -> None:
    """The translation of a sentence from those of its pieces, with what is fixed between them."""
    out, source = "", part.source
    place = 0
    for text, span in zip(between(source, part.fixed), [*part.fixed, None], strict=True):
        bare = text.strip()
        if has_words(text, ()):
            found = no_break(bare, next(answers).replace(BREAK, " ").strip())
            found = without_placeholders(found, part.segment.flags)
            before, behind = text[: len(text) - len(text.lstrip())], text[len(text.rstrip()) :]
            if not before and place and _parted(bare[0], found[:1]):
                before = " "
            if not behind and span is not None and _parted(bare[-1], found[-1:]):
                behind = " "
            at, begin = place + len(before), len(out) + len(before)
            part.pairs += [(at + i, begin + j) for i, j in _pairs(bare, found, (), ())]
            out += before + found + behind
        else:
            part.pairs += [(place + k, len(out) + k) for k in range(len(text)) if not text[k].isspace()]
            out += text
        place += len(text)
        if span is not None:
            part.pairs.append((span[0], len(out)))
            part.placed.append((len(out), len(out) + span[1] - span[0]))
            out += source[span[0] : span[1]]
            place = span[1]
    part.text = out


def _parted(source: str, target: str) -> bool:
    """Whether a word of the translation needs a space where the source, in another script, has none."""
    return unspaced(source) and target.isalnum() and not unspaced(target)


def _joined(document: DocumentFile, number: int, parts: Sequence[SegmentPart]) -> Translated:
    """A segment's translation from those of its sentences."""
    segment = document.segments[number]
    if all(part.given is not None for part in parts):
        return document.unchanged(number)
    out, place, last = "", 0, ""  # the last translation that is not empty
    pairs: list[Span] = []
    places: dict[Span, Span] = {}  # what is fixed → where it is now
    breaks: dict[Span, Span] = {}  # likewise what stands between sentences
    ends: dict[int, int] = {}  # likewise where sentences end
    for part in [*parts, SegmentPart(segment, len(segment.text), len(segment.text), given="")]:
        text = (part.text or "") if part.given is None else part.given
        between = segment.text[place : part.begin]
        if BREAK in between:
            for k in range(len(between)):
                breaks[place + k, place + k + 1] = len(out) + k, len(out) + k + 1
            last = ""
        elif last and text:
            spaced = between or seam(segment.text[max(0, place - 9) : place], segment.text[place : place + 9])
            between = seam(last, text) and (between if spaced else " ")
        out += between
        last = text or last
        given = [(k, k) for k in range(len(text))] if part.given is not None else part.pairs
        pairs += [(part.begin + i, len(out) + j) for i, j in given]
        placed = part.placed if part.given is None else part.fixed
        for (b, e), (begin, end) in zip(part.fixed, placed, strict=True):
            places[part.begin + b, part.begin + e] = len(out) + begin, len(out) + end
        out += text
        place = part.end
        ends[place] = len(out)
    now = breaks | places
    marked = {n: now[m.begin, m.end] for n, m in enumerate(segment.marks) if m.fixed and m.begin < m.end}
    for n, mark in enumerate(segment.marks):  # what touches the end of a sentence touches that of its translation
        if mark.fixed and mark.begin == mark.end in ends and mark.parent < 0 and not mark.apart:
            marked[n] = (ends[mark.end],) * 2
    whole = sorted(places), sorted(places.values())
    return Translated(out, project(segment.marks, segment.text, out, pairs, placed=marked, whole=whole))
