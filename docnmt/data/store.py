"""Arrays of tokens and of lines on disk: flat files with offsets, mapped into memory when opened."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from docnmt.errors import UserError


@dataclass(frozen=True)
class TokenArray:
    """Sentences of token ids, without `</s>`.

    Attributes:
        tokens: all ids in a row, uint16 or uint32.
        offsets: (S+1,) int64, where each sentence begins.
    """

    tokens: np.ndarray
    offsets: np.ndarray

    @classmethod
    def of(cls, sentences: Sequence[Sequence[int]]) -> TokenArray:
        """From lists, in memory."""
        lengths = [len(sentence) for sentence in sentences]
        tokens = np.fromiter((token for sentence in sentences for token in sentence), np.uint32, count=sum(lengths))
        return cls(tokens, np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int64))

    @classmethod
    def open(cls, stem: Path, dtype: str) -> TokenArray:
        return cls(map_array(stem.with_name(stem.name + ".bin"), dtype), map_array(offsets_path(stem), "int64"))

    def lengths(self) -> np.ndarray:
        """(S,) tokens of each sentence."""
        return np.diff(self.offsets)

    def __getitem__(self, i: int) -> np.ndarray:
        return self.tokens[self.offsets[i] : self.offsets[i + 1]]

    def __len__(self) -> int:
        return len(self.offsets) - 1


@dataclass(frozen=True)
class TextArray:
    """Lines of UTF-8 text: `text[i]` is line i as it was read. `data` holds all bytes, `offsets` (S+1,) int64."""

    data: np.ndarray
    offsets: np.ndarray

    @classmethod
    def of(cls, lines: Sequence[str]) -> TextArray:
        """From strings, in memory."""
        encoded = [line.encode() for line in lines]
        lengths = [len(line) for line in encoded]
        offsets = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int64)
        return cls(np.frombuffer(b"".join(encoded), dtype=np.uint8), offsets)

    @classmethod
    def open(cls, stem: Path) -> TextArray:
        return cls(map_array(stem.with_name(stem.name + ".txt"), "uint8"), map_array(offsets_path(stem), "int64"))

    def __getitem__(self, i: int) -> str:
        if not 0 <= i < len(self):
            raise IndexError(f"line {i} of {len(self)}")
        return bytes(self.data[self.offsets[i] : self.offsets[i + 1]]).decode()

    def __len__(self) -> int:
        return len(self.offsets) - 1


def offsets_path(stem: Path) -> Path:
    """Where the offsets of a token or text array stand."""
    return stem.with_name(stem.name + ".offsets")


def map_array(path: Path, dtype: str) -> np.ndarray:
    """A flat file as a read-only array, mapped and not read.

    Raises:
        UserError: it is missing or its size is no multiple of the item's.
    """
    kind = np.dtype(dtype).newbyteorder("<")
    try:
        size = path.stat().st_size
        if size % kind.itemsize:
            raise UserError(f"{path}: {size} bytes are no whole number of {dtype}; it is truncated, preprocess again")
        return np.memmap(path, dtype=kind, mode="r") if size else np.empty(0, dtype=kind)
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}; preprocess again") from error
