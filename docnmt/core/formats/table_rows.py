"""Tables of text row by row, in constant memory: TSV, JSONL and Parquet, also compressed."""

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
    """Where a row stands, for messages, its value in each column that was asked for, None where it has none, and the
    line that it is, where it is one."""

    place: str
    values: tuple[object, ...]
    line: str = ""


class Table(Protocol):
    """A file of rows, which is read once.

    Attributes:
        name: what messages call it. names: of its columns, `a.b` for what is called b inside of a.
    """

    name: str
    names: list[str]

    @property
    def inputs(self) -> dict[str, int | str]:
        """What `meta.json` says of the file, complete when the last row was read."""

    def rows(self, columns: Sequence[str]) -> Iterator[Row]:
        """All rows, with these columns.

        Raises:
            UserError: a row is damaged or has no such column; its place is named.
        """


def kind_of_table(name: str) -> str | None:
    """`.tsv`, `.jsonl` or `.parquet`, by the end of a name that may also end in `.gz` or `.zst`; None: no table."""
    for ending in ENDINGS:
        name = name.removesuffix(ending)
    return next((kind for kind in KINDS if name.endswith(kind)), None)


def open_table(
    path: Path, has_header: Callable[[Sequence[str]], bool], progress: Callable[[int], object] | None = None
) -> Table:
    """The table that a file is by its name.

    Args:
        has_header: says of the first row of a TSV file whether it names the columns.

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
        UserError: there is no line.
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
        """As `Table.inputs`."""
        return {"bytes": self._lines.bytes, "lines": self._lines.lines, "sha256": self._lines.sha256}


class TsvTable(_LineTable):
    """Cells between tabs, without quotes; columns without a header are called 1, 2, …"""

    def __init__(self, lines: TextLines, has_header: Callable[[Sequence[str]], bool]) -> None:
        super().__init__(lines)
        cells = self._first[1].split("\t")
        self.header = has_header(cells)
        self.names = cells if self.header else [str(number) for number in range(1, len(cells) + 1)]

    def rows(self, columns: Sequence[str]) -> Iterator[Row]:
        """As `Table.rows`."""
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
    """A JSON object a line; the columns are those of the first one."""

    def __init__(self, lines: TextLines) -> None:
        super().__init__(lines)
        self.names = list(_names(self._object(*self._first)))

    def rows(self, columns: Sequence[str]) -> Iterator[Row]:
        """As `Table.rows`."""
        for number, line in self._rows:
            row = self._object(number, line)
            try:
                yield Row(f"{self.name}:{number}", tuple(value_of(row, name) for name in columns), line)
            except KeyError as error:
                raise UserError(f"{self.name}:{number}: has no '{error.args[0]}', as the first line has") from error

    def _object(self, number: int, line: str) -> Mapping[str, object]:
        """
        Raises:
            UserError: the line is no JSON object.
        """
        row = parse_json(line, f"{self.name}:{number}")
        if not isinstance(row, dict):
            raise UserError(f"{self.name}:{number}: expected a JSON object, got {line[:40]}")
        return row


def value_of(row: Mapping[str, object], name: str) -> object:
    """What stands in a column; `a.b` is b inside of column a, unless a column has that name.

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
