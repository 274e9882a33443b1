"""Runs, the engine of text in DOCX, PPTX and XLSX: the look that most of a paragraph has is no mark, others are.

paragraph or cell ─ steps → [Step] ─ Runs → Segment; Translated ─ fill → runs made anew in place of all that was there

Programs divide a paragraph into runs for many reasons. Here neighbours of equal look are one; replacing run by run, as
`python-docx` offers it, cannot do that.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass

from lxml import etree

from docnmt.apps.documents.segments import MOST_MARKS, Inline, TooLong, Translated, pieces
from docnmt.apps.documents.xml import Element, empty, local
from docnmt.runtime.system import UserError

#: About how many bytes the looks of all text may take together.
_MOST = 1 << 30
#: Elements that stand before the text of a paragraph and behind it, and stay there.
BEFORE, BEHIND = "pPr", "endParaRPr"
_XML_SPACE = "{http://www.w3.org/XML/1998/namespace}space"


@dataclass
class Step:
    """A step through a paragraph: `text`, `fixed`, `break`, or `open` and `close` of something around text.

    Attributes:
        text: of `text`; of `fixed` what is seen of it. seen: as in `Inline.fixed`. raised: it is a superscript.
        look, key: how its run looks, as properties, and as a string without what does not show.
        elements: what is written for it, or before what is inside; behind: … behind it.
        run: the one that `elements` stand in, if they are what is in it. shell, inner: the element around, and the one
            in it that holds the text.
    """

    kind: str
    text: str = ""
    key: str = ""
    look: Element | None = None
    elements: Sequence[Element] = ()
    behind: Sequence[Element] = ()
    shell: Element | None = None
    inner: Element | None = None
    run: Element | None = None
    seen: str = ""
    raised: bool = False


@dataclass
class RunPayload:
    """How a mark is written: white space, a step, or the look of the runs in a format."""

    space: str = ""
    step: Step | None = None
    look: Element | None = None


class CopyLimit:
    """Refuses a document whose looks would fill the memory: a translation may have a copy for each of its pieces."""

    def __init__(self, name: str) -> None:
        self._name, self._left = name, _MOST

    def take(self, size: int) -> None:
        """Counts so many bytes."""
        self._left -= size
        if self._left < 0:
            raise UserError(f"{self._name}: the formats of its text would fill the memory; it is not read")


#: What of a look does not show: the language of its text, sizes of other scripts, and what programs note.
_UNSEEN = frozenset(
    {"lang", "altLang", "noProof", "szCs", "bCs", "iCs", "dirty", "err", "smtClean", "smtId", "bmk"},
)


def look_key(look: Element | None) -> str:
    """A look as a string, without what does not show."""
    if look is None:
        return ""
    attributes = sorted((str(name), str(value)) for name, value in look.attrib.items() if name not in _UNSEEN)
    shown = (child for child in look if local(child) not in _UNSEEN)
    children = sorted(str(etree.tostring(child, encoding="unicode", with_tail=False)) for child in shown)
    return f"{attributes}{''.join(children)}" if attributes or children else ""


def weight(*elements: Element) -> int:
    """About how many bytes elements take, without what is in them."""
    return sum(100 + sum(map(len, element.attrib.values())) for element in elements)


def run_like(run: Element, look: Element | None, inside: Sequence[Element]) -> Element:
    """A run with the attributes of another one, this look and this in it."""
    new = etree.Element(run.tag, {str(key): str(value) for key, value in run.attrib.items()})
    new.extend([*([] if look is None else [deepcopy(look)]), *inside])
    return new


def namespace(element: Element) -> str:
    """What stands before an element's name: `{…}`, or nothing."""
    return str(element.tag).rpartition("}")[0] + "}" if "}" in str(element.tag) else ""


