"""The kinds of documents: ending, class, package, media type."""

from __future__ import annotations

import importlib
from pathlib import PurePath

from docnmt.apps.documents.segments import DocumentFile, reading
from docnmt.runtime.system import UserError

# The kinds of documents, by the endings of their files.


#: For each ending the kind, its class, and the package that it needs.
_KINDS: dict[str, tuple[str, str, str]] = {
    "txt": ("docnmt.apps.documents.text", "PlainText", ""),
    "md": ("docnmt.apps.documents.markdown", "Markdown", "markdown_it"),
    "html": ("docnmt.apps.documents.html", "Html", ""),
    "docx": ("docnmt.apps.documents.word", "Docx", "lxml"),
    "odt": ("docnmt.apps.documents.books", "Odt", "lxml"),
    "xlf": ("docnmt.apps.documents.bilingual", "Xliff", "lxml"),
    "po": ("docnmt.apps.documents.po", "Po", "translate"),
    "tmx": ("docnmt.apps.documents.bilingual", "Tmx", "lxml"),
    "srt": ("docnmt.apps.documents.subtitles", "Subtitles", "srt"),
    "pptx": ("docnmt.apps.documents.slides_sheets", "Pptx", "lxml"),
    "epub": ("docnmt.apps.documents.books", "Epub", "lxml"),
    "json": ("docnmt.apps.documents.catalogues", "JsonCatalogue", ""),
    "yaml": ("docnmt.apps.documents.catalogues", "YamlCatalogue", ""),
    "properties": ("docnmt.apps.documents.catalogues", "Properties", ""),
    "strings": ("docnmt.apps.documents.catalogues", "AppleStrings", ""),
    "xml": ("docnmt.apps.documents.resources", "Android", "lxml"),
    "resx": ("docnmt.apps.documents.resources", "Resx", "lxml"),
    "vtt": ("docnmt.apps.documents.subtitles", "WebVtt", "srt"),
    "ass": ("docnmt.apps.documents.subtitles", "Ass", "srt"),
    "xlsx": ("docnmt.apps.documents.slides_sheets", "Xlsx", "lxml"),
    "sdlxliff": ("docnmt.apps.documents.bilingual", "SdlXliff", "lxml"),
    "mqxliff": ("docnmt.apps.documents.bilingual", "MqXliff", "lxml"),
    "docm": ("docnmt.apps.documents.word", "Docx", "lxml"),
    "dotx": ("docnmt.apps.documents.word", "Docx", "lxml"),
    "fodt": ("docnmt.apps.documents.books", "Fodt", "lxml"),
    "odp": ("docnmt.apps.documents.books", "Odt", "lxml"),
    "mdx": ("docnmt.apps.documents.mdx", "Mdx", "markdown_it"),
}
#: Kinds whose files may have nothing in them; those of all others have a frame.
_FRAMELESS = frozenset({"txt", "md", "mdx", "html", "po", "srt", "yaml", "properties", "strings"})
#: The kind of each ending of a file's name.
ENDINGS: dict[str, str] = {
    **{f".{kind}": kind for kind in _KINDS},
    ".text": "txt",
    ".markdown": "md",
    ".htm": "html",
    ".xhtml": "html",
    ".xliff": "xlf",
    ".pot": "po",
    ".yml": "yaml",
    ".arb": "json",
    ".jsonc": "json",
}


def kind_of(name: str) -> str:
    """The kind of a document, by the ending of its file's name.

    Raises:
        UserError: no document has this ending; it lists those that have.
    """
    ending = PurePath(name).suffix.lower()
    kind = ENDINGS.get(ending)
    if ending == ".pdf":
        advice = "convert it to .docx or .odt first, for example with LibreOffice, and look at the result"
        raise UserError(f"{name}: a PDF says where letters stand on paper and not what a paragraph is; {advice}")
    if kind is None:
        endings = " ".join(f".{kind}" for kind in _KINDS)
        raise UserError(
            f"{name or 'no name'}: expected a document, by its ending one of {endings}; convert it to one of them"
        )
    return kind


def reader_of(kind: str, *, name: str) -> type[DocumentFile]:
    """The class of documents of a kind.

    Raises:
        UserError: a package is missing.
    """
    module, title, package = _KINDS[kind]
    try:
        if package:
            importlib.import_module(package)
        reader: type[DocumentFile] = getattr(importlib.import_module(module), title)
    except ImportError as error:
        raise UserError(f"{name}: .{kind} needs an extra: pip install 'docnmt[documents]'") from error
    return reader


def read(content: bytes, kind: str, *, name: str, source_lang: str, target_lang: str) -> DocumentFile:
    """A document.

    Args:
        kind: as `kind_of` says. name: what messages call it. source_lang, target_lang: ISO codes; files of both
            languages say which is which.

    Raises:
        UserError: it is empty and no text is a document of this kind; it is damaged, not of this kind, or not in these
            languages; or a package is missing.
    """
    reader = reader_of(kind, name=name)
    if not content and kind not in _FRAMELESS:
        raise UserError(f"{name}: is empty, expected a .{kind} document")
    with reading(name):
        return reader(content, name=name, languages=(source_lang, target_lang))


# The media types of the kinds of documents.


#: The media type of each kind.
TYPES: dict[str, str] = {
    "txt": "text/plain", "md": "text/markdown", "html": "text/html", "po": "text/x-gettext-translation",
    "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document", "tmx": "application/x-tmx+xml",
    "odt": "application/vnd.oasis.opendocument.text", "xlf": "application/xliff+xml", "srt": "application/x-subrip",
    "pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation", "epub": "application/epub+zip",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", "json": "application/json",
    "docm": "application/vnd.ms-word.document.macroEnabled.12", "yaml": "application/yaml", "vtt": "text/vtt",
    "dotx": "application/vnd.openxmlformats-officedocument.wordprocessingml.template", "mdx": "text/markdown",
    "odp": "application/vnd.oasis.opendocument.presentation", "properties": "text/plain", "strings": "text/plain",
    "fodt": "application/vnd.oasis.opendocument.text-flat-xml", "xml": "application/xml", "resx": "application/xml",
    "sdlxliff": "application/xliff+xml", "mqxliff": "application/xliff+xml", "ass": "text/x-ssa",
}  # fmt: skip
