"""The plug-in of examples/plugin, run as its README says."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import pytest

from docnmt.cli.inspect import main as inspect
from docnmt.cli.train import main as train

PLUGIN = Path(__file__).parents[2] / "examples" / "plugin"


@pytest.mark.parametrize("criterion", ["focal", "label_smoothed_cross_entropy"])
def test_the_example_learns(tmp_path: Path, criterion: str, capsys: pytest.CaptureFixture[str]) -> None:
    for split, count in (("train", 40), ("valid", 4)):
        (tmp_path / f"{split}.txt").write_text("the cat sat on the mat\n" * count)
    run = tmp_path / "run"
    command = [
        str(tmp_path), "--user-dir", str(PLUGIN), "--task", "character_lm", "--arch", "byte_mlp",
        "--criterion", criterion, "--save-dir", str(run), "--hidden-dim", "16", "--max-tokens", "200",
        "--lr", "0.02", "--warmup-updates", "1", "--max-epoch", "6", "--device", "cpu",
    ]  # fmt: skip
    assert train(command) == 0
    valid = [line["nll"] for line in map(json.loads, (run / "train.jsonl").open()) if line["event"] == "valid"]
    assert valid[-1] < 0.4 * valid[0]
    capsys.readouterr()
    assert inspect(["--user-dir", str(PLUGIN), str(run)]) == 0
    assert "byte_mlp" in capsys.readouterr().out
    assert train(["--user-dir", str(PLUGIN), "--list"]) == 0
    listed = capsys.readouterr().out
    assert "character_lm  " in listed
    assert "focal" in listed
    assert train([str(tmp_path / "nowhere"), *command[1:], "--max-epoch", "9"]) == 1
    assert "train.txt" in capsys.readouterr().err


def test_the_gated_attention_passes_its_test(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len((PLUGIN / "gated_attention.py").read_text().splitlines()) <= 50
    monkeypatch.syspath_prepend(PLUGIN)
    tests = [
        test for name, test in vars(importlib.import_module("test_gated_attention")).items() if name.startswith("test_")
    ]
    assert len(tests) == 3
    for test in tests:
        test()
