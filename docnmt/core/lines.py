"""Lines of text files: encodings, compression, line ends, and blocks that processes share."""

from __future__ import annotations

import codecs
import hashlib
import zlib
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import BinaryIO, NoReturn, Protocol

from docnmt.runtime.system import UserError

# Reading of files in blocks, decompressed if the name ends in `.gz` or `.zst`.


BLOCK = 1 << 22
#: Size of blocks of a compressed file, which may expand a thousandfold.
_COMPRESSED = 1 << 16

#: The endings of compressed files.
ENDINGS = (".gz", ".zst")


class _Decompressor(Protocol):
    """One compressed stream; a file may consist of several."""

    @property
    def eof(self) -> bool:
        """True at the end of the stream."""

    @property
    def unused_data(self) -> bytes:
        """The bytes after the end of the stream."""

    def decompress(self, data: bytes, /) -> bytes:
        """Decompress the next bytes of the stream."""


def blocks(path: Path, seen: Callable[[bytes], object] | None = None) -> Iterator[bytes]:
    """Read a file block by block.

    Args:
        seen: called with every block as stored in the file.

    Raises:
        UserError: the file cannot be read, is damaged or cut off, or its decompressor is not installed.
    """
    new = _decompressor(path)
    try:
        with path.open("rb") as file:
            raw = _raw(iter(lambda: file.read(BLOCK if new is None else _COMPRESSED), b""), seen)
            yield from raw if new is None else _decompressed(raw, new)
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror or error}") from error
    except EOFError as error:
        raise UserError(f"{path}: is cut off in the middle of its compressed data; copy it again") from error
    except Exception as error:  # zlib's and Zstandard's own
        if isinstance(error, zlib.error) or type(error).__name__ == "ZstdError":
            raise UserError(f"{path}: not {path.suffix} data, or damaged: {error}") from error
        raise


def _raw(read: Iterator[bytes], seen: Callable[[bytes], object] | None) -> Iterator[bytes]:
    for block in read:
        if seen is not None:
            seen(block)
        yield block


def _decompressor(path: Path) -> Callable[[], _Decompressor] | None:
    """Return a function that makes a decompressor for a file of this name; None if it is not compressed.

    Raises:
        UserError: Zstandard is not installed.
    """
    if path.suffix == ".gz":
        return lambda: zlib.decompressobj(wbits=31)
    if path.suffix != ".zst":
        return None
    try:
        import zstandard
    except ImportError as error:
        raise UserError(f"{path}: reading .zst files needs an extra: pip install 'docnmt[documents]'") from error
    return lambda: zstandard.ZstdDecompressor(max_window_size=1 << 31).decompressobj()


def _decompressed(raw: Iterator[bytes], new: Callable[[], _Decompressor]) -> Iterator[bytes]:
    """Decompress blocks of one or more streams.

    Raises:
      EOFError: the last stream is incomplete.
    """
    stream: _Decompressor | None = None
    for block in raw:
        while block:
            stream = stream or new()
            yield stream.decompress(block)
            block, stream = (stream.unused_data, None) if stream.eof else (b"", stream)
    if stream is not None:
        raise EOFError


# Lines of a UTF-8 text file, checked while they are read (`docs/reference/data.md` says what a corpus is).
#
# Lines end at `\n` only, so U+2028, U+0085 and form feeds are ordinary text. CRLF is stripped and counted, a byte
# order
# mark at the beginning is removed and noted; a lone `\r`, NUL or a byte that is not UTF-8 is an error that names the
# file, the line and the byte.


