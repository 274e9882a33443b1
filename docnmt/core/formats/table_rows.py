"""Tables of text, read row by row in constant memory: TSV, JSONL and Parquet, also compressed."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from docnmt.core.formats.file_blocks import ENDINGS
from docnmt.core.formats.text_lines import TextLines
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
        name: its name in messages. names: of its columns, `a.b` for b inside column a.
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
    path: Path, has_header: Callable[[Sequence[str]], bool], progress: Callable[[int], object] | None = None
) -> Table:
    """Open a table of the kind that its name says.

    Args:
        has_header: tells whether the first row of a TSV file names the columns.

    Raises:
        UserError: the file cannot be read, or is damaged.
    """
    if kind_of_table(path.name) == ".parquet":
        from docnmt.core.formats.parquet import ParquetTable

        return ParquetTable(path, progress)
    lines = TextLines(path, progress=progress)
    return JsonlTable(lines) if kind_of_table(path.name) == ".jsonl" else TsvTable(lines, has_header)


class _LineTable:
    """A table whose rows are lines.

    Raises:
        UserError: the file is empty.
    """

    def __init__(self, lines: TextLines) -> None:
        self.name, self._lines = lines.name, lines
        rows = enumerate(lines, 1)
        first = next(rows, None)
        if first is None:
            raise UserError(f"{self.name}: is empty, expected a row a line")
        self._first, self._rows = first, itertools.chain([first], rows)

    @property
    def inputs(self) -> dict[str, int | str]:
        """Size and hash for `meta.json` (see `Table.inputs`)."""
        return {"bytes": self._lines.bytes, "lines": self._lines.lines, "sha256": self._lines.sha256}


class TsvTable(_LineTable):
    """A table of cells between tabs, without quotes; columns without a header are named 1, 2, …"""

    def __init__(self, lines: TextLines, has_header: Callable[[Sequence[str]], bool]) -> None:
        super().__init__(lines)
        cells = self._first[1].split("\t")
        self.header = has_header(cells)
        self.names = cells if self.header else [str(number) for number in range(1, len(cells) + 1)]

    def rows(self, columns: Sequence[str]) -> Iterator[Row]:
        """Yield all rows, with these columns (see `Table.rows`)."""
        if twice := [name for name in columns if self.names.count(name) > 1]:
            raise UserError(f"{self.name}:1: two columns are called '{twice[0]}'; rename one of them")
        places = [self.names.index(name) for name in columns]
        for number, line in itertools.islice(self._rows, int(self.header), None):
            cells = line.split("\t")
            if len(cells) != len(self.names):
                if line:
                    wide = f"expected {len(self.names)} tab-separated columns as in the first row, got {len(cells)}"
                    raise UserError(f"{self.name}:{number}: {wide}")
                cells = [""] * len(self.names)
            yield Row(f"{self.name}:{number}", tuple(cells[place] for place in places), line)


class JsonlTable(_LineTable):
    """A table of JSON objects, one per line; the columns are those of the first one."""

    def __init__(self, lines: TextLines) -> None:
        super().__init__(lines)
        self.names = list(_names(self._object(*self._first)))

    def rows(self, columns: Sequence[str]) -> Iterator[Row]:
        """Yield all rows, with these columns (see `Table.rows`)."""
        for number, line in self._rows:
            row = self._object(number, line)
            try:
                yield Row(f"{self.name}:{number}", tuple(value_of(row, name) for name in columns), line)
            except KeyError as error:
                raise UserError(f"{self.name}:{number}: has no '{error.args[0]}', as the first line has") from error

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
