"""One transfer task: sentences → vectors → features → the task's protocol."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from docnmt.sentence_vectors.senteval.classification import (
    Examples,
    Protocol,
    folds_on_train,
    given_splits,
    nested_folds,
)
from docnmt.sentence_vectors.senteval.corpora import Rows, TransferTask, read_task
from docnmt.sentence_vectors.senteval.relatedness import ScoredPairs, regression, similarity
from docnmt.sentence_vectors.senteval.softmax import Schedule

#: All sentences of a task, tokenised → their vectors (N, d). A task is encoded in one call, so that an encoder may
#: learn from it without labels, as the toolkit's `prepare` may (SIF's common component).
Encode = Callable[[Sequence[Sequence[str]]], np.ndarray]

#: SentEval's settings for published numbers, and those it offers for quick ones, but with Adam instead of RMSprop.
PROTOCOLS = {"default": Protocol(), "fast": Protocol(Schedule(epoch_size=2, tenacity=3, batch_size=128), folds=5)}


def evaluate(task: TransferTask, folder: Path, encode: Encode, protocol: Protocol) -> dict[str, Any]:
    """Figures of merit of one task, with the vectors' width and the seconds that encoding and all the rest took.

    Accuracies and F1 are in percent; correlations between -1 and 1. STS12-16 name the subsets that were there.
    Classification comes with the share of the commonest test class, which is all that a classifier gets that learned
    nothing.

    Raises:
        UserError: a file of the task is missing or malformed.
    """
    splits = read_task(task, folder)
    sentences = [text for rows in splits.values() for side in (rows.first, rows.second or []) for text in side]
    started = time.perf_counter()
    vectors = np.ascontiguousarray(encode(sentences), dtype=np.float32)
    encoded = time.perf_counter()
    sides = _take(splits, vectors)
    results = _measure(task, splits, sides, protocol)
    done = time.perf_counter()
    size = {"sentences": len(sentences), "dimensions": vectors.shape[1]}
    return {**results, **size, "encoding s": encoded - started, "classifier s": done - encoded}


def _take(splits: dict[str, Rows], vectors: np.ndarray) -> dict[str, list[np.ndarray]]:
    """The vectors of each split: one array, or two for pairs."""
    taken: dict[str, list[np.ndarray]] = {}
    begin = 0
    for name, rows in splits.items():
        taken[name] = []
        for _ in range(1 if rows.second is None else 2):
            taken[name].append(vectors[begin : begin + len(rows.first)])
            begin += len(rows.first)
    return taken


def _features(sides: list[np.ndarray]) -> np.ndarray:
    """A sentence's vector, or [|u - v|; u ∘ v] of a pair."""
    if len(sides) == 1:
        return sides[0]
    u, v = sides
    return np.hstack([np.abs(u - v), u * v])


def _measure(
    task: TransferTask, splits: dict[str, Rows], sides: dict[str, list[np.ndarray]], protocol: Protocol
) -> dict[str, Any]:
    if task.kind == "similarity":
        pairs_of = {name: (sides[name][0], sides[name][1], rows.target) for name, rows in splits.items()}
        return {"subsets": list(splits), **similarity(pairs_of)}
    if task.kind == "regression":
        pairs = {name: ScoredPairs(_features(sides[name]), rows.target) for name, rows in splits.items()}
        return regression(pairs["train"], pairs["dev"], pairs["test"])
    examples = {name: Examples(_features(sides[name]), rows.target.astype(int)) for name, rows in splits.items()}
    test = examples["all" if task.kind == "nested" else "test"]
    share = {"majority": round(100 * float(np.bincount(test.y).max()) / len(test.y), 2)}
    if task.kind == "nested":
        return nested_folds(test, protocol) | share
    if task.kind == "splits":
        return given_splits(examples["train"], examples["dev"], test, protocol) | share
    results, answers = folds_on_train(examples["train"], test, protocol)
    return results | ({"f1": _f1(answers, test.y)} if task.pairs else {}) | share


def _f1(answers: np.ndarray, truth: np.ndarray) -> float:
    """F1 of class 1, in percent."""
    right = int(((answers == 1) & (truth == 1)).sum())
    total = int((answers == 1).sum() + (truth == 1).sum())
    return round(100 * 2 * right / total, 2) if total else 0.0
