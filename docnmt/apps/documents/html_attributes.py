"""Attributes that readers see or hear: alternative texts, hints, labels of buttons, what a page says of itself."""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from docnmt.apps.documents.html_elements import FIXED, SKIPPED
from docnmt.apps.documents.html_tokens import Token, attributes
from docnmt.apps.documents.inline import Inline
from docnmt.apps.documents.splice import Raw, SegmentPlace
from docnmt.apps.documents.text_file import replaced

_SEEN = frozenset({"alt", "title", "placeholder", "aria-label", "aria-description", "aria-placeholder"})
_LABELLED = frozenset({"optgroup", "option", "track"})
_BUTTONS = frozenset({"submit", "button", "reset"})
_META = frozenset({"description", "og:title", "og:description", "twitter:title", "twitter:description"})


@dataclass(frozen=True)
class AttributePlace(SegmentPlace):
    """An attribute's value. Those that are equal have one translation, the last one, as marks are written without
    knowing where they stood."""

    value: str = ""


def has_attributes(token: Token) -> bool:
    """Whether a token, of which elements that are kept are one each, is a tag whose attributes are translated."""
    if token.kept or token.kind not in ("start", "void", "fixed"):
        return False
    return token.tag == "textarea" or (token.kind != "fixed" and token.tag not in FIXED and token.tag not in SKIPPED)


def values(raw: str, tag: str) -> Iterator[tuple[int, int, str]]:
    """What readers see of the attributes of a tag that a text begins with: where each value stands, with its quotes,
    and the value."""
    found = list(attributes(raw, 0))
    said = {name: value.lower().strip() for name, _, _, value in reversed(found)}
    for name, begin, end, value in found:
        shown = name in _SEEN and tag not in ("link", "meta")
        shown |= name == "label" and tag in _LABELLED
        shown |= name == "value" and tag == "input" and said.get("type") in _BUTTONS
        shown |= name == "content" and tag == "meta" and said.get("name", said.get("property")) in _META
        if shown and value.strip():
            yield begin, end, value


def attribute_places(source: str, found: Iterable[Token]) -> Iterator[AttributePlace]:
    """The texts of attributes."""
    for token in filter(has_attributes, found):
        for begin, end, value in values(source[token.begin : token.end], token.tag):
            inline: Inline[Raw] = Inline()
            inline.text(value)
            yield AttributePlace(inline.segment(), token.begin + begin, token.begin + end, value=value)


def translated(raw: str, tag: str, texts: Mapping[str, str]) -> str:
    """A tag whose attributes have the translations of their values, if there are some."""
    found = values(raw, tag) if texts else ()
    changes = ((begin, end, _quoted(texts[value], raw[begin])) for begin, end, value in found if value in texts)
    return replaced(raw, changes)


def _quoted(text: str, sign: str) -> str:
    """A value in quotation marks, those that it had before if it had some."""
    if sign != "'":
        return f'"{html.escape(text)}"'
    return "'" + html.escape(text, quote=False).replace("'", "&#x27;") + "'"
