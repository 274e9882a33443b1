"""Probing tasks: classes that follow from the words, equal in number, and an encoder evaluated on them."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
import probing_tasks

from docnmt.cli import senteval
from docnmt.other_tasks.sentence_vectors.senteval import LENGTHS, PROBING, read_task
from docnmt.runtime.system import UserError


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """3,000 sentences of 420 words by a steep distribution; the tasks in a folder."""
    folder, random = tmp_path_factory.mktemp("probing"), np.random.default_rng(0)
    letters = "abcdefghijklmnopqrst"
    names = [f"{a}{b}x" for a in letters for b in letters + "u"]
    share = 1 / (20 + np.arange(len(names)))
    lines = [
        " ".join(random.choice(names, size=random.integers(3, 32), p=share / share.sum())) + " ." for _ in range(3_000)
    ]
    (folder / "text.txt").write_text("\n".join(lines) + "\n")
    probing_tasks.body([str(folder / "text.txt"), str(folder / "data"), "--sentences", "1200"])
    return folder


def test_classes_follow_from_the_words(folder: Path) -> None:
    rows = {name: read_task(task, folder / "data") for name, task in PROBING.items()}
    originals = {tuple(line.split()) for line in (folder / "text.txt").read_text().splitlines()}
    for part in rows["Length"].values():
        for sentence, label in zip(part.sides[0], part.target, strict=True):
            assert LENGTHS[label][0] <= len(sentence) <= LENGTHS[label][1]
    by_class: dict[int, set[str]] = {}
    for part in rows["WordContent"].values():
        for sentence, label in zip(part.sides[0], part.target, strict=True):
            by_class[label] = by_class.get(label, set(sentence)) & set(sentence)
    assert all(len(shared) >= 2 for shared in by_class.values()), "the word, and the full stop"
    for part in rows["BigramShift"].values():
        for sentence, label in zip(part.sides[0], part.target, strict=True):
            assert (tuple(sentence) in originals) == (label == 1)
            assert sentence[-1] == "."
    for splits in rows.values():
        texts = [{tuple(sentence) for sentence in part.sides[0]} for part in splits.values()]
        assert not texts[0] & texts[1] | texts[0] & texts[2] | texts[1] & texts[2]


def test_classes_have_as_many_sentences_each() -> None:
    sentences = [tuple("abcdefgh"[: 5 + i % 4]) for i in range(20)] + [tuple("x" * 10)] * 7
    kept = probing_tasks.balanced([(str(len(s) > 8), s) for s in sentences])
    assert Counter(label for label, _ in kept) == {"True": 7, "False": 7}
    with pytest.raises(UserError, match="WordContent needs more of them"):
        probing_tasks.word_content(sentences)


def test_a_baseline_is_probed(folder: Path) -> None:
    """A mean of word vectors knows nothing of the words' order."""
    (folder / "vectors.txt").write_text(
        "".join(f"{a}{b}x {i} {j} 1\n" for i, a in enumerate("abcdefgh") for j, b in enumerate("abcdefgh"))
    )
    words = ["--data", str(folder / "data"), "--baseline", "bow", "--vectors", str(folder / "vectors.txt")]
    results = folder / "bow.json"
    assert senteval.main([*words, "--protocol", "fast", "--tasks", "BigramShift", "--results-path", str(results)]) == 0
    scores = json.loads(results.read_text())["tasks"]["BigramShift"]
    assert abs(scores["accuracy"] - 50) < 15
