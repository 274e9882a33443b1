"""Packages: parts of a ZIP file, their relations, the texts of their pictures."""

from __future__ import annotations

import io
import lzma
import posixpath
import zipfile
import zlib
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from docnmt.apps.documents.runs import CopyLimit
from docnmt.apps.documents.segments import Inline, reading
from docnmt.apps.documents.xml import Element, Tree, Unit, count_elements, local, parse, written
from docnmt.runtime.system import UserError

#: A package that unpacks to more than this, pictures included, or has more parts is not read.
MAX_BYTES, _MOST_PARTS = 256 << 20, 10_000
#: How files of Word 97 begin, and those of today with a password.
_COMPOUND = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"


class _Relation(NamedTuple):
    """A reference from a part to another one: its `id`, its `kind` (`slide`, `chart` …) and the part's name."""

    id: str
    kind: str
    target: str


class Package(Tree):
    """A document that is a ZIP file whose parts with text are trees; what is not translated is copied as it is."""

    def _opened(self) -> zipfile.ZipFile:
        try:
            package = zipfile.ZipFile(io.BytesIO(self.content))
        except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
            why = f"not a whole document of this kind ({error}); was it cut off?"
            if self.content.startswith(_COMPOUND):
                why = "protected by a password, or in a format of before 2007; save it without, as a document of today"
            raise UserError(f"{self.name}: is {why}") from error
        if len(package.infolist()) > _MOST_PARTS:
            raise UserError(f"{self.name}: has more than {_MOST_PARTS:,} parts; divide it")
        return package

    def _unpacked(self, package: zipfile.ZipFile) -> Iterator[tuple[zipfile.ZipInfo, bytes]]:
        """Every part and what it holds, in the order of the package; a UserError says that one cannot be read."""
        left = MAX_BYTES
        for info in package.infolist():
            try:
                with package.open(info.filename) as file:
                    content = file.read(left + 1)
            except (
                zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, ValueError, RuntimeError, OSError,
            ) as error:  # fmt: skip
                raise UserError(f"{self.name}: {info.filename} cannot be unpacked: {error}") from error
            if len(content) > left:
                where = f"at {info.filename}; it is not read"
                raise UserError(f"{self.name}: unpacks to more than {MAX_BYTES >> 20} MiB, {where}")
            left -= len(content)
            yield info, content

    def _load(self) -> None:
        """Unpacks every part, for `_root`, so that what cannot be copied is refused before anything is translated."""
        self._room = CopyLimit(self.name)
        with self._opened() as package:
            self._contents = {info.filename: content for info, content in self._unpacked(package)}
        self._roots: dict[str, Element] = {}

    def _whole(self, part: str) -> bytes:
        if part not in self._contents:
            raise UserError(f"{self.name}: its part {part} is missing; was it cut off, or is it of another kind?")
        return self._contents[part]

    def _root(self, part: str) -> Element:
        """The tree of a part; the same one each time."""
        if part not in self._roots:
            self._roots[part] = parse(self._whole(part), f"{self.name}: {part}")
        return self._roots[part]

    def _copied(self, changed: Mapping[str, bytes]) -> bytes:
        """The package with these parts changed; `mimetype`, of OpenDocument and EPUB, is first and not compressed."""
        out = io.BytesIO()
        with self._opened() as package, zipfile.ZipFile(out, "w") as copy:
            copy.comment = package.comment
            for info, content in sorted(self._unpacked(package), key=lambda part: part[0].filename != "mimetype"):
                way = zipfile.ZIP_STORED if info.filename == "mimetype" else info.compress_type
                copy.writestr(info, changed.get(info.filename, content), way)
        return out.getvalue()

    def _saved(self, parts: set[str]) -> bytes:
        return self._copied({part: written(self._roots[part], self._contents[part]) for part in parts})

    def _count_all(self) -> None:
        """Refuses too many elements in all parts together, of which relations may name any."""
        texts = (content for name, content in self._contents.items() if name.endswith((".xml", ".rels")))
        count_elements(texts, self.name)

    def _relations(self, part: str) -> Iterator[_Relation]:
        """What a part refers to inside of the package."""
        folder, name = posixpath.split(part)
        file = posixpath.join(folder, "_rels", f"{name}.rels")
        if file not in self._contents:
            return
        for element in self._root(file).iterfind("{*}Relationship"):
            if element.get("TargetMode") != "External":
                kind = (element.get("Type") or "").rpartition("/")[2]
                yield _Relation(element.get("Id") or "", kind, within(folder, element.get("Target") or ""))

    def _listed(self, part: str, name: str) -> Iterator[tuple[Element, str]]:
        """The entries of a list in a part (slides, sheets), each with the part that it stands for."""
        targets = {relation.id: relation.target for relation in self._relations(part)}
        for entry in self._root(part).iterfind(f"{{*}}{name}/*"):
            key = next((str(value) for name, value in entry.attrib.items() if str(name).endswith("}id")), "")
            if key not in targets:
                raise UserError(f"{self.name}: {part} names '{key}', and no part belongs to it; was it damaged?")
            yield entry, targets[key]


class Parts(Package):
    """A package whose parts are read one by one, as no relations between them say which come first."""

    def _units(self) -> Iterator[Unit]:
        self._load()
        parts = list(self._parts(list(self._contents)))
        count_elements((self._contents[part] for part in parts), self.name)
        for part in parts:
            with reading(f"{self.name}: {part}"):
                yield from self._part(self._root(part), part)
        if not parts:
            raise UserError(f"{self.name}: holds no text that a document of this kind has; is it one?")

    @abstractmethod
    def _parts(self, names: Iterable[str]) -> Iterable[str]:
        """Which of these parts have text, in reading order."""

    @abstractmethod
    def _part(self, root: Element, part: str) -> Iterator[Unit]:
        """The segments of a part."""


def within(folder: str, target: str) -> str:
    """The name of a part that another one in this folder refers to."""
    return posixpath.normpath(posixpath.join("/", folder, target)).lstrip("/")


# What Office Open XML says in attributes and readers see or hear: alternative texts, WordArt, watermarks.

#: Elements, and their attributes: pictures and shapes; in VML, which is older, alternative texts and text along a path.
_SEEN = {
    "docPr": ("title", "descr"),
    "cNvPr": ("title", "descr"),
    "textpath": ("string",),
    **dict.fromkeys(("shape", "rect", "oval", "roundrect", "line", "polyline", "group"), ("alt",)),
}


def picture_texts(element: Element, part: str, units: tuple[str, str]) -> Iterator[Unit]:
    """The texts in the attributes of one element, if it is a picture or the like."""
    for name in _SEEN.get(local(element), ()):
        inline: Inline[str] = Inline()
        inline.text(element.get(name, ""))
        yield Unit(inline.segment(units=units), lambda text, name=name: element.set(name, text.text), part)  # type: ignore[misc]
