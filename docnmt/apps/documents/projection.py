"""Where a segment's marks stand in its translation."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise

from docnmt.apps.documents.segments import BREAK, Mark
from docnmt.runtime.languages import CJK, unspaced

# Which words of a sentence stand for which of its translation, where no model says so.

#: In Chinese and Japanese, where nothing parts words, each character is one.
_WORD = re.compile(rf"[{CJK}]|[^\W{CJK}]+|[^\w\s]")


def words(text: str, whole: Collection[tuple[int, int]] = ()) -> list[tuple[int, int]]:
    """Where words and signs stand in a text, from left to right; each of `whole`, which are in order, is one word."""
    spans, index = [], 0
    for begin, end in [*(span for span in whole if span[0] < span[1]), (len(text), len(text))]:
        spans += [match.span() for match in _WORD.finditer(text, index, begin)]
        if begin < end:
            spans.append((begin, end))
        index = end
    return spans


def equal_and_near(source: Sequence[str], target: Sequence[str]) -> list[tuple[int, int]]:
    """Pairs of words (i, j): equal ones first, the others in order at like distances between these.

    Words are equal if they are so without case, and as many on both sides; the first is the first's partner.
    """
    equal = _equal(source, target)
    fixed = [(-1, -1), *_rising(equal), (len(source), len(target))]
    paired = set(equal)
    sources, targets = {i for i, _ in equal}, {j for _, j in equal}
    for (i0, j0), (i1, j1) in pairwise(fixed):
        rows = [i for i in range(i0 + 1, i1) if i not in sources]
        columns = [j for j in range(j0 + 1, j1) if j not in targets]
        if rows and columns:
            paired |= {(i, columns[k * len(columns) // len(rows)]) for k, i in enumerate(rows)}
            paired |= {(rows[k * len(rows) // len(columns)], j) for k, j in enumerate(columns)}
    return sorted(paired)


def _equal(source: Sequence[str], target: Sequence[str]) -> list[tuple[int, int]]:
    places: tuple[dict[str, list[int]], dict[str, list[int]]] = (defaultdict(list), defaultdict(list))
    for side, texts in zip(places, (source, target), strict=True):
        for number, text in enumerate(texts):
            side[text.casefold()].append(number)
    rows, columns = places
    both = [(rows[text], columns[text]) for text in rows if len(rows[text]) == len(columns.get(text, ()))]
    return sorted(pair for one, other in both for pair in zip(one, other, strict=True))


def _rising(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The most of these pairs, sorted by i, whose j rise, too."""
    ends: list[int] = []
    rows: list[int] = []
    before: list[int] = []
    for row, (_, j) in enumerate(pairs):
        index = bisect_left(ends, j)
        before.append(rows[index - 1] if index else -1)
        ends[index : index + 1], rows[index : index + 1] = [j], [row]
    chain = []
    row = rows[-1] if rows else -1
    while row >= 0:
        chain.append(pairs[row])
        row = before[row]
    return chain[::-1]


# Where the marks of a sentence stand in its translation.

Span = tuple[int, int]


def project(
    marks: Sequence[Mark],
    source: str,
    target: str,
    alignment: Collection[Span] = (),
    *,
    placed: Mapping[int, Span] | None = None,
    whole: tuple[Sequence[Span], Sequence[Span]] = ((), ()),
) -> tuple[Span, ...]:
    """For each mark of a text the part of its translation that it covers.

    A format covers the words that those which it covered are aligned with, as many in a row as are more than others
    between them. It stays inside of the one that it was inside of, and apart from its neighbours. What covers nothing
    stands behind the word that it stood behind, or before the word it stood before.

    Args:
        alignment: pairs of characters, one of each side, in words that stand for each other; of words that it leaves
            out `equal_and_near` says it.
        placed: where marks are that cover fixed text. whole: parts of both sides, in order, that are one word each.
    """
    placed = placed or {}
    if source == target:
        return tuple((mark.begin, mark.end) for mark in marks)
    sides = _Sides(source, target, alignment, whole)
    spans = [placed.get(number) or sides.part(mark) for number, mark in enumerate(marks)]
    _apart(marks, spans, _held(marks, spans, placed))
    _inward(marks, spans, placed)
    return tuple(spans)


