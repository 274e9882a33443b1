"""Flat arrays on disk, mapped into memory: tokens and raw text of millions of sentences.

A file `NAME.bin` is one array, little-endian, without a header; its type and length are in `meta.json`.
"""

from __future__ import annotations

import hashlib
import itertools
import mmap
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, overload

import numpy as np
import xxhash

from docnmt.runtime.checksums import KIND, checking
from docnmt.runtime.errors import UserError

_BLOCK, _LINES = 1 << 20, 4096


class TokenArray:
    """Sentences as subword numbers, without `</s>`.

    Attributes:
        tokens: (T,) uint16 or uint32, all sentences concatenated. offsets: (S+1,) int64, where each begins.

    Args:
        check: is called with subwords that are read one batch after the other; None: they are known to be valid.
    """

    def __init__(
        self, tokens: np.ndarray, offsets: np.ndarray, check: Callable[[np.ndarray], None] | None = None
    ) -> None:
        self.tokens, self.offsets, self._check = tokens, offsets, check

    @classmethod
    def of_file(cls, path: Path, tokens: np.ndarray, offsets: np.ndarray, below: int | None) -> TokenArray:
        """Build the array of a file, and check that all subwords are less than `below`; None: any number is right.

        Inside `docnmt.runtime.checksums.skipped` they are checked when they are read, so that opening reads none.

        Raises:
            UserError: a subword is not less; the message names the file.
        """
        check = partial(check_tokens, path, below)
        if not checking():
            return cls(tokens, offsets, check)
        check(tokens)
        return cls(tokens, offsets)

    @classmethod
    def from_lists(cls, sentences: Sequence[Sequence[int]], vocab_size: int) -> TokenArray:
        """Build the array from each sentence's subwords, in memory."""
        lengths = np.array([len(sentence) for sentence in sentences], dtype=np.int64)
        flat = np.fromiter((token for sentence in sentences for token in sentence), token_dtype(vocab_size))
        return cls(flat, offsets_of(lengths))

    def first(self, sentences: int) -> TokenArray:
        """Return the first `sentences` sentences."""
        return TokenArray(self.tokens[: self.offsets[sentences]], self.offsets[: sentences + 1], self._check)

    def at(self, places: np.ndarray | slice) -> np.ndarray:
        """Return the subwords at these places (n,) of `tokens`."""
        found: np.ndarray = self.tokens[places]
        if self._check:
            self._check(found)
        return found

    def take(self, numbers: np.ndarray) -> TokenArray:
        """Return the sentences with these numbers, in their order, in memory."""
        first, last = np.asarray(self.offsets[numbers]), np.asarray(self.offsets[numbers + 1])
        return TokenArray(np.asarray(self.at(ranges(first, last))), offsets_of(last - first))

    def lengths(self) -> np.ndarray:
        """Return the number of subwords of each sentence, (S,) int64."""
        return np.diff(self.offsets)

    def length_blocks(self) -> Iterator[np.ndarray]:
        """Yield the lengths in blocks (n,), for corpora so large that not even the lengths fit into memory."""
        return length_blocks(self.offsets)

    def __getitem__(self, i: int) -> np.ndarray:
        return self.at(slice(self.offsets[i], self.offsets[i + 1]))

    def __len__(self) -> int:
        return len(self.offsets) - 1


class TextArray(Sequence[str]):
    """Lines of raw text.

    Attributes:
        data: (bytes,) uint8, UTF-8, all lines concatenated. offsets: (S+1,) int64, where each begins.
    """

    def __init__(self, data: np.ndarray, offsets: np.ndarray) -> None:
        self.data, self.offsets = data, offsets

    @classmethod
    def from_lines(cls, lines: Iterable[str]) -> TextArray:
        """Build the array from lines, in memory."""
        encoded = [line.encode() for line in lines]
        lengths = np.array([len(line) for line in encoded], dtype=np.int64)
        return cls(np.frombuffer(b"".join(encoded), dtype=np.uint8), offsets_of(lengths))

    def first(self, lines: int) -> TextArray:
        """Return the first `lines` lines."""
        return TextArray(self.data[: self.offsets[lines]], self.offsets[: lines + 1])

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            rows = range(len(self))[index]
            return self._lines(rows.start, max(rows) + 1) if rows.step == 1 and rows else [self[i] for i in rows]
        i = int(index) + len(self) if index < 0 else int(index)
        if not 0 <= i < len(self):
            raise IndexError(f"line {index} of {len(self)}")
        return self._lines(i, i + 1)[0]

    def __iter__(self) -> Iterator[str]:
        for first in range(0, len(self), _LINES):
            yield from self._lines(first, min(first + _LINES, len(self)))

    def release_pages(self) -> None:
        """Release the pages read of a mapped file (see the function `release_pages`)."""
        release_pages(self.data)
        release_pages(self.offsets)

    def _lines(self, first: int, last: int) -> list[str]:
        """Return a range of lines, read at once."""
        offsets = np.asarray(self.offsets[first : last + 1])
        data = self.data[offsets[0] : offsets[-1]].tobytes()
        cuts = (offsets - offsets[0]).tolist()
        try:
            return [data[a:b].decode() for a, b in itertools.pairwise(cuts)]
        except UnicodeDecodeError as error:
            raise UserError(f"raw text of a data folder is damaged near line {first + 1}; preprocess again") from error


def offsets_of(lengths: np.ndarray) -> np.ndarray:
    """Return offsets (S+1,), int64, of rows with these lengths (S,)."""
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int64)


def ranges(first: np.ndarray, last: np.ndarray) -> np.ndarray:
    """Return all numbers of half-open ranges, one after the other: [3, 8), [0, 2) → 3 4 5 6 7 0 1."""
    lengths = last - first
    offsets = offsets_of(lengths)
    numbers: np.ndarray = np.repeat(first - offsets[:-1], lengths) + np.arange(offsets[-1])
    return numbers


