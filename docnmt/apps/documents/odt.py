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
from docnmt.runtime.languages import base, right_to_left, tag

_FORMATS = frozenset({"span", "a", "ruby", "ruby-base", "meta", "meta-field"})
_FO = "{urn:oasis:names:tc:opendocument:xmlns:xsl-fo-compatible:1.0}"
_STYLE = "{urn:oasis:names:tc:opendocument:xmlns:style:1.0}"
_TEXT = "urn:oasis:names:tc:opendocument:xmlns:text:1.0"
_SVG = "urn:oasis:names:tc:opendocument:xmlns:svg-compatible:1.0"
#: Paragraphs, headings, and alternative texts.
_READ = frozenset({("p", _TEXT), ("h", _TEXT), ("title", _SVG), ("desc", _SVG)})


def role(element: Element) -> Role:
    """What an element inside of a paragraph is."""
    name = local(element)
    if name in _FORMATS:
        return Role("format")
    if name == "s":
        count = next((value for key, value in element.attrib.items() if etree.QName(key).localname == "c"), "1")
        return Role("space", " " if count == "1" else "  ")
    if name in ("tab", "line-break"):
        return Role("break")
    if name == "frame":
        inline = any(value == "as-char" for value in element.attrib.values())
        return Role("fixed", seen="picture" if inline else "")
    if etree.QName(element).namespace != _TEXT or name.startswith(_SILENT):
        return Role("fixed")
    return Role("fixed", shown_in(element), seen="value")


#: What shows nothing in the text where it stands; other elements are fields, whose text is seen.
_SILENT = (
    "note",
    "bookmark",
    "reference-mark",
    "change",
    "toc-mark",
    "alphabetical-index-mark",
    "user-index-mark",
    "soft-page-break",
    "ruby-text",
    "annotation",
    "hidden",
)


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
            elif event == "start" and (name, etree.QName(element).namespace) in _READ:
                if name == "h":
                    sections.heading()
                inline = read(element, role)
                segment = inline.segment(units=sections.units)
                yield Unit(segment, partial(fill, element, segment.marks, inline.payloads), part)
                sections.paragraph()

    def _saved(self, parts: set[str]) -> bytes:
        named = {part for part, root in self._roots.items() if _renamed(root, self.languages)}
        return super()._saved(parts | named)


def _renamed(root: Element, languages: tuple[str, str]) -> bool:
    """Names the target's language, and its direction, wherever a part names the source's; whether it did."""
    found = False
    for look in root.iter("{*}text-properties"):
        if base(look.get(f"{_FO}language", "")) != base(languages[0]):
            continue
        name, _, region = tag(languages[1]).partition("-")
        look.set(f"{_FO}language", name)
        look.set(f"{_FO}country", region if len(region) == 2 else "none")
        beside = look.getparent()
        around = None if beside is None else beside.find("{*}paragraph-properties")
        if around is not None and right_to_left(languages[0]) != right_to_left(languages[1]):
            around.set(f"{_STYLE}writing-mode", "rl-tb" if right_to_left(languages[1]) else "lr-tb")
        found = True
    return found
