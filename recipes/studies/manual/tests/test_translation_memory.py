"""A translation memory over the given part of documents."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

pytest.importorskip("rapidfuzz")
import translation_memory as tool

from docnmt.core.scoring.metrics import evaluate


def edits(one: list[str], other: list[str]) -> int:
    """Levenshtein's distance, row by row."""
    row = list(range(len(other) + 1))
    for number, word in enumerate(one, 1):
        above, row = row, [number]
        for column, wanted in enumerate(other):
            row.append(min(row[column] + 1, above[column + 1] + 1, above[column] + (word != wanted)))
    return row[-1]


def test_the_most_similar_sentence_by_words_is_found_the_last_of_equals() -> None:
    draw = random.Random(1)
    sentences = [" ".join(draw.choices("abcd", k=draw.randint(1, 6))) for _ in range(60)]
    memory = tool.Memory(tool.Words(), sentences, [str(n) for n in range(60)])
    for query in (" ".join(draw.choices("abcde", k=draw.randint(1, 6))) for _ in range(40)):
        similar = [1 - edits(query.split(), s.split()) / max(len(query.split()), len(s.split())) for s in sentences]
        best = max(range(60), key=lambda n: (round(similar[n], 9), n))
        match = memory.best(query, 0.0)
        assert match == (pytest.approx(similar[best]), str(best))
        assert similar[best] == 1 or memory.best(query, similar[best] + 0.01) is None


def desk(folder: Path, share: float = 0.5) -> list[str]:
    """Two documents, their halves given; the last sentence of each is like one of the first half, or of training."""
    (folder / "t.en").write_text("a b c d\ne f g h\na b c x\nz z\n\ni j k l\ne f g h\n")
    (folder / "t.de").write_text("A B C D\nE F G H\nA B C X\nZ Z\n\nI J K L\nE F G H\n")
    (folder / "train.en").write_text("e f g y\nz y\n")
    (folder / "train.de").write_text("E F G Y\nZ Y\n")
    (folder / "r").mkdir()
    for name, lines in (
        ("source", "a b c x\nz z\n\ne f g h\n"),
        ("reference", "A B C X\nZ Z\n\nE F G H\n"),
        ("hypotheses", "?\n!\n\n\n"),
    ):
        (folder / "r" / f"{name}.txt").write_text(lines)
    (folder / "r" / "scores.json").write_text(json.dumps({"prefix_references": share}))
    return [str(folder / "t"), str(folder / "r"), "--languages", "en", "de"]


def test_the_given_part_of_the_same_document_is_remembered(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.txt"
    tool.main([*desk(tmp_path), "--threshold", "0.75", "--out", str(out)])
    assert out.read_text() == "A B C D\n!\n\n\n"  # the other document's e f g h is not there
    printed = capsys.readouterr().out.splitlines()
    references = ["A B C X", "Z Z", "E F G H"]
    expected = evaluate(["A B C D", "!", ""], [references], [0, 2, 3], tokenize="13a").scores
    assert printed[2].split("\t")[:3] == ["0.75", "1", f"{expected['s-BLEU']:.2f}"]


def test_training_text_is_remembered_too_where_it_is_nearer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = [*desk(tmp_path), "--train", str(tmp_path / "train"), "--threshold"]
    tool.main([*options, "0.5", "--out", str(tmp_path / "out.txt")])
    assert (tmp_path / "out.txt").read_text() == "A B C D\nZ Y\n\nE F G Y\n"
    capsys.readouterr()
    tool.main([*options, "0.5", "0.75", "0.8"])
    assert [row.split("\t")[:2] for row in capsys.readouterr().out.splitlines()[1:]] == [
        ["none", "0"], ["0.5", "3"], ["0.75", "2"], ["0.8", "0"]
    ]  # fmt: skip


def test_results_of_another_share_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = desk(tmp_path, share=0.25)
    with pytest.raises(SystemExit):
        tool.main([*options, "--threshold", "0.5"])
    assert "expected what --prefix-references 0.25 leaves of" in capsys.readouterr().err
    (tmp_path / "r" / "scores.json").write_text("[]")
    with pytest.raises(SystemExit):
        tool.main([*options, "--threshold", "0.5"])
    assert "no results of docnmt-generate" in capsys.readouterr().err


def test_a_whole_text_takes_what_training_has(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options, out = desk(tmp_path), tmp_path / "out.txt"
    (tmp_path / "r" / "scores.json").write_text("{}")  # nothing was given
    (tmp_path / "r" / "hypotheses.txt").write_text("1\n2\n3\n4\n\n5\n6\n")
    tool.main([*options, "--train", str(tmp_path / "train"), "--threshold", "0.75", "--out", str(out)])
    assert out.read_text() == "1\nE F G Y\n3\n4\n\n5\nE F G Y\n"
    assert capsys.readouterr().out.splitlines()[2].split("\t")[:2] == ["0.75", "2"]
