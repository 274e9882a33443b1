"""Tables of text, read row by row in constant memory: TSV, JSONL and Parquet, also compressed."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from docnmt.core.lines import ENDINGS, TextLines, is_blank
from docnmt.runtime.errors import UserError
from docnmt.runtime.structured import parse_json

KINDS = (".tsv", ".jsonl", ".parquet")


class Row(NamedTuple):
    """A row: its place, for messages, its value in each requested column or None, and its line of text, if it
    is one."""

    place: str
    values: tuple[object, ...]
    line: str = ""


class Table(Protocol):
    """A file of rows, which is read once.

    Attributes:
        name: its name in messages. names: of its columns, `a.b` for b inside column a; none, if the file is empty.
    """

    name: str
    names: list[str]

    @property
    def inputs(self) -> dict[str, int | str]:
        """The file's entry in `meta.json`, complete after the last row."""

    def rows(self, columns: Sequence[str]) -> Iterator[Row]:
        """Yield all rows, with these columns.

        Raises:
            UserError: a row is damaged or lacks a column; the message names its place.
        """


def kind_of_table(name: str) -> str | None:
    """Return `.tsv`, `.jsonl` or `.parquet` by the end of a name, before any `.gz` or `.zst`; None: it is no table."""
    for ending in ENDINGS:
        name = name.removesuffix(ending)
    return next((kind for kind in KINDS if name.endswith(kind)), None)


def open_table(
    path: Path,
    has_header: Callable[[Sequence[str]], bool] = lambda cells: True,
    progress: Callable[[int], object] | None = None,
) -> Table:
    """Open a table of the kind that its name says: TSV, if it does not end in `.jsonl` or `.parquet`.

    Args:
        has_header: tells whether the first row of a TSV file names the columns; it does by default.

    Raises:
        UserError: the file cannot be read, or is damaged.
    """
    if kind_of_table(path.name) == ".parquet":
        from docnmt.core.formats.parquet import ParquetTable

        return ParquetTable(path, progress)
    lines = TextLines(path, progress=progress)
    return JsonlTable(lines) if kind_of_table(path.name) == ".jsonl" else TsvTable(lines, has_header)


def text_rows(
    table: Table, columns: Sequence[str], *, numbers: Sequence[str] = ()
) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the place of each row and its text in each column, where columns have names that are known beforehand.

    Args:
        numbers: columns that may hold whole numbers, too.

    Raises:
        UserError: a column is missing, or a row is damaged or has no text there; its place is named.
    """
    if table.names and (missing := [name for name in columns if name not in table.names]):
        got = ", ".join(table.names)[:200]
        raise UserError(f"{table.name}:1: has no '{missing[0]}'; expected the columns {', '.join(columns)}, got {got}")
    for row in table.rows(columns):
        for name, value in zip(columns, row.values, strict=True):
            whole = name in numbers and isinstance(value, int) and not isinstance(value, bool)
            if not whole and not isinstance(value, str):
                expected = "a text or a whole number" if name in numbers else "a text"
                raise UserError(f"{row.place}: '{name}' is {str(value)[:40]}, expected {expected}")
        yield row.place, dict(zip(columns, map(str, row.values), strict=True))


class _LineTable:
    """A table whose rows are lines."""

    def __init__(self, lines: TextLines) -> None:
        self.name, self._lines = lines.name, lines
        rows = enumerate(lines, 1)
        self._first = list(itertools.islice(rows, 1))
        self._rows: Iterator[tuple[int, str]] = itertools.chain(self._first, rows)

    @property
    def inputs(self) -> dict[str, int | str]:
        """Size and hash for `meta.json` (see `Table.inputs`)."""
        return {"bytes": self._lines.bytes, "lines": self._lines.lines, "sha256": self._lines.sha256}


class TsvTable(_LineTable):
    """A table of cells between tabs, without quotes; columns without a header are named 1, 2, …"""

    def __init__(self, lines: TextLines, has_header: Callable[[Sequence[str]], bool]) -> None:
        super().__init__(lines)
        cells = [cell for _, line in self._first for cell in line.split("\t")]
        self.header = has_header(cells)
        self.names = cells if self.header else [str(number) for number in range(1, len(cells) + 1)]

    def rows(self, columns: Sequence[str]) -> Iterator[Row]:
        """Yield all rows, with these columns (see `Table.rows`)."""
        if twice := [name for name in columns if self.names.count(name) > 1]:
            raise UserError(f"{self.name}:1: two columns are called '{twice[0]}'; rename one of them")
        places = [self.names.index(name) for name in columns if self.names]
        for number, line in itertools.islice(self._rows, int(self.header), None):
            cells = line.split("\t")
            if len(cells) != len(self.names):
                if not is_blank(line):
                    wide = f"expected {len(self.names)} tab-separated columns as in the first row, got {len(cells)}"
                    raise UserError(f"{self.name}:{number}: {wide}")
                cells, line = [""] * len(self.names), ""
            yield Row(f"{self.name}:{number}", tuple(cells[place] for place in places), line)


class JsonlTable(_LineTable):
    """A table of JSON objects, one per line; the columns are those of the first one."""

    def __init__(self, lines: TextLines) -> None:
        super().__init__(lines)
        self._rows = ((number, line) for number, line in self._rows if not is_blank(line))
        self._first = list(itertools.islice(self._rows, 1))
        self._rows = itertools.chain(self._first, self._rows)
        self.names = [name for number, line in self._first for name in _names(self._object(number, line))]

    def rows(self, columns: Sequence[str]) -> Iterator[Row]:
        """Yield all rows, with these columns (see `Table.rows`); empty lines are none."""
        for number, line in self._rows:
            row = self._object(number, line)
            try:
                yield Row(f"{self.name}:{number}", tuple(value_of(row, name) for name in columns), line)
            except KeyError as error:
                raise UserError(f"{self.name}:{number}: has no '{error.args[0]}'; every row needs it") from error

    def _object(self, number: int, line: str) -> Mapping[str, object]:
        """Parse a line.

        Raises:
          UserError: the line is no JSON object.
        """
        row = parse_json(line, f"{self.name}:{number}")
        if not isinstance(row, dict):
            raise UserError(f"{self.name}:{number}: expected a JSON object, got {line[:40]}")
        return row


def value_of(row: Mapping[str, object], name: str) -> object:
    """Return the value in a column; `a.b` is b inside column a, unless a column has that name.

    Raises:
        KeyError: there is no such column.
    """
    if name in row:
        return row[name]
    outer, dot, inner = name.partition(".")
    inside = row.get(outer) if dot else None
    if not isinstance(inside, Mapping):
        raise KeyError(name)
    return value_of(inside, inner)


def _names(row: Mapping[str, object], before: str = "") -> Iterator[str]:
    for name, value in row.items():
        yield before + name
        if isinstance(value, Mapping):
            yield from _names(value, f"{before}{name}.")
