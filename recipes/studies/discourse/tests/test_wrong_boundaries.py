"""A text whose sentences begin at the wrong words."""

from __future__ import annotations

import csv
import sys
from itertools import pairwise
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

import wrong_boundaries as tool

from docnmt.core.scoring.text_files import read_layout

DOCUMENTS = [[[f"w{d}.{s}.{n}" for n in range(2 + (s * 5 + d) % 7)] for s in range(9)] for d in range(12)]


@pytest.fixture
def text(tmp_path: Path) -> Path:
    for language in ("en", "de"):
        documents = [[" ".join(words).replace("w", language) for words in document] for document in DOCUMENTS]
        (tmp_path / f"t.{language}").write_text(tool.in_documents(documents))
    levels = [[f"{d}\t{s}" for s in range(9)] for d in range(12)]
    (tmp_path / "t.levels.tsv").write_text(tool.in_documents(levels))
    return tmp_path


def documents(file: Path) -> list[list[str]]:
    layout = read_layout(file)
    ends = layout.document_offsets
    return [layout.sentences[a:b] for a, b in pairwise(ends)]


def first_words(file: Path) -> set[str]:
    return {sentence.split()[0] for document in documents(file) for sentence in document}


@pytest.mark.parametrize("how", ["move", "merge"])
def test_a_share_of_the_boundaries_is_wrong_and_all_words_stay(text: Path, how: str) -> None:
    starts = first_words(text / "t.en")
    gone: list[set[str]] = []
    for share in (0, 0.1, 0.3, 0.5):
        tool.main([str(text / "t"), str(text / "o"), "--languages", "en", "de", "--share", str(share), "--how", how])
        for language in ("en", "de"):
            words = [[w.replace("w", language) for sentence in document for w in sentence] for document in DOCUMENTS]
            assert [" ".join(document).split() for document in documents(text / f"o.{language}")] == words
        gone.append(starts - first_words(text / "o.en"))
        drawn = round(share * 12 * 8)  # one that would leave a sentence without words cannot move
        assert drawn - (2 if how == "move" else 0) <= len(gone[-1]) <= drawn
        in_german = first_words(text / "t.de") - first_words(text / "o.de")
        assert {word.replace("en", "de") for word in gone[-1]} == in_german
        counts = [len(document) for document in documents(text / "o.en")]
        assert sum(counts) == 12 * 9 - (len(gone[-1]) if how == "merge" else 0)
        assert [len(document) for document in documents(text / "o.levels.tsv")] == counts
    assert how == "move" or gone[0] < gone[1] < gone[2] < gone[3]


def test_what_moved_stays_next_to_its_sentence_and_one_word_cannot_move() -> None:
    assert tool.moved(["a b c d", "e f g h"], [-0.5]) == ["a b", "c d e f g h"]
    assert tool.moved(["a b c d", "e f g h"], [0.5]) == ["a b c d e f", "g h"]
    assert tool.moved(["a", "b"], [-0.8]) == tool.moved(["a", "b"], [0.8]) == ["a", "b"]
    assert tool.merged(["a", "b", "c", "d"], [0.3, -0.3, 0.0]) == ["a b c", "d"]


@pytest.mark.parametrize("how", ["move", "merge"])
def test_questions_keep_their_last_sentence(tmp_path: Path, how: str) -> None:
    rows = [
        {"group": str(group), "correct": str(1 - n), "src_context": "a b<SEP>c d e<SEP>f g", "src": "h i",
         "tgt_context": "A B C<SEP>D E<SEP>F G", "tgt": f"H {n}"}
        for group in range(6) for n in range(2)
    ]  # fmt: skip
    with (tmp_path / "q.tsv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), delimiter="\t", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    tool.main([str(tmp_path / "q.tsv"), str(tmp_path / "o.tsv"), "--share", "0.5", "--how", how])
    with (tmp_path / "o.tsv").open(newline="") as file:
        written = list(csv.DictReader(file, delimiter="\t"))
    changed = 0
    for row, wanted in zip(written, rows, strict=True):
        for column in ("src_context", "tgt_context"):
            assert row[column].replace("<SEP>", " ") == wanted[column].replace("<SEP>", " ")
            assert row[column].count("<SEP>") == 2 or how == "merge"
        assert {name: row[name] for name in ("src", "tgt", "group", "correct")}.items() <= wanted.items()
        changed += row["src_context"] != wanted["src_context"]
    assert 6 <= changed < 12
    assert [row["src_context"] for row in written[::2]] == [row["src_context"] for row in written[1::2]]


def test_mistakes_are_named(text: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for wrong, message in (
        ([str(text / "t"), "o", "--share", "2", "--languages", "en"], "--share: expected 0 to 1, got 2"),
        ([str(text / "t"), "o", "--share", "0.1"], "--languages en de"),
        ([str(text / "t.levels.tsv"), "o", "--share", "0.1"], "line 1: no column 'group'"),
    ):
        with pytest.raises(SystemExit):
            tool.main(wrong)
        assert message in capsys.readouterr().err
