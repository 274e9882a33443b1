"""Results of discourse tests side by side, as printed by `docnmt-score --contrastive … --json`.

Results of generative tests have the same shape: questions that are `answered` instead of groups that are `solved`, and
no chance of guessing right.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any  # JSON

from docnmt.apps.report.measure import Interval
from docnmt.apps.report.system_names import names_of
from docnmt.runtime.errors import UserError
from docnmt.runtime.structured import parse_json, read_limited


@dataclass(frozen=True)
class Answers:
    """The results in one file.

    Attributes:
        labels: of every group. solved: True for each solved group.
        by: label → value → (groups, accuracy).
    """

    name: str
    overall: Interval
    chance: float | None
    labels: tuple[str, ...]
    solved: tuple[bool, ...]
    by: Mapping[str, Mapping[str, tuple[int, Interval]]]


@dataclass(frozen=True)
class Disagreement:
    """The comparison of two files: the groups that only the first solved, only the second, and p by the sign test."""

    first: str
    second: str
    only_first: int
    only_second: int
    p_value: float


@dataclass(frozen=True)
class TestSet:
    """The files with answers to the same groups."""

    files: Sequence[Answers]
    disagreements: Sequence[Disagreement]

    @property
    def groups(self) -> int:
        """The number of groups."""
        return len(self.files[0].solved)


def read_test_sets(paths: Sequence[str]) -> list[TestSet]:
    """Read the files by test set; files whose groups have the same labels in the same order belong together.

    Raises:
        UsageError: a file is given twice.
        UserError: a file cannot be read, or was not printed by docnmt-score.
    """
    sets: dict[object, list[Answers]] = {}
    for name, path in zip(names_of(paths, "--discourse"), paths, strict=True):
        answers = _read(Path(path), name)
        cells = [(label, *values) for label, values in answers.by.items()]
        sets.setdefault((answers.labels, *cells), []).append(answers)
    return [TestSet(files, [_compare(*two) for two in combinations(files, 2)]) for files in sets.values()]


def _read(path: Path, name: str) -> Answers:
    what = f"{path}: is not what docnmt-score --contrastive … --json or --generative … --json prints"
    content: Any = parse_json(read_limited(path), what)
    try:
        asked, done = ("groups", "solved") if "solved" in content else ("questions", "answered")
        solved = tuple(bool(group.pop(done)) for group in content[done])
        labels = tuple(json.dumps(group) for group in content[done])
        by = {
            str(label): {str(value): (int(cell[asked]), _accuracy(cell, asked)) for value, cell in cells.items()}
            for label, cells in content["by"].items()
        }
        chance = float(content["chance"]) if asked == "groups" else None
        return Answers(name, _accuracy(content, asked), chance, labels, solved, by)
    except (ValueError, KeyError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
        raise UserError(what) from error


def _accuracy(cell: Mapping[str, float], asked: str) -> Interval:
    """Return an accuracy in percent and its 95 % interval (Wilson 1927, Probable inference, the law of succession)."""
    z, n, share = 1.959964, int(cell[asked]), float(cell["accuracy"]) / 100
    if not 0 <= share <= 1:  # also NaN
        raise ValueError(f"an accuracy of {100 * share} %")
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return Interval(100 * share, 100 * max(0.0, middle - half), 100 * min(1.0, middle + half))


def _compare(one: Answers, other: Answers) -> Disagreement:
    """Make McNemar's exact test: each of the two is equally likely to be the only one that solves a group."""
    first = sum(a and not b for a, b in zip(one.solved, other.solved, strict=True))
    second = sum(b and not a for a, b in zip(one.solved, other.solved, strict=True))
    n, ways, tail = first + second, 1, 0  # ways: n over k
    for k in range(min(first, second) + 1):
        tail += ways
        ways = ways * (n - k) // (k + 1)
    return Disagreement(one.name, other.name, first, second, min(1.0, 2 * tail / 2**n))