class TextLines:
    """The lines of a file or a binary stream, without their ends, read once and in blocks.

    Args:
        source: a path, a binary stream such as `sys.stdin.buffer`, or its content, block by block.
        name: its name in messages; the path by default.
        progress: called with the number of bytes of every block read.

    Attributes:
        lines, crlf, bom: the facts found, complete after the last line.
        bytes, sha256: of the file as stored, likewise.
    """

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
        self.bom = self._begun = False
        self._digest = hashlib.sha256()

    def __iter__(self) -> Iterator[str]:
        """Yield each line in order.

        Raises:
            UserError: the file cannot be read or is not valid UTF-8 text.
        """
        rest: list[bytes] = []  # the beginning of a line whose end has not been read
        for block in self._blocks():
            if cut := block.rfind(b"\n") + 1:
                yield from self._split(b"".join([*rest, block[:cut]]))
                rest = []
            rest.append(block[cut:])
        yield from self._split(b"".join(rest))

    @property
    def sha256(self) -> str:
        """The hash of the bytes read so far."""
        return self._digest.hexdigest()

    def _blocks(self) -> Iterator[bytes]:
        """Yield the blocks of the source, decompressed."""
        if isinstance(self._source, Path):
            yield from blocks(self._source, self._seen)
            return
        for block in self._source if isinstance(self._source, Generator) else self._read(self._source):
            self._seen(block)
            yield block

    def _read(self, stream: BinaryIO) -> Iterator[bytes]:
        try:
            while block := stream.read(BLOCK):
                yield block
        except OSError as error:
            raise UserError(f"{self.name}: cannot be read: {error.strerror or error}") from error

    def _seen(self, block: bytes) -> None:
        self._digest.update(block)
        self.bytes += len(block)
        if self._progress:
            self._progress(len(block))

    def _split(self, block: bytes) -> list[str]:
        """Check a block of complete lines and return the lines."""
        start = 0
        beginning, self._begun = not self._begun, self._begun or block != b""
        if beginning and block.startswith(codecs.BOM_UTF8):
            self.bom, start = True, len(codecs.BOM_UTF8)
        try:
            text = block[start:].decode("utf-8")
        except UnicodeDecodeError as error:
            self._refuse(block, error.start + start, _not_utf8(block, beginning))
        if "\r" in text:
            self.crlf += text.count("\r\n")
            text = text.replace("\r\n", "\n")
            if "\r" in text:
                lone = next(i for i, byte in enumerate(block) if byte == 13 and block[i + 1 : i + 2] != b"\n")
                self._refuse(block, lone, "carriage return inside a line; lines end in \\n or \\r\\n: remove it")
        if "\0" in text:
            other = _not_utf8(block, beginning)
            nul = other if other.startswith("not plain text but") else "NUL byte; this is not plain text: remove it"
            self._refuse(block, block.index(0), nul)
        lines = text.split("\n")
        if not lines[-1]:
            lines.pop()
        self.lines += len(lines)
        return lines

    def _refuse(self, block: bytes, at: int, what: str) -> NoReturn:
        line = self.lines + block.count(b"\n", 0, at) + 1
        column = at - (block.rfind(b"\n", 0, at) + 1) + 1
        raise UserError(f"{self.name}:{line}: byte {column} of the line (0x{block[at]:02X}): {what}")


#: The first bytes of common files that are no plain text.
_OTHERS = {
    b"PK\x03\x04": "a zip archive, as .docx and .odt files are; save it as plain text",
    b"\x1f\x8b": "compressed by gzip; gunzip it first",
    b"\x28\xb5\x2f\xfd": "compressed by zstd; unzstd it first",
    b"%PDF": "a PDF file; save it as plain text",
    b"\xd0\xcf\x11\xe0": "an old Office file; save it as plain text",
}


def _not_utf8(block: bytes, beginning: bool) -> str:
    for magic, what in _OTHERS.items() if beginning else ():
        if block.startswith(magic):
            return f"not plain text but {what}"
    if beginning and block.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "not UTF-8 but UTF-16, by its byte order mark; convert it: iconv -f UTF-16 -t UTF-8"
    return "not valid UTF-8; convert the file, for example with iconv -f LATIN1 -t UTF-8"


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
