r"""Corpora as files: lines, the documents that they form, and which files of which layout make a corpus.
file → lines (`TextLines`); files of a prefix (`find_split`) → reader of the layout (text and WMT XML here, tables in
`tables`) → rows (`DocumentBuilder`) → stream of `ParallelDocument`s (`read_split`)
"""

from __future__ import annotations

import codecs
import collections
import glob
import hashlib
import itertools
import re
import zlib
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Literal
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from docnmt.core.data_options import Columns
from docnmt.runtime.languages import base, joined
from docnmt.runtime.progress import how_many
from docnmt.runtime.system import UserError, needing, reading

# Lines of UTF-8 text files, plain or compressed, checked while they are read. They end at `\n` only, so U+2028, U+0085
# and form feeds are ordinary text. CRLF is taken off and counted, a byte order mark too; a lone `\r`, NUL or a byte
# that is not UTF-8 is an error that names the file and the line.

#: Bytes read at once; of a compressed file, which may expand a thousandfold, fewer.
BLOCK, _COMPRESSED = 1 << 22, 1 << 16
#: The endings of compressed files, and those of tables, which stand before them.
ENDINGS, KINDS = (".gz", ".zst"), (".tsv", ".jsonl", ".parquet")


def kind_of_table(name: str) -> str | None:
    """Return `.tsv`, `.jsonl` or `.parquet` by the end of a name, before any `.gz` or `.zst`; None: it is no table."""
    for ending in ENDINGS:
        name = name.removesuffix(ending)
    return next((kind for kind in KINDS if name.endswith(kind)), None)


class TextLines:
    """The lines of a file or a binary stream, or of its content block by block, without their ends, read once. `lines`,
    `crlf`, `bom` and `bytes` of the file as stored are complete after the last one; `progress` is called with
    the bytes of every block."""

    def __init__(
        self,
        source: Path | BinaryIO | Generator[bytes, None, None],
        *,
        name: str | None = None,
        progress: Callable[[int], object] | None = None,
    ) -> None:
        self._source, self._progress = source, progress
        self.name = name or str(source)
        self.lines = self.crlf = self.bytes = 0
        self.bom = False
        self._digest = hashlib.sha256()

    def __iter__(self) -> Iterator[str]:
        """Yield each line in order."""
        rest: list[bytes] = []  # the beginning of a line whose end has not been read
        for block in self.blocks():
            if cut := block.rfind(b"\n") + 1:
                yield from self._split(b"".join([*rest, block[:cut]]))
                rest = []
            rest.append(block[cut:])
        yield from self._split(b"".join(rest))

    @property
    def inputs(self) -> dict[str, int | str]:
        """The file's entry in `meta.json`, complete after the last line."""
        return {"bytes": self.bytes, "lines": self.lines, "sha256": self._digest.hexdigest()}

    def blocks(self) -> Iterator[bytes]:
        """Yield the blocks of the source, decompressed, instead of lines."""
        source = self._source
        if isinstance(source, Generator):
            yield from map(self._seen, source)  # what it raises is its own
            return
        with reading(self.name), source.open("rb") if isinstance(source, Path) else nullcontext(source) as file:
            if isinstance(source, Path) and source.suffix in ENDINGS:
                yield from self._decompressed(file, source)
            else:
                yield from map(self._seen, iter(lambda: file.read(BLOCK), b""))

    def _decompressed(self, file: BinaryIO, path: Path) -> Iterator[bytes]:
        def decompressor() -> Any:  # of one stream; both kinds have `decompress`, `eof` and `unused_data`
            if path.suffix == ".gz":
                return zlib.decompressobj(wbits=31)
            with needing(f"{path}: reading .zst files needs an extra", "documents"):
                import zstandard
            return zstandard.ZstdDecompressor(max_window_size=1 << 31).decompressobj()

        stream: Any = None  # a file may consist of several
        padded = False  # may NULs be next? They fill up the last block of a tape
        for block in map(self._seen, iter(lambda: file.read(_COMPRESSED), b"")):
            while block := block.lstrip(b"\0") if padded else block:
                stream = stream or decompressor()
                try:
                    yield stream.decompress(block)
                except Exception as error:  # zlib's and Zstandard's own
                    raise UserError(f"{path}: not {path.suffix} data, or damaged: {error}") from error
                padded = stream.eof and path.suffix == ".gz"
                block, stream = (stream.unused_data, None) if stream.eof else (b"", stream)
        if stream is not None:
            raise UserError(f"{path}: is cut off in the middle of its compressed data; copy it again")

    def _seen(self, block: bytes) -> bytes:
        self._digest.update(block)
        self.bytes += len(block)
        if self._progress:
            self._progress(len(block))
        return block

    def _split(self, block: bytes) -> list[str]:
        """Check a block of complete lines and return the lines."""
        if not self.lines and block.startswith(codecs.BOM_UTF8):
            self.bom, block = True, block.removeprefix(codecs.BOM_UTF8)
        try:
            text = block.decode("utf-8")
        except UnicodeDecodeError as error:
            line = self.lines + block.count(b"\n", 0, error.start) + 1
            code = "UTF-16" if block.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "LATIN1"
            what = f"not valid UTF-8; convert the file, for example with iconv -f {code} -t UTF-8"
            raise UserError(f"{self.name}:{line}: 0x{block[error.start]:02X}: {what}") from error
        if "\r" in text:
            self.crlf += text.count("\r\n")
            text = text.replace("\r\n", "\n")
        for character, what in (("\r", "carriage return inside a line"), ("\0", "NUL byte; this is not plain text")):
            if character in text:
                line = self.lines + text.count("\n", 0, text.index(character)) + 1
                raise UserError(f"{self.name}:{line}: {what}: remove it")
        lines = text.split("\n")
        if not lines[-1]:
            lines.pop()
        self.lines += len(lines)
        return lines


