"""Prompts of translation tools: the languages that a chat message names, and the text to translate."""

from __future__ import annotations

import re

from docnmt.apps.serve.offered_languages import code_of

#: The number of characters in which a prompt must name its languages.
HEAD = 1000
_BEGIN = re.compile(r"\s*(?:please\s+)?translate\b", re.IGNORECASE)
#: Patterns that end a prompt, before the text to translate.
_ENDS = (re.compile(r"\n[ \t]*\r?\n"), re.compile(r":[ \t]*\r?\n"), re.compile(r":[ \t]"))
#: The patterns below are for texts whose runs of white space are one character, so that their time is linear.
_TO = re.compile(r"\b(?:in)?to\s", re.IGNORECASE)
#: Patterns that lead to the target language in an instruction.
_INTO = re.compile(r"\btranslat\w*\b[^.:;\n]{0,200}?\b(?:in)?to\s", re.IGNORECASE)
_FROM_TO = re.compile(r"\bfrom\s([^\n]{1,40}?)\s(?:in)?to\s", re.IGNORECASE)


def prompted(content: str) -> tuple[str | None, str | None, str]:
    """Return the source and the target language that a message's prompt names, each or None, and the text after it.

    Tools write a prompt such as `Translate from English to German, keep line breaks:` before the text.
    """
    if _BEGIN.match(content):
        for end in _ENDS:
            found = end.search(content, 0, HEAD)
            text = content[found.end() :] if found else ""
            if found and text.strip():
                head = _single_spaced(content[: found.start()])
                named = filter(None, (_named(head, match.end()) for match in _TO.finditer(head)))
                languages = _languages_of(head) or (None, next(named, None))
                if languages[1] is not None:
                    return *languages, text.strip()
    return None, None, content


def instructed(content: str) -> tuple[str | None, str | None]:
    """Return the source and the target language that an instruction names (`Translate the text into German.`), each or
    None."""
    head = _single_spaced(content[:HEAD])
    named = (_named(head, match.end()) for match in _INTO.finditer(head))
    return _languages_of(head) or (None, next(filter(None, named), None))


def _single_spaced(text: str) -> str:
    """Return a text with one line break or space for each run of white space, and one space more at its end."""
    lines = (" ".join(line.split()) for line in text.split("\n"))
    return "\n".join(filter(None, lines)) + " "


def _languages_of(head: str) -> tuple[str, str] | None:
    """Return the languages of `from X to Y`; None if there is none with two known languages."""
    for match in _FROM_TO.finditer(head):
        source, target = code_of(match[1]), _named(head, match.end(), shortest=2)
        if source is not None and target is not None:
            return source, target
    return None


def _named(head: str, begin: int, shortest: int = 4) -> str | None:
    """Return the code of the language named at a position; None if there is none or it is too short (`to be`)."""
    words = re.split(r"\s+", head[begin : begin + 60], maxsplit=3)[:3]
    for count in range(len(words), 0, -1):
        name = " ".join(words[:count]).strip(" \"'`*.,;:!")
        if len(name) >= shortest and (code := code_of(name)) is not None:
            return code
    return None
