"""Tables as corpora: TSV, JSONL, Parquet, also compressed, row by row.
rows (`open_table`) → columns by their roles (`open_columns`) → documents (`read_tables`), or one side (`side_lines`)
"""

from __future__ import annotations

import itertools
import re
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import astuple, replace
from pathlib import Path
from typing import IO, Any, NamedTuple

from docnmt.core.data_options import BARE, Columns, complete
from docnmt.core.read_corpus import (
    ENDINGS,
    DocumentBuilder,
    Facts,
    OneSided,
    ParallelDocument,
    Places,
    TextLines,
    half_character,
    is_blank,
    kind_of_table,
)
from docnmt.runtime import languages
from docnmt.runtime.languages import joined
from docnmt.runtime.system import UserError, needing, parse_json

#: The line breaks in a cell.
BREAKS = re.compile(r"\r\n|\r|\n")
#: The value of a column that a row lacks.
_MISSING = object()
#: Rows of a Parquet file in memory at once; bytes of a column read at once, however large its row groups are.
_BATCH, _BUFFER = 1024, 1 << 20
#: Tells if the cells of a first row name the columns.
HasHeader = Callable[[Sequence[str]], bool]


class Row(NamedTuple):
    """A row: its place, for messages, its value in each requested column or None, its line of text, if it is one."""

    where: str
    number: int
    values: tuple[object, ...]
    line: str = ""

    @property
    def place(self) -> str:
        """The place in one text: `corpus.tsv:3`."""
        return f"{self.where}{self.number}"


class Table(ABC):
    """A file of rows, which is read once; `names` are those of its columns, `a.b` for b inside column a."""

    header = False  # is its first line one of names?

    def __init__(self, lines: TextLines) -> None:
        self.name, self.lines, self.names = lines.name, lines, list[str]()

    @property
    def inputs(self) -> dict[str, int | str]:
        """The file's entry in `meta.json`, complete after the last row."""
        return self.lines.inputs

    @abstractmethod
    def rows(self, columns: Sequence[str]) -> Iterator[Row]:
        """Yield all rows, with these columns."""


class _TsvTable(Table):
    """A table of cells between tabs, without quotes; columns without a header are named 1, 2, …"""

    def __init__(self, lines: TextLines, has_header: HasHeader) -> None:
        super().__init__(lines)
        numbered = enumerate(lines, 1)
        first = list(itertools.islice(numbered, 1))
        cells = [cell for _, line in first for cell in line.split("\t")]
        self.header = has_header(cells)
        self.names = cells if self.header else [str(number) for number in range(1, len(cells) + 1)]
        self._rows = numbered if self.header else itertools.chain(first, numbered)

    def rows(self, columns: Sequence[str]) -> Iterator[Row]:
        """Yield all rows, with these columns; those of an empty line are empty."""
        if twice := [name for name in columns if self.names.count(name) > 1]:
            raise UserError(f"{self.name}:1: two columns are called '{twice[0]}'; rename one of them")
        indices, where = [self.names.index(name) for name in columns if self.names], f"{self.name}:"
        for number, line in self._rows:
            cells = line.split("\t")
            if len(cells) != len(self.names):
                if not is_blank(line):
                    wide = f"expected {len(self.names)} tab-separated columns as in the first row, got {len(cells)}"
                    raise UserError(f"{self.name}:{number}: {wide}")
                cells, line = [""] * len(self.names), ""
            yield Row(where, number, tuple(cells[column] for column in indices), line)


class _JsonlTable(Table):
    """A table of JSON objects, one per line; the columns are those of the first one; empty lines are no rows."""

    def __init__(self, lines: TextLines) -> None:
        super().__init__(lines)
        numbered = ((number, line) for number, line in enumerate(lines, 1) if not is_blank(line))
        first = list(itertools.islice(numbered, 1))
        self._rows = itertools.chain(first, numbered)
        self.names = [name for number, line in first for name in _names(self._object(number, line))]

    def rows(self, columns: Sequence[str]) -> Iterator[Row]:
        where = f"{self.name}:"
        for number, line in self._rows:
            content = self._object(number, line)
            values = tuple(_value(content, name) for name in columns)
            if _MISSING in values:
                lacking = columns[values.index(_MISSING)]
                raise UserError(f"{self.name}:{number}: has no '{lacking}'; every row needs it")
            yield Row(where, number, values, line)

    def _object(self, number: int, line: str) -> Mapping[str, object]:
        content = parse_json(line, f"{self.name}:{number}")
        if not isinstance(content, dict):
            raise UserError(f"{self.name}:{number}: expected a JSON object, got {line[:40]}")
        return content