def is_blank(line: str) -> bool:
    """Return True for a line of nothing but white space, which counts as empty."""
    return not line or line.isspace()


def half_character(text: str) -> str | None:
    """Describe the error of a text with half a surrogate pair, which JSON can write but no file can store."""
    try:
        text.encode()
    except UnicodeEncodeError as error:  # JSON's \\ud800 can stand alone
        return f"half a character (\\u{ord(text[error.start]):04x} without its other half); remove it"
    return None


# What a line is: text or a mark.


#: What other toolkits put between the sentences of a document, or around them, if a line is a whole document.
_SEPARATOR = re.compile(r"(?i)(?<!\S)(?:_(?:eos|sep|brk)|<(?:sep|eos|brk|beg|end|/?s)>|\[(?:sep|eos)\])(?!\S)")


def separator(line: str) -> str:
    """Return the first sign of a line that separates sentences for other toolkits, "" if there is none."""
    sign = _SEPARATOR.search(line) if "_" in line or "<" in line or "[" in line else None
    return sign[0] if sign else ""


def note_separators(name: str, lines: int, first: str) -> str:
    """Return the note on a text with separators in so many lines, of which `first` is one with its place."""
    return (
        f"{name}: a sign between sentences in {how_many(lines, 'line')} ({first}): such a line looks like a whole "
        "document and is read as one sentence; give each sentence a line, and put an empty line between documents"
    )


def kind_of_line(line: str) -> str:
    """Return "text" for a line of text, or the mark that it is: "", "<p>", "<d>"."""
    bare = line.strip()
    return bare if bare in ("", "<p>", "<d>") else "text"


#: What is said of a text in which two kinds of marks divide documents.
TWO_FORMS = ": two sources of structure at once:"


def check_marks(kinds: set[str], where: str) -> None:
    """Check the kinds of lines that a text has so far."""
    if {"", "<d>"} <= kinds:
        raise UserError(f"{where}{TWO_FORMS} <d> lines and empty lines; keep one of them to mark documents")


# The stream of documents that all readers of a corpus (`read_corpus`, `tables`) give.


