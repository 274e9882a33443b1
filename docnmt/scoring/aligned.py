"""A translation beside its references: which line translates which, and where the documents are.

An empty line in a file of hypotheses is a document break or a missing translation; only the reference (or the source),
where no sentence is empty, tells which. So its lines say what the lines of the others are. Lines that are only `<d>` or
`<p>` mark documents and paragraphs as in the text of a corpus, and need not be in the other files.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from docnmt.errors import UserError
from docnmt.formats.columns import Columns
from docnmt.formats.side import side_lines

DOCUMENT, PARAGRAPH = "<d>", "<p>"
#: Columns by the names that known tables have.
ANY = Columns()


@dataclass(frozen=True)
class LineLayout:
    """Which lines of a file are sentences, and which documents they form.

    Attributes:
        path: the file. rows: its lines without marks; an empty one separates documents.
        document_offsets: (D+1) the sentence where each document begins, and their number.
        lines: of every line whether it is a sentence, marks included.
    """

    path: Path
    rows: tuple[str, ...]
    document_offsets: tuple[int, ...]
    lines: tuple[bool, ...]

    @property
    def sentences(self) -> list[str]:
        """The lines that are sentences, in their order."""
        return [row for row in self.rows if row]

    def only(self, kept: Sequence[int]) -> LineLayout:
        """The layout of some of its sentences, in their order; documents that keep none are left out."""
        sentences = self.sentences
        offsets = sorted({bisect_left(kept, offset) for offset in self.document_offsets})
        return LineLayout(self.path, tuple(sentences[i] for i in kept), tuple(offsets), (True,) * len(kept))

    def align(self, path: Path, columns: Columns = ANY, role: str = "hypothesis") -> list[str]:
        """The sentences of another file, one for each of this one's; an empty one is a missing translation.

        `columns` and `role` are as in `read_layout`.

        Line by line, the other file is empty where this one is (with or without lines for marks), or has one empty line
        between the documents. Or it has as many sentences, with the same documents (two empty lines for one, empty
        lines at the end) or with no break at all.

        Raises:
            UserError: it has another number of sentences, or other documents.
        """
        other = read_layout(path, columns, role, may_be_empty=True)
        for places in self._places():
            if len(other.rows) == len(places) and not any(
                row for place, row in zip(places, other.rows, strict=True) if not place
            ):
                return [row for place, row in zip(places, other.rows, strict=True) if place]
        one_document = len(other.document_offsets) <= 2
        if len(other.sentences) == len(self.sentences):
            if one_document or other.document_offsets == self.document_offsets:
                return other.sentences
            pairs = zip(other.document_offsets, self.document_offsets, strict=False)
            where = next(min(pair) for pair in pairs if pair[0] != pair[1])
            raise UserError(f"{path}: its documents are not those of {self.path}; they part after sentence {where}")
        raise UserError(
            f"{path}: {len(other.sentences):,} sentences in {len(other.rows):,} lines, but {self.path} has "
            f"{len(self.sentences):,} in {len(self.rows):,}; there must be one line for each of its lines"
        )

    def _places(self) -> Iterator[Sequence[bool]]:
        """Where sentences stand in files that translate this one line by line, and what is empty there."""
        yield [row != "" for row in self.rows]
        yield self.lines
        between: list[bool] = []
        for begin, end in pairwise(self.document_offsets):
            between += [False] * (begin > 0) + [True] * (end - begin)
        yield between


def read_layout(path: Path, columns: Columns = ANY, role: str = "target", *, may_be_empty: bool = False) -> LineLayout:
    """The sentences and documents of a text file, or of a table's column `role`; of translations all `may_be_empty`.

    Raises:
        UserError: the file cannot be read, is not clean UTF-8 text, or holds no sentence.
    """
    rows: list[str] = []
    lines: list[bool] = []
    offsets = [0]
    sentences = 0
    for line in map(str.strip, side_lines(path, columns, role)):
        if line in ("", DOCUMENT) and offsets[-1] != sentences:
            offsets.append(sentences)
        lines.append(line not in ("", DOCUMENT, PARAGRAPH))
        if line not in (DOCUMENT, PARAGRAPH):
            rows.append(line)
            sentences += line != ""
    if not sentences and not may_be_empty:
        raise UserError(f"{path}: holds no sentence")
    if offsets[-1] != sentences:
        offsets.append(sentences)
    return LineLayout(path, tuple(rows), tuple(offsets), tuple(lines))
