"""Labelled texts: arrays in a folder that `docnmt-preprocess --task text_classification` wrote, and batches of them.

Each split has `SPLIT.tokens.bin` and its offsets (a row per sentence), `SPLIT.texts.bin` (offsets of texts into
sentences) and `SPLIT.labels.bin`; `vocabulary` has the words or the SentencePiece model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch

from docnmt.core.batch import PackedText
from docnmt.core.corpus import (
    RaggedWriter,
    SplitFolder,
    TokenArray,
    check_files,
    check_offsets,
    offsets_of,
    read_meta,
    write_array,
)
from docnmt.core.training.criterions import LabelledBatch
from docnmt.layout import DocumentLayout
from docnmt.runtime.errors import UserError

TASK, VOCABULARY = "text_classification", "vocabulary"


@dataclass(frozen=True, eq=False)
class LabelledArrays:
    """The texts of one split as arrays: tokens in sentences in texts.

    Attributes:
        sentences: tokens of the S sentences, one after the other. text_offsets: (N+1,) int64 into sentences.
        labels: (N,) int64 numbers of labels.
    """

    sentences: TokenArray
    text_offsets: np.ndarray
    labels: np.ndarray

    @classmethod
    def from_texts(
        cls, texts: Sequence[Sequence[Sequence[int]]], labels: Sequence[int], vocab_size: int
    ) -> LabelledArrays:
        """Build the arrays from each text's sentences, each a list of tokens."""
        return cls(
            TokenArray.from_lists([sentence for text in texts for sentence in text], vocab_size),
            offsets_of(np.array([len(text) for text in texts], dtype=np.int64)),
            np.array(labels, dtype=np.int64),
        )

    @property
    def token_offsets(self) -> np.ndarray:
        """The place (N+1,) where each text's tokens begin."""
        return np.asarray(self.sentences.offsets[self.text_offsets])

    def __len__(self) -> int:
        return len(self.labels)

    def save(self, folder: Path, split: str) -> dict[str, dict[str, Any]]:  # Any: entries of `meta.json`
        """Write the arrays; return the files' entries for `meta.json`."""
        tokens = RaggedWriter(folder, f"{split}.tokens", self.sentences.tokens.dtype)
        tokens.append(self.sentences.tokens, self.sentences.lengths())
        files = tokens.close()
        for name, values in (("texts", self.text_offsets), ("labels", self.labels)):
            files |= write_array(folder / f"{split}.{name}.bin", values, "<i8")
        return files

    @classmethod
    def open(cls, folder: Path, split: str, *, vocabulary: int | None = None) -> LabelledArrays:
        """Map the arrays of a split into memory; `vocabulary` is its number of entries.

        Raises:
            UserError: no such folder or split, or damaged files.
        """
        meta = read_classification_meta(folder)
        files = meta["files"]
        if f"{split}.labels.bin" not in files:
            there = [name.removesuffix(".labels.bin") for name in files if name.endswith(".labels.bin")]
            raise UserError(f"{folder}: has no split '{split}'; there are {', '.join(there)}")
        check_files(folder, meta, f"{split}.")
        arrays = SplitFolder(folder, split, files)
        labels, texts = arrays.array("labels"), arrays.array("texts")
        words = TokenArray.of_file(folder / f"{split}.tokens.bin", *arrays.rows("tokens"), vocabulary)
        found = cls(words, texts, labels)
        check_offsets(folder / f"{split}.texts.bin", texts, len(found.sentences), len(labels))
        if len(labels) and not 0 <= labels.min() <= labels.max() < len(meta["labels"]):
            raise UserError(f"{folder / f'{split}.labels.bin'}: is damaged: a number of no label; preprocess again")
        return found


def read_classification_meta(folder: Path) -> dict[str, Any]:  # Any: JSON
    """Read `meta.json`.

    Raises:
        UserError: the folder is no data folder or one of another task, or files are missing.
    """
    return read_meta(folder, task=TASK)


#: A batch of texts, each a document of one span.
TextBatch: TypeAlias = LabelledBatch[PackedText]


@dataclass(frozen=True, eq=False)
class TextDataset:
    """The texts of one split, each cut to its first `max_length` tokens.

    Attributes:
        position_count: word indices count from the sentence (`unit`) or from the text's start (`document`).
    """

    arrays: LabelledArrays
    max_length: int | None
    position_count: str
    name: str

    @cached_property
    def lengths(self) -> np.ndarray:
        """The number of tokens (U,) read of each text."""
        lengths = np.diff(self.arrays.token_offsets)
        return lengths if self.max_length is None else np.minimum(lengths, self.max_length)

    @property
    def sizes(self) -> np.ndarray:
        """The number of tokens (U,), int64; an empty text counts as one, so that batches are finite."""
        return np.asarray(np.maximum(self.lengths, 1))

    def batch(self, units: np.ndarray) -> TextBatch:
        """Return the batch of these texts, in this order."""
        lengths = self.lengths[units]
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        starts = self.arrays.token_offsets[units]
        places = np.repeat(starts - offsets[:-1], lengths) + np.arange(offsets[-1])
        positions = np.full((len(places), 4), -1, dtype=np.int64)
        sentence_offsets = self.arrays.sentences.offsets
        sentences = np.searchsorted(sentence_offsets, places, side="right") - 1
        positions[:, 1] = sentences - np.repeat(self.arrays.text_offsets[units], lengths)
        unit = self.position_count == "unit"
        positions[:, 0] = places - (sentence_offsets[sentences] if unit else np.repeat(starts, lengths))
        layout = DocumentLayout(torch.from_numpy(offsets), torch.arange(len(units) + 1))
        tokens = torch.from_numpy(self.arrays.sentences.at(places).astype(np.int64))
        return TextBatch(
            PackedText(tokens, layout, torch.from_numpy(positions)), torch.from_numpy(self.arrays.labels[units])
        )

    def describe(self, units: np.ndarray) -> str:
        """Describe these texts by their numbers, from 1."""
        shown = ", ".join(str(unit + 1) for unit in units[:10])
        return f"{self.name}: texts {shown}{', …' if len(units) > 10 else ''}"
