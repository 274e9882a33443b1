"""A segment's sentences, as they are divided for a model, and what is not to change in them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field

from docnmt.apps.documents.projection import Span
from docnmt.apps.documents.segments import BREAK, Segment
from docnmt.apps.documents.untranslatable import between, fixed_spans, has_words
from docnmt.runtime.languages import one_line

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
    whole = SegmentPart(segment, 0, len(segment.text), fixed_in(segment, protect=protect))
    if segment.translation is not None:
        return _given(segment, split, split_target)
    if not segment.text.strip():
        return []
    if not has_words(segment.text, whole.fixed):
        line = one_line(segment.text)
        return [SegmentPart(Segment(line, units=segment.units), 0, len(line), given=line)]
    found: list[SegmentPart] = []
    begins = [begin for begin, _ in whole.fixed]
    line_begin = 0
    for line in segment.text.split(BREAK):
        letters = [place for place, sign in enumerate(line, line_begin) if not sign.isspace()]
        first = 0
        for sentence in split(line):  # which may have other white space
            if not sentence.strip():
                continue
            last = first + len("".join(sentence.split())) - 1
            place, begin, first = letters[first], letters[last] + 1, last + 1
            around = bisect_left(begins, place) - 1
            if found and around >= 0 and found[-1].end < whole.fixed[around][1]:  # it does not end inside of it
                found[-1].end = begin
            else:
                found.append(SegmentPart(segment, place, begin))
        line_begin += len(line) + 1
    for part in found:
        inside = whole.fixed[bisect_left(begins, part.begin) : bisect_left(begins, part.end)]
        part.checked = protect
        part.fixed = [(b - part.begin, e - part.begin) for b, e in inside if e <= part.end]
        if not has_words(part.source, part.fixed):
            part.given = part.source
    return found


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
    parts = []
    for source, given in zip(sources, targets, strict=True):
        alone = Segment(source, units=segment.units)
        parts.append(SegmentPart(alone, 0, len(source), given=given))
    return parts


def fixed_in(segment: Segment, *, protect: bool = True) -> list[Span]:
    """What does not change in a segment: what its format says, and what is found between."""
    marked = sorted({(m.begin, m.end) for m in segment.marks if m.fixed and m.begin < m.end})
    spans, place = [], 0
    for text, mark in zip(between(segment.text, marked), [*marked, None], strict=True):
        found = fixed_spans(text, segment.flags) if protect else []
        spans += [(place + begin, place + end) for begin, end in found]
        if mark is not None:
            spans.append(mark)
            place = mark[1]
    return [(begin, end) for begin, end in spans if segment.text[begin:end] != BREAK]


def changing_text(segment: Segment) -> str:
    """What a translation may lose of a segment: its text without what is fixed; empty if no model writes it anew."""
    fixed = fixed_in(segment)
    if segment.translation is not None or not has_words(segment.text, fixed):
        return ""
    return " ".join(" ".join(between(segment.text, fixed)).split())
