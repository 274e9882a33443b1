"""Baselines: sentence vectors without training on sentences."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from docnmt.core.lines import TextLines
from docnmt.other_tasks.sentence_vectors.embeddings import Embeddings
from docnmt.runtime.errors import UserError

#: The constant a of the SIF weights, as published.
SMOOTHING = 1e-3


class WordVectorBaseline(ABC):
    """Sentence vectors from the vectors of a sentence's words, several types side by side.

    Words without a vector are left out; a sentence without other words is 0.
    """

    def __init__(self, embeddings: Embeddings, width: int | None = None) -> None:
        self.embeddings = embeddings
        self.table = np.hstack([table.astype(np.float32) for table in embeddings.vectors])
        self.width = width or self.table.shape[1]

    def __call__(self, sentences: Sequence[Sequence[str]]) -> np.ndarray:
        """Return sentence vectors (N, width)."""
        vectors = np.zeros((len(sentences), self.width), np.float32)
        for row, sentence in enumerate(sentences):
            if known := [place for place in self.embeddings.indices(sentence) if place]:
                vectors[row] = self.pool(known)
        return vectors

    @abstractmethod
    def pool(self, known: list[int]) -> np.ndarray:
        """Return the vector (width,) of these rows of the vocabulary."""


class BagOfWordsBaseline(WordVectorBaseline):
    """The mean of the word vectors.

    Args:
        weight: of each word of the vocabulary; None weighs all alike.
        remove_common: remove the projection on the first principal direction of the task's sentences (SIF).
    """

    def __init__(
        self, embeddings: Embeddings, *, weight: np.ndarray | None = None, remove_common: bool = False
    ) -> None:
        super().__init__(embeddings)
        self.weight = np.ones(len(self.table), np.float32) if weight is None else weight
        self.remove_common = remove_common

    def __call__(self, sentences: Sequence[Sequence[str]]) -> np.ndarray:
        """Return sentence vectors (N, sum of d_k)."""
        vectors = super().__call__(sentences)
        if self.remove_common:
            # The first right singular vector of all sentences, without centring (Arora et al. 2017).
            direction = np.linalg.eigh(vectors.T.astype(np.float64) @ vectors)[1][:, -1].astype(np.float32)
            vectors -= np.outer(vectors @ direction, direction)
        return vectors

    def pool(self, known: list[int]) -> np.ndarray:
        """Return the weighted mean."""
        return np.asarray(self.weight[known] @ self.table[known] / len(known))


class RandomProjections(WordVectorBaseline):
    """BOREP (Wieting and Kiela 2019): word vectors through a random matrix, then the mean or maximum over words."""

    def __init__(self, embeddings: Embeddings, *, width: int, pooling: str, seed: int) -> None:
        super().__init__(embeddings, width)
        features = self.table.shape[1]
        bound = 1 / np.sqrt(features)
        self.projection = np.random.default_rng(seed).uniform(-bound, bound, (features, width)).astype(np.float32)
        self.pooling = pooling

    def pool(self, known: list[int]) -> np.ndarray:
        """Return the mean or maximum of the projected vectors."""
        rows = self.table[known] @ self.projection
        return np.asarray(rows.max(0) if self.pooling == "max" else rows.mean(0))


def sif_weights(embeddings: Embeddings, frequencies: Mapping[str, float]) -> np.ndarray:
    """Return a / (a + p(w)) for each word of the vocabulary; 1 for a word of unknown frequency."""
    total = sum(frequencies.values())
    probability = np.array([frequencies.get(word, frequencies.get(word.lower(), 0.0)) for word in embeddings.words])
    return np.asarray(SMOOTHING / (SMOOTHING + probability / total), dtype=np.float32)


def read_frequencies(path: Path) -> dict[str, float]:
    """Read word counts: a word, white space and its count per line.

    Raises:
        UserError: unreadable or malformed; the message names the line.
    """
    counts: dict[str, float] = {}
    for number, line in enumerate(TextLines(path), 1):
        try:
            word, field = line.split()
            counts[word] = count = float(field)
        except ValueError:
            count = math.nan
        if not 0 <= count < math.inf:
            raise UserError(f"{path}:{number}: expected a word and its count, got '{line.strip()[:50]}'")
    if not sum(counts.values()):
        raise UserError(f"{path}: holds no words that were counted")
    return counts
