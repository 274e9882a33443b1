"""Training as a user runs it: `docnmt-train` on the toy task."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from toy import write_toy_data

from docnmt.cli.train import main
from docnmt.training.checkpoint import load_checkpoint
from docnmt.training.loading import load_model


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write_toy_data(tmp_path / "data")


def train(data: Path, save_dir: Path, *options: str, arch: str = "toy") -> int:
    basic = ["--arch", arch, "--save-dir", str(save_dir), "--max-tokens", "40", "--warmup-updates", "5", "--lr", "0.01"]
    return main([str(data), *basic, "--log-interval", "3", "--device", "cpu", *options])


def log(save_dir: Path, events: Sequence[str] = ("train", "valid", "epoch")) -> list[dict[str, Any]]:
    """The log without what depends on the clock."""
    clock = ("wall", "tokens_per_second", "peak_memory")
    lines = [json.loads(line) for line in (save_dir / "train.jsonl").read_text().splitlines()]
    return [{k: v for k, v in line.items() if k not in clock} for line in lines if line["event"] in events]


def assert_same_checkpoint(first: Path, second: Path) -> None:
    """Tensors bit by bit, and the progress but for the clock."""
    one, other = load_checkpoint(first), load_checkpoint(second)
    assert one.tensors.keys() == other.tensors.keys()
    for name, tensor in one.tensors.items():
        assert torch.equal(tensor, other.tensors[name]), name
    for progress in (one.header["progress"], other.header["progress"]):
        for clock in (progress, progress["interval"], progress["whole_epoch"]):
            clock.pop("seconds", None)
    assert one.header["progress"] == other.header["progress"]


def test_learns_and_says_so(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert train(data, tmp_path / "run", "--max-epoch", "8") == 0
    valid = log(tmp_path / "run", ["valid"])
    assert valid[-1]["loss"] < 0.7 * valid[0]["loss"]
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "--max-epoch 8 is reached" in captured.err
    loaded = load_model(tmp_path / "run")
    assert loaded.arch == "toy"
    assert not loaded.model.training
    best = load_checkpoint(tmp_path / "run" / "checkpoint_best.safetensors")
    assert not [name for name in best.tensors if name.startswith("optimizer.")]
    assert "tokenizer.model" in best.tensors
    assert "model.output.weight" not in best.tensors  # tied to the embedding


@pytest.mark.parametrize("stops", [(1,), (7,), (3, 11), (10, 20)])
def test_resume_is_bit_exact(data: Path, tmp_path: Path, stops: tuple[int, ...]) -> None:
    """Stopping anywhere, also in the middle of an epoch and of a logging interval, changes no bit."""
    common = ("--validate-interval-updates", "5", "--update-freq", "2", "--bf16")
    train(data, tmp_path / "whole", *common, "--max-update", "23")
    for stop in (*stops, 23):
        assert train(data, tmp_path / "parts", *common, "--max-update", str(stop)) == 0
    assert log(tmp_path / "whole", ["train", "epoch"]) == log(tmp_path / "parts", ["train", "epoch"])
    whole, parts = (load_checkpoint(tmp_path / run / "checkpoint_last.safetensors") for run in ("whole", "parts"))
    assert whole.header["progress"]["history"] == parts.header["progress"]["history"]
    assert_same_checkpoint(whole.path, parts.path)
