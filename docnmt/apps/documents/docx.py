"""DOCX: the paragraphs of WordprocessingML, with those of headers, footers, notes and text boxes.

Word divides a paragraph into runs for many reasons. Here neighbours of equal look are one, and the look that most of
the text has is no mark at all; replacing run by run, as `python-docx` offers it, cannot do that.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from itertools import takewhile

from lxml import etree

from docnmt.apps.documents.docx_language import renamed, turned
from docnmt.apps.documents.docx_left import left_in
from docnmt.apps.documents.docx_runs import Looks, Op, flat, value, weight
from docnmt.apps.documents.elements import empty
from docnmt.apps.documents.packages import MAX_BYTES, Office, picture_texts
from docnmt.apps.documents.segments import (
    MOST_MARKS,
    CloseMark,
    FixedMark,
    Inline,
    OpenMark,
    Sections,
    Segment,
    TooLong,
    Translated,
    is_reference,
    pieces,
)
from docnmt.apps.documents.xml_file import Element, local, parse, shown_in
from docnmt.apps.documents.xml_tree import Unit
from docnmt.runtime.errors import UserError

#: About how many bytes the looks of all text may take together: a translation may have a copy for each of its pieces.
_LOOKS = 1 << 30
_STYLES = re.compile(r"word[/\\]styles\.xml")
_WIDE = re.compile(r"(  +| ?\t[ \t]*)")
#: What a style says of how text looks that counts here.
_SAID = ("vanish", "vertAlign")
#: Steps through what refers to a note, at most.
_REFERENCE = 8
_PARTS = re.compile(r"word/(?:document\d*|header\d*|footer\d*|footnotes|endnotes)\.xml")


class Docx(Office):
    """A text of Word."""

    def _parts(self, names: Iterable[str]) -> list[str]:
        found = sorted(name for name in names if _PARTS.fullmatch(name.replace("\\", "/")))  # some write Windows' paths
        if not any("document" in name for name in found):
            raise UserError(f"{self.name}: its part word/document.xml is missing; was it cut off, or of another kind?")
        return found

    def _units(self) -> Iterator[Unit]:
        with self._opened() as package:
            self._looks = 0
            self._headings, self._lists = set[str](), set[str]()
            self._character_looks = Looks()
            self._left = list[int | str](left_in(package.namelist(), partial(self._content, package, left=MAX_BYTES)))
            self._styles = next((name for name in package.namelist() if _STYLES.fullmatch(name)), "")
            if self._styles:
                self._style_bytes = self._content(package, self._styles, MAX_BYTES)
                styles = parse(self._style_bytes, f"{self.name}: {self._styles}")
                self._headings = set(_styles(styles, r"(?i)heading \d|title$"))
                self._lists = set(_styles(styles, r"(?i)list\b"))
                self._character_looks = _looks(styles)
        yield from super()._units()
        self.left = self._left

    def _saved(self, parts: set[str]) -> bytes:
        for part in parts:
            renamed(self._roots[part], self.languages)
        if self._styles:
            styles = parse(self._style_bytes, self.name)
            if renamed(styles, self.languages):
                self._roots[self._styles], self._originals[self._styles] = styles, self._style_bytes
                parts = {*parts, self._styles}
        return super()._saved(parts)

    def _part(self, root: Element, part: str) -> Iterator[Unit]:
        sections, listed, hidden = Sections(), False, False
        for event, element in etree.iterwalk(root, events=("start", "end")):
            name = local(element)
            if name == "altChunk" and event == "start":
                self._left.append(f"{part}: a document inside of this one (altChunk)")
            if event == "start":
                yield from picture_texts(element, part, sections.units)
            if name == "r" and event == "start" and self._character_looks.hides(element.find("{*}rPr")):
                hidden |= any(map(str.isalpha, shown_in(element, "t")))
            if name == "tr":
                if listed:  # a table ends the list before it
                    sections.together(begins=False)
                    listed = False
                sections.together(begins=event == "start")
            if name != "p" or event == "end" or etree.QName(element).namespace != etree.QName(root).namespace:
                continue
            look = element.find("{*}pPr")
            style = "" if look is None else next((value(e, "val") for e in look.iterfind("{*}pStyle")), "")
            if style in self._character_looks.hidden:
                hidden |= any(map(str.isalpha, shown_in(element, "t")))
                continue
            in_list = style in self._lists or (look is not None and look.find("{*}numPr") is not None)
            if in_list != listed:
                sections.together(begins=in_list)
                listed = in_list
            if style in self._headings:
                sections.heading()
            if any(child is not look for child in element):
                yield self._unit(element, part, sections.units)
            sections.paragraph()
        if hidden:
            self._left.append(f"{part}: hidden text")

    def _unit(self, paragraph: Element, part: str, units: tuple[str, str]) -> Unit:
        if len(paragraph) > MOST_MARKS or len(ops := flat(paragraph, self._character_looks)) > MOST_MARKS:
            raise TooLong(f"{MOST_MARKS:,} runs")
        self._looks += weight(ops)
        if self._looks > _LOOKS:
            raise UserError(f"{self.name}: {part}: the formats of its text would fill the memory; it is not read")
        sizes: Counter[str] = Counter()
        looks: dict[str, Element | None] = {}
        for op in ops:
            if op.kind == "text":
                sizes[op.key] += len(op.text)
                looks.setdefault(op.key, op.look)
        base = max(sizes, key=lambda key: sizes[key], default="")
        inline = _read(ops, base)
        segment = inline.segment(units=units)

        def filled(found: Translated) -> None:
            _fill(paragraph, segment, inline, looks.get(base), found)
            turned(paragraph, self.languages)

        return Unit(segment, filled, part)


def _styles(root: Element, pattern: str) -> Iterator[str]:
    """The styles whose names, which are English whatever language Word speaks, begin like this."""
    for style in root.iter("{*}style"):
        name = style.find("{*}name")
        if name is not None and re.match(pattern, value(name, "val")):
            yield value(style, "styleId")


def _looks(root: Element) -> Looks:
    """The styles that hide text, and those that raise it; what a style does not say that says which it is based on."""
    own = {value(style, "styleId"): style for style in root.iter("{*}style")}
    hidden, raised = set[str](), set[str]()
    for name in own:
        chain, after = list[str](), name
        while after in own and after not in chain:
            chain.append(after)
            based = own[after].find("{*}basedOn")
            after = "" if based is None else value(based, "val")
        looks = [look for style in chain if (look := own[style].find("{*}rPr")) is not None]
        first = {what: next((look for look in looks if look.find(f"{{*}}{what}") is not None), None) for what in _SAID}
        hidden |= {name} if Looks().hides(first["vanish"]) else set()
        raised |= {name} if Looks().raises(first["vertAlign"]) else set()
    return Looks(hidden, raised)


@dataclass
class _Payload:
    """How a mark is written: elements before and behind it; the run that `before` stood in; the element that it fills;
    the look of its runs; or white space."""

    space: str = ""
    before: Sequence[Element] = ()
    behind: Sequence[Element] = ()
    run: Element | None = None
    shell: Element | None = None
    inner: Element | None = None
    look: Element | None = None


def _add(inline: Inline[_Payload], text: str) -> None:
    """Text, in which two spaces stay two, and more are a break."""
    for number, part in enumerate(_WIDE.split(text)):
        if number % 2 and inline.begun and (len(part) > 2 or "\t" in part):
            inline.hard(_Payload(part))
            continue
        if number % 2 and inline.begun:
            inline.wide()
        else:
            inline.text(part)


def _read(ops: Sequence[Op], base: str) -> Inline[_Payload]:
    """The text and marks of a paragraph most of which looks like `base`."""
    inline: Inline[_Payload] = Inline(_Payload)
    now, number = base, 0
    while number < len(ops):
        op = ops[number]
        if reference := _reference(ops, number, inline.touched):
            inline.fixed(_Payload(before=reference[0]))
            number = reference[1]
            continue
        number += 1
        if op.kind == "text":
            if op.text.strip() and op.key != now:
                if now != base:
                    inline.close()
                if op.key != base:
                    inline.open(_Payload(look=_look(op)))
                now = op.key
            _add(inline, op.text)
        elif op.kind == "fixed":
            inline.fixed(_Payload(before=op.elements, run=op.run, look=op.look), op.text, op.seen)
        elif op.kind == "break":
            inline.hard(_Payload(before=op.elements, run=op.run, look=op.look))
        else:
            if now != base:
                inline.close()
                now = base
            if op.kind == "open":
                inline.open(_Payload(before=op.elements, behind=op.behind, shell=op.shell, inner=op.inner))
            else:
                inline.close()
    return inline


def _reference(ops: Sequence[Op], number: int, touched: str) -> tuple[list[Element], int] | None:
    """What refers to a note, a link or a superscript that begins here, as it is written, and the step behind it."""
    op, few = ops[number], ops[number : number + _REFERENCE]
    if op.raised:
        taken = list(takewhile(lambda each: each.raised, few))
        if not is_reference(touched, "".join(each.text for each in taken), link=False):
            taken = taken[:1]  # several references in a row
        written, end = [_word_run(each.text, each.look, each.prefix) for each in taken], number + len(taken)
    elif op.kind == "open" and op.shell is not None and local(op.shell) == "hyperlink":
        taken = list(takewhile(lambda each: each.kind == "text", few[1:]))
        written, end = [op.shell], number + len(taken) + 2
        if len(taken) + 1 >= len(few) or few[len(taken) + 1].kind != "close":
            return None
    else:
        return None
    text = "".join(each.text for each in taken)
    return (written, end) if is_reference(touched, text, link=not op.raised) else None


def _look(op: Op) -> Element:
    """A run's properties, empty ones where it has none."""
    return op.look if op.look is not None else etree.Element(f"{op.prefix}rPr")