def _value(content: Mapping[str, object], name: str) -> object:
    """Return the value in a column, or `_MISSING`; `a.b` is b inside column a, unless a column has that name."""
    if name in content:
        return content[name]
    outer, dot, inner = name.partition(".")
    inside = content.get(outer) if dot else None
    return _value(inside, inner) if isinstance(inside, Mapping) else _MISSING


def _names(content: Mapping[str, object], before: str = "") -> Iterator[str]:
    for name, value in content.items():
        yield before + name
        if isinstance(value, Mapping):
            yield from _names(value, f"{before}{name}.")


class _ParquetTable(Table):
    """A Parquet file; one compressed as a whole is first decompressed to a temporary file."""

    def __init__(self, path: Path, progress: Callable[[int], object] | None) -> None:
        super().__init__(TextLines(path, progress=progress))
        with needing(f"{path}: reading Parquet files needs an extra", "documents"):
            import pyarrow
            import pyarrow.parquet
        self._failures = (pyarrow.ArrowException, OSError)
        content: Path | IO[bytes] = path
        if path.suffix in ENDINGS:
            content = tempfile.TemporaryFile()  # noqa: SIM115  (it ends with this object)
        for block in self.lines.blocks():  # the hash is computed, too
            if not isinstance(content, Path):
                content.write(block)
        try:
            self._file: Any = pyarrow.parquet.ParquetFile(content, pre_buffer=False, buffer_size=_BUFFER)
        except self._failures as error:
            raise UserError(f"{path}: not a Parquet file, or damaged: {' '.join(str(error).split())[:200]}") from error
        schema = self._file.schema
        inner = (schema.column(number).path for number in range(len(schema.names)))
        self.names = list(dict.fromkeys([*self._file.schema_arrow.names, *inner]))

    @property
    def inputs(self) -> dict[str, int | str]:
        return {**self.lines.inputs, "lines": int(self._file.metadata.num_rows)}

    def rows(self, columns: Sequence[str]) -> Iterator[Row]:
        """Yield all rows, with these columns; inside a null column they are None."""
        outer = self._file.schema_arrow.names
        needed = sorted({name if name in outer else name.partition(".")[0] for name in columns})
        number, where = 0, f"{self.name}: row "
        try:
            for batch in self._file.iter_batches(_BATCH, columns=needed):
                for number, content in enumerate(batch.to_pylist(), number + 1):  # noqa: B020  (it goes on counting)
                    values = (_value(content, name) for name in columns)
                    yield Row(where, number, tuple(None if value is _MISSING else value for value in values))
        except self._failures as error:
            problem = " ".join(str(error).split())[:200]
            raise UserError(f"{self.name}: damaged after row {number}: {problem}") from error


def open_table(
    source: Path | TextLines,
    has_header: HasHeader = lambda cells: True,
    progress: Callable[[int], object] | None = None,
    *,
    kind: str | None = None,
) -> Table:
    """Open a table of a `kind`, or of that which its name says, else TSV."""
    kind = kind or kind_of_table(source.name)
    if kind == ".parquet" and isinstance(source, Path):
        return _ParquetTable(source, progress)
    lines = TextLines(source, progress=progress) if isinstance(source, Path) else source
    return _JsonlTable(lines) if kind == ".jsonl" else _TsvTable(lines, has_header)


