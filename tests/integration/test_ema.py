"""`--ema`: the mean of the weights is judged and used; training itself does not know of it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from toy import train, write_toy_data

from docnmt.core.training.checkpoint import load_checkpoint, load_model

LAST, BEST = "checkpoint_last.safetensors", "checkpoint_best.safetensors"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write_toy_data(tmp_path / "data")


def test_the_mean_follows_its_equation(data: Path, tmp_path: Path) -> None:
    """From the weights after each update, which single runs give."""
    updates, decay, common = 6, 0.5, ("--disable-validation",)
    weights = []
    for update in range(updates + 1):
        run = tmp_path / f"run{update}"
        assert train(data, run, *common, "--max-update", str(update)) == 0
        weights.append(load_checkpoint(run / LAST).group("model"))
    assert train(data, tmp_path / "mean", *common, "--max-update", str(updates), "--ema", str(decay)) == 0
    found = load_checkpoint(tmp_path / "mean" / LAST)
    for name, mean in found.group("ema").items():
        expected = weights[0][name].double()
        for n in range(1, updates + 1):
            kept = min(decay, (1 + n) / (10 + n))
            expected = kept * expected + (1 - kept) * weights[n][name].double()
        torch.testing.assert_close(mean.double(), expected, rtol=1e-6, atol=1e-7)
        assert torch.equal(found.group("model")[name], weights[-1][name])  # trained as without


def test_validation_and_best_are_the_mean_s(data: Path, tmp_path: Path) -> None:
    options = ("--max-epoch", "2", "--ema", "0.9", "--keep-last", "1")
    assert train(data, tmp_path / "run", *options) == 0
    best, last = (load_checkpoint(tmp_path / "run" / name) for name in (BEST, LAST))
    assert not best.group("ema")
    assert last.header["progress"]["best"][0] == last.header["progress"]["update"]  # or the next line says nothing
    for name, mean in last.group("ema").items():
        assert torch.equal(best.group("model")[name], mean)
    load_model(tmp_path / "run")


def test_a_note_says_that_no_checkpoint_has_the_mean_as_its_model(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--max-update", "4", "--ema", "0.5", "--disable-validation")
    assert train(data, tmp_path / "run", *options) == 0
    assert "--keep-last" in capsys.readouterr().err
    assert train(data, tmp_path / "kept", *options, "--keep-last", "1") == 0
    assert "--keep-last" not in capsys.readouterr().err
    kept, last = (load_checkpoint(tmp_path / "kept" / name) for name in ("checkpoint_4.safetensors", LAST))
    for name, mean in last.group("ema").items():
        assert torch.equal(kept.group("model")[name], mean)
        assert not torch.equal(last.group("model")[name], mean)
