"""How tools ask a chat for a translation: what of a message is their prompt, and what is text."""

from __future__ import annotations

import re

from docnmt.apps.serve.offered_languages import code_of

#: Characters in which a prompt names its languages.
HEAD = 1000
_BEGIN = re.compile(r"\s*(?:please\s+)?translate\b", re.IGNORECASE)
#: What may end a prompt, before its text.
_ENDS = (re.compile(r":?[ \t]*\r?\n[ \t]*\r?\n"), re.compile(r":[ \t]*\r?\n"), re.compile(r":[ \t]"))
_TO = re.compile(r"\b(?:in)?to\s+", re.IGNORECASE)
_FROM_TO = re.compile(r"\bfrom\s+([^\n]{1,40}?)\s+(?:in)?to\s+", re.IGNORECASE)


def prompted(content: str) -> tuple[str | None, str | None, str]:
    """The languages that a message says it is to be translated from and into, and what of it is text.

    Tools ask `Translate from English to German, keep line breaks:` and set the text behind it.
    """
    if _BEGIN.match(content):
        for end in _ENDS:
            found = end.search(content, 0, HEAD)
            text = content[found.end() :] if found else ""
            if found and text.strip():
                head = content[: found.start()]
                named = filter(None, (_named(head, match.end()) for match in _TO.finditer(head)))
                languages = languages_of(head) or (None, next(named, None))
                if languages[1] is not None:
                    return *languages, text.strip()
    return None, None, content


def languages_of(head: str) -> tuple[str, str] | None:
    """The languages of `from X to Y` in the beginning of a text, if both are known."""
    for match in _FROM_TO.finditer(head, 0, HEAD):
        source, target = code_of(match[1]), _named(head, match.end(), shortest=2)
        if source is not None and target is not None:
            return source, target
    return None


def _named(head: str, begin: int, shortest: int = 4) -> str | None:
    """The language that is named at a place; by itself no code is one: `to be`, `to it`."""
    words = re.split(r"\s+", head[begin : begin + 60], maxsplit=3)[:3]
    for count in range(len(words), 0, -1):
        name = " ".join(words[:count]).strip(" \"'`*.,;:!")
        if len(name) >= shortest and (code := code_of(name)) is not None:
            return code
    return None
