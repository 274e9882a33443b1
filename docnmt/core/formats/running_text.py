"""Reading of documents row by row, and writing of their translations in the same rows."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from docnmt.core.corpus import Blank, Document, Facts, Sentence
from docnmt.core.data_options import Columns
from docnmt.core.formats.parallel_table import BREAKS, choose_columns, is_header, label_of, text_of
from docnmt.core.formats.table_rows import JsonlTable, TsvTable
from docnmt.core.lines import TextLines, is_blank
from docnmt.core.read_corpus import read_text
from docnmt.runtime.errors import UserError
from docnmt.runtime.languages import joined

#: The notation of a line break inside a line.
BREAK = "\\n"
#: The column of translations in tables.
HYPOTHESIS = "hypothesis"
_RENAME = "the translation would stand there: rename it or take it out"
Split = Callable[[str], list[str]]


@dataclass
class RunningText:
    """Documents as sentences, with the rows of the input that contain them.

    Attributes:
        documents: in order. rows: for each row of the input, the number of sentences of each of its lines.
        frames: one per row, which turns its translation with line breaks into a line of output. head: the first line.
    """

    documents: list[Document] = field(default_factory=list)
    rows: list[list[int]] = field(default_factory=list)
    frames: list[Callable[[str], str]] = field(default_factory=list)
    head: str | None = None

    @classmethod
    def of(cls, counts: Sequence[int]) -> RunningText:
        """Return rows of one line with these numbers of sentences, written unchanged."""
        return cls(rows=[[count] for count in counts], frames=[str] * len(counts))

    @classmethod
    def together(cls, parts: Iterable[RunningText]) -> RunningText:
        """Concatenate parts of one input."""
        whole = cls()
        for part in parts:
            whole.documents += part.documents
            whole.rows += part.rows
            whole.frames += part.frames
            whole.head = part.head if whole.head is None else whole.head
        return whole

    @property
    def size(self) -> int:
        """The number of characters, plus one for each row."""
        return len(self.rows) + sum(len(text) for document in self.documents for text in document.sentences)

    def joined(self, translations: Iterator[str]) -> Iterator[str]:
        """Yield the lines of output: the translations of a line's sentences are joined (`languages.joined`)."""
        if self.head is not None:
            yield self.head
        for counts, frame in zip(self.rows, self.frames, strict=True):
            yield frame("\n".join(joined(itertools.islice(translations, count)) for count in counts))


class _Open:
    """A document to which rows are still added."""

    def __init__(self) -> None:
        self._sentences: list[str] = []
        self._units: list[tuple[str, ...]] = []
        self._rows = RunningText()

    @property
    def empty(self) -> bool:
        """True if there is no row."""
        return not self._rows.rows

    def row(
        self, lines: Sequence[Sequence[str]], frame: Callable[[str], str] = str, units: tuple[str, ...] = ()
    ) -> None:
        """Add a row with the sentences of each of its lines, all in the same units."""
        self._sentences += itertools.chain.from_iterable(lines)
        self._units += [units] * sum(map(len, lines))
        self._rows.rows.append([len(each) for each in lines])
        self._rows.frames.append(frame)

    def close(self, *, units: bool = False) -> RunningText:
        """Return the rows with this document, which may be empty; `units` says if its sentences' units are known."""
        document = Document(tuple(self._sentences), tuple(self._units) if units else ())
        return replace(self._rows, documents=[document])


def of_sentences(lines: TextLines, split: Split = lambda line: [line]) -> Iterator[RunningText]:
    """Read the plain form of a corpus, a sentence per line; yield each document at its end.

    `split` may divide a sentence that is too long.

    A document ends at an empty line or at `<d>`; marks are written as an empty line between two documents.
    Paragraphs are known from the first document on that has a line `<p>`.

    Raises:
        UserError: the text is malformed; the message names the line.
    """
    facts, text = Facts(), _Open()
    for event in read_text([lines], facts):
        if isinstance(event, Sentence):
            text.row([split(event.texts[0])], units=event.units)
        elif not text.empty:
            text.row([[]])
            yield text.close(units=facts.levels)
            text = _Open()
        elif isinstance(event, Blank):
            yield RunningText.of([0])
    if not text.empty:
        yield text.close(units=facts.levels)


def of_documents(lines: TextLines, split: Split) -> Iterator[RunningText]:
    r"""Read a document per line, whose own lines are separated by `\n`, two characters, as in the output."""
    for line in lines:
        text = _Open()
        text.row([split(part) for part in line.split(BREAK)], lambda found: found.replace("\n", BREAK))
        yield text.close()


def of_table(lines: TextLines, kind: str, given: Columns, language: str, split: Split) -> Iterator[RunningText]:
    """Read the source column of a TSV or JSONL file; each row is written with its translation in an additional column.

    Yield each document at its end: where a row begins another one, has no text, or is a whole document.

    Args:
        kind: `tsv` or `jsonl`. given: the columns of `--columns`.

    Raises:
        UserError: a row is damaged, or the source column is unknown.
    """
    languages = (language, "")
    table = JsonlTable(lines) if kind == "jsonl" else TsvTable(lines, lambda cells: is_header(cells, given, languages))
    columns, text = choose_columns(table, given, languages), _Open()
    if isinstance(table, TsvTable) and table.header:
        if HYPOTHESIS in table.names:
            raise UserError(f"{lines.name}:1: there is a column '{HYPOTHESIS}' already; {_RENAME}")
        yield RunningText(head="\t".join([*table.names, HYPOTHESIS]))
    before: tuple[str, ...] | None = None  # the document of the last row; None: it has ended
    for row in table.rows([*columns.source, *columns.document]):
        cell, document = row.values[0], tuple(label_of(value, row.place) for value in row.values[1:])
        whole = isinstance(cell, list) and not document
        texts = [text_of(each, row.place) for each in (cell if isinstance(cell, list) else [cell])]
        found = [part for each in texts for part in BREAKS.split(each)]
        if not text.empty and (whole or document != before):
            yield text.close()
            text = _Open()
        frame = _framed_json(row.line, row.place) if kind == "jsonl" else partial(_tsv_row, row.line)
        text.row([split(line) for line in found], frame)
        before = document if not whole and (document or not all(map(is_blank, found))) else None
        if before is None:
            yield text.close()
            text = _Open()
    if not text.empty:
        yield text.close()


def _framed_json(line: str, place: str) -> Callable[[str], str]:
    """Return a function that adds the translation to a JSON row.

    Raises:
        UserError: the row has a translation already.
    """
    if HYPOTHESIS in json.loads(line):
        raise UserError(f"{place}: the row has a '{HYPOTHESIS}' already; {_RENAME}")
    own = line.rstrip().removesuffix("}").rstrip()  # as written: 1.10 stays 1.10
    return lambda translation: f'{own}, "{HYPOTHESIS}": {json.dumps(translation, ensure_ascii=False)}}}'


def _tsv_row(line: str, translation: str) -> str:
    return f"{line}\t{translation}" if line else line
