"""Beside the fusion study: what gates go with, the weaknesses shown, the baseline, the data sets' tables."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

for module in ("scipy", "sklearn", "matplotlib"):
    pytest.importorskip(module)
sys.path.insert(0, str(Path(__file__).parents[1] / "tools" / "fusion_matters"))
baseline = pytest.importorskip("baseline")
gate_values = pytest.importorskip("gate_values")
make_data = pytest.importorskip("make_data")

from docnmt.errors import UserError  # noqa: E402


def test_variance_that_groups_explain() -> None:
    explained = gate_values.explained
    words = np.array([0, 1, 0, 1, 2, 2])
    assert explained(np.array([0.1, 0.9, 0.1, 0.9, 0.4, 0.4]), words) == pytest.approx(1)
    assert explained(np.array([0.0, 0.0, 1.0, 1.0, 0.0, 1.0]), words) == pytest.approx(0)
    assert explained(np.full(6, 0.5), words) == 0
    assert explained(np.arange(6.0), np.arange(6)) == 0, "as many groups as values say nothing"
    random = np.random.default_rng(0)
    chance = [explained(random.normal(size=400), random.integers(200, size=400)) for _ in range(20)]
    assert np.mean(chance) < 0.1, "unadjusted it would be about 0.45"


def test_summary_of_a_gate() -> None:
    place = np.tile(np.arange(64), 2)
    values = gate_values.GateValues(place / 64, np.zeros(128, dtype=int), place)
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
    assert len(settings) == 10
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