#: Sentences without a partner. error: they are rejected. read: a source sentence without a translation is kept as
#: context. skip: it is left out. One without a source is left out in both cases: no model could have written it.
OneSided = Literal["error", "read", "skip"]


@dataclass
class Facts:
    """Facts collected while a corpus is read, complete after its last document: whether sections or paragraphs are
    known, what was changed or left out (for the report), and size and hash of each file read."""

    levels: bool = False
    notes: list[str] = field(default_factory=list)
    inputs: dict[str, dict[str, int | str]] = field(default_factory=dict)


class Places(dict[str, tuple[int, str]]):
    """Kinds of what was found or changed: how often, and the first place."""

    def count(self, what: str, where: str) -> None:
        """Count one at a place."""
        count, first = self.get(what, (0, where))
        self[what] = (count + 1, first)


@dataclass(slots=True)
class ParallelDocument:
    """A document on all sides, as it is read; one without rows only has the empty lines at the end of a file."""

    rows: list[tuple[str, ...]] = field(default_factory=list)  # each sentence on all sides; "" without a partner
    units: list[tuple[str, ...]] = field(default_factory=list)  # labels of what contains it, outermost first
    places: list[tuple[str, int]] = field(default_factory=list)  # file and number: together `train.en:12`
    name: str = ""
    blank: int = 0  # the empty lines before it
    known: bool = True  # are its units?


class DocumentBuilder:
    """Divides rows into documents, and treats those without a partner."""

    def __init__(self, path: Path | str, one_sided: OneSided, facts: Facts) -> None:
        self._path, self._one_sided, self._facts = path, one_sided, facts
        self._open, self._begun, self.known = ParallelDocument(), False, True
        self._alone = Places()  # sentences by what they lack

    def row(self, texts: tuple[str, ...], units: tuple[str, ...], where: str, number: int) -> None:
        """Add a sentence."""
        if not all(texts):
            side = "target" if not texts[0] else "reference" if texts[1] else "source"
            if self._one_sided == "error":
                raise UserError(
                    f"{where}{number}: empty on one side; expected text on all sides, or --one-sided read (or skip) "
                    "for sentences without a partner"
                )
            self._alone.count(side, f"{where}{number}")
            if side == "target" or self._one_sided == "skip":
                return
        document = self._open
        document.known = self.known if not document.rows else document.known
        document.rows.append(texts)
        document.units.append(units)
        document.places.append((where, number))

    def blank(self) -> Iterator[ParallelDocument]:
        """Add an empty line, which ends the document; yield that."""
        yield from self._end()
        self._open.blank += 1

    def mark(self, name: str = "") -> Iterator[ParallelDocument]:
        """Begin a document; if no empty line is before it, it becomes one. Yield the one that ends."""
        yield from self._end()
        self._open.blank, self._open.name = max(self._open.blank, int(self._begun)), name

    def _end(self) -> Iterator[ParallelDocument]:
        if self._open.rows:
            document, self._open, self._begun = self._open, ParallelDocument(), True
            yield document

    def finish(self) -> Iterator[ParallelDocument]:
        """Yield the last document, and the empty lines after it; note the sentences without a partner."""
        yield from self._end()
        if self._open.blank:
            yield self._open
        fates = {
            "source": ("a translation", "are read, but neither trained on nor scored"),
            "reference": ("a further reference", "are read, but not scored"),
            "target": ("a source", "are left out"),
        }
        for side, (what, fate) in fates.items():
            if side in self._alone:
                count, first = self._alone[side]
                fate = fate if self._one_sided == "read" else "are left out"
                self._facts.notes.append(f"{self._path}: {count:,} lines without {what} {fate} (the first: {first})")


# The files of a split, found by their names.


@dataclass(frozen=True)
class Reading:
    """Settings for reading the files of a corpus. Without `one_sided`, a sentence without a partner is an error in text
    and XML, where it may be a mistake, and only read in tables, whose rows cannot be misaligned."""

    languages: tuple[str, str]
    columns: Columns = field(default_factory=Columns)
    one_sided: OneSided | None = None


