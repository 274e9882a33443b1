"""Evaluation of one transfer task: sentences → vectors → features → the task's protocol."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from docnmt.other_tasks.sentence_vectors.senteval.corpora import LabelledSentences, TransferTask, read_task
from docnmt.other_tasks.sentence_vectors.senteval.folds import Protocol, folds_on_train, given_splits, nested_folds
from docnmt.other_tasks.sentence_vectors.senteval.relatedness import regression, similarity
from docnmt.other_tasks.sentence_vectors.senteval.softmax import Examples
from docnmt.runtime.errors import UserError

#: A function from all tokenised sentences of a task to their vectors (N, d). A task is encoded in one call, so that an
#: encoder may adapt to it without labels, like the toolkit's `prepare` (SIF's common component).
Encode = Callable[[Sequence[Sequence[str]]], np.ndarray]

#: Figures by name; for STS12 to STS16 also the names of the subsets.
Result = Mapping[str, Any]  # Any: JSON


def evaluate(task: TransferTask, folder: Path, encode: Encode, protocol: Protocol) -> Result:
    """Return the scores of one task, with the vectors' width and the seconds of encoding and of the rest.

    Accuracies and F1 are in percent; correlations between -1 and 1. STS12-16 name the subsets that exist.
    Classification also has the share of the most frequent test class: the accuracy of a constant answer.

    Raises:
        UserError: a file of the task is missing or malformed.
    """
    splits = read_task(task, folder)
    sides = [side for rows in splits.values() for side in rows.sides]
    started = time.perf_counter()
    vectors = np.ascontiguousarray(encode([text for side in sides for text in side]), dtype=np.float32)
    encoded = time.perf_counter()
    parts = iter(np.split(vectors, np.cumsum([len(side) for side in sides])))
    of = {name: [next(parts) for _ in rows.sides] for name, rows in splits.items()}
    results: Result
    if task.kind == "similarity":
        scored = {name: (of[name][0], of[name][1], rows.target) for name, rows in splits.items()}
        results = {"subsets": list(splits), **similarity(scored)}
    else:
        results = _measure(
            task, {name: Examples(_features(of[name]), rows.target) for name, rows in splits.items()}, protocol
        )
    size = {"sentences": len(vectors), "dimensions": vectors.shape[1]}
    return {**results, **size, "encoding s": encoded - started, "classifier s": time.perf_counter() - encoded}


def check_rows(task: TransferTask, splits: Mapping[str, LabelledSentences], protocol: Protocol) -> None:
    """Refuse a task without the variety its scores need: different scores for a correlation, each class in every fold.

    Raises:
        UserError: the message names the task and its part.
    """
    needed = protocol.folds + 2  # one fold less then leaves as many as there are folds, for the inner ones
    for name, rows in splits.items():
        if task.classes is None and name != "train" and len(np.unique(rows.target)) < 2:
            raise UserError(f"{task.name}: all scores of its {name} part are equal; a correlation needs others")
        if task.classes and (task.kind == "nested" or (task.kind == "folds" and name == "train")):
            counts = np.bincount(rows.target, minlength=len(task.classes))
            if counts.min() < needed:
                few = f"{counts.min()} rows of class {task.classes[int(counts.argmin())]}"
                raise UserError(f"{task.name}: its {name} part has {few}; {protocol.folds} folds need {needed} of each")


def _features(sides: Sequence[np.ndarray]) -> np.ndarray:
    """Return a sentence's vectors, or [|u - v|; u ∘ v] for a pair."""
    if len(sides) == 1:
        return sides[0]
    u, v = sides
    return np.hstack([np.abs(u - v), u * v])


def _measure(task: TransferTask, parts: Mapping[str, Examples], protocol: Protocol) -> dict[str, float]:
    if task.kind == "regression":
        return regression(parts["train"], parts["dev"], parts["test"])
    test = parts["all" if task.kind == "nested" else "test"]
    share = {"majority": round(100 * float(np.bincount(test.y).max()) / len(test.y), 2)}
    if task.kind == "nested":
        return nested_folds(test, protocol) | share
    if task.kind == "splits":
        return given_splits(parts["train"], parts["dev"], test, protocol) | share
    results, answers = folds_on_train(parts["train"], test, protocol)
    return results | ({"f1": _f1(answers, test.y)} if task.pairs else {}) | share


def _f1(answers: np.ndarray, truth: np.ndarray) -> float:
    """Return F1 of class 1, in percent."""
    right, total = ((answers == 1) & (truth == 1)).sum(), (answers == 1).sum() + (truth == 1).sum()
    return round(100 * 2 * int(right) / max(int(total), 1), 2)