class Runs:
    """The text of one paragraph or cell, whose runs (`r` of `rPr` and `t`) are written anew.

    Args:
        read: says what stands in the element. changed: hears the element when it has got another text.
        room: what the looks may take.
    """

    #: Whether neighbours of one look become one run; then empty looks are written, and no white space between runs.
    joins = True

    def __init__(
        self,
        element: Element,
        read: Callable[[Element], list[Step]],
        *,
        units: tuple[str, str],
        changed: Callable[[Element], None],
        room: CopyLimit,
    ) -> None:
        self.element, self._changed = element, changed
        if len(element) > MOST_MARKS or len(steps := read(element)) > MOST_MARKS:
            raise TooLong(f"{MOST_MARKS:,} runs")
        sizes: Counter[str] = Counter()
        looks: dict[str, Element | None] = {}
        for step in steps:
            if step.kind == "text":
                sizes[step.key] += len(step.text)
                looks.setdefault(step.key, step.look)
        self._base = max(sizes, key=lambda key: sizes[key], default="")
        self._base_look = looks.get(self._base)
        self.inline: Inline[RunPayload] = Inline(RunPayload)
        self._read(steps)
        self.segment = self.inline.segment(units=units)
        copied = {id(step.look): step.look for step in steps if step.look is not None}
        runs = {id(step.run): step.run for step in steps if step.run is not None}
        sizes_of = [*(weight(*look.iter()) for look in copied.values()), *map(weight, runs.values())]
        room.take((len(self.segment.marks) + 1) * max(sizes_of, default=0))

    @abstractmethod
    def add(self, text: str) -> None:
        """Adds the text of a run to `inline`."""

    def spaced(self, text: str) -> bool:
        """Whether a run of this text must say that its spaces count."""
        return False

    def reference(self, steps: Sequence[Step], number: int) -> tuple[Sequence[Element], int] | None:
        """What refers to a note and begins here, as it is written, and the step behind it."""
        return None

    def _read(self, steps: Sequence[Step]) -> None:
        inline, base = self.inline, self._base
        now, number = base, 0
        while number < len(steps):
            step = steps[number]
            if reference := self.reference(steps, number):
                inline.fixed(RunPayload(step=Step("fixed", elements=reference[0])))
                number = reference[1]
                continue
            number += 1
            if step.kind == "text":
                wanted = step.key if step.text.strip() else now
            else:
                wanted = base if step.kind in ("open", "close") else now
            if wanted != now:
                if now != base:
                    inline.close()
                if wanted != base:
                    bare = etree.Element(f"{namespace(self.element)}rPr")
                    inline.open(RunPayload(look=bare if step.look is None else step.look))
                now = wanted
            if step.kind == "text":
                self.add(step.text)
            elif step.kind == "fixed":
                inline.fixed(RunPayload(step=step), step.text, step.seen)
            elif step.kind == "break":
                inline.hard(RunPayload(step=step))
            elif step.kind == "open":
                inline.open(RunPayload(step=step))
            else:
                inline.close()

    def fill(self, translation: Translated) -> None:
        """Puts a translation in the place of the text."""
        before, behind = (self.element.find(f"{{*}}{name}") for name in (BEFORE, BEHIND))
        self._plain = self.joins and self.element.find("{*}t") is not None
        self._last: tuple[Element | None, Element] | None = None  # the look and the text of the last run
        empty(self.element)
        self.element.extend([] if before is None else [before])
        parents, looks = [self.element], [self._base_look]
        for piece in pieces(self.segment.marks, translation):
            if isinstance(piece, str):
                self._write(parents[-1], piece, looks[-1])
                continue
            payload = self.inline.payloads[piece.number]
            step = payload.step
            if payload.space:
                self._write(parents[-1], payload.space, looks[-1])
            elif piece.kind == "fixed":
                assert step is not None
                self._stand(
                    parents[-1], step.elements if step.run is None else [run_like(step.run, step.look, step.elements)]
                )
            elif piece.kind == "open":
                looks.append(payload.look if step is None else looks[-1])
                if step is not None:
                    self._stand(parents[-1], step.elements)
                if step is not None and step.shell is not None and step.inner is not None:
                    empty(step.inner)
                    parents[-1].append(step.shell)
                    parents.append(step.inner)
            else:
                looks.pop()
                if step is not None and step.shell is not None:
                    parents.pop()
                self._stand(parents[-1], () if step is None else step.behind)
        self.element.extend([] if behind is None else [behind])
        self._changed(self.element)

    def _write(self, parent: Element, text: str, look: Element | None) -> None:
        if self.joins and self._last is not None and self._last[0] is look:
            self._set(self._last[1], (self._last[1].text or "") + text)
            return
        if self._plain:
            written = etree.SubElement(parent, f"{namespace(self.element)}t")
            self._set(written, text)
        else:
            parent.append(run := self.run(text, look))
            written = run[-1]
        self._last = look, written

    def run(self, text: str, look: Element | None) -> Element:
        """A run of this text and look."""
        run = etree.Element(f"{namespace(self.element)}r")
        if look is not None and (self.joins or len(look)):
            run.append(deepcopy(look))
        self._set(etree.SubElement(run, f"{namespace(self.element)}t"), text)
        return run

    def _set(self, written: Element, text: str) -> None:
        written.text = text
        if self.spaced(text):
            written.set(_XML_SPACE, "preserve")

    def _stand(self, parent: Element, elements: Sequence[Element]) -> None:
        for element in elements:
            element.tail = None if self.joins else element.tail
            parent.append(element)
            self._last = None
