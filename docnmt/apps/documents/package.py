"""ZIP packages: what is not translated is copied as it is."""

from __future__ import annotations

import io
import lzma
import zipfile
import zlib
from collections.abc import Iterator, Mapping

from docnmt.apps.documents.segment import DocumentFile
from docnmt.runtime.errors import UserError

#: A package that unpacks to more than this, pictures included, is not read.
MAX_BYTES = 256 << 20
#: How files of Word 97 begin, and those of today with a password.
_COMPOUND = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"


class Package(DocumentFile):
    """A document that is a ZIP file."""

    def _opened(self) -> zipfile.ZipFile:
        try:
            return zipfile.ZipFile(io.BytesIO(self.content))
        except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
            why = f"not a whole document of this kind ({error}); was it cut off?"
            if self.content.startswith(_COMPOUND):
                why = "protected by a password, or in a format of before 2007; save it without, as a document of today"
            raise UserError(f"{self.name}: is {why}") from error

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
            raise UserError(f"{self.name}: unpacks to more than {MAX_BYTES >> 20} MiB, at {part}; it is not read")
        return content

    def _copied(self, changed: Mapping[str, bytes]) -> bytes:
        """The package, in which these parts have another content.

        The part that says its kind (`mimetype` of OpenDocument and EPUB) stands first and is not compressed.
        """
        out = io.BytesIO()
        with self._opened() as package, zipfile.ZipFile(out, "w") as copy:
            copy.comment = package.comment
            for info, content in sorted(self._unpacked(package), key=lambda each: each[0].filename != "mimetype"):
                way = zipfile.ZIP_STORED if info.filename == "mimetype" else info.compress_type
                copy.writestr(info, changed.get(info.filename, content), way)
        return out.getvalue()
