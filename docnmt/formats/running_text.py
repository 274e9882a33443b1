"""Text that is not yet divided into sentences, and what puts its translation together again."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from docnmt.formats.columns import Columns
from docnmt.formats.parallel_table import BREAKS, choose_columns, is_header, label_of, text_of
from docnmt.formats.rows import JsonlTable, TsvTable
from docnmt.formats.text import TextLines

#: What stands for a line break inside of a line.
BREAK = "\\n"
#: The column of translations in tables.
HYPOTHESIS = "hypothesis"
Split = Callable[[str], list[str]]


@dataclass
class RunningText:
    """Documents as sentences.

    Attributes:
        documents: the sentences of each. rows: of each row of the input, how many sentences each of its lines has.
        frames: what is written for each row, given its translation with line breaks. head: what is written before.
    """

    documents: list[list[str]] = field(default_factory=list)
    rows: list[list[int]] = field(default_factory=list)
    frames: list[Callable[[str], str]] = field(default_factory=list)
    head: str | None = None

    @classmethod
    def of(cls, counts: Sequence[int]) -> RunningText:
        """Rows of a line with so many sentences each, which are written as they are."""
        return cls(rows=[[count] for count in counts], frames=[str] * len(counts))

    def add(self, lines: Sequence[str], split: Split, frame: Callable[[str], str], *, begins: bool) -> None:
        """A row, which begins a document or goes on with the last one."""
        if begins or not self.documents:
            self.documents.append([])
        sentences = [split(line) for line in lines]
        self.documents[-1] += itertools.chain.from_iterable(sentences)
        self.rows.append([len(each) for each in sentences])
        self.frames.append(frame)

    def joined(self, translations: Iterator[str]) -> Iterator[str]:
        """What to write, line by line: the translations of a line's sentences are joined by spaces."""
        if self.head is not None:
            yield self.head
        for counts, frame in zip(self.rows, self.frames, strict=True):
            lines = (" ".join(filter(None, itertools.islice(translations, count))) for count in counts)
            yield frame("\n".join(lines))


def of_documents(lines: TextLines, split: Split) -> RunningText:
    r"""A document a line, whose own lines are parted by `\n`, two characters; so it is written again."""
    text = RunningText()
    for line in lines:
        text.add(line.split(BREAK), split, lambda found: found.replace("\n", BREAK), begins=True)
    return text


def of_table(lines: TextLines, kind: str, given: Columns, language: str, split: Split) -> RunningText:
    """The source column of a TSV or JSONL file; each row is written again, with its translation in a further column.

    Args:
        kind: `tsv` or `jsonl`. given: what `--columns` says.

    Raises:
        UserError: a row is damaged, or it cannot be told which column is the source.
    """
    languages, text = (language, ""), RunningText()
    table = JsonlTable(lines) if kind == "jsonl" else TsvTable(lines, lambda cells: is_header(cells, given, languages))
    if isinstance(table, TsvTable) and table.header:
        text.head = "\t".join([*table.names, HYPOTHESIS])
    columns = choose_columns(table, given, languages)
    before: tuple[str, ...] | None = None  # the document of the last row; None: it is at its end
    for row in table.rows([*columns.source, *columns.document]):
        cell, document = row.values[0], tuple(label_of(value, row.place) for value in row.values[1:])
        whole = isinstance(cell, list)
        texts = [text_of(each, row.place) for each in (cell if isinstance(cell, list) else [cell])]
        found = [part for each in texts for part in BREAKS.split(each)]
        frame = partial(_json_row if kind == "jsonl" else _tsv_row, row.line)
        text.add(found, split, frame, begins=document != before or (whole and not document))
        before = document if document or any(found) else None
    return text


def _json_row(line: str, translation: str) -> str:
    return json.dumps({**json.loads(line), HYPOTHESIS: translation}, ensure_ascii=False)


def _tsv_row(line: str, translation: str) -> str:
    return f"{line}\t{translation}" if line else line
