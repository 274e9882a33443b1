"""The kinds of documents, a row each; --help, media types, OpenAPI and the tables of the docs are made from them.

name of a file ─ kind_of → ending ─ KINDS → Kind ─ read → DocumentFile; plug-ins add rows by `register_kind`
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, TypeVar

from docnmt.runtime.system import UserError, needing

if TYPE_CHECKING:
    from docnmt.apps.documents.segments import DocumentFile

R = TypeVar("R")


@dataclass(frozen=True)
class Kind:
    """A kind of documents.

    Attributes:
        reader: its class, a `DocumentFile`, or a reference to it in this package, `module:class`.
        title: what it is, in a few words. media_type: what an answer of the service says that it is.
        group: what it is used for: the row of the guide's table.
        others: other endings of the same kind. framed: whether an empty file is none of this kind.
    """

    reader: str | type[DocumentFile]
    title: str
    media_type: str
    group: str
    others: Sequence[str] = ()
    framed: bool = False

    @property
    def place(self) -> str:
        """The module and the name of its reader."""
        if isinstance(self.reader, str):
            return f"docnmt.apps.documents.{self.reader}"
        return f"{self.reader.__module__}:{self.reader.__qualname__}"


_WORD, _DOCUMENT = "application/vnd.ms-word.", "application/vnd.openxmlformats-officedocument."
_OPEN, _OFFICE = "application/vnd.oasis.opendocument.", "office"
_WEB, _BILINGUAL, _SOFTWARE, _SUBTITLES = "web, books", "translators' files", "software", "subtitles"
#: All kinds, by their endings.
KINDS: dict[str, Kind] = {
    "txt": Kind("text:PlainText", "plain text", "text/plain", "text", others=["text"]),
    "md": Kind("markdown:Markdown", "Markdown", "text/markdown", _WEB, ["markdown"]),
    "mdx": Kind("markdown:Mdx", "Markdown with components", "text/markdown", _WEB),
    "html": Kind("html:Html", "web page", "text/html", _WEB, others=["htm", "xhtml"]),
    "epub": Kind("books:Epub", "book", "application/epub+zip", _WEB, framed=True),
    "docx": Kind("word:Docx", "Word", f"{_DOCUMENT}wordprocessingml.document", _OFFICE, framed=True),
    "docm": Kind("word:Docx", "Word", f"{_WORD}document.macroEnabled.12", _OFFICE, framed=True),
    "dotx": Kind("word:Docx", "Word", f"{_DOCUMENT}wordprocessingml.template", _OFFICE, framed=True),
    "odt": Kind("books:Odt", "OpenDocument text", f"{_OPEN}text", _OFFICE, framed=True),
    "odp": Kind("books:Odt", "OpenDocument slides", f"{_OPEN}presentation", _OFFICE, framed=True),
    "fodt": Kind("books:Fodt", "OpenDocument text in one file", f"{_OPEN}text-flat-xml", _OFFICE, framed=True),
    "pptx": Kind("slides_sheets:Pptx", "PowerPoint", f"{_DOCUMENT}presentationml.presentation", _OFFICE, framed=True),
    "xlsx": Kind("slides_sheets:Xlsx", "Excel", f"{_DOCUMENT}spreadsheetml.sheet", _OFFICE, framed=True),
    "xlf": Kind("xml_files:Xliff", "XLIFF", "application/xliff+xml", _BILINGUAL, ["xliff"], framed=True),
    "sdlxliff": Kind("xml_files:ToolXliff", "Trados", "application/xliff+xml", _BILINGUAL, framed=True),
    "mqxliff": Kind("xml_files:ToolXliff", "memoQ", "application/xliff+xml", _BILINGUAL, framed=True),
    "po": Kind("po:Po", "gettext", "text/x-gettext-translation", _BILINGUAL, ["pot"]),
    "tmx": Kind("xml_files:Tmx", "translation memory", "application/x-tmx+xml", _BILINGUAL, framed=True),
    "json": Kind("catalogues:JsonCatalogue", "JSON", "application/json", _SOFTWARE, ["arb", "jsonc"], framed=True),
    "yaml": Kind("catalogues:YamlCatalogue", "YAML", "application/yaml", _SOFTWARE, others=["yml"]),
    "properties": Kind("catalogues:Properties", "Java", "text/plain", _SOFTWARE),
    "strings": Kind("catalogues:AppleStrings", "macOS, iOS", "text/plain", _SOFTWARE),
    "xml": Kind("xml_files:Android", "Android", "application/xml", _SOFTWARE, framed=True),
    "resx": Kind("xml_files:Resx", ".NET", "application/xml", _SOFTWARE, framed=True),
    "srt": Kind("subtitles:Subtitles", "SubRip", "application/x-subrip", _SUBTITLES),
    "vtt": Kind("subtitles:WebVtt", "WebVTT", "text/vtt", _SUBTITLES, framed=True),
    "ass": Kind("subtitles:Ass", "Aegisub", "text/x-ssa", _SUBTITLES, framed=True),
}
#: The kind of each ending of a file's name.
ENDINGS: dict[str, str] = {f".{end}": name for name, kind in KINDS.items() for end in (name, *kind.others)}


def register_kind(
    ending: str, title: str, media_type: str, *, others: Sequence[str] = (), group: str = "other", framed: bool = False
) -> Callable[[R], R]:
    """Register a class of documents, a `DocumentFile`, for the files with an ending (without its dot).

    Args:
        title, media_type, others, group, framed: as in `Kind`.

    Raises:
        ValueError: another class has this ending, or one of the others.
    """

    def _decorate(reader: R) -> R:
        kind = Kind(reader, title, media_type, group, others=others, framed=framed)  # type: ignore[arg-type]
        for end in (ending, *others):
            if end != end.lower().strip(". "):
                raise ValueError(f"the ending of a kind of documents is in small letters, without a dot, got '{end}'")
            other = KINDS.get(ENDINGS.get(f".{end}", ""))
            if other is not None and other.place != kind.place:
                raise ValueError(f"documents .{end} are registered twice: first {other.place}, now {kind.place}")
        KINDS[ending] = kind
        ENDINGS.update({f".{end}": ending for end in (ending, *others)})
        return reader

    return _decorate


def groups() -> dict[str, list[str]]:
    """The endings of the kinds that are used for the same."""
    endings: dict[str, list[str]] = {}
    for ending, kind in KINDS.items():
        endings.setdefault(kind.group, []).append(f".{ending}")
    return endings


def listed() -> str:
    """All endings that name a kind, for help and messages."""
    return " ".join(f".{ending}" for ending in KINDS)


def kind_of(name: str) -> str:
    """The kind of a document, by the ending of its file's name."""
    ending = PurePath(name).suffix.lower()
    if ending in ENDINGS:
        return ENDINGS[ending]
    if ending == ".pdf":
        advice = "convert it to .docx or .odt first, for example with LibreOffice, and look at the result"
        raise UserError(f"{name}: a PDF says where letters stand on paper and not what a paragraph is; {advice}")
    expected = f"expected a document, by its ending one of {listed()}"
    raise UserError(f"{name or 'no name'}: {expected}; convert it to one of them; a plug-in's needs its --user-dir")


def reader_of(kind: str, *, name: str) -> type[DocumentFile]:
    """The class of documents of a kind; a UserError says that its package is missing."""
    row = KINDS[kind]
    if not isinstance(row.reader, str):
        return row.reader
    module, _, title = row.place.partition(":")
    with needing(f"{name}: .{kind} needs an extra", "documents"):
        reader: type[DocumentFile] = getattr(importlib.import_module(module), title)
    return reader


def read(content: bytes, kind: str, *, name: str, source_lang: str, target_lang: str) -> DocumentFile:
    """A document.

    Args:
        kind: as `kind_of` says. name: what messages call it. source_lang, target_lang: ISO codes; files of both
            languages say which is which.
    """
    from docnmt.apps.documents.segments import reading

    reader = reader_of(kind, name=name)
    if not content and KINDS[kind].framed:
        raise UserError(f"{name}: is empty, expected a .{kind} document")
    with reading(name):
        return reader(content, name=name, languages=(source_lang, target_lang))
