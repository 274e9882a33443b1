"""Alignment of the lines of hypotheses with those of references, and the documents that they form.

An empty line in a file of hypotheses is a document break or a missing translation; only the reference (or the source),
which has no empty sentence, tells which. So its lines determine the meaning of the others. Lines that are only `<d>` or
`<p>` mark documents and paragraphs as in the text of a corpus, and need not be in the other files. Tables that name
their documents need no such rules: each row is a sentence, also one without text.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from docnmt.core.corpus import DocumentStart
from docnmt.core.data_options import Columns
from docnmt.core.formats.corpus_side import side_lines
from docnmt.core.scoring.document_names import places_by_name
from docnmt.core.scoring.metrics import scored_sentences
from docnmt.runtime.errors import UserError

DOCUMENT, PARAGRAPH = "<d>", "<p>"
#: Columns found by the names that known tables have.
ANY = Columns()


@dataclass(frozen=True)
class LineLayout:
    """The lines of a file that are sentences, and the documents that they form.

    Attributes:
        path: the file. rows: its lines without marks; an empty one separates documents.
        document_offsets: (D+1) the sentence where each document begins, and their number.
        lines: for every line, marks included, True if it is a sentence.
        names: of the documents of a table that marks where they begin; then every row is a sentence, also an empty one.
    """

    path: Path
    rows: tuple[str, ...]
    document_offsets: tuple[int, ...]
    lines: tuple[bool, ...]
    names: tuple[str | None, ...] = ()

    @property
    def sentences(self) -> list[str]:
        """The lines that are sentences, in order."""
        return [row for row in self.rows if row or self.names]

    def only(self, kept: Sequence[int]) -> LineLayout:
        """Return the layout of some of its sentences, in order; documents that keep none are left out."""
        sentences = self.sentences
        offsets = sorted({bisect_left(kept, offset) for offset in self.document_offsets})
        names = tuple(self.names[number] for number in self.documents_with(kept)) if self.names else ()
        return LineLayout(self.path, tuple(sentences[i] for i in kept), tuple(offsets), (True,) * len(kept), names)

    def documents_with(self, kept: Sequence[int]) -> list[int]:
        """Return the documents that have some of these sentences, which must be in ascending order."""
        return [
            number
            for number, (begin, end) in enumerate(pairwise(self.document_offsets))
            if bisect_left(kept, begin) < bisect_left(kept, end)
        ]

    def written(self, sentences: Sequence[str]) -> str:
        """Return a text with one line for each line of this file, from sentences that translate its own."""
        rest = iter(sentences)
        places = self._between() if self.names else [row != "" for row in self.rows]
        return "".join(f"{next(rest) if place else ''}\n" for place in places)

    def align(self, path: Path, columns: Columns = ANY, role: str = "hypothesis") -> list[str]:
        """Return the sentences of another file, one for each of this one's; an empty one is a missing translation.

        `columns` and `role` are as in `read_layout`.

        Documents that both files name are matched by name. Line by line, a text is empty where this one is (with
        or without lines for marks), or has one empty line between the documents. Or it has as many sentences, with
        the same documents (two empty lines for one, empty lines at the end) or with no break at all. Rows that are
        empty in this table may be missing there.

        Raises:
            UserError: it has another number of sentences, or other documents.
        """
        other = read_layout(path, columns, role, may_be_empty=True)
        if other.names and None not in other.names:
            other = other.in_order(places_by_name(path, other.names, self.path, self.names))
        for places in [] if other.names else self._places():
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
        asked = [number for number, sentence in enumerate(self.sentences) if sentence]
        if len(asked) < len(self.sentences):  # rows that are empty here may have no line there
            found = dict(zip(asked, self.only(asked).align(path, columns, role), strict=True))
            return [found.get(number, "") for number in range(len(self.sentences))]
        hint = " (an empty line is a break between documents, unless --src has a sentence there)"
        raise UserError(
            f"{path}: {len(other.sentences):,} sentences in {len(other.rows):,} lines, but {self.path} has "
            f"{len(self.sentences):,} in {len(self.rows):,}; there must be one line for each of its lines"
            f"{hint if len(other.rows) == len(self.rows) else ''}"
        )

    def in_order(self, documents: Sequence[int]) -> LineLayout:
        """Return the layout with its documents in another order; it must be a table with names."""
        spans = [range(*span) for span in pairwise(self.document_offsets)]
        offsets = [0]
        for number in documents:
            offsets.append(offsets[-1] + len(spans[number]))
        rows = tuple(self.rows[i] for number in documents for i in spans[number])
        return replace(self, rows=rows, document_offsets=tuple(offsets))

    def _places(self) -> Iterator[Sequence[bool]]:
        """Yield the possible positions of sentences in files that translate this one line by line."""
        if not self.names:
            yield [row != "" for row in self.rows]
        yield self.lines
        yield self._between()

    def _between(self) -> list[bool]:
        """Return for each line of a text with one empty line between documents whether it is a sentence."""
        between: list[bool] = []
        for begin, end in pairwise(self.document_offsets):
            between += [False] * (begin > 0) + [True] * (end - begin)
        return between


def read_layout(path: Path, columns: Columns = ANY, role: str = "target", *, may_be_empty: bool = False) -> LineLayout:
    """Read the sentences and documents of a text file, or of a table's column `role`; `may_be_empty` permits no text.

    Raises:
        UserError: the file cannot be read, is not valid UTF-8 text, or has no sentence.
    """
    rows: list[str] = []
    lines: list[bool] = []
    names: list[str | None] = []
    offsets = [0]
    sentences = 0
    for item in side_lines(path, columns, role):
        line = DOCUMENT if isinstance(item, DocumentStart) else item.strip()
        if isinstance(item, DocumentStart):
            names.append(item.name)
            sentence = False
        else:
            sentence = bool(names) or line not in ("", DOCUMENT, PARAGRAPH)
        if not sentence and line != PARAGRAPH and offsets[-1] != sentences:
            offsets.append(sentences)
        lines.append(sentence)
        if sentence or line == "":
            rows.append(line)
            sentences += sentence
    if not any(rows) and not may_be_empty:
        raise UserError(f"{path}: holds no sentence")
    if offsets[-1] != sentences:
        offsets.append(sentences)
    return LineLayout(path, tuple(rows), tuple(offsets), tuple(lines), tuple(names))


def with_partners(
    layout: LineLayout, references: Sequence[Sequence[str]], systems: Sequence[Sequence[str]]
) -> tuple[list[int], LineLayout, Sequence[Sequence[str]], Sequence[Sequence[str]]]:
    """Leave out sentences that the layout's own file or a reference lacks; return the numbers of the others, too.

    Raises:
        UserError: nothing is left.
    """
    kept = scored_sentences([layout.sentences, *references])
    if not kept:
        raise UserError(f"{layout.path}: no sentence has a reference, expected one a line")
    if len(kept) == len(layout.sentences):
        return kept, layout, references, systems
    references, systems = ([[each[i] for i in kept] for each in texts] for texts in (references, systems))
    return kept, layout.only(kept), references, systems
