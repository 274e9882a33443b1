"""The generated tasks: labels read again from the words by other means, and nothing to be learned from words alone."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
order_tasks = pytest.importorskip("order_tasks")

from docnmt.runtime.system import UsageError  # noqa: E402


def read_again(task: str, words: list[str]) -> str:
    """The label, by string operations that the generator does not use."""
    text = " ".join(words)
    if task == "first":
        return "a" if text.index("a") < text.index("b") else "b"
    if task == "kth":
        return words[9]
    if task == "distance":
        return str(len(re.search(r"\ba\b(.*?)\ba\b", text)[1].split()) + 1)  # type: ignore[index]
    if task == "copy":
        return words[int(words[0][2:])]
    if task == "clauses":
        return re.search("dog bites man|man bites dog", text)[0]  # type: ignore[index]
    marks = "".join({"open0": "(", "close0": ")", "open1": "[", "close1": "]"}.get(word, "") for word in words)
    while (shorter := marks.replace("()", "").replace("[]", "")) != marks:
        marks = shorter
    return "differ" if marks else "match"


@pytest.mark.parametrize("task", ["first", "kth", "distance", "brackets", "copy", "clauses"])
def test_labels_follow_from_the_words(task: str) -> None:
    rows = list(order_tasks.split(task, "test", [(17, 17), (64, 64)], 150))
    assert [len(words) for _, words in rows] == [17] * 150 + [64] * 150
    assert all(label == read_again(task, words) for label, words in rows)
    counts = Counter(label for label, _ in rows)
    assert min(counts.values()) > 0.5 * len(rows) / len(counts), "no label is rare"
    assert len(counts) == (2 if task in ("first", "brackets", "clauses") else 8)
    assert rows == list(order_tasks.split(task, "test", [(17, 17), (64, 64)], 150))
    assert rows != list(order_tasks.split(task, "train", [(17, 17), (64, 64)], 150))


@pytest.mark.parametrize("task", ["first", "brackets", "clauses", "distance"])
def test_the_marks_are_the_same_whatever_the_label(task: str) -> None:
    """So a model that does not know positions can only guess."""
    marks: dict[str, Counter[tuple[str, ...]]] = {}
    for label, words in order_tasks.split(task, "train", [(40, 40)], 2_000):
        kept = sorted(word for word in words if word not in order_tasks.WORDS)
        marks.setdefault(label, Counter())[tuple(kept)] += 1
    one, *others = ({kept: count / counts.total() for kept, count in counts.items()} for counts in marks.values())
    for other in others:
        assert one.keys() == other.keys()
        assert np.allclose([one[kept] - other[kept] for kept in one], 0, atol=0.07)


def told(task: str, guess: Callable[[list[str]], bool]) -> float:
    """How much a rule that reads little tells of the label: 0.5 nothing, 1 all."""
    rows = [(label, guess(words)) for label, words in order_tasks.split(task, "train", [(17, 64)], 2_000)]
    labels = sorted({label for label, _ in rows})
    right = np.mean([(label == labels[0]) == said for label, said in rows])
    return float(max(right, 1 - right))


def next_closes_wrongly(words: list[str]) -> bool:
    marks = [word for word in words if word not in order_tasks.WORDS]
    return any(a[:4] == "open" and b[:5] == "close" and a[-1] != b[-1] for a, b in pairwise(marks))


def test_no_shorter_way_to_the_label() -> None:
    assert told("brackets", next_closes_wrongly) < 0.55, "neighbours do not tell, nesting does"
    assert told("clauses", lambda words: next(word for word in words if word in ("dog", "man")) == "dog") < 0.55
    assert told("clauses", lambda words: [word for word in words if word in ("dog", "man")][-1] == "dog") < 0.55


def test_tables_are_written_and_numbers_checked(tmp_path: Path) -> None:
    order_tasks.body(["first", str(tmp_path), "--training-texts", "5", "--test-texts", "2", "--longest", "256"])
    rows = [json.loads(line) for line in (tmp_path / "test.jsonl").read_text().splitlines()]
    assert [len(row["text"].split()) for row in rows] == [64, 64, 128, 128, 256, 256]
    assert len((tmp_path / "train.jsonl").read_text().splitlines()) == 5
    with pytest.raises(UsageError, match="--longest: must be at least 64, got 10"):
        order_tasks.body(["first", str(tmp_path), "--longest", "10"])
