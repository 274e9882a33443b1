"""Tables as corpora: TSV, JSONL, Parquet; columns by their roles; one side of a table."""

from __future__ import annotations

import hashlib
import itertools
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple, Protocol

from docnmt.core.corpus import Blank, CorpusEnd, DocumentStart, Event, Facts, Sentence
from docnmt.core.data_options import Columns, complete, without_header
from docnmt.core.lines import ENDINGS, TextLines, blocks, half_character, is_blank
from docnmt.runtime import languages
from docnmt.runtime.languages import joined
from docnmt.runtime.system import UserError, parse_json

if TYPE_CHECKING:
    import pyarrow


# Documents with separate sentences on each side, and links between these (DocHPLT).


def linked(source: object, target: object, links: object, place: str, *, backwards: bool) -> Iterator[tuple[str, str]]:
    """Yield sentence pairs in the order of the source, then target sentences without a source; "" means no partner.

    Several sentences of one link are joined.

    Args:
        source, target: objects with the lists `ids` and `sentences`.
        links: a list of objects with the lists of ids `src` and `tgt`. Unknown ids belong to empty sentences.
        backwards: True if the source is called `tgt` in the links.

    Raises:
        UserError: the objects are malformed, or two links share a sentence.
    """
    sides = (_sentences(source, place), _sentences(target, place))
    names = ("tgt", "src") if backwards else ("src", "tgt")
    places = [{str(key): n for n, key in enumerate(ids)} for ids, _ in sides]
    free = [set(range(len(texts))) for _, texts in sides]
    rows: list[tuple[int, str, str]] = []
    for link in _list(links, place):
        ends = [_list(link.get(name) if isinstance(link, Mapping) else None, place) for name in names]
        found = [sorted(n[str(key)] for key in end if str(key) in n) for n, end in zip(places, ends, strict=True)]
        if not all(found):
            continue
        for numbers, left in zip(found, free, strict=True):
            if not left.issuperset(numbers):
                raise UserError(f"{place}: a sentence stands in two links of the alignment, expected one at most")
            left.difference_update(numbers)
        one, other = (joined(texts[n] for n in numbers) for numbers, (_, texts) in zip(found, sides, strict=True))
        rows.append((found[0][0], one, other))
    rows += [(n, sides[0][1][n], "") for n in free[0]]
    yield from ((one, other) for _, one, other in sorted(rows, key=lambda row: row[0]))
    yield from (("", sides[1][1][n]) for n in sorted(free[1]))


def _sentences(side: object, place: str) -> tuple[Sequence[object], list[str]]:
    found = side if isinstance(side, Mapping) else {}
    ids, texts = _list(found.get("ids"), place), _list(found.get("sentences"), place)
    if len(ids) != len(texts) or not all(isinstance(text, str) for text in texts):
        raise UserError(f"{place}: expected a text for each of the document's ids, got {len(texts)} for {len(ids)}")
    return ids, [text for text in texts if isinstance(text, str)]


def _list(value: object, place: str) -> Sequence[object]:
    if not isinstance(value, list):
        raise UserError(
            f"{place}: expected source and target with lists 'ids' and 'sentences', and an alignment that is a list of "
            f"links with lists 'src' and 'tgt', got {str(value)[:40]}"
        )
    return value


# Tables of text, read row by row in constant memory: TSV, JSONL and Parquet, also compressed.


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


# Reading of a parallel corpus in tables: each row is a sentence, a paragraph or a whole document.


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


# One side of a corpus, as lines of plain text.


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


# Reading of Parquet files, in batches of rows.


#: Rows in memory at once.
_BATCH = 1024
#: Bytes of a column read at once, however large its row groups are.
_BUFFER = 1 << 20


class ParquetTable:
    """A Parquet file; one compressed as a whole is first decompressed to a temporary file.

    Raises:
        UserError: it cannot be read, is no Parquet file, or pyarrow is not installed.
    """

    def __init__(self, path: Path, progress: Callable[[int], object] | None = None) -> None:
        try:
            import pyarrow
            import pyarrow.parquet
        except ImportError as error:
            raise UserError(f"{path}: reading Parquet files needs an extra: pip install 'docnmt[documents]'") from error
        self.name, self._progress, self._failures = str(path), progress, (pyarrow.ArrowException, OSError)
        self._bytes, self._digest = 0, hashlib.sha256()
        content: Path | IO[bytes] = path
        if path.suffix in ENDINGS:
            content = tempfile.TemporaryFile()  # noqa: SIM115  (it ends with this object)
        for block in blocks(path, self._seen):
            if not isinstance(content, Path):
                content.write(block)
        try:
            self._file = pyarrow.parquet.ParquetFile(content, pre_buffer=False, buffer_size=_BUFFER)
        except self._failures as error:
            raise UserError(f"{path}: not a Parquet file, or damaged: {_line(error)}") from error
        self.names = [name for field in self._file.schema_arrow for name in _parquet_names(field)]

    def _seen(self, block: bytes) -> None:
        self._bytes += len(block)
        self._digest.update(block)

    @property
    def inputs(self) -> dict[str, int | str]:
        """Size and hash for `meta.json` (see `Table.inputs`)."""
        rows = int(self._file.metadata.num_rows)
        return {"bytes": self._bytes, "lines": rows, "sha256": self._digest.hexdigest()}

    def rows(self, columns: Sequence[str]) -> Iterator[Row]:
        """Yield all rows, with these columns (see `Table.rows`)."""
        own = set(self._file.schema_arrow.names)
        needed = sorted({name if name in own else name.partition(".")[0] for name in columns})
        done, share = 0, self._bytes / max(self._file.metadata.num_rows, 1)
        try:
            for batch in self._file.iter_batches(_BATCH, columns=needed):
                for number, row in enumerate(batch.to_pylist(), done + 1):
                    yield Row(f"{self.name}: row {number}", tuple(_value(row, name) for name in columns))
                if self._progress is not None:
                    self._progress(int((done + len(batch)) * share) - int(done * share))
                done += len(batch)
        except self._failures as error:
            raise UserError(f"{self.name}: damaged after row {done}: {_line(error)}") from error


def _value(row: dict[str, object], name: str) -> object:
    """Return the value of a column (see `value_of`), None inside a null column."""
    try:
        return value_of(row, name)
    except KeyError:
        return None


def _parquet_names(field: pyarrow.Field, before: str = "") -> Iterator[str]:
    import pyarrow

    yield before + field.name
    if pyarrow.types.is_struct(field.type):
        for inner in field.type:
            yield from _parquet_names(inner, f"{before}{field.name}.")


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]