def text_rows(
    table: Table, columns: Sequence[str], *, numbers: Sequence[str] = ()
) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the place of each row and its text in these columns; `numbers` are those that may hold whole numbers."""
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


def open_columns(
    source: Path | TextLines,
    given: Columns,
    languages: tuple[str, str] = ("", ""),
    needed: str = "source",
    progress: Callable[[int], object] | None = None,
    *,
    kind: str | None = None,
) -> tuple[Table, Columns]:
    """Open a table; return it with its columns by their roles: those `given`, and known ones. `languages` are those of
    source and target, "" if unknown; `needed` is a role that must be there."""

    def has_header(cells: Sequence[str]) -> bool:
        known = complete(given, cells, languages)
        return not given.numbered and (given != Columns() or bool(known.source or known.target or known.hypothesis))

    table = open_table(source, has_header, progress, kind=kind)
    if not table.names:
        raise UserError(f"{table.name}: is empty, expected a row a line")
    columns = complete(given, table.names, languages)
    bare = table.names == [str(number) for number in range(1, len(table.names) + 1)]
    if bare and given == Columns():
        columns = BARE.get(len(table.names), columns)
    available = ", ".join(table.names[:20])
    missing = [name for names in astuple(columns) for name in names if name not in table.names]
    if missing:
        raise UserError(f"{table.name}: has no column '{missing[0]}' (--columns); there are {available}")
    if columns.alignment and len(columns.target) != 1:
        raise UserError(f"{table.name}: expected one target beside the alignment (--columns target=NAME)")
    if not getattr(columns, needed):
        raise UserError(
            f"{table.name}: which column is the {needed}? There are {available}; name them, or number them where there "
            f"is no header: --columns document=NAME {needed}=NAME"
        )
    return table, columns


# A parallel corpus in tables: each row is a sentence, a paragraph or a whole document.

Texts = tuple[str, ...]


def read_tables(
    paths: Sequence[Path],
    given: Columns,
    languages: tuple[str, str],
    facts: Facts,
    one_sided: OneSided = "read",
    progress: Callable[[int], object] | None = None,
) -> Iterator[ParallelDocument]:
    """Yield the documents of tables, one file after the other; columns not `given` are found by their names."""
    builder, changes = DocumentBuilder(paths[0], one_sided, facts), Places()
    document: Texts | None = None  # the name of the open one
    seen: set[int] = set()  # hashes of names
    for path in paths:
        table, columns = open_columns(path, given, languages, progress=progress)
        columns = replace(columns, hypothesis=())
        facts.notes.append(f"{path}: columns {columns}")
        named, levels = len(columns.document), len(columns.section + columns.paragraph)
        texts = len(columns.source + columns.target)
        builder.known = levels > 0
        facts.levels |= levels > 0
        for row in table.rows([name for names in astuple(columns) for name in names]):
            labels = tuple(label_of(value, row.place) for value in row.values[: named + levels])
            cells: Sequence[object] = row.values[named + levels : named + levels + texts]
            if columns.alignment:
                backwards = columns.source[0].startswith("tgt")
                pairs = _linked(cells[0], cells[1], row.values[-1], row.place, backwards=backwards)
                cells = list(zip(*pairs, strict=True))
            if named and labels[:named] != document:
                document = labels[:named]
                if hash(document) in seen:
                    changes.count(
                        "documents begin a second time, with others between, and are divided there", row.place
                    )
                seen.add(hash(document))
                yield from builder.mark(" ".join(document))
            elif not named and any(isinstance(cell, (list, tuple)) for cell in cells):
                yield from builder.mark()
            sentences = [sentence for sentence in _sentences(cells, row, changes) if any(sentence)]
            for sentence in sentences:
                units = labels[named:] or ("",)  # lines belong to no known unit, as in plain text
                builder.row(sentence, units, row.where, row.number)
            if not sentences and named:
                changes.count("rows without text are left out", row.place)
            elif not sentences:
                yield from builder.blank()
        facts.inputs[str(path)] = table.inputs
    facts.notes += [f"{count:,} {change} (the first: {first})" for change, (count, first) in changes.items()]
    yield from builder.finish()


def _sentences(cells: Sequence[object], row: Row, changes: Places) -> list[Texts]:
    """Return the sentences of a row: list items, lines if all sides have equally many, or one per side."""
    if any(isinstance(cell, (list, tuple)) for cell in cells):
        lists = [
            [text_of(text, row.place) for text in cell] if isinstance(cell, (list, tuple)) else [] for cell in cells
        ]
        if len({len(side) for side in lists}) > 1:
            got = ", ".join(str(len(side)) for side in lists)
            raise UserError(f"{row.place}: expected lists of equally many sentences on all sides, got {got}")
        return [tuple(map(one_line, texts)) for texts in zip(*lists, strict=True)]
    texts = [text_of(cell, row.place) for cell in cells]
    sides = [[line.strip() for line in BREAKS.split(text) if line.strip()] for text in texts]
    if not any(BREAKS.search(text) for text in texts):
        return [tuple(text if lines else "" for text, lines in zip(texts, sides, strict=True))]
    counts = {len(lines) for lines in sides if lines}
    if len(counts) == 1 and (most := max(counts)) > 1:
        changes.count("rows are divided at their line breaks, which are equally many on all sides", row.place)
        return list(zip(*(lines or [""] * most for lines in sides), strict=True))
    changes.count("rows hold line breaks, not equally many on all sides, which are joined", row.place)
    return [tuple(map(joined, sides))]


def _linked(source: Any, target: Any, links: Any, where: str, *, backwards: bool) -> list[tuple[str, str]]:
    """Return the pairs of a document in DocHPLT's form, by the source, then target sentences alone; "" is none."""
    names = ("tgt", "src") if backwards else ("src", "tgt")
    try:
        sides = [dict(zip(map(str, side["ids"]), side["sentences"], strict=True)) for side in (source, target)]
        pairs = [[[str(key) for key in link[name] if str(key) in side] for name, side in zip(names, sides, strict=True)]
                 for link in links]  # fmt: skip
        if not all(isinstance(text, str) for side in sides for text in side.values()):
            raise TypeError
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(
            f"{where}: expected source and target with lists 'ids' and 'sentences' of equally many texts, and an "
            f"alignment that is a list of links with lists 'src' and 'tgt', got {str(source)[:40]}"
        ) from error
    order = [{key: number for number, key in enumerate(side)} for side in sides]
    alone = [dict(side) for side in sides]
    by_source: list[tuple[int, str, str]] = []  # each pair, and the number of its first source sentence
    for pair in pairs:
        if all(pair):
            ends = [sorted(keys, key=numbers.__getitem__) for keys, numbers in zip(pair, order, strict=True)]
            for keys, rest in zip(ends, alone, strict=True):
                if any(rest.pop(key, None) is None for key in keys):
                    raise UserError(f"{where}: a sentence stands in two links of the alignment, expected one at most")
            one, other = (joined(side[key] for key in keys) for keys, side in zip(ends, sides, strict=True))
            by_source.append((order[0][ends[0][0]], one, other))
    by_source += [(order[0][key], text, "") for key, text in alone[0].items()]
    by_source.sort(key=lambda pair: pair[0])
    return [*((one, other) for _, one, other in by_source), *(("", text) for text in alone[1].values())]


