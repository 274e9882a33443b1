"""EPUB: the pages of a book in reading order, its table of contents, its title, and the language that it is in."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from functools import partial
from urllib.parse import unquote

from docnmt.apps.documents.elements import Payload, Role, fill, read
from docnmt.apps.documents.html import Html
from docnmt.apps.documents.inline import Inline, reading
from docnmt.apps.documents.relations import Related, within
from docnmt.apps.documents.segment import Segment, Translated
from docnmt.apps.documents.xml_file import Element, written
from docnmt.apps.documents.xml_tree import Unit
from docnmt.runtime.errors import UserError
from docnmt.runtime.languages import base, right_to_left, tag

_CONTAINER, _ENCRYPTION = "META-INF/container.xml", "META-INF/encryption.xml"
_PAGES = ("application/xhtml+xml", "text/html")
#: Ways to hide fonts, which readers undo without a key.
_FONTS = ("http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC")
_FIXED = Role("fixed")


class _Page(Html):
    """A page, whose Latin 1 is that of XML and not that of browsers."""

    def _decoded(self) -> str:
        text = super()._decoded()
        if self.encoding != "cp1252":
            return text
        self.encoding = "latin-1"
        return self.content.decode(self.encoding)


class Epub(Related):
    """A book whose pages are XHTML, each read as HTML is."""

    def _units(self) -> Iterator[Unit]:
        self._load()
        self._check_open()
        self._pages: dict[str, _Page] = {}
        self._changed: dict[str, dict[int, Translated]] = {}
        self._section = self._paragraph = 0
        self.left: list[int | str] = []
        self._book = self._book_part()
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
            yield from self._contents_list(part)

    def _check_open(self) -> None:
        """Refuses what only a reader with a key can open."""
        if _ENCRYPTION in self._contents:
            for method in self._root(_ENCRYPTION).iter("{*}EncryptionMethod"):
                if method.get("Algorithm") not in _FONTS:
                    raise UserError(f"{self.name}: is encrypted (DRM), so its text cannot be read; use an open copy")

    def _book_part(self) -> str:
        file = self._root(_CONTAINER).find("{*}rootfiles/{*}rootfile")
        if file is None:
            raise UserError(f"{self.name}: {_CONTAINER} names no book; was it damaged?")
        return within("", file.get("full-path") or "")

    def _page(self, part: str) -> Iterator[Unit]:
        content = self._whole(part)
        with reading(name := f"{self.name}: {part}"):
            page = _Page(content, name=name, languages=self.languages)
        self._pages[part] = page
        self.left += [f"{part}: {place if isinstance(place, str) else f'line {place}'}" for place in page.left]
        first, last = (self._section, self._paragraph), (0, 0)
        for number, segment in enumerate(page.segments):
            last = int(segment.units[0]), int(segment.units[1])
            units = str(first[0] + last[0]), str(first[1] + last[1])
            placed = Segment(segment.text, segment.marks, units=units)
            yield Unit(placed, partial(self._put, part, number), part)
        self._section, self._paragraph = first[0] + last[0] + 1, first[1] + last[1] + 1  # a page begins a section

    def _put(self, part: str, number: int, found: Translated) -> None:
        self._changed.setdefault(part, {})[number] = found

    def _contents_list(self, part: str) -> Iterator[Unit]:
        """The table of contents of EPUB 2."""
        for text in self._root(part).iter("{*}text"):
            yield self._text(text, part)

    def _text(self, element: Element, part: str) -> Unit:
        with reading(f"{self.name}: {part}"):
            inline: Inline[Payload] = read(element, lambda inside: _FIXED)
        segment = inline.segment(units=(str(self._section), str(self._paragraph)))
        self._paragraph += 1
        return Unit(segment, partial(fill, element, segment.marks, inline.payloads), part)

    def _saved(self, parts: set[str]) -> bytes:
        pages = {part: self._written(part, texts) for part, texts in self._changed.items()}
        package = self._root(self._book)
        for said in package.iterfind("{*}metadata/{*}language"):
            if base(said.text or "") == base(self.languages[0]):
                said.text = tag(self.languages[1])
        if right_to_left(self.languages[0]) != right_to_left(self.languages[1]):
            spine = package.find("{*}spine")
            assert spine is not None  # it named the pages
            spine.set("page-progression-direction", "rtl" if right_to_left(self.languages[1]) else "ltr")
        trees = {part: written(self._roots[part], self._contents[part]) for part in {*parts, self._book} - set(pages)}
        return self._copied(trees | pages)

    def _written(self, part: str, texts: dict[int, Translated]) -> bytes:
        page = self._pages[part]
        return page.write([texts.get(number, page.unchanged(number)) for number in range(len(page.segments))])
