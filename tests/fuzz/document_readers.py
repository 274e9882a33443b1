"""Documents of every kind, and glossaries: a good one each, and what reads it, translates it and writes it again."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from pathlib import Path

import sample_documents

from docnmt.core.search.glossary import Glossary

#: The parts of packages that hold text; those of ZIP itself are kept by its checksums.
_PARTS = {
    "docx": "word/document.xml", "odt": "content.xml", "pptx": "ppt/slides/slide2.xml", "epub": "OPS/book.opf",
    "xlsx": "xl/worksheets/sheet1.xml",
}  # fmt: skip


def add_documents(add: Callable[..., None]) -> None:
    """All kinds, those in packages by their XML and, in a few inputs, as they are."""
    for kind, text in sample_documents.TEXTS.items():
        add(f"document.{kind}", text, _reader(kind), 0.5)
    for kind, part in _PARTS.items():
        package = _undated(sample_documents.content(kind))
        with zipfile.ZipFile(io.BytesIO(package)) as opened:
            content = opened.read(part)
        add(f"document.{kind}/{part}", content, _part_reader(kind, part, package), 0.5)
        add(f"document.{kind}", package, _reader(kind), 0.1)
    for kind, like in (("docm", "docx"), ("dotx", "docx"), ("odp", "odt")):
        add(f"document.{kind}", _undated(sample_documents.content(like)), _reader(kind), 0.05)
    add("glossary.tsv", "the dog\tder Hund\nHouse\tHaus\n\nold  cat\talte Katze\n", _glossary)


def _undated(package: bytes) -> bytes:
    """A package that is the same whenever it is made."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(package)) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            if name != "meta.xml":
                new.writestr(zipfile.ZipInfo(name), old.read(name), zipfile.ZIP_DEFLATED)
    return out.getvalue()


def _glossary(path: Path) -> None:
    """With a term found in a sentence."""
    Glossary.read(path).found("The dog sees the old cat in the House.")


def _translated(kind: str, content: bytes) -> None:
    """Read a document, translate it and read what is written."""
    written = sample_documents.translate(sample_documents.document(kind, content), sample_documents.Model())
    sample_documents.document(kind, written)


def _reader(kind: str) -> Callable[[Path], None]:
    return lambda path: _translated(kind, path.read_bytes())


def _part_reader(kind: str, part: str, package: bytes) -> Callable[[Path], None]:
    """With the file in the place of a part of the package."""

    def read(path: Path) -> None:
        out = io.BytesIO()
        with zipfile.ZipFile(io.BytesIO(package)) as old, zipfile.ZipFile(out, "w") as new:
            for info in old.infolist():
                new.writestr(info, path.read_bytes() if info.filename == part else old.read(info.filename))
        _translated(kind, out.getvalue())

    return read
