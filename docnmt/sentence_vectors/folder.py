"""What `docnmt-preprocess --task nli` writes: vocabulary, vectors and pairs as arrays that are mapped into memory.

`meta.json`, `words.txt` (a word a line), `vectors.K.npy` (one a type), `probability.npy` (of each word in the training
data) and for each split `SPLIT.tokens.npy`, `SPLIT.offsets.npy` (sentence 2i is pair i's premise, 2i + 1 its
hypothesis) and `SPLIT.labels.npy`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from docnmt.data.meta import read_meta
from docnmt.errors import UserError
from docnmt.sentence_vectors.embeddings import Embeddings

TASK = "nli"


@dataclass(frozen=True, eq=False)
class PairArrays:
    """The pairs of one split, as rows of the vocabulary. A sentence without words is one unknown word."""

    tokens: np.ndarray
    offsets: np.ndarray
    labels: np.ndarray

    @classmethod
    def of(cls, sentences: Sequence[Sequence[int]], labels: Sequence[int]) -> PairArrays:
        """The arrays of sentences (premise, hypothesis, premise, …) and the labels of the pairs."""
        filled = [sentence or [0] for sentence in sentences]
        offsets = np.concatenate([[0], np.cumsum([len(s) for s in filled])]).astype(np.int64)
        tokens = np.fromiter((word for s in filled for word in s), dtype=np.int32, count=int(offsets[-1]))
        return cls(tokens, offsets, np.asarray(labels, dtype=np.uint8))

    def sentence(self, number: int) -> np.ndarray:
        """The words of a sentence."""
        return self.tokens[self.offsets[number] : self.offsets[number + 1]]

    @property
    def sizes(self) -> np.ndarray:
        """(pairs,) int64, words of both sentences of a pair."""
        return np.diff(self.offsets[::2])

    def save(self, folder: Path, split: str) -> None:
        for name in ("tokens", "offsets", "labels"):
            np.save(folder / f"{split}.{name}.npy", getattr(self, name))


@dataclass(frozen=True, eq=False)
class NliFolder:
    """An opened folder."""

    path: Path
    meta: dict[str, Any]

    @classmethod
    def open(cls, path: Path) -> NliFolder:
        """Read the description; arrays are mapped when asked for.

        Raises:
            UserError: not a folder of this task, of another format version, or a file is missing or truncated.
        """
        meta = read_meta(path)
        if meta["task"] != TASK:
            raise UserError(f"{path}: was made for the task {meta['task']}, not {TASK}; preprocess with --task {TASK}")
        return cls(path, meta)

    @property
    def fingerprint(self) -> str:
        """A hash of everything in the folder."""
        return str(self.meta["fingerprint"])

    @cached_property
    def embeddings(self) -> Embeddings:
        """Vocabulary and vectors."""
        names = self.meta["vectors"]
        try:
            words = (self.path / "words.txt").read_text(encoding="utf-8").removesuffix("\n").split("\n")
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"{self.path / 'words.txt'}: cannot be read: {error}") from error
        vectors = [self._array(f"vectors.{k}.npy") for k in range(len(names))]
        for name, array in zip(names, vectors, strict=True):
            if len(array) != len(words):
                raise UserError(f"{self.path}: {len(words)} words but {len(array)} vectors of {name}; run it again")
        return Embeddings(names, words, vectors)

    @property
    def probability(self) -> np.ndarray:
        """(V,) float32, how often each word is met in the training data."""
        return self._array("probability.npy")

    def pairs(self, split: str) -> PairArrays:
        """The pairs of a split.

        Raises:
            UserError: there is no such split, or it is damaged.
        """
        if split not in self.meta["splits"]:
            raise UserError(f"{self.path}: has no split '{split}'; there are {', '.join(self.meta['splits'])}")
        arrays = PairArrays(*(self._array(f"{split}.{name}.npy") for name in ("tokens", "offsets", "labels")))
        if len(arrays.offsets) != 2 * len(arrays.labels) + 1 or int(arrays.offsets[-1]) != len(arrays.tokens):
            raise UserError(f"{self.path}: the arrays of split '{split}' do not fit together; preprocess again")
        return arrays

    def _array(self, name: str) -> np.ndarray:
        try:
            # Copy on write: torch wants a writable array, and nobody writes.
            array: np.ndarray = np.load(self.path / name, mmap_mode="c", allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise UserError(f"{self.path / name}: cannot be read: {error}; preprocess again") from error
        return array
