"""One side of a corpus, as lines of plain text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from docnmt.core.corpus import DocumentStart
from docnmt.core.data_options import Columns
from docnmt.core.formats.parallel_table import choose_columns, is_header, label_of, one_line, text_of
from docnmt.core.formats.table_rows import Table, kind_of_table, open_table
from docnmt.core.lines import TextLines
from docnmt.runtime.errors import UserError

_UNKNOWN = ("", "")  # the languages are not known


def side_lines(path: Path, given: Columns, role: str) -> Iterable[str | DocumentStart]:
    """Return the lines of a text file; or column `role` of a table, one line per row, with a mark before each document.

    A list of texts gives one line each, and a document if the table names none; a table without either has no marks.
    Lines in a cell are joined.

    Raises:
        UserError: the file is damaged, or lacks the column.
    """
    if kind_of_table(path.name) is None:
        return TextLines(path)
    table = open_table(path, lambda cells: is_header(cells, given, _UNKNOWN))
    columns = choose_columns(table, given, _UNKNOWN, role)
    if len(getattr(columns, role)) > 1:
        raise UserError(f"{path}: expected one column, got {role}={','.join(getattr(columns, role))} (--columns)")
    return _rows(table, columns, role)


def _rows(table: Table, columns: Columns, role: str) -> Iterator[str | DocumentStart]:
    before: tuple[str, ...] | None = None
    for row in table.rows([getattr(columns, role)[0], *columns.document]):
        cell, document = row.values[0], tuple(label_of(value, row.place) for value in row.values[1:])
        whole = isinstance(cell, list)
        if document != before if document else whole:
            yield DocumentStart(" ".join(document) or None)
        before = document
        for text in (cell or [""]) if isinstance(cell, list) else [cell]:
            yield one_line(text_of(text, row.place))
