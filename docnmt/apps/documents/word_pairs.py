"""Which words of a sentence stand for which of its translation, where no model says so."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Sequence
from itertools import pairwise

from docnmt.runtime.languages import CJK

#: In Chinese and Japanese, where nothing parts words, each character is one.
_WORD = re.compile(rf"[{CJK}]|[^\W{CJK}]+|[^\w\s]")


def words(text: str, whole: Collection[tuple[int, int]] = ()) -> list[tuple[int, int]]:
    """Where words and signs stand in a text, from left to right; each of `whole`, which are in order, is one word."""
    found, place = [], 0
    for begin, end in [*(span for span in whole if span[0] < span[1]), (len(text), len(text))]:
        found += [match.span() for match in _WORD.finditer(text, place, begin)]
        if begin < end:
            found.append((begin, end))
        place = end
    return found


def equal_and_near(source: Sequence[str], target: Sequence[str]) -> list[tuple[int, int]]:
    """Pairs of words (i, j): equal ones first, the others in order at like distances between these.

    Words are equal if they are so without case, and as many on both sides; the first is the first's partner.
    """
    equal = _equal(source, target)
    fixed = [(-1, -1), *_rising(equal), (len(source), len(target))]
    paired = set(equal)
    sources, targets = {i for i, _ in equal}, {j for _, j in equal}
    for (i0, j0), (i1, j1) in pairwise(fixed):
        here = [i for i in range(i0 + 1, i1) if i not in sources]
        there = [j for j in range(j0 + 1, j1) if j not in targets]
        if here and there:
            paired |= {(i, there[k * len(there) // len(here)]) for k, i in enumerate(here)}
            paired |= {(here[k * len(here) // len(there)], j) for k, j in enumerate(there)}
    return sorted(paired)


def _equal(source: Sequence[str], target: Sequence[str]) -> list[tuple[int, int]]:
    places: tuple[dict[str, list[int]], dict[str, list[int]]] = (defaultdict(list), defaultdict(list))
    for side, texts in zip(places, (source, target), strict=True):
        for number, text in enumerate(texts):
            side[text.casefold()].append(number)
    here, there = places
    both = [(here[text], there[text]) for text in here if len(here[text]) == len(there.get(text, ()))]
    return sorted(pair for one, other in both for pair in zip(one, other, strict=True))


def _rising(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The most of these pairs, sorted by i, whose j rise, too."""
    ends: list[int] = []
    rows: list[int] = []
    before: list[int] = []
    for row, (_, j) in enumerate(pairs):
        place = bisect_left(ends, j)
        before.append(rows[place - 1] if place else -1)
        ends[place : place + 1], rows[place : place + 1] = [j], [row]
    chain = []
    row = rows[-1] if rows else -1
    while row >= 0:
        chain.append(pairs[row])
        row = before[row]
    return chain[::-1]
