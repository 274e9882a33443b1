"""Labelled texts as arrays on disk: a folder that `docnmt-preprocess --task text_classification` writes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from docnmt.errors import UserError
from docnmt.files import write_json

TASK, FORMAT = "text_classification", 1
META, VOCABULARY = "meta.json", "words.txt"


@dataclass(frozen=True, eq=False)
class LabelledArrays:
    """The texts of one split: tokens in sentences in texts.

    Attributes:
        tokens: (T,) int32. sentence_offsets: (S+1,) int64 into tokens. text_offsets: (N+1,) int64 into sentences.
        labels: (N,) int64 numbers of labels.
    """

    tokens: np.ndarray
    sentence_offsets: np.ndarray
    text_offsets: np.ndarray
    labels: np.ndarray

    @classmethod
    def from_texts(cls, texts: Sequence[Sequence[np.ndarray]], labels: Sequence[int]) -> LabelledArrays:
        """From each text's sentences, a vector of tokens each."""
        sentences = [sentence for text in texts for sentence in text]
        return cls(
            np.concatenate([*sentences, np.zeros(0)]).astype(np.int32),
            _offsets([len(sentence) for sentence in sentences]),
            _offsets([len(text) for text in texts]),
            np.asarray(labels, dtype=np.int64),
        )

    @property
    def token_offsets(self) -> np.ndarray:
        """(N+1,) where each text's tokens begin."""
        offsets: np.ndarray = self.sentence_offsets[self.text_offsets]
        return offsets

    def __len__(self) -> int:
        return len(self.labels)

    def save(self, folder: Path, split: str) -> None:
        """Write the arrays as `SPLIT.NAME.npy`."""
        for name in _NAMES:
            np.save(folder / f"{split}.{name}.npy", getattr(self, name), allow_pickle=False)

    @classmethod
    def open(cls, folder: Path, split: str) -> LabelledArrays:
        """Map the arrays of a split into memory.

        Raises:
            UserError: no such split, or a damaged file.
        """
        if not (folder / f"{split}.labels.npy").is_file():
            there = sorted(path.name.split(".")[0] for path in folder.glob("*.labels.npy"))
            raise UserError(f"{folder}: has no split '{split}'; there are {', '.join(there) or 'none'}")
        parts = {name: _map(folder / f"{split}.{name}.npy", kind) for name, kind in _NAMES.items()}
        arrays = cls(**parts)
        fits = arrays.sentence_offsets[-1] == len(arrays.tokens) and arrays.text_offsets[-1] + 1 == len(
            arrays.sentence_offsets
        )
        if not fits or len(arrays.text_offsets) != len(arrays.labels) + 1:
            raise UserError(f"{folder}: the arrays of '{split}' do not belong together; run docnmt-preprocess again")
        return arrays


_NAMES = {"tokens": np.int32, "sentence_offsets": np.int64, "text_offsets": np.int64, "labels": np.int64}


def _offsets(lengths: Sequence[int]) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int64)


def _map(path: Path, kind: Any) -> np.ndarray:
    try:
        array: np.ndarray = np.load(path, mmap_mode="r" if path.stat().st_size > 1 << 16 else None, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise UserError(f"{path}: is damaged ({error}); run docnmt-preprocess again") from error
    if array.ndim != 1 or array.dtype != kind:
        raise UserError(f"{path}: expected a vector of {np.dtype(kind)}, got {array.dtype} of shape {array.shape}")
    return array


def write_meta(folder: Path, **content: Any) -> None:
    """Write `meta.json`: the task, a fingerprint of every other file, and `content`."""
    digest = hashlib.sha256()
    for path in sorted(folder.iterdir()):
        digest.update(path.name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    write_json(folder / META, {"task": TASK, "format": FORMAT, "fingerprint": digest.hexdigest()[:32], **content})


def read_meta(folder: Path) -> dict[str, Any]:
    """The content of `meta.json`.

    Raises:
        UserError: not a folder of this task, or damaged.
    """
    path = folder / META
    try:
        meta = json.loads(path.read_text(encoding="utf-8"))
        task, number = meta["task"], meta["format"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path}: is missing or damaged ({error}); make the folder with docnmt-preprocess") from error
    if task != TASK:
        raise UserError(f"{folder}: was made for the task {task}, not {TASK}")
    if number != FORMAT:
        raise UserError(f"{path}: format {number}, expected {FORMAT}; run docnmt-preprocess again")
    return dict(meta)
