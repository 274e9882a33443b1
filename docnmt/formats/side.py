"""One side of a corpus, as the lines that it has or would have in plain text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from docnmt.errors import UserError
from docnmt.formats.columns import Columns
from docnmt.formats.parallel_table import BREAKS, choose_columns, is_header, label_of, text_of
from docnmt.formats.rows import Table, kind_of_table, open_table
from docnmt.formats.text import TextLines

_UNKNOWN = ("", "")  # languages


def side_lines(path: Path, given: Columns, role: str, *, opening: str | None = None) -> Iterable[str]:
    """The lines of a text file; or of a table its column `role`, a row a line, with empty lines between documents.

    Line breaks in a row become spaces.

    Args:
        opening: a line that opens every document of a table, instead of the empty lines.

    Raises:
        UserError: the file is damaged, or has no such column.
    """
    if kind_of_table(path.name) is None:
        return TextLines(path)
    table = open_table(path, lambda cells: is_header(cells, given, _UNKNOWN))
    columns = choose_columns(table, given, _UNKNOWN, role)
    if len(getattr(columns, role)) > 1:
        raise UserError(f"{path}: expected one column, got {role}={','.join(getattr(columns, role))} (--columns)")
    return _rows(table, columns, role, opening)


def _rows(table: Table, columns: Columns, role: str, opening: str | None) -> Iterator[str]:
    before: tuple[str, ...] | None = None
    for row in table.rows([getattr(columns, role)[0], *columns.document]):
        document = tuple(label_of(value, row.place) for value in row.values[1:])
        if document != before:
            yield from ([""] if before is not None else []) if opening is None else [opening]
        before = document
        yield " ".join(BREAKS.sub(" ", text_of(row.values[0], row.place)).split())
