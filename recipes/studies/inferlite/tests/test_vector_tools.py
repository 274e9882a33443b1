"""The tools that measure trained sentence encoders: gates, recall, test accuracy."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pytest
from recipe_tools import tool

from docnmt.cli import preprocess, train
from docnmt.other_tasks.sentence_vectors.use import SentenceEncoder

NOUNS, VERBS = ["dog", "cat", "man", "child", "bird", "train"], ["runs", "sleeps", "sings", "waits"]
LINES = [f"the {n} {v} ." for n in NOUNS for v in VERBS] + ["", "unheard of words", "the the the cat"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A preprocessed folder with two embedding types, and encoders with and without codes."""
    path = tmp_path_factory.mktemp("nli")
    random = np.random.default_rng(0)
    for name, width in (("one", 8), ("two", 5)):
        words = [*NOUNS, *VERBS, "the", "a", "never", "there", "."]
        rows = [f"{word} {' '.join(f'{x:.4f}' for x in random.normal(size=width))}" for word in words]
        (path / f"{name}.txt").write_text("\n".join(rows) + "\n")
    for split, count in (("train", 300), ("valid", 60)):
        rows = ["label\ttext\ttext2"]
        for _ in range(count):
            noun, verb = random.choice(NOUNS), random.choice(VERBS)
            label = str(random.choice(["entailment", "neutral", "contradiction"]))
            other = {"entailment": f"the {noun} {verb}", "contradiction": f"the {noun} never {verb}"}
            rows.append(f"{label}\tThe {noun} {verb} .\t{other.get(label, f'a {verb} there')}")
        (path / f"{split}.tsv").write_text("\n".join(rows) + "\n")
    vectors = [f"{path}/one.txt", f"{path}/two.txt"]
    words = ["--task", "nli", "--train", f"{path}/train.tsv", "--valid", f"{path}/valid.tsv", "--vectors", *vectors]
    assert preprocess.main([*words, "--destdir", f"{path}/data"]) == 0
    options = (
        "--arch inferlite --hidden-dim 16 --output-dim 64 --conv-width 3 --max-update 8 --max-tokens 300 --lr 0.003"
    )
    options += " --warmup-updates 1 --device cpu --best-checkpoint-metric accuracy"
    for name, more in (("plain", []), ("hashed", ["--hash-bits", "24", "--hash-steps", "5"])):
        assert train.main([f"{path}/data", "--save-dir", f"{path}/{name}", *options.split(), *more]) == 0
    return path


def test_gates_have_a_mean_for_each_type_and_word(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gates = tool("gates")
    means = gates.gate_means(SentenceEncoder.load(folder / "plain"), ["the", "cat", "sings"])
    assert means.shape == (2, 3)
    assert ((means > 0) & (means < 1)).all()
    monkeypatch.setattr("sys.stdin", io.StringIO("the cat sings\na dog waits there\n"))
    gates.main(["--path", f"{folder}/plain", "--output", str(tmp_path / "gates.png")])
    assert (tmp_path / "gates.png").read_bytes().startswith(b"\x89PNG")


def test_tools_measure_recall_and_test_accuracy(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hashed, plain = folder / "hashed", folder / "plain"
    (folder / "lines.txt").write_text("\n".join(LINES) + "\n")
    retrieval, nli_test = tool("retrieval"), tool("nli_test")
    retrieval.main(["--text", f"{folder}/lines.txt", "--truth", str(plain), "--queries", "5", str(hashed), str(plain)])
    rows = [line.split(" | ") for line in capsys.readouterr().out.splitlines() if line.startswith(("| hashed", "| pl"))]
    assert [row[1] for row in rows] == ["cosine", "Hamming, 24 bits", "cosine"]
    assert [row[2] for row in rows] == ["256", "3", "256"]
    assert [rows[0][5], rows[2][5], rows[2][6]] == ["1.000"] * 3
    assert 0 <= float(rows[1][5]) <= 1
    nli_test.main([str(hashed), str(plain), "--split", "valid"])
    printed = capsys.readouterr().out.splitlines()[2:]
    logged = [json.loads(line) for line in (plain / "train.jsonl").read_text().splitlines()]
    best = max(row["accuracy"] for row in logged if row["event"] == "valid")
    assert printed[1] == f"| plain | {100 * best:.2f} |  |"
    assert printed[0].startswith("| hashed | ")
