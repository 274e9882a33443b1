"""Training as a user runs it: `docnmt-train` on the toy task."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from toy import assert_same_checkpoint, log, train, write_toy_data

from docnmt.cli.average import main as average
from docnmt.core.training.checkpoint import load_checkpoint, load_model, save_checkpoint


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write_toy_data(tmp_path / "data")


def test_learns_and_says_so(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert train(data, tmp_path / "run", "--max-epoch", "8") == 0
    valid = log(tmp_path / "run", ["valid"])
    assert valid[-1]["loss"] < 0.7 * valid[0]["loss"]
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "--max-epoch" in captured.err
    loaded = load_model(tmp_path / "run")
    assert loaded.arch == "toy"
    assert not loaded.model.training
    best = load_checkpoint(tmp_path / "run" / "checkpoint_best.safetensors")
    assert not [name for name in best.tensors if name.startswith("optimizer.")]
    assert "tokenizer.model" in best.tensors
    assert "model.output.weight" not in best.tensors  # tied to the embedding


@pytest.mark.parametrize("stops", [(1, 7), (3, 11, 20)])
def test_resume_is_bit_exact(data: Path, tmp_path: Path, stops: tuple[int, ...]) -> None:
    """Stopping anywhere, also in the middle of an epoch and of a logging interval, changes no bit."""
    common = ("--validate-interval-updates", "5", "--update-freq", "2", "--bf16", "--force-bf16", "--ema", "0.9")
    train(data, tmp_path / "whole", *common, "--max-update", "23")
    for stop in (*stops, 23):
        assert train(data, tmp_path / "parts", *common, "--max-update", str(stop)) == 0
    assert log(tmp_path / "whole", ["train", "epoch"]) == log(tmp_path / "parts", ["train", "epoch"])
    whole, parts = (load_checkpoint(tmp_path / run / "checkpoint_last.safetensors") for run in ("whole", "parts"))
    assert whole.header["progress"]["history"] == parts.header["progress"]["history"]
    assert_same_checkpoint(whole.path, parts.path)


def test_resume_keeps_patience_and_best(data: Path, tmp_path: Path) -> None:
    """Patience counts across runs: validations go up and down, because the rate is far too high."""
    common = ("--lr", "1", "--lr-scheduler", "constant", "--patience", "2")
    train(data, tmp_path / "whole", *common)
    for epoch in range(1, 30, 3):
        train(data, tmp_path / "parts", *common, "--max-epoch", str(epoch))
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert log(whole) == log(parts)
    assert_same_checkpoint(whole / "checkpoint_last.safetensors", parts / "checkpoint_last.safetensors")
    assert_same_checkpoint(whole / "checkpoint_best.safetensors", parts / "checkpoint_best.safetensors")
    progress = load_checkpoint(whole / "checkpoint_last.safetensors").header["progress"]
    losses = [loss for _, loss in progress["history"]]
    assert min(losses) == losses[-3] == progress["best"][1]


def test_only_limits_may_change(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train(data, tmp_path / "run", "--max-update", "2")
    capsys.readouterr()
    assert train(data, tmp_path / "run", "--max-update", "9", "--seed", "2", "--dropout", "0.1", "--lr", "0.02") == 2
    error = capsys.readouterr().err
    for text in ("--seed .*1.*2", "--dropout .*0.2.*0.1", "--lr .*0.01.*0.02"):
        assert re.search(text, error)
    assert train(write_toy_data(tmp_path / "other", seed=1), tmp_path / "run", "--max-update", "9") == 1
    assert str(tmp_path / "other") in capsys.readouterr().err
    new_limits = ("--max-epoch", "2", "--patience", "9", "--keep-last", "2", "--save-interval-updates", "4")
    assert train(data, tmp_path / "run", *new_limits) == 0


def test_best_checkpoint_by_a_metric_of_the_task(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """BLEU is better when higher, loss when lower; the toy's is the size of its weights."""
    assert train(data, tmp_path / "run", "--max-epoch", "3", "--best-checkpoint-metric", "bleu") == 0
    scores = [(line["bleu"], line["update"]) for line in log(tmp_path / "run", ["valid"])]
    best = load_checkpoint(tmp_path / "run" / "checkpoint_best.safetensors").header["progress"]["best"]
    assert [best[1], best[0]] == list(max(scores))
    assert train(data, tmp_path / "other", "--best-checkpoint-metric", "belu") == 2
    assert "loss, nll, ppl, bleu" in capsys.readouterr().err
    assert not (tmp_path / "other").exists()