def length_blocks(offsets: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the lengths of rows with these offsets (S+1,), in blocks."""
    for first in range(0, len(offsets) - 1, _BLOCK):
        yield np.diff(offsets[first : first + _BLOCK + 1])
        release_pages(offsets)


def release_pages(array: np.ndarray) -> None:
    """Release the pages of a mapped file from this process, after a pass over it.

    They stay in the system's cache, and are mapped again when they are read. Other arrays are left alone.
    """
    owner: object = array
    while isinstance(owner, np.ndarray):
        owner = owner.base
    if isinstance(owner, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        owner.madvise(mmap.MADV_DONTNEED)


def token_dtype(vocab_size: int) -> np.dtype[Any]:
    """Return the smallest type that holds every token of a vocabulary."""
    return np.dtype("<u2" if vocab_size <= 1 << 16 else "<u4")


class ArrayWriter:
    """Appends to one file of a folder and describes it for `meta.json`."""

    def __init__(self, path: Path, dtype: np.dtype[Any] | str) -> None:
        self.path, self.dtype, self.length = path, np.dtype(dtype), 0
        path.unlink(missing_ok=True)  # arrays mapped from the old file stay valid
        self._file, self._digest = path.open("wb"), hashlib.sha256()
        self._checksum = xxhash.xxh3_64()

    def append(self, values: np.ndarray) -> None:
        """Append elements."""
        for first in range(0, len(values), _BLOCK):  # `values` may be a map of a large file
            data = np.ascontiguousarray(values[first : first + _BLOCK], dtype=self.dtype).tobytes()
            self._file.write(data)
            self._digest.update(data)
            self._checksum.update(data)
            release_pages(values)
        self.length += len(values)

    def close(self) -> dict[str, Any]:
        """Close the file and return its entry in `meta.json`."""
        self._file.close()
        return {
            "dtype": self.dtype.str,
            "length": self.length,
            "bytes": self.length * self.dtype.itemsize,
            "sha256": self._digest.hexdigest(),
            KIND: self._checksum.hexdigest(),
        }


class RaggedWriter:
    """Writes rows of different lengths: `NAME.bin` and `NAME.offsets.bin`."""

    def __init__(self, folder: Path, name: str, dtype: np.dtype[Any] | str) -> None:
        self.values = ArrayWriter(folder / f"{name}.bin", dtype)
        self._offsets = ArrayWriter(folder / f"{name}.offsets.bin", "<i8")
        self._offsets.append(np.zeros(1, dtype=np.int64))

    def append(self, values: np.ndarray, lengths: np.ndarray) -> None:
        """Append rows: their elements one after the other, and how many each has."""
        self._offsets.append(self.values.length + np.cumsum(lengths, dtype=np.int64))
        self.values.append(values)

    def append_rows(self, values: np.ndarray, offsets: np.ndarray) -> None:
        """Append rows of another such file: those between its `offsets`, which need not begin at 0."""
        for first in range(0, len(offsets) - 1, _BLOCK):
            part = offsets[first : first + _BLOCK + 1]
            self.append(values[part[0] : part[-1]], np.diff(part))

    def append_lines(self, lines: Sequence[str]) -> None:
        """Append lines of text."""
        text = TextArray.from_lines(lines)
        self.append(text.data, np.diff(text.offsets))

    def close(self) -> dict[str, dict[str, Any]]:
        """Close the files and return their entries in `meta.json`."""
        return {writer.path.name: writer.close() for writer in (self.values, self._offsets)}


def write_array(path: Path, values: np.ndarray, dtype: np.dtype[Any] | str) -> dict[str, dict[str, Any]]:
    """Write a file of an array at once; return its entry in `meta.json`."""
    writer = ArrayWriter(path, dtype)
    writer.append(values)
    return {path.name: writer.close()}


def map_array(path: Path, dtype: str, length: int, *, offset: int = 0, mode: Literal["r", "c"] = "r") -> np.ndarray:
    """Map `length` elements of a file from byte `offset` on into memory.

    Args:
        mode: `c` is copy on write, for arrays that become tensors as they are: torch expects writable ones.

    Raises:
        UserError: the file is missing or too short.
    """
    if sys.byteorder != "little":
        raise UserError(f"{path}: written for little-endian machines, this one is not")
    if length == 0:
        return np.zeros(0, dtype=dtype)
    try:
        return np.asarray(np.memmap(path, dtype=dtype, mode=mode, offset=offset, shape=(length,)))
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: cannot be mapped into memory: {error}; preprocess again") from error


def check_offsets(path: Path, offsets: np.ndarray, total: int, rows: int | None = None) -> None:
    """Check that offsets rise from 0 to `total`, and are those of `rows` rows if that is given.

    Raises:
        UserError: they do not; the message names the file.
    """
    count = len(offsets) - 1
    if rows is not None and count != rows:
        raise UserError(f"{path}: is damaged: {count:,} rows, expected {rows:,}; preprocess again")
    falls = any((lengths < 0).any() for lengths in length_blocks(offsets))
    if count < 0 or offsets[0] != 0 or offsets[-1] != total or falls:
        raise UserError(f"{path}: is damaged: its numbers do not rise from 0 to {total:,}; preprocess again")


def check_tokens(path: Path, below: int | None, tokens: np.ndarray) -> None:
    """Check that subwords of a file are less than `below`.

    Raises:
        UserError: one is not; the message names the file.
    """
    if below is not None and len(tokens) and tokens.max() >= below:
        raise UserError(f"{path}: is damaged: it has a subword {tokens.max():,} of {below:,}; preprocess again")
