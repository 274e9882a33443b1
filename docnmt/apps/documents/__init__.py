"""Documents of many kinds as segments of text, and the same documents with other text."""

from __future__ import annotations

from docnmt.apps.documents.kinds import ENDINGS, kind_of, read, reader_of
from docnmt.apps.documents.segment import DocumentFile, Mark, Segment, Translated

__all__ = ["ENDINGS", "DocumentFile", "Mark", "Segment", "Translated", "kind_of", "read", "reader_of"]
