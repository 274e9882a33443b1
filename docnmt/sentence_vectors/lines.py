"""Lines of text for `docnmt-embed`, as they come: a terminal is answered line by line, a file may be of any length.

The rules are those of `docnmt.formats.text`, which reads in blocks and so would keep a terminal waiting.
"""

from __future__ import annotations

import codecs
import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np

from docnmt.errors import UserError


@contextlib.contextmanager
def open_lines(path: Path | None) -> Iterator[Iterator[str]]:
    """The lines of a file, or of standard input.

    Raises:
        UserError: it cannot be read.
    """
    if path is None:
        yield read_lines(sys.stdin.buffer, "stdin")
        return
    try:
        file = path.open("rb")
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror or error}") from error
    with file:  # outside: what fails in the body, such as a pipe that nobody reads any more, is no fault of this file
        yield read_lines(file, str(path))


def read_lines(file: BinaryIO, name: str) -> Iterator[str]:
    """Lines of UTF-8 text; they end at `\\n` only, a `\\r` before it and a byte order mark are no part of them.

    Raises:
        UserError: a line is not UTF-8 or holds what no text does, and is named; or reading fails.
    """
    try:
        for number, line in enumerate(file, 1):
            yield _decode(line, name, number)
    except OSError as error:
        raise UserError(f"{name}: cannot be read: {error.strerror or error}") from error


def _decode(line: bytes, name: str, number: int) -> str:
    if number == 1:
        line = line.removeprefix(codecs.BOM_UTF8)
    try:
        text = line.decode("utf-8").removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError as error:
        raise UserError(f"{name}: line {number}: not valid UTF-8 ({error.reason} at byte {error.start})") from error
    for character, what in (("\r", "carriage return inside a line"), ("\0", "NUL byte; this is not plain text")):
        if character in text:
            raise UserError(f"{name}: line {number}: {what}: remove it")
    return text


class StoredLines:
    """The lines of a file, as `read_lines` has them, each read when it is asked for: 8 bytes of memory a line.

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
            return _decode(file.readline(), self.name, place + 1)