@dataclass(frozen=True)
class SplitFiles:
    """The files of one prefix. `xml` or `tables`, if given, have everything; else `source`, `references`, and the files
    that mark documents (`ids`) or units (`levels`)."""

    reading: Reading
    source: Path | None = None
    references: tuple[Path, ...] = ()
    levels: Path | None = None
    ids: Path | None = None
    xml: Path | None = None
    tables: tuple[Path, ...] = ()

    @property
    def paths(self) -> list[Path]:
        """The paths of all files."""
        files = (self.xml, *self.tables, self.source, *self.references, self.levels, self.ids)
        return [path for path in files if path is not None]


def find_split(prefix: str, settings: Reading) -> SplitFiles:
    """Find the files of a split by their names."""
    if kind_of_table(prefix) is not None:
        tables = tuple(Path(name) for name in sorted(glob.glob(prefix))) if "*" in prefix else (Path(prefix),)
        if not tables:
            raise UserError(f"{prefix}: no such file")
        return SplitFiles(settings, tables=tables)
    source_lang, target_lang = settings.languages
    source, single = side(prefix, source_lang), side(prefix, target_lang)
    xml = Path(f"{prefix}.{source_lang}-{target_lang}.xml")
    levels, ids = _or_compressed(f"{prefix}.levels.tsv"), _or_compressed(f"{prefix}.ids")
    several = _numbered(prefix, target_lang)
    plain = [path for path in (source, single, *several, levels, ids) if path.exists()]
    if xml.exists():
        if plain:
            raise UserError(f"{xml} and {plain[0]}: two forms of one corpus at once; remove or rename one of them")
        return SplitFiles(settings, xml=xml)
    if not source.exists():
        if Path(prefix).is_dir():
            raise UserError(f"{prefix}: is a folder, expected a prefix: {prefix.rstrip('/')}/train or the like")
        if Path(prefix).is_file():
            raise UserError(f"{prefix}: is a file, expected a prefix: without .{source_lang} or .{target_lang}")
        raise UserError(
            f"{source}: no such file (nor {Path(prefix).name}_{source_lang}.txt, nor {xml.name}; tables end in "
            f"{', '.join(KINDS)})"
        )
    if single.exists() and several:
        raise UserError(f"{single} and {several[0]}: one reference and numbered ones at once; rename one form")
    references = (single,) if single.exists() else tuple(several)
    return SplitFiles(settings, source, references, levels if levels.exists() else None, ids if ids.exists() else None)


def side(prefix: str, language: str) -> Path:
    """Return `PREFIX.en`, or `PREFIX_en.txt` if that exists, which many corpora use; either may be compressed."""
    return _or_compressed(f"{prefix}.{language}", f"{prefix}_{language}.txt")


def _or_compressed(*names: str) -> Path:
    """Return the one file that exists of these names, as they are or compressed; without any, the first name."""
    paths = [Path(name + ending) for name in names for ending in ("", *ENDINGS)]
    there = [path for path in paths if path.exists()] or paths[:1]
    if len(there) > 1:
        raise UserError(f"{there[0]} and {there[1]}: two forms of one corpus at once; remove or rename one of them")
    return there[0]


def _numbered(prefix: str, language: str) -> list[Path]:
    """Return the files PREFIX.de0, PREFIX.de1, … without a gap; any may be compressed."""
    stem = Path(f"{prefix}.{language}")
    if not stem.parent.is_dir():
        return []
    pattern = re.compile(re.escape(stem.name) + r"(\d+)(?:\.gz|\.zst)?")
    numbers = sorted(map(int, {m[1] for path in stem.parent.iterdir() if (m := pattern.fullmatch(path.name))}))
    if numbers != list(range(len(numbers))):
        missing = next(i for i, number in enumerate([*numbers, -1]) if i != number)
        there = _or_compressed(f"{stem}{numbers[-1]}")
        raise UserError(f"{stem}{missing}: no such file, but there is {there}; number references from 0")
    return [_or_compressed(f"{stem}{number}") for number in numbers]


