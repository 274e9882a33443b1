"""Data, checkpoints and runs that were kept work as they did then (see README.md here)."""

from __future__ import annotations

import importlib
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch

from docnmt.core.training.checkpoint import checksums_of, load_checkpoint, load_model
from docnmt.registry import CONFIG_VERSION
from docnmt.runtime.system import UsageError, UserError

V1 = Path(__file__).parent / "v1"
EXPECTED = json.loads((V1 / "expected.json").read_text(encoding="utf-8"))
NUMBER = re.compile(r"-?\d+\.\d+")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Paths stored in the runs are relative to the folder of their version."""
    shutil.copytree(V1, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def call(command: str, *arguments: object) -> None:
    main = importlib.import_module(f"docnmt.cli.{command}").main
    assert main([str(argument) for argument in arguments]) == 0


def assert_same(printed: str, expected: str, tolerance: float) -> None:
    """Equal text, and numbers within `tolerance`."""
    assert NUMBER.sub("#", printed) == NUMBER.sub("#", expected)
    numbers, wanted = ([float(number) for number in NUMBER.findall(text)] for text in (printed, expected))
    assert numbers == pytest.approx(wanted, abs=tolerance)


@pytest.mark.parametrize("name", ["hier_cond", "concat"])
def test_translations(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    call("generate", "data", "--path", f"{name}.safetensors", "--beam", 3, "--scoring", "none")
    printed, expected = capsys.readouterr().out.splitlines(), EXPECTED[name].splitlines()
    assert len(printed) == len(expected)
    for line, wanted in zip(printed, expected, strict=True):  # P-i is printed with four decimals only
        assert_same(line, wanted, 1.01e-4 if line.startswith("P-") else 1e-5)


def test_contrastive_choices(capsys: pytest.CaptureFixture[str]) -> None:
    call("score", "--contrastive", "contrastive.tsv", "--path", "hier_cond.safetensors", "--json")
    assert json.loads(capsys.readouterr().out) == EXPECTED["contrastive"]


def test_labels(capsys: pytest.CaptureFixture[str]) -> None:
    call("classify", "--path", "classifier.safetensors", "lines.txt", "--all-probabilities")
    assert_same(capsys.readouterr().out, EXPECTED["labels"], 1.01e-4)


def test_vectors() -> None:
    call("embed", "--path", "inferlite.safetensors", "--input", "lines.txt", "--output", "vectors.npy")
    np.testing.assert_allclose(np.load("vectors.npy"), EXPECTED["vectors"], atol=1e-5)


def losses(run: Path) -> list[float]:
    """The losses of updates 7 to 11."""
    lines: list[dict[str, Any]] = [json.loads(line) for line in (run / "train.jsonl").read_text().splitlines()]
    return [line["loss"] for line in lines if line["event"] == "train" and line["update"] > 6]


@pytest.mark.parametrize(
    "options",
    [
        "data --arch transformer_tiny --position learned --max-positions 32 --encoder-layers 1 --decoder-layers 1 "
        "--embed-dim 16 --heads 2 --ffn-dim 24 --max-tokens 300 --warmup-updates 4 --lr 0.01 --log-interval 1 "
        "--device cpu --save-dir resume --position-fusion add",
        "--config resume/config.yaml",
    ],
    ids=["typed", "from-its-config"],
)
def test_training_goes_on(options: str) -> None:
    call("train", *options.split(), "--max-update", 11)
    assert losses(Path("resume")) == pytest.approx(EXPECTED["losses"], rel=1e-6)


@pytest.mark.parametrize("path", ["data", "resume/checkpoint_last.safetensors", "hier_cond.safetensors"])
def test_inspected(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    call("inspect", path)
    assert capsys.readouterr().out


def change(path: Path, header: Callable[[dict[str, Any]], object]) -> None:
    """Alter a checkpoint's header, and its checksum with it."""
    with safetensors.safe_open(path, framework="pt") as file:
        values = json.loads(file.metadata()["docnmt"])
    header(values)
    text, tensors = json.dumps(values), safetensors.torch.load_file(path)
    safetensors.torch.save_file(tensors, path, metadata={"docnmt": text, "xxh3": checksums_of(text, tensors)})


@pytest.mark.parametrize("version", [1, CONFIG_VERSION - 1, CONFIG_VERSION + 1])
def test_another_version_is_refused(version: int) -> None:
    path = Path("resume/checkpoint_last.safetensors")
    change(path, lambda header: header.update(config_version=version))
    wanted = rf"config_version is {version} \(written by docnmt .*\); docnmt .* reads {CONFIG_VERSION}"
    with pytest.raises(UserError, match=wanted):
        load_checkpoint(path)


def test_an_unknown_option_stops_translating_and_resuming(capsys: pytest.CaptureFixture[str]) -> None:
    path = Path("resume/checkpoint_last.safetensors")
    change(path, lambda header: header["config"]["model"].update(depth=3))
    with pytest.raises(UsageError, match=r"checkpoint_last\.safetensors.*'depth'"):
        load_model(path)
    main = importlib.import_module("docnmt.cli.train").main
    assert main(["--config", "resume/config.yaml", "--max-update", "7"]) == 2
    assert "'depth'" in capsys.readouterr().err
