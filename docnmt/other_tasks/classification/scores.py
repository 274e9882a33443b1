"""Scores of predicted labels: accuracy, macro-F1, confusion matrix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class ClassificationScores:
    """Counts of true labels (rows) against predicted ones (columns), with the scores that follow.

    Attributes:
        confusion: (C, C) int64.
        labels: the C names, in the order of both axes.
    """

    confusion: np.ndarray
    labels: tuple[str, ...]

    @property
    def count(self) -> int:
        """The number of texts scored."""
        return int(self.confusion.sum())

    @property
    def accuracy(self) -> float:
        """The share of texts with the right label, in 0…1; 0 without texts."""
        return float(np.trace(self.confusion) / max(self.count, 1))

    @property
    def f1(self) -> np.ndarray:
        """The harmonic means (C,) of precision and recall: 2·TP / (true + predicted); 0 if both counts are 0."""
        both = self.confusion.sum(0) + self.confusion.sum(1)
        return np.asarray(2 * np.diag(self.confusion) / np.maximum(both, 1))

    @property
    def macro_f1(self) -> float:
        """The mean F1 of the labels that occur, as truth or as prediction."""
        occurs = (self.confusion.sum(0) + self.confusion.sum(1)) > 0
        return float(self.f1[occurs].mean()) if occurs.any() else 0.0

    def to_dict(self) -> dict[str, object]:
        """Return plain JSON values."""
        return {
            "accuracy": self.accuracy,
            "macro_f1": self.macro_f1,
            "count": self.count,
            "labels": list(self.labels),
            "f1": self.f1.tolist(),
            "confusion": self.confusion.tolist(),
        }

    def __str__(self) -> str:
        """Format the scores and the matrix as a table."""
        head = "truth \\ predicted"
        width = max(6, *map(len, self.labels), len(str(self.confusion.max(initial=0)))) + 1
        first = max(len(head), *map(len, self.labels))
        lines = [
            f"accuracy {100 * self.accuracy:.2f}, macro-F1 {100 * self.macro_f1:.2f}, {self.count:,} texts",
            f"{head:>{first}}" + "".join(f"{label:>{width}}" for label in (*self.labels, "F1")),
        ]
        for label, row, f1 in zip(self.labels, self.confusion.tolist(), self.f1, strict=True):
            lines.append(f"{label:>{first}}" + "".join(f"{n:>{width}}" for n in row) + f"{f1:>{width}.3f}")
        return "\n".join(lines)


def classification_scores(truth: np.ndarray, predicted: np.ndarray, labels: Sequence[str]) -> ClassificationScores:
    """Compute scores of predicted label numbers (N,) against true ones (N,), each in 0…C−1.

    Raises:
        ValueError: lengths differ, or a number is outside the labels.
    """
    truth, predicted, classes = np.asarray(truth), np.asarray(predicted), len(labels)
    if truth.shape != predicted.shape or truth.ndim != 1:
        raise ValueError(f"expected as many predictions as true labels, got {predicted.shape} and {truth.shape}")
    for name, numbers in (("true", truth), ("predicted", predicted)):
        if len(numbers) and not 0 <= int(numbers.min()) <= int(numbers.max()) < classes:
            raise ValueError(f"{name} labels must be 0 to {classes - 1}, got {numbers.min()} to {numbers.max()}")
    confusion = np.zeros((classes, classes), dtype=np.int64)
    np.add.at(confusion, (truth, predicted), 1)
    return ClassificationScores(confusion, tuple(labels))