def read_split(
    files: SplitFiles, facts: Facts, progress: Callable[[int], object] | None = None
) -> Iterator[ParallelDocument]:
    """Yield the documents; `facts` is complete after the last one, and `levels` tells whether theirs are known."""
    settings, facts.levels = files.reading, False
    one_sided = settings.one_sided or ("read" if files.tables else "error")
    if files.xml is not None:
        documents = _read_xml(files.xml, facts, settings.languages, one_sided, progress)
    elif files.tables:
        from docnmt.core.tables import read_tables  # text needs none

        documents = read_tables(files.tables, settings.columns, settings.languages, facts, one_sided, progress)
    else:
        assert files.source is not None
        sides = [TextLines(side, progress=progress) for side in (files.source, *files.references)]
        levels = TextLines(files.levels, progress=progress) if files.levels else None
        ids = TextLines(files.ids, progress=progress) if files.ids else None
        documents = read_text(sides, facts, levels=levels, ids=ids, one_sided=one_sided)
    empty = True
    for document in documents:
        empty &= not document.rows
        yield document
    if empty:
        raise UserError(f"{files.paths[0]}: holds no sentence, expected one a line")


# Plain text: one sentence per line, an empty line or `<d>` between documents.


def read_text(
    sides: Sequence[TextLines],
    facts: Facts,
    *,
    levels: TextLines | None = None,
    ids: TextLines | None = None,
    one_sided: OneSided = "error",
) -> Iterator[ParallelDocument]:
    """Yield the documents of plain text files: the source, then the references. `levels` are the rows of levels.tsv,
    `ids` those of the .ids file of OPUS, where a new pair of names begins a document."""
    files = [*sides, *(file for file in (levels, ids) if file)]
    streams = [iter(file) for file in files]
    builder, where = DocumentBuilder(sides[0].name, one_sided, facts), f"{sides[0].name}:"
    kinds_seen, paragraph, opened = set[str](), 0, list[str]()
    columns: tuple[int, int] | None = None  # of levels.tsv: all, and those of units
    separated = Places()
    for number, lines in enumerate(itertools.zip_longest(*streams), 1):
        if None in lines:
            differing = _differing(files, lines, number)
            counts = _line_counts(files, streams)
            raise UserError(f"expected the same number of lines on all sides: {differing}; lines: {counts}")
        texts = lines[: len(sides)]
        kinds = {kind_of_line(text) for text in texts}
        if len(kinds) > 1 and (one_sided == "error" or kinds != {"", "text"}):
            problem = f"documents must break at the same lines on all sides: {_differing(files, texts, number)}"
            if kinds == {"", "text"}:
                problem += " (for sentences without a partner give --one-sided)"
            counts = _line_counts(files, streams)
            raise UserError(problem if len({file.lines for file in files}) == 1 else f"{problem}; lines: {counts}")
        kind = "text" if len(kinds) > 1 else kinds.pop()
        if kind not in kinds_seen:
            kinds_seen.add(kind)
            facts.levels |= kind == "<p>"
            check_marks(kinds_seen, f"{where}{number}")
            if kind in ("<p>", "<d>") and levels is not None:
                raise UserError(f"{where}{number}{TWO_FORMS} {kind} lines and {levels.name}; keep one of them")
            if kind in ("", "<d>") and ids is not None:
                raise UserError(f"{where}{number}{TWO_FORMS} {kind or 'empty'} lines and {ids.name}; keep one of them")
        if ids is not None and (names := lines[-1].split("\t")[:2]) != opened:
            if len(names) < 2:
                got = f"got '{lines[-1][:40]}'"
                raise UserError(f"{ids.name}:{number}: expected a document of each side and a tab, {got}")
            opened = names
            yield from builder.mark(" ".join(names))
        if kind == "text":
            for side, text in zip(sides, texts, strict=True):
                if sign := separator(text):
                    separated.count(side.name, f"'{sign}' in line {number:,}")
            units: tuple[str, ...] = (str(paragraph),)
            if levels is not None:
                columns, units = _units(lines[len(sides)], columns, f"{levels.name}:{number}")
            builder.row(tuple("" if is_blank(text) else text for text in texts), units, where, number)
            continue
        if levels is not None and not is_blank(lines[len(sides)]):
            raise UserError(f"{levels.name}:{number}: expected an empty row, as {where}{number} is empty")
        paragraph += 1
        if kind != "<p>":
            yield from builder.blank() if kind == "" else builder.mark()
    for file in files:
        facts.inputs[file.name] = file.inputs
        if file.crlf:
            facts.notes.append(f"{file.name}: {file.crlf:,} of {file.lines:,} lines end in CRLF, which is taken off")
        if file.bom:
            facts.notes.append(f"{file.name}: begins with a byte order mark, which is taken off")
    facts.notes += [note_separators(side.name, *separated[side.name]) for side in sides if side.name in separated]
    facts.levels |= levels is not None
    yield from builder.finish()


