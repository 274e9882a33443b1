"""ZIP packages of XML: DOCX and ODT. What is not translated is copied as it is."""

from __future__ import annotations

import io
import lzma
import zipfile
import zlib
from abc import abstractmethod
from collections.abc import Iterable, Iterator

from docnmt.apps.documents.xml_file import Element, parse, written
from docnmt.apps.documents.xml_tree import Tree, Unit
from docnmt.runtime.errors import UserError

#: A package that unpacks to more than this, pictures included, is not read.
MAX_BYTES = 256 << 20


class Office(Tree):
    """A package whose parts with text are trees."""

    def _units(self) -> Iterator[Unit]:
        self._roots: dict[str, Element] = {}
        with self._opened() as package:
            parts = list(self._parts(package.namelist()))
            # all are unpacked, so that what cannot be copied is refused before anything is translated
            content = {info.filename: found for info, found in self._unpacked(package) if info.filename in parts}
        for part in parts:
            self._roots[part] = parse(content[part], f"{self.name}: {part}")
            yield from self._part(self._roots[part], part)
        if not self._roots:
            raise UserError(f"{self.name}: holds no text that a document of this kind has; is it one?")

    def _opened(self) -> zipfile.ZipFile:
        try:
            return zipfile.ZipFile(io.BytesIO(self.content))
        except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
            raise UserError(f"{self.name}: is not a whole document of this kind ({error}); was it cut off?") from error

    def _unpacked(self, package: zipfile.ZipFile) -> Iterator[tuple[zipfile.ZipInfo, bytes]]:
        """Every part and what it holds, in the order of the package."""
        left = MAX_BYTES
        for info in package.infolist():
            content = self._content(package, info.filename, left)
            left -= len(content)
            yield info, content

    def _content(self, package: zipfile.ZipFile, part: str, left: int) -> bytes:
        """A part, unpacked no further than is allowed.

        Raises:
            UserError: it is larger, damaged or encrypted.
        """
        try:
            with package.open(part) as file:
                content = file.read(left + 1)
        except (
            zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, ValueError, RuntimeError, OSError,
        ) as error:  # fmt: skip
            raise UserError(f"{self.name}: {part} cannot be unpacked: {error}") from error
        if len(content) > left:
            raise UserError(f"{self.name}: unpacks to more than {MAX_BYTES >> 20} MiB; it is not read")
        return content

    def _saved(self, parts: set[str]) -> bytes:
        out = io.BytesIO()
        with self._opened() as package, zipfile.ZipFile(out, "w") as copy:
            copy.comment = package.comment
            for info, content in self._unpacked(package):
                if info.filename in parts:
                    content = written(self._roots[info.filename], content)
                copy.writestr(info, content, info.compress_type)
        return out.getvalue()

    @abstractmethod
    def _parts(self, names: Iterable[str]) -> Iterable[str]:
        """Which of these parts have text, in reading order."""

    @abstractmethod
    def _part(self, root: Element, part: str) -> Iterator[Unit]:
        """The segments of a part."""
