"""The tokens of a page, as browsers see them (HTML Living Standard, 13.2.5), in time that grows with its size.

Python's `html.parser` looks for the end of every tag and comment that has none, each time to the end of the page, which
takes the square of its size; it also takes all that follows a second wrong `&#` for text.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass

#: Elements that have no end.
_VOID = "area base br col embed hr img input link meta param source track wbr"
VOID = frozenset(_VOID.split())
#: Elements whose content has no tags: what ends it.
_RAW = {
    tag: re.compile(rf"</{tag}(?=[\s/>])", re.IGNORECASE) for tag in ("script", "style", "textarea", "xmp", "iframe")
}
_TEXT = re.compile(r"[^<&]+|&(?:#[0-9]+;?|#[xX][0-9a-fA-F]+;?|[^\t\n\f <&#;]{1,32};?)|[<&]")
_TAG = re.compile(r"<(/?)([A-Za-z][^\t\n\r\f />]*)")
_APART = re.compile(r"[\t\n\r\f /]*")
_NAME = re.compile(r"[^\t\n\r\f />][^\t\n\r\f />=]*")
_VALUE = re.compile(r"""[\t\n\r\f ]*=[\t\n\r\f ]*(?:(["'])|([^\t\n\r\f >]*))""")
_COMMENT_END = re.compile(r"--!?>")


@dataclass(frozen=True)
class Token:
    """A piece of the source, `source[begin:end]`: a `start` or `end` tag, one that is both (`void`), `text` or `other`.

    Attributes:
        tag: the element, in small letters. kept: it says that what is in it is not to be translated; foreign: as it
            is in another language than the page.
    """

    kind: str
    begin: int
    end: int
    tag: str = ""
    kept: bool = False
    foreign: bool = False


def tokens(source: str) -> Iterator[Token]:
    """The source, token by token, without gaps. A reference to a character is a token of text by itself.

    Where a tag, a comment or a script does not end, it is all that follows.
    """
    place = 0
    while place < len(source):
        token = _token(source, place)
        yield token
        place = token.end
        if token.kind == "start" and token.tag in _RAW:
            match = _RAW[token.tag].search(source, place)
            end = len(source) if match is None else match.start()
            if place < end:
                yield Token("other", place, end)
            place = end


def _token(source: str, begin: int) -> Token:
    """The token that begins at a place."""
    if (tag := _TAG.match(source, begin)) is not None:
        return _element(source, tag)
    if source.startswith(("<!", "<?", "</"), begin):
        return Token("other", begin, _markup_end(source, begin))
    return Token("text", begin, _match(_TEXT, source, begin).end())


def _element(source: str, tag: re.Match[str]) -> Token:
    """A tag with its attributes; one that does not end is no tag, and nor is anything behind it."""
    place, kept = tag.end(), False
    for name, _, end, value in attributes(source, tag.start()):
        place, words = end, value.lower().split()
        kept |= (name, words) == ("translate", ["no"]) or (name == "class" and "notranslate" in words)
    apart = _match(_APART, source, place)[0]
    place += len(apart)
    if place == len(source):
        return Token("other", tag.start(), place)
    element = tag[2].lower()
    if tag[1]:
        return Token("end", tag.start(), place + 1, element)
    alone = element in VOID or apart.endswith("/")
    return Token("void" if alone else "start", tag.start(), place + 1, element, kept)


def attributes(source: str, begin: int) -> Iterator[tuple[str, int, int, str]]:
    """The attributes of the tag that begins at a place: of each its name in small letters, where its value begins, with
    its quotes, where the attribute ends, and the value."""
    place = _match(_TAG, source, begin).end()
    while (place := _match(_APART, source, place).end()) < len(source) and source[place] != ">":
        name = _match(_NAME, source, place)
        start, place, value = _value(source, name.end())
        yield name[0].lower(), start, place, html.unescape(value)


def _value(source: str, begin: int) -> tuple[int, int, str]:
    """Where the value of an attribute whose name ends at `begin` begins and ends, and the value."""
    if (match := _VALUE.match(source, begin)) is None:
        return begin, begin, ""
    if match[1] is None:
        return match.start(2), match.end(), match[2]
    end = source.find(match[1], match.end())
    return (len(source), len(source), "") if end < 0 else (match.start(1), end + 1, source[match.end() : end])


def _markup_end(source: str, begin: int) -> int:
    """Where a comment ends, or what is taken for one: a declaration, an instruction, an end of nothing."""
    if source.startswith(("<!-->", "<!--->"), begin):
        return source.index(">", begin) + 1
    if source.startswith("<!--", begin):
        match = _COMMENT_END.search(source, begin + 4)
        return len(source) if match is None else match.end()
    closing = "]]>" if source.startswith("<![CDATA[", begin) else ">"
    end = source.find(closing, begin + 2)
    return len(source) if end < 0 else end + len(closing)


def _match(pattern: re.Pattern[str], source: str, begin: int) -> re.Match[str]:
    """Of a pattern that matches here, whatever stands there."""
    match = pattern.match(source, begin)
    assert match is not None
    return match
