"""Parts of a text of Word that are for readers and are not read: they are named."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

_WORD = re.compile(rb"<(?:\w+:)?(?:t|v)(?:\s[^<>]*)?>[^<]*?(?:[A-Za-z]|[\x80-\xff])")
_NUMBER = re.compile(rb"<(?:\w+:)?lvlText\s[^<>]*?val=[\"'][^\"'<]*?(?:[A-Za-z]{2}|[\xc3-\xdf][\x80-\xbf])")
#: The parts, what says that one has text, and what they are.
_LEFT = (
    (re.compile(r"word/diagrams/data\d*\.xml"), _WORD, "a diagram (SmartArt)"),
    (re.compile(r"word/charts/chart(?:ex)?\d*\.xml"), _WORD, "a chart"),
    (re.compile(r"word/comments\.xml"), _WORD, "comments"),
    (re.compile(r"word/numbering\.xml"), _NUMBER, "words in the numbers of headings and lists, as in 'Article 1'"),
)


def left_in(names: Iterable[str], content: Callable[[str], bytes]) -> Iterator[str]:
    """The parts of these with text that is not read, and what they are."""
    for name in names:
        for pattern, text, what in _LEFT:
            if pattern.fullmatch(name.replace("\\", "/")) and text.search(content(name)):
                yield f"{name}: {what}"
