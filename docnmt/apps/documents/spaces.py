"""Spaces that no line breaks at."""

from __future__ import annotations

import re

_SPACE = re.compile(r"((?<!\w)\w{1,40}|[^\w\s])([\u00a0\u2007\u202f])(?=(\w{1,40}|[^\w\s]))")
#: Pairs of words that are looked for.
_MOST = 50


def no_break(source: str, text: str) -> str:
    """A translation in which a space does not break lines if it stands between two words that such a space of the
    source stands between, as in numbers with their units; models know but one space."""
    pairs = dict.fromkeys(match.groups() for match in _SPACE.finditer(source))
    for before, space, behind in [*pairs][:_MOST]:
        text = re.sub(rf"(?<!\w){re.escape(before)} (?={re.escape(behind)}(?!\w))", f"{before}{space}", text)
    return text
