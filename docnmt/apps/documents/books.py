"""OpenDocument texts and presentations (ODT, ODP, FODT) and EPUB: XML parts, mostly in a package."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator
from functools import cached_property, partial
from urllib.parse import unquote

from lxml import etree

from docnmt.apps.documents.html import Html
from docnmt.apps.documents.packages import Package, Parts, within
from docnmt.apps.documents.segments import Sections, Segment, Translated, reading, renamed, turned
from docnmt.apps.documents.xml import Element, Role, Unit, XmlFile, expect_texts, local, shown_in, unit_in, written
from docnmt.runtime.system import UserError

# EPUB: the pages of a book in reading order, its table of contents, its title, and the language that it is in.

_CONTAINER, _ENCRYPTION = "META-INF/container.xml", "META-INF/encryption.xml"
_PAGES = ("application/xhtml+xml", "text/html")
#: Ways to hide fonts, which readers undo without a key.
_FONTS = ("http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC")


class _Page(Html):
    latin = "latin-1"  # as in XML


class Epub(Package):
    """A book whose pages are XHTML, each read as HTML is.

    Translated: the title, then the pages in the order of the book as `.html`, then its tables of contents
    Stays: everything else in the package; the author. Books with DRM are refused
    """

    def _units(self) -> Iterator[Unit]:
        self._load()
        self._count_all()
        if _ENCRYPTION in self._contents:
            for method in self._root(_ENCRYPTION).iter("{*}EncryptionMethod"):
                if method.get("Algorithm") not in _FONTS:
                    raise UserError(f"{self.name}: is encrypted (DRM), so its text cannot be read; use an open copy")
        self._pages: dict[str, _Page] = {}
        self._changed: dict[str, dict[int, Translated]] = {}
        self._section = self._paragraph = 0
        file = self._root(_CONTAINER).find("{*}rootfiles/{*}rootfile")
        if file is None:
            raise UserError(f"{self.name}: {_CONTAINER} names no book; was it damaged?")
        self._book = within("", file.get("full-path") or "")
        package = self._root(self._book)
        folder = posixpath.dirname(self._book)
        manifest = {item.get("id"): item for item in package.iterfind("{*}manifest/{*}item")}
        named = [item.get("idref") for item in package.iterfind("{*}spine/{*}itemref")]
        spine = [item for name in named if (item := manifest.get(name)) is not None]
        if not spine or len(spine) < len(named):
            raise UserError(f"{self.name}: {self._book}: its spine names no page, or one that is missing")
        for title in package.iterfind("{*}metadata/{*}title"):
            yield self._text(title, self._book)
        listed = [item for item in manifest.values() if "nav" in (item.get("properties") or "").split()]
        for item in [*spine, *listed]:
            part = within(folder, unquote(item.get("href") or ""))
            if item.get("media-type") in _PAGES and part not in self._pages:
                yield from self._page(part)
        lists = [item for item in manifest.values() if item.get("media-type") == "application/x-dtbncx+xml"]
        for part in dict.fromkeys(within(folder, unquote(item.get("href") or "")) for item in lists):
            for text in self._root(part).iter("{*}text"):  # the table of contents of EPUB 2
                yield self._text(text, part)

    def _page(self, part: str) -> Iterator[Unit]:
        content = self._whole(part)
        with reading(name := f"{self.name}: {part}"):
            page = _Page(content, name=name, languages=self.languages)
        self._pages[part] = page
        self.left += [f"{part}: {left if isinstance(left, str) else f'line {left}'}" for left in page.left]
        first, last = (self._section, self._paragraph), (0, 0)
        for number, segment in enumerate(page.segments):
            last = int(segment.units[0]), int(segment.units[1])
            units = str(first[0] + last[0]), str(first[1] + last[1])
            placed = Segment(segment.text, segment.marks, units=units)
            yield Unit(placed, partial(self._changed.setdefault(part, {}).__setitem__, number), part)
        self._section, self._paragraph = first[0] + last[0] + 1, first[1] + last[1] + 1  # a page begins a section

    def _text(self, element: Element, part: str) -> Unit:
        units = str(self._section), str(self._paragraph)
        self._paragraph += 1
        with reading(f"{self.name}: {part}"):
            return unit_in(element, lambda inside: Role("fixed"), units=units, part=part)

    def _saved(self, parts: set[str]) -> bytes:
        pages = {}
        for part, texts in self._changed.items():
            page = self._pages[part]
            if texts:
                pages[part] = page.write([texts.get(n, page.unchanged(n)) for n in range(len(page.segments))])
        package = self._root(self._book)
        for said in package.iterfind("{*}metadata/{*}language"):
            said.text = renamed(said.text or "", self.languages) or said.text
        if side := turned(self.languages):
            for spine in package.iterfind("{*}spine"):
                spine.set("page-progression-direction", side)
        trees = {part: written(self._roots[part], self._contents[part]) for part in {*parts, self._book} - set(pages)}
        return self._copied(trees | pages)


# ODT: the paragraphs and headings of OpenDocument texts, with those of headers, footers, notes and frames.

_FORMATS = frozenset({"span", "a", "ruby", "ruby-base", "meta", "meta-field"})
_FO = "{urn:oasis:names:tc:opendocument:xmlns:xsl-fo-compatible:1.0}"
_STYLE = "{urn:oasis:names:tc:opendocument:xmlns:style:1.0}"
_TEXT = "urn:oasis:names:tc:opendocument:xmlns:text:1.0"
_SVG = "urn:oasis:names:tc:opendocument:xmlns:svg-compatible:1.0"
#: Paragraphs, headings, and alternative texts.
_READ = frozenset({("p", _TEXT), ("h", _TEXT), ("title", _SVG), ("desc", _SVG)})


class _Styles:
    """Which styles, of those of all parts, hide text, and which raise it; what a style does not say its parent does."""

    def __init__(self, roots: Iterable[Element]) -> None:
        self.hidden, self.raised = dict[str, bool](), dict[str, bool]()
        self._parents: dict[str, str] = {}
        for style in (style for root in roots for style in root.iter(f"{_STYLE}style")):
            name, look = style.get(f"{_STYLE}name", ""), style.find(f"{_STYLE}text-properties")
            self._parents[name] = style.get(f"{_STYLE}parent-style-name", "")
            if look is None:
                continue
            if said := look.get(f"{{{_TEXT}}}display"):
                self.hidden[name] = said == "none"
            if said := look.get(f"{_STYLE}text-position"):
                size = said.split()[0]
                self.raised[name] = size == "super" or (size[:1].isdigit() and not size.startswith("0"))

    def said(self, of_styles: dict[str, bool], element: Element) -> bool:
        """Whether the style of an element is `hidden`, or `raised`."""
        name, seen = element.get(f"{{{_TEXT}}}style-name", ""), set[str]()
        while name not in of_styles and name in self._parents and name not in seen:
            seen.add(name)
            name = self._parents[name]
        return of_styles.get(name, False)


def _role(element: Element, styles: _Styles) -> Role:
    """What an element inside of a paragraph is."""
    name = local(element)
    if name in _FORMATS and styles.said(styles.hidden, element):
        return Role("fixed")
    if name in _FORMATS:
        return Role("format", raises="link" if name == "a" else "script" if styles.said(styles.raised, element) else "")
    if name == "s":
        count = next((value for key, value in element.attrib.items() if etree.QName(key).localname == "c"), "1")
        return Role("space", " " if count == "1" else "  ")
    if name in ("tab", "line-break"):
        return Role("break")
    if name == "frame":
        inline = any(value == "as-char" for value in element.attrib.values())
        return Role("fixed", seen="picture" if inline else "")
    if etree.QName(element).namespace != _TEXT or (name.startswith(_SILENT) and not name.endswith("-ref")):
        return Role("fixed")
    return Role("fixed", shown_in(element), seen="value")


#: What shows nothing in the text where it stands; other elements are fields, whose text is seen.
_SILENT = (
    "note", "bookmark", "reference-mark", "change", "toc-mark", "alphabetical-index-mark", "user-index-mark",
    "soft-page-break", "ruby-text", "annotation", "hidden",
)  # fmt: skip


class Odt(Parts):
    """A text of OpenDocument.

    Translated: paragraphs and headings, also in headers, footers, notes, frames; alternative texts; the notes of slides
    Stays: as in `.docx`; hidden text is named
    """

    def _parts(self, names: Iterable[str]) -> list[str]:
        return [name for name in ("content.xml", "styles.xml") if name in names]

    def _part(self, root: Element, part: str) -> Iterator[Unit]:
        sections = Sections()
        styles, hidden = self._styles, False
        skipped: Element | None = None
        expect_texts(root, "local-name()='p' or local-name()='h'", "text()")
        for event, element in etree.iterwalk(root, events=("start", "end")):
            name = local(element)
            if skipped is not None:
                skipped = None if event == "end" and element is skipped else skipped
            elif name in ("tracked-changes", "annotation") and event == "start":
                skipped = element  # what was deleted, comments
            elif event == "start" and (name.startswith("hidden") or styles.said(styles.hidden, element)):
                hidden |= any(map(str.isalpha, shown_in(element) + element.get(f"{{{_TEXT}}}string-value", "")))
                skipped = element if (name, etree.QName(element).namespace) in _READ else None
            elif name in ("list", "table-row"):
                sections.together(begins=event == "start")
            elif event == "start" and (name, etree.QName(element).namespace) in _READ:
                if name == "h":
                    sections.heading()
                yield unit_in(element, partial(_role, styles=styles), units=sections.units, part=part)
                sections.paragraph()
        if hidden:
            self.left.append(f"{part}: hidden text" if part else "hidden text")

    @cached_property
    def _styles(self) -> _Styles:
        return _Styles(map(self._root, self._parts(list(self._contents))))

    def _saved(self, parts: set[str]) -> bytes:
        named = {part for part, root in self._roots.items() if _renamed(root, self.languages)}
        return super()._saved(parts | named)


def _renamed(root: Element, languages: tuple[str, str]) -> bool:
    """Names the target's language, and its direction, wherever a part names the source's; whether it did."""
    changed = False
    for look in root.iter("{*}text-properties"):
        if not (code := renamed(look.get(f"{_FO}language", ""), languages)):
            continue
        name, _, region = code.partition("-")
        look.set(f"{_FO}language", name)
        look.set(f"{_FO}country", region if len(region) == 2 else "none")
        beside = look.getparent()
        around = None if beside is None else beside.find("{*}paragraph-properties")
        if around is not None and (side := turned(languages)):
            around.set(f"{_STYLE}writing-mode", "rl-tb" if side == "rtl" else "lr-tb")
        changed = True
    return changed


# FODT: an OpenDocument text in one file of XML.


class Fodt(XmlFile, Odt):
    """As `Odt`, without a package around.

    Translated: as in `.odt`
    Stays: as in `.odt`
    """

    form, first = "FODT", "document"

    def _strings(self) -> Iterator[Unit]:
        return self._part(self.root, "")

    @cached_property
    def _styles(self) -> _Styles:
        return _Styles([self.root])