def label_of(value: object, where: str) -> str:
    """Return the name of a document or unit."""
    if value is None or (isinstance(value, (str, int, float)) and not isinstance(value, bool)):
        return "" if value is None else str(value)
    raise UserError(f"{where}: expected a name or a number of a document, section or paragraph, got {str(value)[:40]}")


def text_of(value: object, where: str) -> str:
    """Return a cell's text; a missing one is empty."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise UserError(f"{where}: expected a text as source or target, got {str(value)[:40]}")
    if "\0" in value or (fault := half_character(value)):
        raise UserError(f"{where}: {'NUL; this is not plain text: remove it' if chr(0) in value else fault}")
    return value


def one_line(text: str) -> str:
    """Return a list's sentence as one line: lines are joined, and white space alone becomes ""."""
    return languages.one_line(text) if BREAKS.search(text) else text if text.strip() else ""


# One side of a corpus, as lines of plain text.


class DocumentStart(NamedTuple):
    """The beginning of a document; `name` is its name, if the table has names."""

    name: str | None = None


def side_lines(path: Path, given: Columns, role: str) -> Iterator[str | DocumentStart]:
    """Yield the lines of a text file; or column `role` of a table, a line a row or an item of a list, with a mark
    before each document, where names or lists tell them. Lines in a cell are joined."""
    if kind_of_table(path.name) is None:
        yield from TextLines(path)
        return
    table, columns = open_columns(path, given, needed=role)
    if len(names := getattr(columns, role)) > 1:
        raise UserError(f"{path}: expected one column, got {role}={','.join(names)} (--columns)")
    before: Texts | None = None
    for row in table.rows([names[0], *columns.document]):
        cell, document = row.values[0], tuple(label_of(value, row.place) for value in row.values[1:])
        if document != before if document else isinstance(cell, list):
            yield DocumentStart(" ".join(document) or None)
        before = document
        for text in (cell or [""]) if isinstance(cell, list) else [cell]:
            yield one_line(text_of(text, row.place))
