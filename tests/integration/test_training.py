"""Training as a user runs it: `docnmt-train` on the toy task."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from toy import assert_same_checkpoint, log, train, write_toy_data

from docnmt.cli.train import main
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


@pytest.mark.parametrize("stops", [(1,), (7,), (3, 11), (10, 20)])
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
    for epoch in range(1, 30):
        train(data, tmp_path / "parts", *common, "--max-epoch", str(epoch))
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert log(whole) == log(parts)
    assert_same_checkpoint(whole / "checkpoint_last.safetensors", parts / "checkpoint_last.safetensors")
    assert_same_checkpoint(whole / "checkpoint_best.safetensors", parts / "checkpoint_best.safetensors")
    progress = load_checkpoint(whole / "checkpoint_last.safetensors").header["progress"]
    losses = [loss for _, loss in progress["history"]]
    assert min(losses) == losses[-3] == progress["best"][1]


def test_a_validation_at_a_limit_may_be_best_but_does_not_count(data: Path, tmp_path: Path) -> None:
    """Off the schedule: in the log, perhaps checkpoint_best, but neither in the history nor in the patience."""
    train(data, tmp_path / "run", "--max-update", "3")
    header = load_checkpoint(tmp_path / "run" / "checkpoint_last.safetensors").header
    assert header["progress"]["history"] == []
    assert header["progress"]["best"] == [3, header["scores"]["loss"]]
    assert [line["update"] for line in log(tmp_path / "run", ["valid"])] == [3]


def test_plateau_schedule_continues(data: Path, tmp_path: Path) -> None:
    common = ("--lr-scheduler", "plateau", "--lr", "1", "--warmup-updates", "0")
    train(data, tmp_path / "whole", *common, "--max-epoch", "6")
    for epoch in (2, 3, 6):
        train(data, tmp_path / "parts", *common, "--max-epoch", str(epoch))
    assert log(tmp_path / "whole") == log(tmp_path / "parts")
    assert log(tmp_path / "whole", ["train"])[-1]["lr"] < 1


def test_finished_training_says_so(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train(data, tmp_path / "run", "--max-update", "4")
    before = {file.name: file.stat().st_mtime_ns for file in (tmp_path / "run").glob("[!.]*")}
    assert train(data, tmp_path / "run", "--max-update", "4") == 0
    assert "finished already (update 4)" in capsys.readouterr().err
    assert {file.name: file.stat().st_mtime_ns for file in (tmp_path / "run").glob("[!.]*")} == before


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


def test_another_thread_count_warns(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train(data, tmp_path / "run", "--max-update", "2")
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(threads + 1)
        assert train(data, tmp_path / "run", "--max-update", "3") == 0
    finally:
        torch.set_num_threads(threads)
    assert f"{threads + 1}" in capsys.readouterr().err


def test_config_file_repeats_the_run(data: Path, tmp_path: Path) -> None:
    train(data, tmp_path / "run", "--max-update", "3", "--dropout", "0.3")
    assert main(["--config", str(tmp_path / "run" / "config.yaml"), "--max-update", "5"]) == 0
    assert load_checkpoint(tmp_path / "run" / "checkpoint_last.safetensors").header["progress"]["update"] == 5


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
    from docnmt.cli.average import main as average

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
    assert average(["--inputs", "a.safetensors", "a.safetensors", "--output", str(output), "--overwrite"]) == 2  # twice


def test_without_validation_every_save_is_kept(data: Path, tmp_path: Path) -> None:
    options = ("--disable-validation", "--max-update", "7", "--save-interval-updates", "2", "--ema", "0.9")
    train(data, tmp_path / "run", *options, "--keep-last", "3")
    kept = sorted((tmp_path / "run").glob("checkpoint_[0-9]*"))
    assert [path.name for path in kept] == [f"checkpoint_{n}.safetensors" for n in (4, 6, 7)]
    last = load_checkpoint(tmp_path / "run" / "checkpoint_last.safetensors")
    model = load_checkpoint(kept[-1]).group("model")
    for name, tensor in last.group("ema").items():
        assert torch.equal(tensor, model[name])


def test_weights_of_different_models_have_no_mean(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from docnmt.cli.average import main as average

    train(data, tmp_path / "run", "--max-update", "1")
    best = tmp_path / "run" / "checkpoint_best.safetensors"
    found = load_checkpoint(best)
    for name, status in (("dropout", 0), ("width", 1)):
        model = {**found.header["config"]["model"], name: 0.25}
        header = {**found.header, "config": {**found.header["config"], "model": model}}
        save_checkpoint(tmp_path / name, header, found.tensors)
        command = ["--inputs", str(best), str(tmp_path / name), "--output", str(tmp_path / f"{name}.safetensors")]
        assert average(command) == status
    assert "--width" in capsys.readouterr().err


def test_dry_run_writes_nothing(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert train(data, tmp_path / "run", "--dry-run") == 0
    text = capsys.readouterr().out
    assert "--max-tokens" in text
    assert "batches: " in text
    assert "memory: " in text
    assert "time: about " in text
    assert not (tmp_path / "run").exists()


def test_foreign_folder_is_refused(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.tex").write_text("precious")
    for extra in ([], ["--overwrite"]):
        assert train(data, tmp_path / "thesis", "--max-update", "1", *extra) == 1
        assert "thesis" in capsys.readouterr().err
    assert [file.name for file in (tmp_path / "thesis").iterdir()] == ["chapter.tex"]


def test_overwrite_starts_anew(data: Path, tmp_path: Path) -> None:
    train(data, tmp_path / "run", "--max-update", "6")
    assert train(data, tmp_path / "run", "--max-update", "4", "--seed", "5", "--overwrite") == 0
    train(data, tmp_path / "fresh", "--max-update", "4", "--seed", "5")
    assert log(tmp_path / "run") == log(tmp_path / "fresh")


def test_inspect(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from docnmt.cli.inspect import main as inspect

    train(data, tmp_path / "run", "--max-epoch", "1")
    capsys.readouterr()
    assert inspect([str(tmp_path / "run")]) == 0
    text = capsys.readouterr().out
    for part in ("toy (model toy)", "embedding", "--max-tokens", "epoch 2", "fingerprint toy-60-11-0"):
        assert part in text
    assert inspect([str(tmp_path / "nothing")]) == 1
