"""Sentences as rows of a vocabulary: packed for a model, or as a split's pairs in memory or on disk.

`docnmt-preprocess --task nli` writes the vocabulary with its vectors (`embeddings`), `probability.npy` (the relative
frequency of each word in the training data) and for each split `SPLIT.tokens.npy`, `SPLIT.offsets.npy` (sentence 2i is
premise, 2i + 1 its hypothesis) and `SPLIT.labels.npy`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from docnmt.core.batching.plan import plan_batches
from docnmt.core.criterions.label_cross_entropy import LabelledBatch
from docnmt.core.data.store import check_offsets, check_tokens, offsets_of
from docnmt.layout import Spans
from docnmt.other_tasks.sentence_vectors.embeddings import map_npy
from docnmt.other_tasks.sentence_vectors.pairs import NLI_LABELS
from docnmt.runtime.errors import UserError


@dataclass(frozen=True, eq=False)
class PackedSentences:
    """Sentences concatenated to one row of tokens (T,), int64, which are rows of the embedding tables."""

    tokens: Tensor
    spans: Spans

    @classmethod
    def of(cls, sentences: Sequence[Sequence[int] | np.ndarray]) -> PackedSentences:
        """Pack sentences given as lists of rows."""
        tokens = np.concatenate([np.asarray(sentence, dtype=np.int64) for sentence in ([], *sentences)])
        offsets = offsets_of(np.array([len(sentence) for sentence in sentences], dtype=np.int64))
        return cls(torch.from_numpy(tokens), Spans(torch.from_numpy(offsets)))

    def to(self, device: torch.device | str) -> PackedSentences:
        """Return the sentences on another device."""
        return PackedSentences(self.tokens.to(device), Spans(self.spans.offsets.to(device)))


#: A batch of B pairs: the text has their B first sentences, then their B second ones.
PairBatch: TypeAlias = LabelledBatch[PackedSentences]


@dataclass(frozen=True, eq=False)
class PairDataset:
    """The pairs of one split. A sentence without words becomes one unknown word.

    Attributes:
        tokens: (T,) int32, the words of premise, hypothesis, premise, … offsets: (2U+1,) int64, where each begins.
        labels: (U,) uint8.
    """

    split: str
    tokens: np.ndarray
    offsets: np.ndarray
    labels: np.ndarray

    @classmethod
    def of(cls, split: str, sentences: Sequence[Sequence[int]], labels: Sequence[int]) -> PairDataset:
        """Build a dataset from sentences (premise, hypothesis, premise, …) and the labels of the pairs."""
        filled = [sentence or [0] for sentence in sentences]
        offsets = offsets_of(np.array([len(sentence) for sentence in filled], dtype=np.int64))
        tokens = np.fromiter((word for s in filled for word in s), dtype=np.int32, count=int(offsets[-1]))
        return cls(split, tokens, offsets, np.asarray(labels, dtype=np.uint8))

    @classmethod
    def open(cls, folder: Path, split: str, *, vocabulary: int | None = None) -> PairDataset:
        """Map the arrays of a split into memory; `vocabulary` is its number of words.

        Raises:
            UserError: the arrays are damaged.
        """
        found = cls(split, *(map_npy(folder / f"{split}.{name}.npy") for name in ("tokens", "offsets", "labels")))
        arrays, path = (found.tokens, found.offsets, found.labels), folder / f"{split}.tokens.npy"
        if [(array.ndim, array.dtype.name) for array in arrays] != [(1, "int32"), (1, "int64"), (1, "uint8")]:
            raise UserError(f"{folder}: the arrays of split '{split}' are not of their types; preprocess again")
        check_offsets(folder / f"{split}.offsets.npy", found.offsets, len(found.tokens), 2 * len(found.labels))
        check_tokens(path, found.tokens, vocabulary)
        if found.tokens.min(initial=0) < 0 or found.labels.max(initial=0) >= len(NLI_LABELS):
            raise UserError(f"{folder}: the arrays of split '{split}' are damaged; preprocess again")
        return found

    def save(self, folder: Path) -> None:
        """Write the arrays that `open` reads."""
        for name in ("tokens", "offsets", "labels"):
            np.save(folder / f"{self.split}.{name}.npy", getattr(self, name))

    def sentence(self, number: int) -> np.ndarray:
        """Return the words of a sentence."""
        return self.tokens[self.offsets[number] : self.offsets[number + 1]]

    @property
    def sizes(self) -> np.ndarray:
        """The number of words (U,) in both sentences of each pair, int64."""
        return np.diff(self.offsets[::2])

    def batch(self, units: np.ndarray) -> PairBatch:
        """Return the batch of these pairs: first all premises, then all hypotheses."""
        sentences = [self.sentence(2 * unit + side) for side in (0, 1) for unit in units]
        return PairBatch(PackedSentences.of(sentences), torch.from_numpy(self.labels[units].astype(np.int64)))

    def describe(self, units: np.ndarray) -> str:
        """Describe these pairs by their numbers, from 1."""
        return f"{self.split} pairs {', '.join(str(unit + 1) for unit in units[:10])}{', …' if len(units) > 10 else ''}"


def by_length(lengths: np.ndarray, max_tokens: int) -> Iterator[np.ndarray]:
    """Yield batches of sentences of similar length, as their numbers, given the lengths (S,)."""
    order = np.argsort(lengths, kind="stable")
    for places in plan_batches(lengths[order], max_tokens, seed=0, epoch=0, shuffle=False):
        yield order[places]
