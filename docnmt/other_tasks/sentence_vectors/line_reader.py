"""Lines of text for `docnmt-embed`, read as they arrive, or in any order without being kept in memory."""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np

from docnmt.core.lines import TextLines
from docnmt.runtime.errors import UserError


class LineByLine:
    """A binary stream whose `read` returns one line, so that a terminal is answered line by line."""

    def __init__(self, lines: Iterator[bytes]) -> None:
        self.lines = lines

    def read(self, size: int) -> bytes:
        """Return the next line, whatever its size; b"" at the end."""
        return next(self.lines, b"")


def text_lines(path: Path | None) -> Iterator[str]:
    """Return the lines of a file, or of standard input one by one; errors as in `docnmt.core.lines`."""
    if path is not None:
        return iter(TextLines(path))
    return iter(TextLines(cast(BinaryIO, LineByLine(iter(sys.stdin.buffer))), name="stdin"))


class StoredLines:
    """The lines of a file, each read when needed; takes 8 bytes of memory per line.

    Raises:
        UserError: the file cannot be read, or only once and from the beginning, or is malformed text.
    """

    def __init__(self, path: Path, name: str) -> None:
        self.path, self.name = path, name
        if path.exists() and not path.is_file():
            raise UserError(f"{name}: is a folder or a pipe, expected a file, whose lines are read in any order")
        self._ends: list[np.ndarray] = []
        lines = TextLines(self._blocks(), name=name)
        for _ in lines:  # checks each line
            pass
        self.begins = np.concatenate([np.zeros(1, np.int64), *self._ends])[: lines.lines]

    def _blocks(self) -> Generator[bytes, None, None]:
        """Yield the file's blocks and record where lines end."""
        at = 0
        try:
            with self.path.open("rb") as file:
                while block := file.read(1 << 16):
                    self._ends.append(np.flatnonzero(np.frombuffer(block, np.uint8) == ord("\n")) + at + 1)
                    at += len(block)
                    yield block
        except OSError as error:
            raise UserError(f"{self.name}: cannot be read: {error.strerror or error}") from error

    def __len__(self) -> int:
        return len(self.begins)

    def __getitem__(self, place: int) -> str:
        with self.path.open("rb") as file:
            file.seek(int(self.begins[place]))
            line = file.readline()
        return line.decode("utf-8" if place else "utf-8-sig").removesuffix("\n").removesuffix("\r")