def _fill(
    paragraph: Element, segment: Segment, inline: Inline[_Payload], base: Element | None, found: Translated
) -> None:
    """Puts a translation into a paragraph, whose properties stay."""
    look = paragraph.find("{*}pPr")
    empty(paragraph)
    if look is not None:
        paragraph.append(look)
    prefix = paragraph.tag.rpartition("p")[0]
    parents, looks = [paragraph], [base]
    for piece in pieces(segment.marks, found):
        if isinstance(piece, str):
            parents[-1].append(_word_run(piece, looks[-1], prefix))
            continue
        payload = inline.payloads[piece.number]
        if payload.space:
            parents[-1].append(_word_run(payload.space, looks[-1], prefix))
        elif isinstance(piece, FixedMark):
            parents[-1].extend(payload.before if payload.run is None else [_alone(payload)])
        elif isinstance(piece, OpenMark):
            parents[-1].extend(payload.before)
            if payload.shell is not None and payload.inner is not None:
                empty(payload.inner)
                parents[-1].append(payload.shell)
                parents.append(payload.inner)
            looks.append(payload.look if payload.look is not None else looks[-1])
        elif isinstance(piece, CloseMark):
            looks.pop()
            if payload.shell is not None:
                parents.pop()
            parents[-1].extend(payload.behind)


def _alone(payload: _Payload) -> Element:
    """What stood in a run, in a run of its own."""
    assert payload.run is not None
    run = etree.Element(payload.run.tag, {str(key): str(value) for key, value in payload.run.attrib.items()})
    if payload.look is not None:
        run.append(deepcopy(payload.look))
    run.extend(payload.before)
    return run


def _word_run(text: str, look: Element | None, prefix: str) -> Element:
    run = etree.Element(f"{prefix}r")
    if look is not None and len(look):
        run.append(deepcopy(look))
    written = etree.SubElement(run, f"{prefix}t")
    written.text = text
    written.set("{http://www.w3.org/XML/1998/namespace}space", "preserve")
    return run
