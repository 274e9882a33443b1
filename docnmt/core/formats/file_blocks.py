"""The content of a file in blocks, decompressed where its name ends in `.gz` or `.zst`."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

from docnmt.runtime.errors import UserError

BLOCK = 1 << 22
#: Bytes of a compressed file at a time: they may become a thousand times as many.
_COMPRESSED = 1 << 16

#: The endings of compressed files.
ENDINGS = (".gz", ".zst")


class _Decompressor(Protocol):
    """One compressed stream, of which a file may have several behind each other."""

    @property
    def eof(self) -> bool:
        """Whether the stream is at its end."""

    @property
    def unused_data(self) -> bytes:
        """What stands behind that."""

    def decompress(self, data: bytes, /) -> bytes:
        """What the next bytes of the stream say."""


def blocks(path: Path, seen: Callable[[bytes], object] | None = None) -> Iterator[bytes]:
    """Read a file block by block.

    Args:
        seen: called with every block as it stands in the file.

    Raises:
        UserError: the file cannot be read, is damaged or cut off, or what decompresses it is not installed.
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
    """What makes a decompressor for a file of this name; None where it is not compressed.

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
    """
    Raises:
        EOFError: the last stream is not whole.
    """
    stream: _Decompressor | None = None
    for block in raw:
        while block:
            stream = stream or new()
            yield stream.decompress(block)
            block, stream = (stream.unused_data, None) if stream.eof else (b"", stream)
    if stream is not None:
        raise EOFError
