"""Readers of published word vectors: GloVe text, word2vec text and binary, fastText `.vec`, `.npz`; `.gz` of the first.

A reader passes over the file once and keeps the wanted words only, so a file of two million words costs the memory of
a vocabulary. Whatever is wrong with a file is one `UserError` that names the line or the word.
"""

from __future__ import annotations

import gzip
import math
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np

from docnmt.errors import UserError

#: Says whether a word is kept, from its spelling and its place in the file (files are sorted by frequency).
Wanted = Callable[[str, int], bool]

#: No word of a real file is longer (bytes); a longer run means that this is not a file of word vectors.
_LONGEST_WORD = 4096
_FASTTEXT_MAGIC = b"\x9a\x0bO/"


@dataclass(frozen=True)
class WordVectors:
    """The wanted words of one file.

    Attributes:
        name: the file's name.
        rows: the row of each word in `vectors`.
        vectors: (V, d) float32, every row of length 1 unless they were read as they are.
        total: how many words the file has.
        dropped: words that came twice (the first counts) or whose vector is zero and has no direction.
    """

    name: str
    rows: dict[str, int]
    vectors: np.ndarray
    total: int
    dropped: int


def read_vectors(path: Path, wanted: Wanted, *, unit: bool = True) -> WordVectors:
    """Read the wanted words of a vector file; with `unit` bring them to unit length (InferLite, section 4).

    The form follows from the name: `.npz` (arrays `words` and `vectors`, optionally `row`: word → row of vectors),
    `.bin` or `.bin.gz` (word2vec), anything else is text with or without the line "words dimensions" in front.

    Raises:
        UserError: unreadable, truncated or not a vector file, values that are no numbers; names the line or word.
    """
    entries = _npz if path.suffix == ".npz" else _binary if ".bin" in path.suffixes[-2:] else _text
    rows: dict[str, int] = {}
    kept: list[np.ndarray] = []
    total = dropped = 0
    try:
        for word, vector in entries(path, wanted):
            total += 1
            if vector is None:
                continue
            if not np.isfinite(vector).all():
                raise UserError(f"{path}: the vector of word {total} '{word}' holds values that are not finite numbers")
            length = float(np.linalg.norm(vector.astype(np.float64)))
            if word in rows or length == 0:
                dropped += 1
                continue
            rows[word] = len(kept)
            kept.append((vector / length if unit else vector).astype(np.float32))
    except (OSError, EOFError, zlib.error, zipfile.BadZipFile) as error:
        raise UserError(f"{path}: cannot be read as word vectors: {error}") from error
    if total == 0:
        raise UserError(f"{path}: holds no word vectors")
    return WordVectors(path.name, rows, np.stack(kept) if kept else np.zeros((0, 1), np.float32), total, dropped)


def _open(path: Path) -> BinaryIO:
    return gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")  # type: ignore[return-value]


def _header(line: bytes) -> tuple[int, int] | None:
    """(words, dimensions) if this is the first line of word2vec's and fastText's forms."""
    fields = line.split()
    if len(fields) == 2 and all(field.isdigit() for field in fields):
        return int(fields[0]), int(fields[1])
    return None


def _text(path: Path, wanted: Wanted) -> Iterator[tuple[str, np.ndarray | None]]:
    with _open(path) as file:
        first = file.readline()
        header = _header(first)
        dimensions = header[1] if header else len(first.split()) - 1
        if dimensions < 1:
            raise UserError(f"{path}: line 1: expected a word and its numbers, or 'words dimensions'; is it text?")
        if not header:
            file.seek(0)
        count = 0
        for number, line in enumerate(file, 2 if header else 1):
            fields = line.rstrip().rsplit(b" ", dimensions)  # words with spaces exist
            if len(fields) != dimensions + 1:
                raise UserError(
                    f"{path}: line {number}: expected a word and {dimensions} numbers, got {len(fields)} fields; "
                    "is the file complete?"
                )
            if b" " in fields[0] and _is_number(fields[0].rsplit(b" ", 1)[1]):
                raise UserError(f"{path}: line {number}: has more numbers than the {dimensions} of line 1")
            word = fields[0].decode("utf-8", "replace")
            yield word, _numbers(fields[1:], path, number) if wanted(word, count) else None
            count += 1
        if header and count != header[0]:
            raise UserError(f"{path}: line 1 promises {header[0]} words, there are {count}; is the file complete?")


def _is_number(field: bytes) -> bool:
    """As vectors have them, with a decimal point; words with spaces may end in a whole number."""
    try:
        return b"." in field and math.isfinite(float(field))
    except ValueError:
        return False


def _numbers(fields: list[bytes], path: Path, number: int) -> np.ndarray:
    try:
        return np.array(fields, dtype=np.float32)
    except ValueError as error:
        raise UserError(f"{path}: line {number}: {error}; expected a word and {len(fields)} numbers") from error


def _binary(path: Path, wanted: Wanted) -> Iterator[tuple[str, np.ndarray | None]]:
    with _open(path) as file:
        first = file.readline(64)
        if first.startswith(_FASTTEXT_MAGIC):
            raise UserError(f"{path}: is fastText's own model format; give the .vec file beside it")
        header = _header(first)
        if header is None or header[1] < 1:
            raise UserError(f"{path}: is not word2vec's binary form (line 1 is not 'words dimensions')")
        count, size = header[0], 4 * header[1]
        if path.suffix != ".gz" and path.stat().st_size < len(first) + count * (size + 2):
            raise UserError(f"{path}: too short for {count} words of {header[1]} dimensions; is the file complete?")
        for place in range(count):
            word = _word(file, path, place).decode("utf-8", "replace")
            data = file.read(size)
            if len(data) < size:
                raise UserError(f"{path}: ends within word {place + 1} of {count}; is the file complete?")
            yield word, np.frombuffer(data, "<f4") if wanted(word, place) else None


def _word(file: BinaryIO, path: Path, place: int) -> bytes:
    word = bytearray()
    while (byte := file.read(1)) != b" ":
        if not byte or len(word) > _LONGEST_WORD:
            raise UserError(f"{path}: word {place + 1} has no end; is this word2vec's binary form, and complete?")
        word += byte
    return bytes(word).lstrip(b"\n")


def _npz(path: Path, wanted: Wanted) -> Iterator[tuple[str, np.ndarray | None]]:
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in ("words", "vectors", "row") if name in archive.files}
    except ValueError as error:
        raise UserError(f"{path}: cannot be read as an .npz of word vectors: {error}") from error
    vectors, names = arrays.get("vectors"), arrays.get("words")
    if vectors is None or names is None or vectors.ndim != 2 or vectors.dtype.kind != "f" or names.dtype.kind != "U":
        raise UserError(
            f"{path}: expected arrays 'words' (texts, or one text with a word a line) and 'vectors' (rows of "
            f"numbers), got {', '.join(f'{n} {a.dtype} {a.shape}' for n, a in arrays.items()) or 'neither'}"
        )
    words = str(names).split("\n") if names.ndim == 0 else [str(word) for word in names]
    row = arrays.get("row", np.arange(len(vectors)))
    if len(row) != len(words) or row.dtype.kind not in "iu" or int(row.max(initial=0)) >= len(vectors):
        raise UserError(f"{path}: {len(words)} words, {len(row)} rows pointing at {len(vectors)} vectors: do not fit")
    for place, word in enumerate(words):
        yield word, vectors[row[place]].astype(np.float32) if wanted(word, place) else None
