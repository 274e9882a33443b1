"""Text classification from tables to labels: what is read, how it is packed, that it learns, and what is refused."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from docnmt.cli import classify, preprocess, train
from docnmt.core.training.dry_run import model_card
from docnmt.other_tasks.classification import (
    TextDataset,
    WordVocabulary,
    labelled_arrays,
    ordered_labels,
    read_labelled,
    read_texts,
)
from docnmt.runtime.system import UserError

UNIT, DOCUMENT = SimpleNamespace(position_count="unit"), SimpleNamespace(position_count="document")


def write_table(path: Path, count: int, seed: int) -> Path:
    """Texts whose label is the majority of two words: order does not matter, so any classifier can learn it."""
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(count):
        words = [*rng.choice(["Good", "bad", "the", "film"], size=rng.integers(3, 12)).tolist(), "end."]
        good = words.count("Good") > words.count("bad")
        rows.append(f"{'pos' if good else 'neg'}\t{' '.join(words)}\n")
    path.write_text("".join(rows), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("tables")
    tables = {split: write_table(base / f"{split}.tsv", n, n) for split, n in (("train", 300), ("valid", 60))}
    arguments = ["--task", "text_classification", "--destdir", str(base / "data"), "--test", str(tables["valid"])]
    assert preprocess.main([*arguments, "--train", str(tables["train"]), "--valid", str(tables["valid"])]) == 0
    return base / "data"


def test_batches_are_packed_with_sentence_positions() -> None:
    vocabulary = WordVocabulary(["a", "word.", "c", "d"])
    texts = ["A word. C d", "", "a"]
    arrays = labelled_arrays(texts, [1, 0, 1], vocabulary)
    unit = TextDataset(arrays, None, "unit", "x").batch(np.array([2, 0, 1]))
    assert unit.text.tokens.tolist() == [1, 1, 2, 3, 4]
    assert unit.text.layout.sentence_offsets.tolist() == [0, 1, 5, 5]
    assert unit.text.layout.document_offsets.tolist() == [0, 1, 2, 3]
    assert unit.labels.tolist() == [1, 1, 0]
    assert unit.text.positions.T.tolist() == [[0, 0, 1, 0, 1], [0, 0, 0, 1, 1], [-1] * 5, [-1] * 5]
    document = TextDataset(arrays, 3, "document", "x")
    assert document.sizes.tolist() == [3, 1, 1]
    assert document.batch(np.array([0, 1])).text.positions[:, :2].tolist() == [[0, 0], [1, 0], [2, 1]]
    assert document.describe(np.array([0, 2])) == "x: texts 1, 3"


SMALL = ("--encoder-layers", "1", "--embed-dim", "32", "--heads", "2", "--ffn-dim", "32", "--embedding-std", "0.2")
TRAINING = ("--max-tokens", "400", "--lr", "3e-3", "--lr-scheduler", "constant", "--warmup-updates", "0")


@pytest.mark.parametrize("fusion", ["add", "gate_conv"])
def test_it_learns_and_labels_new_text(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, fusion: str
) -> None:
    run = str(tmp_path / "run")
    limits = ("--max-epoch", "8", "--best-checkpoint-metric", "accuracy", "--position-fusion", fusion)
    assert train.main([str(folder), "--arch", "fusion_classifier", "--save-dir", run, *SMALL, *TRAINING, *limits]) == 0
    capsys.readouterr()
    results = tmp_path / "scores.json"
    table = str(folder.parent / "valid.tsv")
    assert classify.main(["--path", run, "--labelled", table, "--results", str(results)]) == 0
    assert json.loads(results.read_text())["accuracy"] > 0.85
    assert classify.main(["--path", run, "--labelled", table, "--results", str(results)]) == 1
    assert "scores.json" in capsys.readouterr().err
    assert classify.main(["--path", run, "--labelled", table, "--results", str(results), "--overwrite"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 60
    assert classify.main(["--path", run, table]) == 1  # its labels would be read as text
    assert "--labelled" in capsys.readouterr().err
    card = model_card(Path(run) / "checkpoint_best.safetensors")
    assert "docnmt-classify" in card
    assert ".translate" not in card
    assert "0 subwords" not in card
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(b"Good good film\n\nbad bad bad\n")))
    assert classify.main(["--path", run, "--all-probabilities"]) == 0
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert [row[0] for row in rows][::2] == ["pos", "neg"]
    assert len(rows) == 3
    monkeypatch.setattr("sys.stdin", None)
    assert classify.main(["--path", run]) == 1
    assert "stdin is closed" in capsys.readouterr().err
    assert float(rows[0][1].removeprefix("neg=")) + float(rows[0][2].removeprefix("pos=")) == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"valid": "other\tx\n"}, "valid.tsv:1"),
        ({"train": "a\tx\na\ty\n"}, "'a'"),
        ({"options": ["--vocab-size", "1"]}, "--vocab-size: "),
        ({"options": ["--vocabulary", "sentencepiece", "--min-frequency", "3"]}, "--min-frequency"),
        ({"options": ["--vocabulary", "sentencepiece", "--vocab-size", "9000"]}, "--vocab-size"),
    ],
)
def test_faults_are_one_line_and_leave_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: dict[str, object], message: str
) -> None:
    arguments = ["--task", "text_classification", "--destdir", str(tmp_path / "data")]
    for split in ("train", "valid"):
        (tmp_path / f"{split}.tsv").write_text(str(change.get(split, "a\tthe text\nb\tthe other\n")))
        arguments += [f"--{split}", str(tmp_path / f"{split}.tsv")]
    assert preprocess.main([*arguments, *change.get("options", [])]) in (1, 2)  # type: ignore[misc]
    lines = capsys.readouterr().err.splitlines()
    assert message in lines[-1]
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("task", ["text_classification", "nli"])
def test_its_own_input_is_not_deleted(task: str, tmp_path: Path) -> None:
    columns, table = 2 if task == "text_classification" else 3, tmp_path / "data" / "rows.tsv"
    rows = [["label", "text", "text2"], ["neutral", "a dog", "a cat"], ["entailment", "a cat", "it"]]
    (tmp_path / "rows.tsv").write_text("".join("\t".join(row[:columns]) + "\n" for row in rows))
    words = ["--task", task, "--valid", str(tmp_path / "rows.tsv"), "--destdir", str(tmp_path / "data"), "--train"]
    assert preprocess.main([*words, str(tmp_path / "rows.tsv")]) == 0
    table.write_bytes((tmp_path / "rows.tsv").read_bytes())
    assert preprocess.main([*words, str(table), "--overwrite"]) == 2
    assert table.exists()


def test_tables_are_read_as_they_say(tmp_path: Path) -> None:
    packed, headed = tmp_path / "a.jsonl.gz", tmp_path / "a.tsv"
    packed.write_bytes(gzip.compress(b'{"text": "good dog"}\n'))
    headed.write_text("\nlabel\ttext\npos\tgood\n", encoding="utf-8")
    assert read_texts(packed) == ["good dog"]
    assert read_labelled(headed).labels == ["pos"]
    headed.write_text("pos\tlabel\nneg\tbad\n", encoding="utf-8")  # no header: a text
    assert read_labelled(headed).texts == ["label", "bad"]
    commas = tmp_path / "a.csv"
    commas.write_text("pos,good,dog\nneg,bad,cat\n")
    assert read_labelled(commas).texts == ["good dog", "bad cat"]
    commas.write_text("pos,good dog\nneg,bad, bad cat\n")
    with pytest.raises(UserError, match=r"a\.csv:2: expected 2 cells as in the first row"):
        read_labelled(commas)
    assert ordered_labels(["10", "9"]) == ("9", "10")
    assert ordered_labels(["9" * 5000, "a"]) == ("9" * 5000, "a")


def test_words_are_counted_in_training_texts_alone() -> None:
    vocabulary = WordVocabulary.count(["The the film", "a Film <unk>", "once"], size=50, min_frequency=2)
    assert vocabulary.words == ("<unk>", "film", "the")
    assert vocabulary.encode(["THE film once\u00a0The", ""]) == [[2, 1, 0, 2], []]
    assert WordVocabulary.from_bytes(vocabulary.to_bytes()).words == vocabulary.words
    assert WordVocabulary.count(["b b b a a c c"], size=3, min_frequency=1).words == ("<unk>", "b", "a")
