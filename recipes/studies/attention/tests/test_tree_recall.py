"""The tool that compares a model's choice of sentences with comparing all of them."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import small_system
import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

import tree_recall as tool

from docnmt.functional import selection as nearest
from docnmt.functional.selection import Selection


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_system.save(tmp_path_factory.mktemp("model") / "model.safetensors", "hier_cond_transformer_tiny")


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("text") / "text.en"
    lines = [line for document in small_system.text(40, 8) for line in document]
    path.write_text("".join(f"{line}\n" for line in lines[:60]), encoding="utf-8")
    return path


def run(path: Path, *options: object) -> dict[str, list[dict[str, list[float]]]]:
    out = path.with_suffix(".json")
    tool.main([str(path), *map(str, options), "--documents", "2", "--json", str(out)])
    layers: dict[str, list[dict[str, list[float]]]] = json.loads(out.read_text())["sentences"]
    return layers


def test_share_of_the_best_that_is_kept() -> None:
    inf = float("inf")
    chosen = Selection(torch.tensor([[[5, 2, 9], [1, 0, 0]]]), torch.tensor([[[3.0, 2.0, 1.0], [1.0, -inf, -inf]]]))
    best = Selection(torch.tensor([[[2, 7, 5], [0, 1, 3]]]), torch.tensor([[[3.0, 2.0, 1.0], [2.0, 1.0, -inf]]]))
    torch.testing.assert_close(tool.kept_share(chosen, best), torch.tensor([[2 / 3, 1 / 2]]))


def test_comparing_all_finds_all_and_blocks_find_less(
    checkpoint: Path, text: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    options = "--text", text, "--sentences", 5, 50
    layers = run(checkpoint, *options)
    assert {(size, len(stack)) for size, stack in layers.items()} == {("5", 4), ("50", 4)}  # encoder and decoder layers
    for measures in (*layers["5"], *layers["50"]):
        assert all(measures[name] == pytest.approx([1.0, 1.0], abs=1e-5) for name in ("recall", "weight", "flat"))
    said = capsys.readouterr().out
    assert all(f"| 50 | {layer} | 1.000 | 1.000 | 1.000 | 1.000 | – | – |" in said for layer in (4, "all"))
    for name in ("_FEW", "_LEAST"):
        monkeypatch.setattr(nearest, name, 0)
    monkeypatch.setattr(nearest, "_WIDER", 1)
    less = run(checkpoint, *options)["50"]
    assert all(0.2 < share < 1 for measures in less for share in measures["recall"])
    assert all(measures["recall"][n] < measures["weight"][n] <= 1.00001 for measures in less for n in range(2))


def test_as_many_as_there_are_lose_nothing(checkpoint: Path, text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_FEW", "_LEAST"):
        monkeypatch.setattr(nearest, name, 0)
    options = "--text", text, "--sentences", 50
    few, all_ = (run(checkpoint, *options, "--top-t", t)["50"][0]["recall"] for t in (1, 50))
    assert max(few) < 1
    assert all_ == [1.0, 1.0]


def test_the_deciding_sentence_is_found_where_all_are_read(checkpoint: Path, text: Path, tmp_path: Path) -> None:
    lines = text.read_text().splitlines()
    questions = tmp_path / "contrastive.tsv"
    with questions.open("w", newline="") as file:
        writer = csv.writer(file, delimiter="\t", quoting=csv.QUOTE_NONE, lineterminator="\n", quotechar=None)
        writer.writerow(["group", "correct", "src_context", "src", "tgt_context", "tgt", "distance"])
        writer.writerow([0, 1, tool.SEPARATOR.join(lines[:3]), lines[3], tool.SEPARATOR.join("abc"), lines[4], 2])
    few, many = (layers[0] for layers in run(checkpoint, "--contrastive", questions, "--sentences", 4, 40).values())
    assert few["found"] == [1.0, 1.0], "four sentences are all kept"
    assert all(0 < share < 1 for share in few["mass"])
    assert max(many["found"]) <= 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--text", "TEXT", "--sentences", "61"], "has 60 sentences; give --sentences of at most as many"),
        (["--text", "no.en"], "no.en"),
        (["--contrastive", "TEXT"], "line 1: no column"),
    ],
)
def test_wrong_input_is_one_line(
    checkpoint: Path, text: Path, options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        tool.main([str(checkpoint), *(str(text) if option == "TEXT" else option for option in options)])
    assert message in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize(
    ("task", "model", "copies", "message"),
    [
        ({}, {"always_own_sentence": True}, 1, "was trained with --always-own-sentence"),
        ({"max_doc_tokens": 30}, {}, 1, "(--max-doc-tokens), which cuts a document of 50 sentences"),
        ({}, {}, 2, "expected one checkpoint, got 2"),
    ],
)
def test_models_whose_choice_cannot_be_compared_are_refused(
    text: Path, tmp_path: Path, task: dict[str, Any], model: dict[str, Any], copies: int, message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    of = small_system.task(**task)
    path = small_system.save(tmp_path / "model.safetensors", "hier_cond_transformer_tiny", of=of, **model)
    with pytest.raises(SystemExit):
        tool.main([":".join([str(path)] * copies), "--text", str(text), "--sentences", "50", "--top-t", "1"])
    assert message in capsys.readouterr().err.splitlines()[-1]
