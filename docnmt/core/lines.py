r"""Lines of UTF-8 text files, plain or compressed, checked while they are read; the documents that rows of text form.
Lines end at `\n` only, so U+2028, U+0085 and form feeds are ordinary text. CRLF is taken off and counted, a byte order
mark too; a lone `\r`, NUL or a byte that is not UTF-8 is an error that names the file and the line.
"""

from __future__ import annotations

import codecs
import hashlib
import re
import zlib
from collections.abc import Callable, Generator, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Literal

from docnmt.runtime.progress import how_many
from docnmt.runtime.system import UserError, needing, reading

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
    `crlf`, `bom` and `bytes`, `sha256` of the file as stored are complete after the last one; `progress` is called with
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
    def sha256(self) -> str:
        """The hash of the bytes read so far."""
        return self._digest.hexdigest()

    @property
    def inputs(self) -> dict[str, int | str]:
        """The file's entry in `meta.json`, complete after the last line."""
        return {"bytes": self.bytes, "lines": self.lines, "sha256": self.sha256}

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
        stream: Any = None  # a decompressor; a file may consist of several streams
        for block in map(self._seen, iter(lambda: file.read(_COMPRESSED), b"")):
            while block:
                stream = stream or _decompressor(path)
                try:
                    yield stream.decompress(block)
                except Exception as error:  # zlib's and Zstandard's own
                    raise UserError(f"{path}: not {path.suffix} data, or damaged: {error}") from error
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


def _decompressor(path: Path) -> Any:
    """Return a decompressor of one stream; both kinds have `decompress`, `eof` and `unused_data`."""
    if path.suffix == ".gz":
        return zlib.decompressobj(wbits=31)
    with needing(f"{path}: reading .zst files needs an extra", "documents"):
        import zstandard
    return zstandard.ZstdDecompressor(max_window_size=1 << 31).decompressobj()


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


def check_marks(kinds: set[str], place: str) -> None:
    """Check the kinds of lines that a text has so far."""
    if {"", "<d>"} <= kinds:
        raise UserError(f"{place}{TWO_FORMS} <d> lines and empty lines; keep one of them to mark documents")


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

    def count(self, what: str, place: str) -> None:
        """Count one at a place."""
        count, first = self.get(what, (0, place))
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
        self._alone = Places()  # sentences of one side, by the side

    def row(self, texts: tuple[str, ...], units: tuple[str, ...], where: str, number: int) -> None:
        """Add a sentence."""
        if not all(texts):
            side = "source" if texts[0] else "target"
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
        read = "are read, but neither trained on nor scored" if self._one_sided == "read" else "are left out"
        for side, what, fate in (("source", "translation", read), ("target", "source", "are left out")):
            if side in self._alone:
                count, first = self._alone[side]
                self._facts.notes.append(f"{self._path}: {count:,} lines without a {what} {fate} (the first: {first})")
