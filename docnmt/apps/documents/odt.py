"""ODT: the paragraphs and headings of OpenDocument texts, with those of headers, footers, notes and frames."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

from lxml import etree

from docnmt.apps.documents.elements import Role, fill, read
from docnmt.apps.documents.office import Office
from docnmt.apps.documents.sections import Sections
from docnmt.apps.documents.xml_file import Element, local, shown_in
from docnmt.apps.documents.xml_tree import Unit

_FORMATS = frozenset({"span", "a", "ruby", "ruby-base", "meta", "meta-field"})
_TEXT = "urn:oasis:names:tc:opendocument:xmlns:text:1.0"


def role(element: Element) -> Role:
    """What an element inside of a paragraph is."""
    name = local(element)
    if name in _FORMATS:
        return Role("format")
    if name == "s":
        return Role("space")
    if name in ("tab", "line-break"):
        return Role("break")
    shown = shown_in(element) if name in _FIELDS else ""
    return Role("fixed", shown)


#: Fields whose text is seen in the paragraph.
_FIELDS = frozenset({"page-number", "page-count", "date", "time", "sequence", "bookmark-ref", "reference-ref"})


class Odt(Office):
    """A text of OpenDocument."""

    def _parts(self, names: Iterable[str]) -> list[str]:
        return [name for name in ("content.xml", "styles.xml") if name in names]

    def _part(self, root: Element, part: str) -> Iterator[Unit]:
        sections = Sections()
        skipped: Element | None = None
        for event, element in etree.iterwalk(root, events=("start", "end")):
            name = local(element)
            if skipped is not None:
                skipped = None if event == "end" and element is skipped else skipped
            elif name in ("tracked-changes", "annotation") and event == "start":
                skipped = element  # what was deleted, comments
            elif name in ("list", "table-row"):
                sections.together(begins=event == "start")
            elif event == "start" and name in ("p", "h") and etree.QName(element).namespace == _TEXT:
                if name == "h":
                    sections.heading()
                inline = read(element, role)
                segment = inline.segment(units=sections.units)
                yield Unit(segment, partial(fill, element, segment.marks, inline.payloads), part)
                sections.paragraph()
