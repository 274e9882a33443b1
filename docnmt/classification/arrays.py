"""Labelled texts as arrays: in memory, and in a folder that `docnmt-preprocess --task text_classification` wrote.

For each split `SPLIT.tokens.bin` and its offsets (a row a sentence), `SPLIT.texts.bin` (offsets of texts into
sentences) and `SPLIT.labels.bin`; `vocabulary` holds the words or the SentencePiece model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from docnmt.classification.vocabulary import WordVocabulary
from docnmt.data.meta import read_meta
from docnmt.data.store import ArrayWriter, RaggedWriter, TokenArray, map_array, offsets_of
from docnmt.data.tokenizer import Tokenizer
from docnmt.errors import UserError

TASK, VOCABULARY = "text_classification", "vocabulary"

#: What turns sentences into numbers, by the name it has in `meta.json`.
VOCABULARIES: dict[str, type[WordVocabulary] | type[Tokenizer]] = {"words": WordVocabulary, "sentencepiece": Tokenizer}


@dataclass(frozen=True, eq=False)
class LabelledArrays:
    """The texts of one split: tokens in sentences in texts.

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
        """From each text's sentences, each a list of tokens."""
        return cls(
            TokenArray.from_lists([sentence for text in texts for sentence in text], vocab_size),
            offsets_of(np.array([len(text) for text in texts], dtype=np.int64)),
            np.array(labels, dtype=np.int64),
        )

    @property
    def token_offsets(self) -> np.ndarray:
        """(N+1,) where each text's tokens begin."""
        return np.asarray(self.sentences.offsets[self.text_offsets])

    def __len__(self) -> int:
        return len(self.labels)

    def save(self, folder: Path, split: str) -> dict[str, dict[str, Any]]:
        """Write the arrays; returns the files' entries for `meta.json`."""
        tokens = RaggedWriter(folder, f"{split}.tokens", self.sentences.tokens.dtype)
        tokens.append(self.sentences.tokens, self.sentences.lengths())
        files = tokens.close()
        for name, values in (("texts", self.text_offsets), ("labels", self.labels)):
            writer = ArrayWriter(folder / f"{split}.{name}.bin", "<i8")
            writer.append(values)
            files[writer.path.name] = writer.close()
        return files

    @classmethod
    def open(cls, folder: Path, split: str) -> LabelledArrays:
        """Map the arrays of a split into memory.

        Raises:
            UserError: not such a folder, no such split, or damaged files.
        """
        files = read_classification_meta(folder)["files"]
        if f"{split}.labels.bin" not in files:
            there = [name.removesuffix(".labels.bin") for name in files if name.endswith(".labels.bin")]
            raise UserError(f"{folder}: has no split '{split}'; there are {', '.join(there)}")

        def array(name: str) -> np.ndarray:
            file = f"{split}.{name}.bin"
            return map_array(folder / file, files[file]["dtype"], files[file]["length"])

        return cls(TokenArray(array("tokens"), array("tokens.offsets")), array("texts"), array("labels"))


def read_classification_meta(folder: Path) -> dict[str, Any]:
    """The content of `meta.json`.

    Raises:
        UserError: not a data folder, one of another task, or files are missing.
    """
    meta = read_meta(folder)
    if meta["task"] != TASK:
        raise UserError(f"{folder}: was made for the task {meta['task']}, not {TASK}; preprocess with --task {TASK}")
    return meta
