"""Lines of text for `docnmt-embed`: read as they come, or in any order without being kept in memory."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np

from docnmt.errors import UserError
from docnmt.formats.text import TextLines


class LineByLine:
    """A binary stream of which `read` gives one line, so that a terminal is answered line by line."""

    def __init__(self, lines: Iterator[bytes]) -> None:
        self.lines = lines

    def read(self, size: int) -> bytes:
        """The next line, whatever its size; nothing at the end."""
        return next(self.lines, b"")


def text_lines(path: Path | None) -> Iterator[str]:
    """The lines of a file, or of standard input one by one; errors as of `docnmt.formats.text`."""
    if path is not None:
        return iter(TextLines(path))
    return iter(TextLines(cast(BinaryIO, LineByLine(iter(sys.stdin.buffer))), name="stdin"))


class StoredLines:
    """The lines of a file, each read when it is asked for: 8 bytes of memory a line.

    Raises:
        UserError: it cannot be read, or only once and from the beginning.
    """

    def __init__(self, path: Path, name: str) -> None:
        self.path, self.name = path, name
        if path.exists() and not path.is_file():
            raise UserError(f"{name}: is a folder or a pipe, expected a file, whose lines are read in any order")
        try:
            with path.open("rb") as file:
                lengths = np.fromiter(map(len, file), np.int64)
        except OSError as error:
            raise UserError(f"{name}: cannot be read: {error.strerror or error}") from error
        self.begins = np.cumsum(lengths) - lengths

    def __len__(self) -> int:
        return len(self.begins)

    def __getitem__(self, place: int) -> str:
        with self.path.open("rb") as file:
            file.seek(int(self.begins[place]))
            line = file.readline()
        try:
            return line.decode("utf-8" if place else "utf-8-sig").removesuffix("\n").removesuffix("\r")
        except UnicodeDecodeError as error:
            raise UserError(f"{self.name}:{place + 1}: not valid UTF-8 ({error.reason})") from error
