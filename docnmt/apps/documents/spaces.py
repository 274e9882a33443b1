"""Spaces that no line breaks at."""

from __future__ import annotations

import re

_SPACE = re.compile("[\u00a0\u2007\u202f]")
_BEFORE, _BEHIND = re.compile(r"(?:\w+|[^\w\s])\Z"), re.compile(r"\w+|[^\w\s]")
#: Pairs of words that are looked for, and the characters of a word.
_MOST, _LONGEST = 50, 60


def no_break(source: str, text: str) -> str:
    """A translation in which a space does not break lines if it stands between two words that such a space of the
    source stands between, as in numbers with their units; models know but one space."""
    pairs: dict[tuple[str, str, str], None] = {}
    for space in _SPACE.finditer(source):
        before = _BEFORE.search(source[max(0, space.start() - _LONGEST) : space.start()])
        behind = _BEHIND.match(source[space.end() : space.end() + _LONGEST])
        if before and behind:
            pairs[before[0], space[0], behind[0]] = None
    for one, space_, other in [*pairs][:_MOST]:
        text = re.sub(rf"(?<!\w){re.escape(one)} (?={re.escape(other)}(?!\w))", f"{one}{space_}", text)
    return text
