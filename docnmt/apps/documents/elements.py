"""Text with elements inside of it, in XML: read as a segment, and filled with another text."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from docnmt.apps.documents.begin_and_end import matched
from docnmt.apps.documents.inline import Close, Inline, Open, pieces
from docnmt.apps.documents.segment import Mark, Translated
from docnmt.apps.documents.xml_file import Element

_SPACE = re.compile(r"(\s+)")


class Role(NamedTuple):
    """What an element in text is.

    Its `kind` is `format` around text; `fixed`, kept with all that is in it; `space`, white space; `break` of lines; or
    `end` of the format of this `key`. A model sees `shown` of what is fixed. The beginning and the end of a format
    share a `key` if they are elements of their own.
    """

    kind: str
    shown: str = ""
    key: str = ""


class Payload(NamedTuple):
    """What a mark is: an element, with another one that ends it if there is one; or white space."""

    element: Element | None
    end: Element | None = None
    space: str = ""


Hard = Callable[[str], bool]


def read(parent: Element, role: Callable[[Element], Role], hard: Hard = lambda space: False) -> Inline[Payload]:
    """The text and marks inside of an element; white space that `hard` says so of is a break of lines."""
    inline: Inline[Payload] = Inline()
    _read(parent, role, hard, inline)
    return inline


def _text(text: str | None, hard: Hard, inline: Inline[Payload]) -> None:
    for number, part in enumerate(_SPACE.split(text or "")):
        if number % 2 and hard(part):
            inline.hard(Payload(None, space=part))
        else:
            inline.text(part)


def _read(parent: Element, role: Callable[[Element], Role], hard: Hard, inline: Inline[Payload]) -> None:
    _text(parent.text, hard, inline)
    children = list(parent)
    roles = [role(child) for child in children]
    ends = matched(map(_step, roles))
    open_ends: set[int] = set()
    for number, (child, what) in enumerate(zip(children, roles, strict=True)):
        if what.kind == "format" and what.key and number in ends:
            inline.open(Payload(child, children[ends[number]]))
            open_ends.add(ends[number])
        elif what.kind == "format" and not what.key:
            inline.open(Payload(child))
            _read(child, role, hard, inline)
            inline.close()
        elif number in open_ends:
            inline.close()
        elif what.kind == "space":
            inline.text(" ")
        elif what.kind == "break":
            inline.hard(Payload(child))
        else:
            inline.fixed(Payload(child), what.shown)
        _text(child.tail, hard, inline)


def _step(role: Role) -> tuple[int, str]:
    if role.kind == "format" and role.key:
        return 1, role.key
    return (-1, role.key) if role.kind == "end" else (0, "")


def fill(parent: Element, marks: Sequence[Mark], payloads: Sequence[Payload], found: Translated) -> None:
    """Puts a translation into an element, in place of all that is in it."""
    empty(parent)
    stack = [parent]
    for piece in pieces(marks, found):
        if isinstance(piece, str):
            _append_text(stack[-1], piece)
            continue
        payload = payloads[piece.number]
        if payload.element is None:
            _append_text(stack[-1], payload.space)
        elif isinstance(piece, Close):
            if payload.end is None:
                stack.pop()
            else:
                _append(stack[-1], payload.end)
        else:
            _append(stack[-1], payload.element)
            if isinstance(piece, Open) and payload.end is None:
                empty(payload.element)
                stack.append(payload.element)


def empty(element: Element) -> None:
    """Takes out text and elements; attributes stay."""
    element.text = None
    for child in list(element):
        element.remove(child)


def _append(parent: Element, child: Element) -> None:
    child.tail = None
    parent.append(child)


def _append_text(parent: Element, text: str) -> None:
    last = next(parent.iterchildren(reversed=True), None)  # len() would count them all
    if last is None:
        parent.text = (parent.text or "") + text
    else:
        last.tail = (last.tail or "") + text
