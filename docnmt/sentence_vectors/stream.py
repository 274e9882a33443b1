"""Vectors or codes of any number of lines, written as they come: constant memory, one `.npy` file."""

from __future__ import annotations

import codecs
import contextlib
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import BinaryIO

import numpy as np

from docnmt.errors import UserError
from docnmt.files import replacing
from docnmt.progress import Progress
from docnmt.sentence_vectors.codes import BitReport
from docnmt.sentence_vectors.encoder import SentenceEncoder
from docnmt.sentence_vectors.words import words

#: Lines that are read, encoded and written together.
CHUNK = 4096


class NpyWriter:
    """Appends rows to an `.npy` file whose number of rows is known only at the end."""

    def __init__(self, file: BinaryIO, columns: int, dtype: type[np.generic]) -> None:
        self.file, self.columns, self.dtype, self.rows = file, columns, np.dtype(dtype), 0
        self._header()

    def append(self, rows: np.ndarray) -> None:
        """Write (n, columns) at the end."""
        self.file.write(np.ascontiguousarray(rows, dtype=self.dtype).tobytes())
        self.rows += len(rows)

    def finish(self) -> None:
        """Put the number of rows into the header."""
        self.file.seek(0)
        self._header()

    def _header(self) -> None:
        """NumPy's format 1.0, always 128 bytes long, so that it can be written again."""
        text = repr({"descr": self.dtype.str, "fortran_order": False, "shape": (self.rows, self.columns)})
        self.file.write(np.lib.format.magic(1, 0) + (118).to_bytes(2, "little") + text.ljust(117).encode() + b"\n")


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


@contextlib.contextmanager
def open_lines(path: Path) -> Iterator[Iterator[str]]:
    """The lines of a file.

    Raises:
        UserError: it cannot be read.
    """
    try:
        file = path.open("rb")
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror or error}") from error
    with file:  # outside: what fails in the body, such as a pipe that nobody reads any more, is no fault of this file
        yield read_lines(file, str(path))


def embed_stream(encoder: SentenceEncoder, lines: Iterable[str], output: Path, *, codes: bool) -> BitReport | None:
    """Write the vectors, or with `codes` the packed codes, of every line to `output`, in order.

    Returns:
        How the bits of the codes are used; None for vectors.
    """
    report = BitReport(encoder.bits) if codes else None
    lines = iter(lines)
    with (
        replacing(output) as temporary,
        temporary.open("wb") as file,
        Progress(None, "encoding", unit="sentences") as progress,
    ):
        writer = NpyWriter(file, encoder.bits // 8 if codes else encoder.width, np.uint8 if codes else np.float32)
        while chunk := [words(line) for line in islice(lines, CHUNK)]:
            rows = encoder.codes(chunk) if codes else encoder.features(chunk)
            writer.append(rows)
            if report is not None:
                report.add(rows)
            progress.update(len(chunk))
        writer.finish()
    return report
