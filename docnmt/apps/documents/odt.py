"""ODT: the paragraphs and headings of OpenDocument texts, with those of headers, footers, notes and frames."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property, partial

from lxml import etree

from docnmt.apps.documents.elements import Role, fill, read
from docnmt.apps.documents.office import Office
from docnmt.apps.documents.sections import Sections
from docnmt.apps.documents.xml_file import Element, local, parse, shown_in
from docnmt.apps.documents.xml_tree import Unit
from docnmt.runtime.languages import base, right_to_left, tag

_FORMATS = frozenset({"span", "a", "ruby", "ruby-base", "meta", "meta-field"})
_FO = "{urn:oasis:names:tc:opendocument:xmlns:xsl-fo-compatible:1.0}"
_STYLE = "{urn:oasis:names:tc:opendocument:xmlns:style:1.0}"
_TEXT = "urn:oasis:names:tc:opendocument:xmlns:text:1.0"
_SVG = "urn:oasis:names:tc:opendocument:xmlns:svg-compatible:1.0"
#: Paragraphs, headings, and alternative texts.
_READ = frozenset({("p", _TEXT), ("h", _TEXT), ("title", _SVG), ("desc", _SVG)})


class Styles:
    """Which styles, of those of all parts, hide text, and which raise it; what a style does not say its parent does."""

    def __init__(self) -> None:
        self._hidden, self._raised = dict[str, bool](), dict[str, bool]()
        self._parents: dict[str, str] = {}

    def add(self, root: Element) -> None:
        """Reads the styles of a part."""
        for style in root.iter(f"{_STYLE}style"):
            name, look = style.get(f"{_STYLE}name", ""), style.find(f"{_STYLE}text-properties")
            self._parents[name] = style.get(f"{_STYLE}parent-style-name", "")
            if look is None:
                continue
            if said := look.get(f"{{{_TEXT}}}display"):
                self._hidden[name] = said == "none"
            if said := look.get(f"{_STYLE}text-position"):
                size = said.split()[0]
                self._raised[name] = size == "super" or (size[:1].isdigit() and not size.startswith("0"))

    def hides(self, element: Element) -> bool:
        """Whether what is in an element is not shown."""
        return self._said(self._hidden, element)

    def raises(self, element: Element) -> bool:
        """Whether what is in an element is a superscript."""
        return self._said(self._raised, element)

    def _said(self, about: dict[str, bool], element: Element) -> bool:
        name, seen = element.get(f"{{{_TEXT}}}style-name", ""), set[str]()
        while name not in about and name in self._parents and name not in seen:
            seen.add(name)
            name = self._parents[name]
        return about.get(name, False)


def role(element: Element, styles: Styles) -> Role:
    """What an element inside of a paragraph is."""
    name = local(element)
    if name in _FORMATS and styles.hides(element):
        return Role("fixed")
    if name in _FORMATS:
        return Role("format", raises="link" if name == "a" else "script" if styles.raises(element) else "")
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

    def _units(self) -> Iterator[Unit]:
        self._left = list[int | str]()
        yield from super()._units()
        self.left = self._left

    def _part(self, root: Element, part: str) -> Iterator[Unit]:
        sections = Sections()
        styles, hidden = self._styles, False
        skipped: Element | None = None
        for event, element in etree.iterwalk(root, events=("start", "end")):
            name = local(element)
            if skipped is not None:
                skipped = None if event == "end" and element is skipped else skipped
            elif name in ("tracked-changes", "annotation") and event == "start":
                skipped = element  # what was deleted, comments
            elif event == "start" and (name.startswith("hidden") or styles.hides(element)):
                hidden |= any(map(str.isalpha, shown_in(element) + element.get(f"{{{_TEXT}}}string-value", "")))
                skipped = element if (name, etree.QName(element).namespace) in _READ else None
            elif name in ("list", "table-row"):
                sections.together(begins=event == "start")
            elif event == "start" and (name, etree.QName(element).namespace) in _READ:
                if name == "h":
                    sections.heading()
                inline = read(element, partial(role, styles=styles))
                segment = inline.segment(units=sections.units)
                yield Unit(segment, partial(fill, element, segment.marks, inline.payloads), part)
                sections.paragraph()
        if hidden:
            self._left.append(f"{part}: hidden text" if part else "hidden text")

    @cached_property
    def _styles(self) -> Styles:
        """The styles of all parts."""
        styles = Styles()
        for part, content in self._originals.items():
            styles.add(parse(content, f"{self.name}: {part}"))
        return styles

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