class _Sides:
    """A text, its translation and which words of them belong together."""

    def __init__(
        self, source: str, target: str, alignment: Collection[Span], whole: tuple[Sequence[Span], Sequence[Span]]
    ) -> None:
        self.source, self.target = source, target
        self.lines = [[match.end() for match in re.finditer(BREAK, text)] for text in (source, target)]  # but the first
        self.words, self.targets = words(source, whole[0]), words(target, whole[1])
        pairs = {(_word(self.words, i), _word(self.targets, j)) for i, j in alignment}
        known = {i for i, j in pairs if j >= 0}
        if len(known - {-1}) < len(self.words):
            near = equal_and_near([source[b:e] for b, e in self.words], [target[b:e] for b, e in self.targets])
            pairs |= {(i, j) for i, j in near if i not in known}
        self._go_on(pairs)
        self.partners: dict[int, list[int]] = {}
        self.sources: dict[int, list[int]] = {}
        self._near: dict[int, tuple[int, int, int | None]] = {}
        for i, j in sorted(pairs):
            if i >= 0 and j >= 0:
                self.partners.setdefault(i, []).append(j)
                self.sources.setdefault(j, []).append(i)

    def _go_on(self, pairs: set[tuple[int, int]]) -> None:
        """Of a subword of Chinese or Japanese only the first character is named: the next ones stand for the same."""
        for side, words_of_side in enumerate((self.words, self.targets)):
            partners: dict[int, set[int]] = {}
            for pair in pairs:
                partners.setdefault(pair[side], set()).add(pair[1 - side])
            text = (self.source, self.target)[side]
            for number in range(1, len(words_of_side)):
                (first, last), (begin, _) = words_of_side[number - 1], words_of_side[number]
                both = text[first].isalnum() and text[begin].isalnum()
                if both and last == begin and unspaced(text[begin]) and number not in partners:
                    partners[number] = partners.get(number - 1, set())
                    pairs |= {(number, other) if not side else (other, number) for other in partners[number]}

    def part(self, mark: Mark) -> Span:
        """What a mark covers of the translation."""
        first = bisect_right(self.words, mark.begin, key=lambda word: word[1])
        last = bisect_right(self.words, mark.end - 1, key=lambda word: word[0])
        if mark.begin >= mark.end or first >= last:
            return (self._place(mark.begin, first),) * 2
        if mark.begin <= self.words[0][0] and mark.end >= self.words[-1][1]:  # all: breaks outside of it stay there
            top, bottom = (bisect_right(self.lines[0], index) for index in (mark.begin, mark.end))
            there = self.lines[1]  # the translation has as many
            return there[top - 1] if top else 0, there[bottom] - 1 if bottom < len(there) else len(self.target)
        ours = {j for i in range(first, last) for j in self.partners.get(i, ())}
        if not ours:
            return (self._place(mark.begin, first),) * 2
        near = range(min(ours), max(ours) + 1)
        others = {j for j in near if any(not first <= i < last for i in self.sources.get(j, ()))}
        begin, end = _most(near, ours, others)
        # inside of a word, as in H<sub>2</sub>O
        inside = mark.begin - self.words[first][0], self.words[last - 1][1] - mark.end
        before = inside[0] if self._like(first, begin) else 0
        behind = inside[1] if self._like(last - 1, end - 1) else 0
        return self.targets[begin][0] + max(before, 0), self.targets[end - 1][1] - max(behind, 0)

    def _like(self, source_word: int, target_word: int) -> bool:
        """Whether two words are the same but for case, so that their characters stand for each other."""
        one = self.source[slice(*self.words[source_word])]
        other = self.target[slice(*self.targets[target_word])]
        return len(one) == len(other) and one.casefold() == other.casefold()

    def _place(self, at: int, after: int) -> int:
        """Where something stands that stood at a place of the source, in or before the word `after`."""
        if after < len(self.words) and self.words[after][0] < at and (like := self._partner(after)[2]) is not None:
            return self.targets[like][0] + at - self.words[after][0]
        if after == 0:
            return 0
        if after == len(self.words):
            return len(self.target)
        if self.source[at - 1] == BREAK:
            return self.lines[1][bisect_right(self.lines[0], at) - 1]  # the translation has as many
        if self.source[at - 1].isspace() and after in self.partners:
            return self._partner(after)[0]
        if after - 1 in self.partners:
            return self._partner(after - 1)[1]
        return round(at * len(self.target) / len(self.source)) if not self.targets else 0

    def _partner(self, word: int) -> tuple[int, int, int | None]:
        """Where the partners of a word begin and end, and the first of them that is like it."""
        if word not in self._near:
            others = self.partners.get(word, ())
            like = next((other for other in others if self._like(word, other)), None)
            begin = min((self.targets[j][0] for j in others), default=0)
            self._near[word] = begin, max((self.targets[j][1] for j in others), default=0), like
        return self._near[word]


