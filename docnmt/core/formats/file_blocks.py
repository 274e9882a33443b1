"""Reading of files in blocks, decompressed if the name ends in `.gz` or `.zst`."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

from docnmt.runtime.errors import UserError

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
        raise UserError(f"{path}: reading .zst files needs an extra: pip install 'docnmt[tables]'") from error
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