def _differing(files: Sequence[TextLines], texts: Sequence[str | None], number: int) -> str:
    words = []
    for file, text in zip(files, texts, strict=False):  # the last one is levels.tsv, which may be missing
        kind = "is missing" if text is None else kind_of_line(text)
        said = {"text": f"reads '{(text or '')[:40]}'", "": "is empty", "is missing": kind}.get(kind, f"is {kind}")
        words.append(f"{file.name}:{number} {said}")
    return ", but ".join(words)


def _line_counts(files: Sequence[TextLines], streams: Sequence[Iterator[str]]) -> str:
    for stream in streams:
        collections.deque(stream, maxlen=0)  # to the end, so that the lines are counted
    return ", ".join(f"{file.name} has {file.lines:,}" for file in files)


def _units(row: str, columns: tuple[int, int] | None, where: str) -> tuple[tuple[int, int], tuple[str, ...]]:
    """Return the numbers of columns of a levels.tsv, which the first row tells, and the labels of a row's units."""
    if is_blank(row):
        raise UserError(f"{where}: empty row, but there is a sentence in this line of the text")
    values = row.split("\t")
    if columns is None:
        whole = next((i for i, value in enumerate(values) if not _is_whole(value)), len(values))
        columns = (len(values), whole)
        if not whole:
            raise UserError(f"{where}: expected a number in the first column, got '{values[0]}'")
    if len(values) != columns[0]:
        raise UserError(f"{where}: {len(values)} columns, expected {columns[0]} as in the first row")
    units = tuple(values[: columns[1]])
    for column, value in enumerate(units, 1):
        if not _is_whole(value):
            raise UserError(f"{where}: column {column} is '{value}', expected a whole number as in the first row")
    return columns, units


def _is_whole(value: str) -> bool:
    return value.isascii() and value.removeprefix("-").isdigit()


# The WMT XML format: `<doc id> <src lang> <p> <seg id>`, `<ref lang>`; `<p>` is a paragraph. A file has 30 MB at most.


_LINE_BREAKS = re.compile(r"(?<!\s)\s*[\n\r]\s*")


