"""Parts of a text of Word that are for readers and are not read: they are named."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

#: The parts, and what they are.
_LEFT = (
    (re.compile(r"word/diagrams/data\d*\.xml"), "a diagram (SmartArt)"),
    (re.compile(r"word/charts/chart(?:ex)?\d*\.xml"), "a chart"),
    (re.compile(r"word/comments\.xml"), "comments"),
)
_WORD = re.compile(rb"<(?:\w+:)?(?:t|v)(?:\s[^>]*)?>[^<]*?(?:[A-Za-z]|[\x80-\xff])")


def left_in(names: Iterable[str], content: Callable[[str], bytes]) -> Iterator[str]:
    """The parts of these with text that is not read, and what they are."""
    for name in names:
        for pattern, what in _LEFT:
            if pattern.fullmatch(name.replace("\\", "/")) and _WORD.search(content(name)):
                yield f"{name}: {what}"
