"""The media types of the kinds of documents."""

from __future__ import annotations

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