def _read_xml(
    path: Path,
    facts: Facts,
    languages: tuple[str, str],
    one_sided: OneSided = "error",
    progress: Callable[[int], object] | None = None,
) -> Iterator[ParallelDocument]:
    """Yield the documents of a WMT file. References that some documents lack are left out, with a note."""
    with reading(path):
        content = path.read_bytes()
    try:
        documents = [*ElementTree.fromstring(content).iter("doc")]
    except ElementTree.ParseError as error:
        line, column = error.position
        raise UserError(f"{path}:{line}: not well-formed XML at column {column + 1}: {error}") from error
    except (LookupError, ValueError) as error:  # an unknown encoding in the first line
        raise UserError(f"{path}: cannot be read as its encoding says: {error}; convert it to UTF-8") from error
    if progress:
        progress(len(content))
    translators = _common_translators(path, documents, facts, *languages)
    builder, folded, any_segment = DocumentBuilder(path, one_sided, facts), 0, False
    for document in documents:
        where = f"{path}: document '{_name(document)}'"
        translations = _references(document, languages[1])
        sides = [_segments(element) for element in (document.find("src"), *(translations[key] for key in translators))]
        if any([key for key, _ in side] != [key for key, _ in sides[0]] for side in sides[1:]):
            raise UserError(f"{where}: the segments of a <ref> are not those of <src>, by paragraph and seg id")
        if sides[0]:
            yield from builder.mark(_name(document))
        for number, rows in enumerate(zip(*sides, strict=True), 1):
            texts = tuple(joined(line.strip() for line in _LINE_BREAKS.split(text)) for _, text in rows)
            (paragraph, seg), _ = rows[0]
            if not any(texts):
                raise UserError(f"{where}, seg {seg}: empty; every segment needs text")
            folded += sum(_LINE_BREAKS.search(text.strip()) is not None for _, text in rows)
            known = _is_whole(seg) and len(seg) < 19
            builder.row(texts, (str(paragraph),), f"{where}, seg ", int(seg) if known else number)
            any_segment = True
    if not any_segment:
        raise UserError(f"{path}: holds no <doc> with <src> segments")
    facts.inputs[str(path)] = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    facts.levels = True
    if folded:
        facts.notes.append(f"{path}: {folded:,} segments hold line breaks, which are joined")
    yield from builder.finish()


def _name(document: Element) -> str:
    return document.get("id") or document.get("docid") or ""


def _is(element: Element, language: str) -> bool:
    """Return True if an element is in a language, or names none; `de` includes `de-AT`, `de_DE` and `deu`."""
    said = element.get("lang")
    return said is None or base(said) == base(language)


def _references(document: Element, language: str) -> dict[str, Element]:
    """Return a document's references in a language by translator; unnamed or repeated translators are numbered."""
    references: dict[str, Element] = {}
    for number, element in enumerate(e for e in document.findall("ref") if _is(e, language)):
        translator = element.get("translator") or str(number)
        references[translator if translator not in references else f"{translator}.{number}"] = element
    return references


def _common_translators(path: Path, documents: Sequence[Element], facts: Facts, source: str, target: str) -> list[str]:
    """Return the translators who have translated every document, in the file's order."""
    counts: Counter[str] = Counter()
    foreign = 0
    for document in documents:
        src = document.find("src")
        if src is None:
            raise UserError(f"{path}: document '{_name(document)}' has no <src>")
        if not _is(src, source):
            raise UserError(
                f'{path}: document \'{_name(document)}\': <src lang="{src.get("lang")}">, expected "{source}" by the '
                "file's name; rename the file or take the document out"
            )
        foreign += sum(not _is(element, target) for element in document.findall("ref"))
        counts.update(_references(document, target).keys())
    if foreign:
        facts.notes.append(f"{path}: {foreign:,} references in another language than '{target}' are left out")
    common = [key for key, count in counts.items() if count == len(documents)]
    partial = [f"'{key}' ({count:,} of {len(documents):,})" for key, count in counts.items() if key not in common]
    if partial and not common:
        raise UserError(f"{path}: no reference covers all documents: {', '.join(partial)}; split the file")
    if partial:
        facts.notes.append(f"{path}: references that do not cover all documents are left out: {', '.join(partial)}")
    return common


def _segments(side: Element | None) -> list[tuple[tuple[int, str], str]]:
    """Return ((paragraph, seg id), text) of every segment of a `<src>` or `<ref>`."""
    segments: list[tuple[tuple[int, str], str]] = []
    paragraph = -1
    for element in side.iter() if side is not None else ():
        paragraph += element.tag == "p"
        if element.tag == "seg":
            segments.append(((max(paragraph, 0), element.get("id") or ""), "".join(element.itertext())))
    return segments
