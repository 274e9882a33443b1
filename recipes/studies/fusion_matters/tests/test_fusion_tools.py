"""Beside the fusion study: what gates go with, the weaknesses shown, the baseline, the data sets' tables."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

for module in ("scipy", "sklearn", "matplotlib"):
    pytest.importorskip(module)
sys.path.insert(0, str(Path(__file__).parents[1]))
baseline = pytest.importorskip("baseline")
gate_values = pytest.importorskip("gate_values")
make_data = pytest.importorskip("make_data")

from docnmt.runtime.system import UserError  # noqa: E402


def test_variance_that_groups_explain() -> None:
    explained = gate_values.explained
    words = np.array([0, 1, 0, 1, 2, 2])
    by_word, by_nothing = np.array([0.1, 0.9, 0.1, 0.9, 0.4, 0.4]), np.array([0.0, 0.0, 1.0, 1.0, 0.0, 1.0])
    assert explained(by_word[:, None], words) == pytest.approx(1)
    assert explained(by_nothing[:, None], words) == pytest.approx(0)
    assert explained(np.stack([by_word, 1 - by_word], 1), words) == pytest.approx(1), "features may go apart"
    assert 0 < explained(np.stack([5 * by_word, by_nothing], 1), words) < 1
    assert explained(np.full((6, 1), 0.5), words) == 0
    assert explained(np.arange(6.0)[:, None], np.arange(6)) == 0, "as many groups as values say nothing"
    random = np.random.default_rng(0)
    chance = [explained(random.normal(size=(400, 1)), random.integers(200, size=400)) for _ in range(20)]
    assert np.mean(chance) < 0.1, "unadjusted it would be about 0.45"


def test_summary_of_a_gate() -> None:
    positions = np.tile(np.arange(64), 2)
    values = gate_values.GateValues(positions[:, None] / 64, np.zeros(128, dtype=int), positions)
    summary = values.summary()
    assert summary["places"] == pytest.approx(1)
    assert summary["words"] == 0
    assert summary["along"] == [round((2 * part + 0.5) / 64, 4) for part in range(32)]


def test_the_weaknesses_are_shown() -> None:
    weaknesses = pytest.importorskip("weaknesses")
    assert "reordering 0. " in weaknesses.families()
    assert "bit by bit: True" in weaknesses.families()
    assert "share 27 of 27 initial tensors" in weaknesses.pairing()
    assert "True and False" in weaknesses.pairing()
    assert "5 seeds 0.0625" in weaknesses.power()


def test_share_of_the_variance_that_goes_with_the_place() -> None:
    share = pytest.importorskip("weaknesses").place_share
    torch.manual_seed(0)
    words, places = 3 * torch.randn(50, 1, 40), torch.randn(1, 60, 40)
    assert share(words + places) == pytest.approx(0.1, abs=0.02)
    assert share(words.expand(50, 60, 40)) == pytest.approx(0, abs=1e-9)
    assert share(torch.randn(50, 60, 40)) == pytest.approx(0, abs=5e-3)


def test_baseline_is_chosen_on_the_validation_part(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for split, count in (("train", 60), ("valid", 12), ("test", 20)):
        rows = []
        for _ in range(count):
            label = rng.integers(3)
            words = [f"w{label}" if rng.random() < 0.4 else f"x{rng.integers(6)}" for _ in range(6)]
            rows.append(json.dumps({"label": f"c{label}", "text": " ".join(words)}))
        (tmp_path / f"{split}.jsonl").write_text("\n".join(rows) + "\n")
    result = baseline.baseline(tmp_path, None)
    settings = result["settings"]
    assert len(settings) == 14
    best = max(setting["valid_accuracy"] for setting in settings)
    equals = [setting for setting in settings if setting["valid_accuracy"] == best]
    chosen = min(equals, key=lambda setting: setting["valid_loss"])
    assert (result["grams"], result["cost"], result["accuracy"]) == tuple(
        chosen[key] for key in ("grams", "cost", "accuracy")
    )
    assert result["correct"].count("1") == round(20 * result["accuracy"])
    assert baseline.grams(["a", "b", "c"], 2) == ["a", "b", "c", "a b", "b c"]


def test_held_out_texts_are_a_tenth_of_each_label() -> None:
    rows = [(label, f"{label}{i}") for i in range(100) for label in ("a", "b")] + [("c", "c")]
    parts = make_data.held_out({"train": rows, "test": []})
    assert [sum(label == name for label, _ in parts["valid"]) for name in "abc"] == [10, 10, 0]
    assert sorted(parts["train"] + parts["valid"]) == sorted(rows)
    assert parts == make_data.held_out({"train": rows, "test": []})


def test_numbers_of_labels_without_a_name_are_refused(tmp_path: Path) -> None:
    assert make_data.named([("1", "x"), ("0", "y")], ("a", "b"), tmp_path) == [("b", "x"), ("a", "y")]
    with pytest.raises(UserError, match="row 2: expected a label from 0 to 1, got '2'"):
        make_data.named([("1", "x"), ("2", "y")], ("a", "b"), tmp_path)


def test_ag_news_and_imdb_as_their_authors_publish_them(tmp_path: Path) -> None:
    for split in ("train", "test"):
        lines = [f'"{1 + i % 4}","Title {i}","says ""so""\\{i}"' for i in range(80)]
        (tmp_path / f"{split}.csv").write_text("\n".join(lines) + "\n")
    parts = make_data.parts_of("ag_news", tmp_path)
    assert [len(parts[split]) for split in make_data.SPLITS] == [72, 8, 80]
    mixed = make_data.shuffled(parts)
    assert mixed != parts
    assert mixed == make_data.shuffled(parts)
    for split, rows in parts.items():
        assert [(label, sorted(text.split())) for label, text in rows] == [
            (label, sorted(text.split())) for label, text in mixed[split]
        ], "the words and labels stay"
    some = make_data.parts_of("ag_news", tmp_path, 40)
    assert [len(some[split]) for split in make_data.SPLITS] == [36, 4, 80], "the test part stays whole"
    assert set(some["train"]) | set(some["valid"]) < set(parts["train"]) | set(parts["valid"])
    assert parts["test"][1] == ("Sports", 'Title 1 says "so" 1')
    rows = [(label, f"{label}{i}") for i in range(9) for label in "ab"]
    assert make_data.drawn(rows, 9) == rows
    some = make_data.drawn(rows, 4)
    assert [label for label, _ in some].count("a") == 4
    assert some == [row for row in rows if row in some], "in the order of the file"
    (tmp_path / "test.csv").write_text('"5","Title","words"\n')
    with pytest.raises(UserError, match=r"test\.csv, row 1: expected a label from 1 to 4, got"):
        make_data.ag_news(tmp_path)

    for split in ("train", "test"):
        for name in ("neg", "pos"):
            (tmp_path / split / name).mkdir(parents=True)
            for i in range(10):
                (tmp_path / split / name / f"{i}_3.txt").write_text(f"{name}<br />{i}", encoding="utf-8")
    parts = make_data.parts_of("imdb", tmp_path)
    assert [len(parts[split]) for split in make_data.SPLITS] == [18, 2, 20]
    assert parts["test"][0] == ("negative", "neg 0")
    (tmp_path / "test" / "neg").rename(tmp_path / "moved")
    with pytest.raises(UserError, match=r"neg: expected a \.txt file a review"):
        make_data.imdb(tmp_path)


@pytest.mark.parametrize(
    ("tool", "library", "name"),
    [
        ("fusion_matters/report.py", "scipy", "scipy"),
        ("fusion_matters/baseline.py", "sklearn", "scikit-learn"),
        ("discourse/learning_time.py", "scipy", "scipy"),
    ],
)
def test_a_missing_library_is_one_line(tmp_path: Path, tool: str, library: str, name: str) -> None:
    (tmp_path / f"{library}.py").write_text("raise ImportError\n")  # found before the installed one
    path = Path(__file__).parents[2] / tool
    paths = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    told = subprocess.run(
        [sys.executable, path], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": paths}
    )
    assert told.returncode == 1
    assert told.stderr == f"{path.name}: error: needs {name}; pip install -e '.[evaluation]'\n"
