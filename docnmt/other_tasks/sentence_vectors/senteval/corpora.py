"""Reading of SentEval's data sets from plain TSV files, a folder per task: `MR/all.tsv`, `TREC/train.tsv` …

Every file has a header; the columns used are `label` or `score`, `text` and, for pairs, `text2`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from docnmt.core.tables import open_table, text_rows
from docnmt.other_tasks.sentence_vectors.data import words
from docnmt.runtime.errors import UserError

Kind = Literal["nested", "folds", "splits", "regression", "similarity"]


@dataclass(frozen=True)
class LabelledSentences:
    """Sentences with their targets. They are sorted by length and target, as in SentEval's toolkit.

    Attributes:
        sides: the tokenised sentences; for pairs, the first and the second ones.
        target: (N,) int64 classes, or float64 scores.
    """

    sides: list[list[list[str]]]
    target: np.ndarray


@dataclass(frozen=True)
class TransferTask:
    """A transfer task: its files, its columns, and the protocol of its evaluation.

    Attributes:
        files: by split (or subset), relative to the data folder; several are joined.
        classes: names of the classes as in the files, in the toolkit's order; None for scores.
        scores: the lowest and the highest valid score.
        optional: splits that are left out if their files are missing.
    """

    name: str
    kind: Kind
    files: dict[str, tuple[str, ...]]
    classes: tuple[str, ...] | None = None
    pairs: bool = False
    optional: tuple[str, ...] = ()
    scores: tuple[float, float] = (0, 5)


def _given(folder: str, train: str = "train.tsv", dev: str = "dev.tsv") -> dict[str, tuple[str, ...]]:
    return {"train": (f"{folder}/{train}",), "dev": (f"{folder}/{dev}",), "test": (f"{folder}/test.tsv",)}


def _subsets(year: str, *names: str, optional: tuple[str, ...] = ()) -> TransferTask:
    files: dict[str, tuple[str, ...]] = {name: (f"STS{year}/{name}.tsv",) for name in names}
    return TransferTask(f"STS{year}", "similarity", files, pairs=True, optional=optional)


TASKS = {
    task.name: task
    for task in (
        *(TransferTask(n, "nested", {"all": (f"{n}/all.tsv",)}, ("0", "1")) for n in ("MR", "CR", "SUBJ", "MPQA")),
        TransferTask("SST2", "splits", _given("SST2", "train_phrases67k.tsv"), ("0", "1")),
        TransferTask("SST5", "splits", _given("SST5"), ("0", "1", "2", "3", "4")),
        # The files number DESC, ENTY, ABBR, HUM, LOC, NUM; the toolkit orders the names alphabetically.
        TransferTask(
            "TREC", "folds", {"train": ("TREC/train.tsv",), "test": ("TREC/test.tsv",)}, ("2", "0", "1", "3", "4", "5")
        ),
        TransferTask(
            "MRPC", "folds", {"train": ("MRPC/train.tsv", "MRPC/val.tsv"), "test": ("MRPC/test.tsv",)}, ("0", "1"), True
        ),
        TransferTask("SICK-R", "regression", _given("SICK", dev="trial.tsv"), pairs=True, scores=(1, 5)),
        TransferTask(
            "SICK-E", "splits", _given("SICK", dev="trial.tsv"), ("CONTRADICTION", "NEUTRAL", "ENTAILMENT"), True
        ),
        TransferTask("STS-B", "regression", _given("STSB"), pairs=True),
        _subsets("12", "MSRpar", "MSRvid", "SMTeuroparl", "OnWN", "SMTnews", optional=("MSRvid",)),  # by its licence
        _subsets("13", "FNWN", "headlines", "OnWN"),
        _subsets("14", "deft-forum", "deft-news", "headlines", "images", "OnWN", "tweet-news"),
        _subsets("15", "answers-forums", "answers-students", "belief", "headlines", "images"),
        _subsets("16", "answer-answer", "headlines", "plagiarism", "postediting", "question-question"),
    )
}

#: Probing tasks (made by recipes/inferlite/probing_tasks.py), evaluated only if named: words of the six classes
#: of `Length`, and the number of words of `WordContent`.
LENGTHS, PROBING_WORDS = ((5, 8), (9, 12), (13, 16), (17, 20), (21, 25), (26, 28)), 100
PROBING = {
    name: TransferTask(name, "splits", _given(f"probing/{name}"), classes)
    for name, classes in (
        ("Length", tuple(map(str, range(len(LENGTHS))))),
        ("WordContent", tuple(map(str, range(PROBING_WORDS)))),
        ("BigramShift", ("I", "O")),
    )
}


def task_files(task: TransferTask, folder: Path) -> dict[str, list[Path]]:
    """Return the files of every split; of optional ones, those that exist."""
    files = {split: [folder / name for name in names] for split, names in task.files.items()}
    return {
        split: paths
        for split, paths in files.items()
        if split not in task.optional or all(path.exists() for path in paths)
    }


def read_task(task: TransferTask, folder: Path) -> dict[str, LabelledSentences]:
    """Read the rows of every split of a task.

    Raises:
        UserError: a file is missing, malformed or without rows; the message names file and line.
    """
    return {split: _rows(task, paths) for split, paths in task_files(task, folder).items()}


def _rows(task: TransferTask, paths: Sequence[Path]) -> LabelledSentences:
    columns = ("score" if task.classes is None else "label", "text", *(("text2",) if task.pairs else ()))
    rows: list[tuple[list[list[str]], float]] = []
    for path in paths:
        if not path.exists():
            probing = "; recipes/inferlite/probing_tasks.py makes it" if task.name in PROBING else ""
            raise UserError(f"{path}: cannot be read: {task.name} needs it, and --data does not have it{probing}")
        for place, row in text_rows(open_table(path), columns):
            value, *texts = row.values()
            rows.append(([words(text) for text in texts], _target(task, value, place)))
    if not rows:
        raise UserError(f"{', '.join(map(str, paths))}: no row stands behind the header; copy it again")
    rows.sort(key=lambda row: (*(len(text) for text in row[0]), row[1]))
    sides = [[texts[side] for texts, _ in rows] for side in range(len(columns) - 1)]
    return LabelledSentences(sides, np.array([value for _, value in rows]))


def _target(task: TransferTask, value: str, where: str) -> float:
    if task.classes is not None:
        if value not in task.classes:
            raise UserError(f"{where}: expected one of {', '.join(task.classes)}, got '{value}'")
        return task.classes.index(value)
    low, high = task.scores
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not low <= number <= high:
        expected = f"a score from {low:g} to {high:g}" if math.isfinite(number) else "a finite number"
        raise UserError(f"{where}: expected {expected}, got '{value}'")
    return number
