"""Text in runs, as slides, shapes and cells have it: the look that most of it has is no mark, others are formats."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from copy import deepcopy
from dataclasses import dataclass

from lxml import etree

from docnmt.apps.documents.elements import empty
from docnmt.apps.documents.segments import (
    MOST_MARKS,
    CloseMark,
    FixedMark,
    Inline,
    OpenMark,
    Segment,
    TooLong,
    Translated,
    pieces,
)
from docnmt.apps.documents.xml_file import Element, local, shown_in
from docnmt.runtime.errors import UserError

#: Attributes of a look that do not show.
_UNSEEN = frozenset({"lang", "altLang", "dirty", "err", "noProof", "smtClean", "smtId", "bmk"})
#: What stands before the text of a paragraph or cell, behind it, and what a translation has not: its phonetics.
_BEFORE, _BEHIND, _DROPPED = ("pPr",), ("endParaRPr",), ("rPh", "phoneticPr")
#: About how many bytes the looks of all text may take together.
_MOST = 1 << 30
_XML_SPACE = "{http://www.w3.org/XML/1998/namespace}space"


@dataclass(frozen=True)
class _Payload:
    """How a mark is written: an element that stays, white space with a meaning, or the look of the text inside."""

    element: Element | None = None
    space: str = ""
    look: Element | None = None


class CopyLimit:
    """Refuses a document whose looks would fill the memory: a translation may have a copy for each of its pieces."""

    def __init__(self, name: str) -> None:
        self._name, self._left = name, _MOST

    def take(self, copies: int, looks: Iterable[Element | None]) -> None:
        """Counts so many copies of the largest of these looks."""
        self._left -= copies * max((_weight(look) for look in looks if look is not None), default=0)
        if self._left < 0:
            raise UserError(f"{self._name}: the formats of its text would fill the memory; it is not read")


def _weight(look: Element) -> int:
    """About how many bytes an element takes."""
    return sum(100 + sum(map(len, each.attrib.values())) for each in look.iter())


class Runs:
    """The text of one paragraph (`a:p`) or cell (`si`, `is`), whose runs (`r` of `rPr` and `t`) are written anew.

    Args:
        changed: hears the element when it has got another text. spaced: whether `t` must say that its spaces count.
        room: what the looks may take.
    """

    def __init__(
        self,
        element: Element,
        *,
        units: tuple[str, str],
        changed: Callable[[Element], None],
        spaced: bool,
        room: CopyLimit,
    ) -> None:
        self._element, self._changed, self._spaced = element, changed, spaced
        self._looks: dict[str, Element | None] = {}
        if len(element) > MOST_MARKS:
            raise TooLong(f"{MOST_MARKS:,} runs")
        sizes: Counter[str] = Counter()
        for run in element.iterchildren("{*}r", "{*}t"):
            look = run.find("{*}rPr")
            sizes[_key(look)] += sum(len(text.text or "") for text in _texts(run))
            self._looks.setdefault(_key(look), look)
        self._base = max(sizes, key=lambda key: sizes[key], default="")
        self._inline: Inline[_Payload] = Inline(lambda text: _Payload(space=text))
        self._read()
        self.segment: Segment = self._inline.segment(units=units)
        room.take(len(self.segment.marks) + 1, self._looks.values())

    def _read(self) -> None:
        inline, now = self._inline, self._base
        for child in self._element:
            name = local(child)
            if name in ("r", "t"):
                key = _key(child.find("{*}rPr"))
                text = "".join(each.text or "" for each in _texts(child))
                if text.strip() and key != now:
                    if now != self._base:
                        inline.close()
                    if key != self._base:
                        look = self._looks[key]
                        inline.open(_Payload(look=_bare(child) if look is None else look))
                    now = key
                inline.text(text, lambda space: _Payload(space=space) if "\n" in space or "\t" in space else None)
            elif name == "br":
                inline.hard(_Payload(child))
            elif name and name not in _BEFORE + _BEHIND + _DROPPED:
                inline.fixed(_Payload(child), shown_in(child, "t"))

    def fill(self, found: Translated) -> None:
        """Puts a translation in the place of the text."""
        element = self._element
        kept = {name: element.find(f"{{*}}{name}") for name in _BEFORE + _BEHIND}
        plain = element.find("{*}t") is not None
        empty(element)
        element.extend(child for name in _BEFORE if (child := kept[name]) is not None)
        looks = [self._looks.get(self._base)]
        prefix = element.tag.rpartition("}")[0] + "}" if "}" in element.tag else ""
        out = _Out(element, prefix, plain=plain, spaced=self._spaced)
        for piece in pieces(self.segment.marks, found):
            if isinstance(piece, str):
                out.text(piece, looks[-1])
                continue
            payload = self._inline.payloads[piece.number]
            if isinstance(piece, OpenMark):
                looks.append(payload.look)
            elif isinstance(piece, CloseMark):
                looks.pop()
            elif isinstance(piece, FixedMark) and payload.element is not None:
                out.element(payload.element)
            else:
                out.text(payload.space, looks[-1])
        element.extend(child for name in _BEHIND if (child := kept[name]) is not None)
        self._changed(element)


class _Out:
    """Writes runs: text of one look in a row is one of them."""

    def __init__(self, parent: Element, prefix: str, *, plain: bool, spaced: bool) -> None:
        self._parent, self._prefix, self._plain, self._spaced = parent, prefix, plain, spaced
        self._last: tuple[Element | None, Element] | None = None  # the look and the text of the last run

    def text(self, text: str, look: Element | None) -> None:
        """Adds text of a look."""
        if self._last is None or self._last[0] is not look:
            run = self._parent if self._plain else etree.SubElement(self._parent, f"{self._prefix}r")
            if look is not None and not self._plain:
                run.append(deepcopy(look))
            self._last = look, etree.SubElement(run, f"{self._prefix}t")
        written = self._last[1]
        written.text = (written.text or "") + text
        if self._spaced and written.text != " ".join(written.text.split()):
            written.set(_XML_SPACE, "preserve")

    def element(self, element: Element) -> None:
        """Adds what stays as it is."""
        element.tail = None
        self._parent.append(element)
        self._last = None


def _texts(run: Element) -> list[Element]:
    return [run] if local(run) == "t" else run.findall("{*}t")


def _bare(run: Element) -> Element:
    """The look of a run that has none, beside others that have."""
    return etree.Element(f"{run.tag.rpartition('}')[0]}}}rPr" if "}" in run.tag else "rPr")


def _key(look: Element | None) -> str:
    """A look as a string, without what does not show."""
    if look is None:
        return ""
    about = sorted((str(name), str(value)) for name, value in look.attrib.items() if name not in _UNSEEN)
    inside = "".join(str(etree.tostring(child, encoding="unicode", with_tail=False)) for child in look)
    return f"{about}{inside}" if about or inside else ""
