"""What stands in text and is not to be translated: addresses, placeholders, tags."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from docnmt.apps.documents.placeholders import SPACED, pattern

#: One of these stands in all that is looked for.
_ANY = re.compile(r"[@/\\#%<>{}$`\[\]|&~_\u2600-\u27bf\U0001f1e6-\U0001faff]|(?<!\w)[-:]|:\w|\.\w")
_LETTER = re.compile(r"[^\W\d_]")


def fixed_spans(text: str, flags: tuple[str, ...] = ()) -> list[tuple[int, int]]:
    """Where addresses, placeholders and tags stand in a text; `flags` say what placeholders are, as those of PO do."""
    if _ANY.search(text) is None:  # as most sentences, which a search for all would take a hundred times as long
        return []
    return [match.span() for match in pattern(flags).finditer(text)]


def has_words(text: str, spans: Collection[tuple[int, int]]) -> bool:
    """Whether a text has a letter outside of `spans`, which are in order and do not overlap."""
    return any(_LETTER.search(part) for part in between(text, spans))


def between(text: str, spans: Collection[tuple[int, int]]) -> Iterator[str]:
    """The parts of a text before, between and behind `spans`: one more than these."""
    place = 0
    for begin, end in spans:
        yield text[place:begin]
        place = end
    yield text[place:]


def places_of(wanted: Collection[str], text: str) -> list[tuple[int, int]]:
    """Where these texts stand in another one as they are, from left to right, the longest first, and not in words."""
    if not wanted:
        return []
    each = (_whole(one) for one in sorted(set(wanted), key=lambda one: (-len(one), one)))
    return [match.span() for match in re.finditer("|".join(each), text)]


def _whole(text: str) -> str:
    begin = rf"(?<!{SPACED})" if text[0].isalnum() else ""
    ends = text[-1].isalnum() and text[0] not in "%\\"  # %d may stand before a letter
    return begin + re.escape(text) + (rf"(?!{SPACED})" if ends else "")
