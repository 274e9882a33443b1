"""Sentence vectors without training on sentences: what any encoder has to beat."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from docnmt.errors import UserError
from docnmt.sentence_vectors.embeddings import Embeddings

#: a of the SIF weights, as published.
SMOOTHING = 1e-3


class BagOfWordsBaseline:
    """The mean of the vectors of a sentence's words, several types side by side; words without a vector are left out.

    Args:
        weight: of each word of the vocabulary; None counts all alike.
        remove_common: take away the projection on the first principal direction of the task's sentences (SIF).
    """

    def __init__(
        self, embeddings: Embeddings, *, weight: np.ndarray | None = None, remove_common: bool = False
    ) -> None:
        self.embeddings, self.remove_common = embeddings, remove_common
        self.table = np.hstack([table.astype(np.float32) for table in embeddings.vectors])
        self.weight = np.ones(len(self.table), np.float32) if weight is None else weight

    def __call__(self, sentences: Sequence[Sequence[str]]) -> np.ndarray:
        """(N, sum of d_k)."""
        vectors = np.zeros((len(sentences), self.table.shape[1]), np.float32)
        for row, sentence in enumerate(sentences):
            known = [place for place in self.embeddings.indices(sentence) if place]
            if known:
                vectors[row] = self.weight[known] @ self.table[known] / len(known)
        if self.remove_common:
            # The first right singular vector of all sentences, without centring (Arora et al. 2017).
            direction = np.linalg.eigh(vectors.T.astype(np.float64) @ vectors)[1][:, -1].astype(np.float32)
            vectors -= np.outer(vectors @ direction, direction)
        return vectors


class RandomProjections:
    """BOREP (Wieting & Kiela 2019): word vectors through one random matrix, then the mean or maximum over words."""

    def __init__(self, embeddings: Embeddings, *, width: int, pooling: str, seed: int) -> None:
        self.embeddings, self.pooling = embeddings, pooling
        table = np.hstack([table.astype(np.float32) for table in embeddings.vectors])
        bound = 1 / np.sqrt(table.shape[1])
        projection = np.random.default_rng(seed).uniform(-bound, bound, (table.shape[1], width)).astype(np.float32)
        self.table, self.projection = table, projection

    def __call__(self, sentences: Sequence[Sequence[str]]) -> np.ndarray:
        """(N, width)."""
        vectors = np.zeros((len(sentences), self.projection.shape[1]), np.float32)
        for row, sentence in enumerate(sentences):
            known = [place for place in self.embeddings.indices(sentence) if place]
            if known:
                rows = self.table[known] @ self.projection
                vectors[row] = rows.max(0) if self.pooling == "max" else rows.mean(0)
        return vectors


def sif_weights(embeddings: Embeddings, frequencies: Mapping[str, float]) -> np.ndarray:
    """a / (a + p(w)) of each word of the vocabulary; 1 for a word without a known frequency."""
    total = sum(frequencies.values())
    probability = np.array([frequencies.get(word, frequencies.get(word.lower(), 0.0)) for word in embeddings.words])
    weights: np.ndarray = (SMOOTHING / (SMOOTHING + probability / total)).astype(np.float32)
    return weights


def read_frequencies(path: Path) -> dict[str, float]:
    """Word counts: a word, white space and its count a line.

    Raises:
        UserError: unreadable or malformed; names the line.
    """
    counts: dict[str, float] = {}
    try:
        with path.open(encoding="utf-8-sig", newline="\n") as file:
            for number, line in enumerate(file, 1):
                fields = line.split()
                count = _count(fields[1]) if len(fields) == 2 else None
                if count is None:
                    raise UserError(f"{path}: line {number}: expected a word and its count, got '{line.strip()[:50]}'")
                counts[fields[0]] = count
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot be read as words and counts: {error}") from error
    if not sum(counts.values()):
        raise UserError(f"{path}: holds no words that were counted")
    return counts


def _count(field: str) -> float | None:
    """None unless it is finite and not negative."""
    try:
        count = float(field)
    except ValueError:
        return None
    return count if 0 <= count < math.inf else None