def test_keep_last_and_average(data: Path, tmp_path: Path) -> None:
    run, output = tmp_path / "run", tmp_path / "mean.safetensors"
    train(data, run, "--max-epoch", "5", "--keep-last", "3")
    kept = sorted(run.glob("checkpoint_[0-9]*"), key=lambda path: int(path.stem.rpartition("_")[2]))
    assert len(kept) == 3
    command = ["--save-dir", str(run), "--last", "2", "--output", str(output)]
    assert average(command) == 0
    inputs = [load_checkpoint(path) for path in kept[1:]]
    mean = load_checkpoint(output)
    for name, tensor in mean.group("model").items():
        if tensor.is_floating_point():
            expected = torch.stack([c.group("model")[name] for c in inputs]).mean(0)
            torch.testing.assert_close(tensor, expected)
    assert load_model(output).arch == "toy"
    assert average(command) == 1  # it exists
    assert average([*command, "--overwrite", "--last", "4"]) == 1  # there are three
    assert average(["--output", str(output)]) == 2
    before = kept[1].read_bytes()
    for inputs in (["--inputs", *map(str, kept)], ["--save-dir", str(run), "--last", "2"]):
        assert average([*inputs, "--output", str(kept[1]), "--overwrite"]) == 2
    assert kept[1].read_bytes() == before
    for twice in ("a.safetensors", "./b/../a.safetensors"):
        assert average(["--inputs", "a.safetensors", twice, "--output", str(output), "--overwrite"]) == 2


def test_without_validation_every_save_is_kept(data: Path, tmp_path: Path) -> None:
    options = ("--disable-validation", "--max-update", "7", "--save-interval-updates", "2", "--ema", "0.9")
    train(data, tmp_path / "run", *options, "--keep-last", "3")
    kept = sorted((tmp_path / "run").glob("checkpoint_[0-9]*"))
    assert [path.name for path in kept] == [f"checkpoint_{n}.safetensors" for n in (4, 6, 7)]
    last = load_checkpoint(tmp_path / "run" / "checkpoint_last.safetensors")
    model = load_checkpoint(kept[-1]).group("model")
    for name, tensor in last.group("ema").items():
        assert torch.equal(tensor, model[name])


def test_foreign_folder_is_refused(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.tex").write_text("precious")
    for extra in ([], ["--overwrite"]):
        assert train(data, tmp_path / "thesis", "--max-update", "1", *extra) == 1
        assert "thesis" in capsys.readouterr().err
    assert [file.name for file in (tmp_path / "thesis").iterdir()] == ["chapter.tex"]


# `--ema`: the mean of the weights is judged and used; training itself does not know of it.


LAST, BEST = "checkpoint_last.safetensors", "checkpoint_best.safetensors"


def test_the_mean_follows_its_equation(data: Path, tmp_path: Path) -> None:
    """From the weights after each update, which single runs give."""
    updates, decay, common = 6, 0.5, ("--disable-validation",)
    weights = []
    for update in range(updates + 1):
        run = tmp_path / f"run{update}"
        assert train(data, run, *common, "--max-update", str(update)) == 0
        weights.append(load_checkpoint(run / LAST).group("model"))
    assert train(data, tmp_path / "mean", *common, "--max-update", str(updates), "--ema", str(decay)) == 0
    checkpoint = load_checkpoint(tmp_path / "mean" / LAST)
    for name, mean in checkpoint.group("ema").items():
        expected = weights[0][name].double()
        for n in range(1, updates + 1):
            kept = min(decay, (1 + n) / (10 + n))
            expected = kept * expected + (1 - kept) * weights[n][name].double()
        torch.testing.assert_close(mean.double(), expected, rtol=1e-6, atol=1e-7)
        assert torch.equal(checkpoint.group("model")[name], weights[-1][name])  # trained as without


def test_validation_and_best_are_the_mean_s(data: Path, tmp_path: Path) -> None:
    options = ("--max-epoch", "2", "--ema", "0.9", "--keep-last", "1")
    assert train(data, tmp_path / "run", *options) == 0
    best, last = (load_checkpoint(tmp_path / "run" / name) for name in (BEST, LAST))
    assert not best.group("ema")
    assert last.header["progress"]["best"][0] == last.header["progress"]["update"]  # or the next line says nothing
    for name, mean in last.group("ema").items():
        assert torch.equal(best.group("model")[name], mean)
    load_model(tmp_path / "run")


def test_weights_of_different_models_have_no_mean(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train(data, tmp_path / "run", "--max-update", "1")
    best = tmp_path / "run" / "checkpoint_best.safetensors"
    checkpoint = load_checkpoint(best)
    for name, status in (("dropout", 0), ("width", 1)):
        model = {**checkpoint.header["config"]["model"], name: 0.25}
        header = {**checkpoint.header, "config": {**checkpoint.header["config"], "model": model}}
        save_checkpoint(tmp_path / name, header, checkpoint.tensors)
        command = ["--inputs", str(best), str(tmp_path / name), "--output", str(tmp_path / f"{name}.safetensors")]
        assert average(command) == status
    assert "--width" in capsys.readouterr().err


def test_plateau_schedule_continues(data: Path, tmp_path: Path) -> None:
    common = ("--lr-scheduler", "plateau", "--lr", "1", "--warmup-updates", "0")
    train(data, tmp_path / "whole", *common, "--max-epoch", "6")
    for epoch in (3, 6):
        train(data, tmp_path / "parts", *common, "--max-epoch", str(epoch))
    assert log(tmp_path / "whole") == log(tmp_path / "parts")
    assert log(tmp_path / "whole", ["train"])[-1]["lr"] < 1
