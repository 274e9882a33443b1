"""PPTX: the paragraphs of slides, slide by slide, each with its notes; and fixed text of layouts and masters."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from lxml import etree

from docnmt.apps.documents.packages import Related, picture_texts
from docnmt.apps.documents.runs import CopyLimit, Runs
from docnmt.apps.documents.segments import Sections, reading
from docnmt.apps.documents.xml_file import Element, local
from docnmt.apps.documents.xml_tree import Unit
from docnmt.runtime.languages import base, right_to_left, tag

_PRESENTATION = "ppt/presentation.xml"
#: What is on a slide and has text that is not read, by the address that says what it is.
_LEFT = {"diagram": "a diagram (SmartArt)", "chart": "a chart", "ole": "an embedded object"}


class Pptx(Related):
    """A presentation."""

    def _units(self) -> Iterator[Unit]:
        self._load()
        self._sections, self._room = Sections(), CopyLimit(self.name)
        left: list[str] = []
        slides = list(dict.fromkeys(part for _, part in self._listed(_PRESENTATION, "sldIdLst")))
        seen = set[str]()
        shared = dict.fromkeys(self._behind(slides, "slideLayout"))
        shared |= dict.fromkeys(self._behind(list(shared), "slideMaster"))
        for number, slide in enumerate(slides, start=1):
            self._sections.heading()
            yield from self._paragraphs(slide)
            left += dict.fromkeys(f"slide {number}: {what}" for what in _unread(self._root(slide)))
            for notes in self._behind([slide], "notesSlide"):
                if notes not in seen:
                    yield from self._paragraphs(notes)
                seen.add(notes)
        for part in shared:
            self._sections.heading()
            yield from self._paragraphs(part, placeholders=False)
        self.left = left

    def _behind(self, parts: list[str], kind: str) -> list[str]:
        """The parts of a kind that these refer to."""
        return [found.target for part in parts for found in self._relations(part) if found.kind == kind]

    def _paragraphs(self, part: str, *, placeholders: bool = True) -> Iterator[Unit]:
        """The paragraphs of a part; what only says what to write into a placeholder is never shown."""
        hidden: Element | None = None
        for event, element in etree.iterwalk(self._root(part), events=("start", "end")):
            name = local(element)
            if hidden is not None:
                hidden = None if element is hidden else hidden
            elif name == "sp" and event == "start" and not placeholders and element.find(".//{*}ph") is not None:
                hidden = element
            elif name in ("tr", "txBody"):
                self._sections.together(begins=event == "start")
            elif name == "p" and event == "start" and "drawingml" in (etree.QName(element).namespace or ""):
                with reading(f"{self.name}: {part}"):
                    yield paragraph(element, part, self._sections, self.languages, self._room)
            elif event == "start":
                yield from picture_texts(element, part, self._sections.units)


def paragraph(element: Element, part: str, sections: Sections, languages: tuple[str, str], room: CopyLimit) -> Unit:
    """A paragraph of a slide or a shape."""
    changed = partial(_speak, languages=languages)
    runs = Runs(element, units=sections.units, changed=changed, spaced=False, room=room)
    sections.paragraph()
    return Unit(runs.segment, runs.fill, part)


def _speak(element: Element, languages: tuple[str, str]) -> None:
    """Says that a paragraph is in the other language, and in which direction it is written."""
    for look in element.iter("{*}rPr", "{*}endParaRPr"):
        if base(look.get("lang", "")) == base(languages[0]):
            look.set("lang", tag(languages[1]))
    if right_to_left(languages[0]) == right_to_left(languages[1]):
        return
    about = element.find("{*}pPr")
    if about is None:
        about = etree.Element(f"{element.tag.rpartition('}')[0]}}}pPr")
        element.insert(0, about)
    to_left = right_to_left(languages[1])
    about.set("rtl", str(int(to_left)))
    if about.get("algn", "l") == "lr"[not to_left]:
        about.set("algn", "lr"[to_left])


def _unread(root: Element) -> Iterator[str]:
    for data in root.iter("{*}graphicData"):
        address = data.get("uri") or ""
        yield from (name for end, name in _LEFT.items() if address.rpartition("/")[2] == end)
