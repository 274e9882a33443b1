"""What stands in text and is not to be translated: addresses, placeholders, tags."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

_FIXED = re.compile(
    r"""
    (?:https?|ftp)://[^\s<>"'”»]*[^\s<>"'”».,;:!?)\]}]          # addresses, without the full stop behind them
    | \bwww\.[\w-]+\.[^\s<>"'”»]*[^\s<>"'”».,;:!?)\]}]
    | (?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+
    | %\([\w.]+\)[-+\#0]*\d{0,4}(?:\.\d+)?[a-zA-Z]               # %(name)s
    | (?<![\d%])%(?:\d+\$)?[-+\#0']*(?:\d{1,4}|\*)?(?:\.(?:\d+|\*))?(?:hh|ll|[hlLqjzt])?[diouxXeEfFgGaAcspn@](?![^\W_])
    | (?<!\w)%[A-Z][A-Z0-9_]*%                                  # %NAME%
    | (?<![\w%])%L?\d{1,2}(?!\w)                                # %1 of Qt
    | \$\{[^{}\s]+\} | \{\{[^{}]*\}\} | \{[\w.:!\[\]-]*\}       # ${name} {{name}} {name}
    | \$\([A-Za-z_]\w*\) | \$[A-Za-z_]\w*
    | </?[A-Za-z][\w:.-]*(?:\s[^<>]*)?/?>                       # tags
    | \[\^[\w-]+\] | \[[ xX]\](?=\s)                              # [^1] and [x] of Markdown
    | \{\\[^{}]*\}                                             # {\an8} of subtitles
    | (?<![\w-])(?:--[A-Za-z][\w-]+|-[A-Za-z])(?![\w-])         # options of commands
    | &[A-Za-z][\w.]*; | &\#\w+;
    """,
    re.VERBOSE,
)
_LETTER = re.compile(r"[^\W\d_]")


def fixed_spans(text: str) -> list[tuple[int, int]]:
    """Where addresses, placeholders and tags stand in a text."""
    return [match.span() for match in _FIXED.finditer(text)]


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
    begin = r"(?<!\w)" if text[0].isalnum() else ""
    return begin + re.escape(text) + (r"(?!\w)" if text[-1].isalnum() else "")
