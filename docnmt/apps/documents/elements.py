"""Text with elements inside of it, in XML: read as a segment, and filled with another text."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from docnmt.apps.documents.segments import CloseMark, Inline, Mark, OpenMark, Translated, is_reference, matched, pieces
from docnmt.apps.documents.text import branches
from docnmt.apps.documents.xml_file import Element, shown_in


class Role(NamedTuple):
    """What an element in text is.

    Its `kind` is `format` around text; `fixed`, kept with all that is in it; `space`, white space; `break` of lines; or
    `end` of the format of this `key`. A model sees `shown` of what is fixed, and `seen` is as in `Inline.fixed`. The
    beginning and the end of a format share a `key` if they are elements of their own. A format that `raises` is a link
    or a superscript, which may refer to a note.
    """

    kind: str
    shown: str = ""
    key: str = ""
    seen: str = ""
    raises: str = ""


#: Elements inside of one that refers to a note, at most.
_REFERENCE = 8
#: Code of more characters is not shown to a model.
_CODE = 60
_TAG = re.compile(r"<(/?)([A-Za-z][\w:-]*)(?:\s[^<>]*)?(/?)>")
_PICTURES = frozenset({"img", "image", "svg", "hr", "input"})


def code(text: str) -> Role:
    """What an element is that stands for code: tags are formats, anything else a value that a model sees as it is."""
    text = text.strip()
    tag = _TAG.fullmatch(text)
    if tag is None:
        return Role("fixed", text if len(text) <= _CODE else "", seen="value")
    name = tag[2].lower()
    if name == "br":
        return Role("break")
    if tag[3] or name in _PICTURES:
        return Role("fixed", seen="picture")
    return Role("end" if tag[1] else "format", key=f"<{name}>")


class Payload(NamedTuple):
    """What a mark is: an element, with another one that ends it if there is one; or white space."""

    element: Element | None
    end: Element | None = None
    space: str = ""


Hard = Callable[[str], bool]


def read(parent: Element, role: Callable[[Element], Role], hard: Hard = lambda space: False) -> Inline[Payload]:
    """The text and marks inside of an element; white space that `hard` says so of is a break of lines, and so is what
    stands around the texts of a message of ICU."""
    return _Reader(parent, role, hard).inline


#: Stands for an element, where a text is looked at as a whole.
_ELEMENT = "\ufffc"


class _Reader:
    """Goes through an element; `place` is where in its whole text."""

    def __init__(self, parent: Element, role: Callable[[Element], Role], hard: Hard) -> None:
        self.inline: Inline[Payload] = Inline(lambda text: Payload(None, space=text))
        self._role, self._hard, self._place = role, hard, 0
        self._whole = "".join(self._texts(parent))
        self._breaks = deque(branches(self._whole))
        if any(_ELEMENT in self._whole[begin:end] for begin, end in self._breaks):
            self._breaks.clear()
        self._read(parent)

    def _texts(self, parent: Element) -> Iterator[str]:
        yield parent.text or ""
        for child in parent:
            what = self._role(child)
            yield from self._texts(child) if what.kind == "format" and not what.key else [_ELEMENT]
            yield child.tail or ""

    def _text(self, text: str | None) -> None:
        begin, self._place = self._place, self._place + len(text or "")
        while self._breaks and self._breaks[0][1] <= self._place:
            first, last = self._breaks.popleft()
            self._words(self._whole[begin:first])
            self.inline.hard(Payload(None, space=self._whole[first:last]))
            begin = last
        self._words(self._whole[begin : self._place])

    def _words(self, text: str) -> None:
        self.inline.text(text, lambda space: Payload(None, space=space) if self._hard(space) else None)

    def _read(self, parent: Element) -> None:
        self._text(parent.text)
        children = list(parent)
        roles = [self._role(child) for child in children]
        ends = matched(map(_step, roles))
        open_ends: set[int] = set()
        for number, (child, what) in enumerate(zip(children, roles, strict=True)):
            if what.raises and self._refers(child, what.raises == "link"):
                self._place += sum(map(len, self._texts(child)))
                self.inline.fixed(Payload(child))
            elif what.kind == "format" and not what.key:
                self.inline.open(Payload(child))
                self._read(child)
                self.inline.close()
            else:
                self._place += len(_ELEMENT)
                if what.kind == "format" and number in ends:
                    self.inline.open(Payload(child, children[ends[number]]))
                    open_ends.add(ends[number])
                elif number in open_ends:
                    self.inline.close()
                elif what.kind == "space":
                    self._space(child, what.shown)
                elif what.kind == "break":
                    self.inline.hard(Payload(child))
                else:
                    self.inline.fixed(Payload(child), what.shown, what.seen)
            self._text(child.tail)

    def _refers(self, child: Element, link: bool) -> bool:
        """Whether a link or a superscript refers to a note."""
        inside = [self._role(each) for each in islice(child.iterdescendants(), _REFERENCE)]
        if len(inside) == _REFERENCE or any(each.kind != "format" for each in inside):
            return False
        link = link or any(each.raises == "link" for each in inside)
        return is_reference(self.inline.touched, shown_in(child), link=link)

    def _space(self, child: Element, shown: str) -> None:
        """Spaces: many in a row are a break, or a mark where a text begins."""
        if len(shown) > 1 and self.inline.begun:
            self.inline.hard(Payload(child))
        elif len(shown) > 1:
            self.inline.fixed(Payload(child))
        else:
            self.inline.text(" ")


def _step(role: Role) -> tuple[int, str]:
    if role.kind == "format" and role.key:
        return 1, role.key
    return (-1, role.key) if role.kind == "end" else (0, "")


def fill(parent: Element, marks: Sequence[Mark], payloads: Sequence[Payload], found: Translated) -> None:
    """Puts a translation into an element, in place of all that is in it."""
    empty(parent)
    stack, waiting = [parent], list[str]()  # text grows here, where that does not copy it each time
    for piece in pieces(marks, found):
        if isinstance(piece, str):
            waiting.append(piece)
            continue
        payload = payloads[piece.number]
        if payload.element is None:
            waiting.append(payload.space)
            continue
        _append_text(stack[-1], waiting)
        if isinstance(piece, CloseMark):
            if payload.end is None:
                stack.pop()
            else:
                _append(stack[-1], payload.end)
        else:
            _append(stack[-1], payload.element)
            if isinstance(piece, OpenMark) and payload.end is None:
                empty(payload.element)
                stack.append(payload.element)
    _append_text(stack[-1], waiting)


def empty(element: Element) -> None:
    """Takes out text and elements; attributes stay."""
    element.text = None
    for child in list(element):
        element.remove(child)


def _append(parent: Element, child: Element) -> None:
    child.tail = None
    parent.append(child)


def _append_text(parent: Element, waiting: list[str]) -> None:
    text = "".join(waiting)
    waiting.clear()
    if not text:
        return
    last = next(parent.iterchildren(reversed=True), None)  # len() would count them all
    if last is None:
        parent.text = (parent.text or "") + text
    else:
        last.tail = (last.tail or "") + text
