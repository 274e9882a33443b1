"""Sentence pairs from their files to the folder that is trained on."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from docnmt.cli import preprocess
from docnmt.core.corpus import read_meta, write_meta
from docnmt.other_tasks.options import NliConfig
from docnmt.other_tasks.sentence_vectors.data import NLI_LABELS, PairDataset, SentencePairs, read_pairs, words
from docnmt.other_tasks.sentence_vectors.use import Nli
from docnmt.runtime.system import UserError

PAIRS = [
    ("entailment", "A man sleeps.", "Someone sleeps."),
    ("-", "Nobody agrees.", "They do."),
    ("contradiction", "A dog runs.", "It\u2028stands."),  # a line separator is no line's end
    ("neutral", "A man sleeps.", "He dreams of a dog."),
]


def tsv(path: Path, rows: list[tuple[str, str, str]]) -> Path:
    path.write_text("\n".join(["\t".join(row) for row in [("label", "text", "text2"), *rows]]) + "\n")
    return path


def jsonl(path: Path, rows: list[tuple[str, str, str]]) -> Path:
    names = ("gold_label", "sentence1", "sentence2", "pairID")
    path.write_text("".join(json.dumps(dict(zip(names, (*row, "1"), strict=True))) + "\n" for row in rows))
    return path


@pytest.fixture
def vectors(tmp_path: Path) -> Path:
    random, path = np.random.default_rng(0), tmp_path / "vectors.txt"
    vocabulary = sorted({word.lower() for _, *pair in PAIRS for text in pair for word in words(text)} - {"dreams"})
    path.write_text("".join(f"{word} {' '.join(f'{x:.3f}' for x in random.normal(size=4))}\n" for word in vocabulary))
    return path


def test_both_forms_give_the_same_pairs(tmp_path: Path) -> None:
    pairs = read_pairs(tsv(tmp_path / "a.tsv", PAIRS))
    assert pairs == read_pairs(jsonl(tmp_path / "a.jsonl", PAIRS))
    gold = [row for row in PAIRS if row[0] != "-"]
    labels, first, second = zip(*gold, strict=True)
    sentences = [text for pair in zip(first, second, strict=True) for text in pair]
    assert pairs == SentencePairs([NLI_LABELS.index(label) for label in labels], sentences, 1)


@pytest.mark.parametrize(("name", "text", "message"), [
    ("a.tsv", "text\tlabel\n", r"a\.tsv:1.*'text2'"),
    ("a.tsv", "label\ttext\ttext2\nneutral\tone\n", r"a\.tsv:2"),
    ("a.tsv", "label\ttext\ttext2\nperhaps\tone\ttwo\n", r"a\.tsv:2.*'perhaps'"),
    ("a.tsv", "label\ttext\ttext2\n-\tone\ttwo\n", "a.tsv"),
    ("a.tsv", "label\ttext\ttext2\nneutral\tcaf\udce9\ty\n", r"a\.tsv:2"),
    ("a.jsonl", "{}\n", r"a\.jsonl:1.*'gold_label'"),
    ("a.jsonl", "[1]\n", r"a\.jsonl:1"),
    ("a.jsonl", '{"gold_label": "neutral", "sentence1": 1, "sentence2": "a"}\n', "a.jsonl:1: 'sentence1'"),
    ("a.jsonl", '{"gold_label": "neutral", "sentence1": "\\ud800", "sentence2": "a"}\n', "a.jsonl:1"),
])  # fmt: skip
def test_faults_are_named_by_line(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(UserError, match=message):
        read_pairs(tmp_path / name)


def test_pairs_as_windows_writes_them(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_bytes("\ufefflabel\ttext\ttext2\r\nNeutral\tx\ty\r\n".encode())
    assert read_pairs(tmp_path / "a.tsv") == SentencePairs([NLI_LABELS.index("neutral")], ["x", "y"], 0)


@pytest.fixture
def run(tmp_path: Path, vectors: Path) -> Callable[..., int]:
    """docnmt-preprocess of PAIRS; keywords replace its options."""
    options = {
        "train": tsv(tmp_path / "train.tsv", PAIRS), "valid": jsonl(tmp_path / "valid.jsonl", PAIRS[2:]),
        "vectors": vectors, "destdir": tmp_path / "data",
    }  # fmt: skip

    def run(**other: Path) -> int:
        arguments = [text for name, value in (options | other).items() for text in (f"--{name}", str(value))]
        return preprocess.main(["--task", "nli", *arguments])

    return run


def test_the_folder_holds_every_pair(
    tmp_path: Path, run: Callable[..., int], capfd: pytest.CaptureFixture[str]
) -> None:
    assert run() == 0
    report = capfd.readouterr().err
    assert "train: 3 pairs" in report
    assert "gold label" in report
    assert "dreams (2)" in report  # in the training and in the validation pairs
    assert "warning: 2 pairs of valid" in report
    task = Nli.load(NliConfig(), tmp_path / "data")
    embeddings, stored = (
        task.embeddings,
        PairDataset.open(tmp_path / "data", "train", read_meta(tmp_path / "data")["files"]),
    )
    gold = [row for row in PAIRS if row[0] != "-"]
    assert [NLI_LABELS[label] for label in stored.labels] == [row[0] for row in gold]
    for number, text in enumerate(text for _, *pair in gold for text in pair):
        expected = ["dreams" if word == "dreams" else word.lower() for word in words(text)]
        found = [embeddings.words[row] for row in stored.sentences[number]]
        assert [word for word in found if word in expected] == [word for word in expected if word != "dreams"]
        assert len(found) == len(expected)
    assert [len(vector) for vector in embeddings.vectors] == [len(embeddings.words)]


def test_missing_vectors_are_noticed_before_the_texts_are_read(
    tmp_path: Path, run: Callable[..., int], capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(vectors=tmp_path / "none.txt") == 1
    report = capfd.readouterr().err
    assert "none.txt: " in report
    assert "pairs" not in report
    assert not (tmp_path / "data").exists()


def test_without_vectors_words_get_random_ones(
    tmp_path: Path, run: Callable[..., int], capfd: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--train", str(tmp_path / "train.tsv"), "--valid", str(tmp_path / "valid.jsonl")]
    for name in ("one", "two"):
        assert preprocess.main(["--task", "nli", *arguments, "--destdir", str(tmp_path / name)]) == 0
    assert "--vectors" in capfd.readouterr().err
    (first,), (second,) = (Nli.load(NliConfig(), tmp_path / name).embeddings.vectors for name in ("one", "two"))
    assert np.array_equal(first, second)
    assert not first[0].any()
    assert np.linalg.norm(first[1:].astype(float), axis=1) == pytest.approx(1, abs=1e-3)


def test_folders_of_another_form_or_damaged_are_refused(tmp_path: Path, run: Callable[..., int]) -> None:
    assert run() == 0
    folder = tmp_path / "data"
    meta = read_meta(folder)
    dtypes = {name: entry.get("dtype") for name, entry in meta["files"].items()}
    assert dtypes == {
        "words.txt": None, "vectors.0.bin": "<f2", "probability.bin": "<f4", "train.labels.bin": "|u1",
        "train.tokens.bin": "<u2", "train.tokens.offsets.bin": "<i8", "valid.labels.bin": "|u1",
        "valid.tokens.bin": "<u2", "valid.tokens.offsets.bin": "<i8",
    }  # fmt: skip
    old = {"probability.npy" if name == "probability.bin" else name: e for name, e in meta["files"].items()}
    (folder / "probability.bin").rename(folder / "probability.npy")
    content = {key: meta[key] for key in ("vectors", "words", "splits", "options", "report")}
    write_meta(folder, task="nli", files=old, **content)
    with pytest.raises(UserError):
        Nli.load(NliConfig(), folder)