def _word(spans: Sequence[Span], index: int) -> int:
    """The word that a character stands in, -1 if in none."""
    number = bisect_right(spans, index, key=lambda word: word[0]) - 1
    return number if number >= 0 and index < spans[number][1] else -1


def _most(near: Sequence[int], ours: Collection[int], others: Collection[int]) -> Span:
    """The longest range of words with the most of ours more than of others that begins and ends with one of ours."""
    best, chosen, total, begin = -1, (near[0], near[0] + 1), 0, None
    for index in near:
        if begin is None or total < 0:
            if index not in ours:
                continue
            total, begin = 0, index
        total += (index in ours) - (index in others)
        if index in ours and total >= best:
            best, chosen = total, (begin, index + 1)
    return chosen


def _held(marks: Sequence[Mark], spans: list[Span], placed: Mapping[int, Span]) -> dict[int, Span]:
    """Widens formats to those inside of them; for each, the part with all fixed text that it must keep."""
    parts = dict(placed)
    for number in range(len(marks) - 1, -1, -1):
        parent = marks[number].parent
        if parent < 0:
            continue
        if number in parts:
            parts[parent] = _hull(parts[parent], parts[number]) if parent in parts else parts[number]
        if spans[number][0] < spans[number][1]:
            empty = spans[parent][0] == spans[parent][1]
            spans[parent] = spans[number] if empty else _hull(spans[parent], spans[number])
    return parts


def _hull(one: Span, other: Span) -> Span:
    return min(one[0], other[0]), max(one[1], other[1])


def _apart(marks: Sequence[Mark], spans: list[Span], fixed_parts: Mapping[int, Span]) -> None:
    """Cuts formats of the same parent so that they do not overlap."""
    inside: dict[int, list[int]] = {}
    for number, mark in enumerate(marks):
        if not mark.fixed:
            inside.setdefault(mark.parent, []).append(number)
    for numbers in inside.values():
        numbers.sort(key=lambda number: (spans[number], number))
        for one, other in pairwise(numbers):
            if spans[one][1] > spans[other][0]:
                cut = spans[other][0]
                if one in fixed_parts:
                    cut = max(cut, min(fixed_parts[one][1], spans[one][1]))
                spans[one] = spans[one][0], max(cut, spans[one][0])
                spans[other] = spans[one][1], max(spans[other][1], spans[one][1])


def _inward(marks: Sequence[Mark], spans: list[Span], placed: Mapping[int, Span]) -> None:
    """Cuts formats to the one around them; what covers nothing stays inside of it and in its order."""
    last: dict[int, int] = {}
    for number, mark in enumerate(marks):
        if number in placed:
            continue
        begin, end = spans[number]
        if mark.parent >= 0:
            low, high = spans[mark.parent]
            begin, end = min(max(begin, low), high), min(max(end, low), high)
        if mark.fixed:
            begin = end = max(begin, last.get(mark.parent, 0))
            last[mark.parent] = begin
        spans[number] = begin, end
