"""Reading of a parallel corpus in tables: each row is a sentence, a paragraph or a whole document."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple, replace
from pathlib import Path

from docnmt.core.corpus import Blank, CorpusEnd, DocumentStart, Event, Facts, Sentence
from docnmt.core.data_options import Columns, complete, without_header
from docnmt.core.formats.linked_documents import linked
from docnmt.core.formats.table_rows import Table, open_table
from docnmt.core.lines import half_character
from docnmt.runtime import languages
from docnmt.runtime.errors import UserError
from docnmt.runtime.languages import joined

#: The line breaks in a cell.
BREAKS = re.compile(r"\r\n|\r|\n")
Texts = tuple[str, ...]


def read_tables(
    paths: Sequence[Path],
    given: Columns,
    languages: tuple[str, str],
    facts: Facts,
    progress: Callable[[int], object] | None = None,
) -> Iterator[Event]:
    """Yield the sentences of tables, one file after the other.

    Args:
        given: the columns of `--columns`; others are found by the names that known corpora use.

    Raises:
        UserError: a file is damaged, lacks the columns, or a row has other content; the message names its place.
    """
    reader = _Reader(facts)
    for path in paths:
        table = open_table(path, lambda cells: is_header(cells, given, languages), progress)
        columns = replace(choose_columns(table, given, languages), hypothesis=())
        facts.notes.append(f"{path}: columns {columns}")
        yield from reader.events(table, columns)
        facts.inputs[str(path)] = table.inputs
    facts.notes += reader.notes()


def is_header(cells: Sequence[str], given: Columns, languages: tuple[str, str]) -> bool:
    """Return True if the first row of a TSV file names its columns."""
    known = complete(given, cells, languages)
    return not given.numbered and (given != Columns() or bool(known.source or known.target or known.hypothesis))


def choose_columns(table: Table, given: Columns, languages: tuple[str, str], needed: str = "source") -> Columns:
    """Return the columns of a table: those `given`, and known ones.

    Raises:
        UserError: the table lacks them, or no column is known to have the role `needed`.
    """
    if not table.names:
        raise UserError(f"{table.name}: is empty, expected a row a line")
    columns = complete(given, table.names, languages)
    bare = list(table.names) == [str(number) for number in range(1, len(table.names) + 1)]
    if bare and given == Columns():
        columns = without_header(len(table.names)) or columns
    there = ", ".join(table.names[:20])
    missing = [name for names in astuple(columns) for name in names if name not in table.names]
    if missing:
        raise UserError(f"{table.name}: has no column '{missing[0]}' (--columns); there are {there}")
    if columns.alignment and len(columns.target) != 1:
        raise UserError(f"{table.name}: expected one target beside the alignment (--columns target=NAME)")
    if not getattr(columns, needed):
        raise UserError(
            f"{table.name}: which column is the {needed}? There are {there}; name them, or number them where there is "
            f"no header: --columns document=NAME {needed}=NAME"
        )
    return columns


class _Reader:
    """Turns rows into sentences and counts the changes it makes."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._document: Texts | None = None
        self._seen: set[int] = set()
        self._counts: dict[str, tuple[int, str]] = {}  # kind of change: how often, and its first place

    def events(self, table: Table, columns: Columns) -> Iterator[Event]:
        """Yield the sentences and marks of a table's rows."""
        units = len(columns.section + columns.paragraph)
        self._facts.levels |= units > 0
        texts = len(columns.source + columns.target)
        for row in table.rows([name for names in astuple(columns) for name in names]):
            first = len(columns.document)
            labels = tuple(label_of(value, row.place) for value in row.values[: first + units])
            cells: Sequence[object] = row.values[first + units : first + units + texts]
            if columns.alignment:
                backwards = columns.source[0].startswith("tgt")
                pairs = linked(cells[0], cells[1], row.values[-1], row.place, backwards=backwards)
                cells = list(zip(*pairs, strict=True))
            whole = any(isinstance(cell, (list, tuple)) for cell in cells)
            if columns.document and labels[:first] != self._document:
                yield self._begin(labels[:first], row.place)
            elif whole and not columns.document:
                yield DocumentStart()
            sentences = [each for each in self._sentences(cells, row.place) if any(each)]
            inside = labels[first:] or ("",)  # lines belong to no known unit, as in plain text
            yield from (Sentence(each, inside, place=row.place) for each in sentences)
            if not sentences and columns.document:
                self._count("rows without text are left out", row.place)
            elif not sentences:
                yield Blank()
        yield CorpusEnd(units > 0)

    def _begin(self, document: Texts, place: str) -> DocumentStart:
        self._document = document
        if hash(document) in self._seen:
            self._count("documents begin a second time, with others between, and are divided there", place)
        self._seen.add(hash(document))
        return DocumentStart(" ".join(document))

    def _sentences(self, cells: Sequence[object], place: str) -> list[Texts]:
        """Return the sentences of a row: list items, lines if all sides have equally many, or one per side.

        Raises:
            UserError: the cells are neither texts nor equally long lists of texts.
        """
        if any(isinstance(cell, (list, tuple)) for cell in cells):
            sides = [
                [text_of(each, place) for each in cell] if isinstance(cell, (list, tuple)) else [] for cell in cells
            ]
            if len({len(side) for side in sides}) > 1:
                got = ", ".join(str(len(side)) for side in sides)
                raise UserError(f"{place}: expected lists of equally many sentences on all sides, got {got}")
            return [tuple(one_line(text) for text in texts) for texts in zip(*sides, strict=True)]
        texts = [text_of(cell, place) for cell in cells]
        lines = [[line.strip() for line in BREAKS.split(text) if line.strip()] for text in texts]
        counts = {len(side) for side in lines if side}
        if not any(BREAKS.search(text) for text in texts):
            return [tuple(text if side else "" for text, side in zip(texts, lines, strict=True))]
        if len(counts) == 1 and (most := max(counts)) > 1:
            self._count("rows are divided at their line breaks, which are equally many on all sides", place)
            return list(zip(*(side or [""] * most for side in lines), strict=True))
        self._count("rows hold line breaks, not equally many on all sides, which are joined", place)
        return [tuple(map(joined, lines))]

    def _count(self, what: str, place: str) -> None:
        number, first = self._counts.get(what, (0, place))
        self._counts[what] = (number + 1, first)

    def notes(self) -> list[str]:
        """Return a note on each kind of change with its number."""
        return [f"{number:,} {what} (the first: {first})" for what, (number, first) in self._counts.items()]


def label_of(value: object, place: str) -> str:
    """Return the name of a document or unit.

    Raises:
        UserError: the value is neither a text nor a number.
    """
    if value is None or (isinstance(value, (str, int, float)) and not isinstance(value, bool)):
        return "" if value is None else str(value)
    raise UserError(f"{place}: expected a name or a number of a document, section or paragraph, got {str(value)[:40]}")


def text_of(value: object, place: str) -> str:
    """Return a cell's text; a missing one is empty.

    Raises:
        UserError: the value is no text, or none that a file can store.
    """
    if value is None:
        return ""
    if not isinstance(value, str):
        raise UserError(f"{place}: expected a text as source or target, got {str(value)[:40]}")
    if "\0" in value or (fault := half_character(value)):
        raise UserError(f"{place}: {'NUL; this is not plain text: remove it' if chr(0) in value else fault}")
    return value


def one_line(text: str) -> str:
    """Return a list's sentence as one line: lines are joined, and white space alone becomes ""."""
    return languages.one_line(text) if BREAKS.search(text) else text if text.strip() else ""
