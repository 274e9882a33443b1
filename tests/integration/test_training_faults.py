"""What goes wrong in training: signals, full disks, kill -9, a loss that is not a number, unknown options."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import toy
from toy import assert_same_checkpoint, log, train, write_toy_data

from docnmt.cli.train import main
from docnmt.core.training.checkpoint import load_checkpoint
from docnmt.core.training.run_folder import RunFolder

LAST = "checkpoint_last.safetensors"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write_toy_data(tmp_path / "data")


def test_sigterm_saves_and_the_same_command_continues(data: Path, tmp_path: Path) -> None:
    """A process that gets SIGTERM after every few batches, restarted each time, trains what one process trains."""
    train(data, tmp_path / "whole", "--max-epoch", "3", arch="toy_other")
    statuses = []
    while not statuses or statuses[-1] == 143:
        statuses.append(train(data, tmp_path / "parts", "--max-epoch", "3", "--signal-at", "6", arch="toy_other"))
        assert len(statuses) < 30
    assert statuses[-1] == 0
    assert len(statuses) > 5
    assert log(tmp_path / "whole") == log(tmp_path / "parts")
    assert_same_checkpoint(tmp_path / "whole" / LAST, tmp_path / "parts" / LAST)


def test_sigterm_during_validation_repeats_it(data: Path, tmp_path: Path) -> None:
    """Nine updates an epoch and at most two probes before them: a later forward pass is the validation's."""
    options = ("--max-epoch", "1", "--signal-at", "12", "--validate-interval-updates", "9")
    assert train(data, tmp_path / "run", *options, arch="toy_other") == 143
    progress = load_checkpoint(tmp_path / "run" / LAST).header["progress"]
    assert (progress["update"], progress["epoch"], progress["validated"]) == (9, 2, 0)
    assert train(data, tmp_path / "run", *options, arch="toy_other") == 0
    assert [line["update"] for line in log(tmp_path / "run", ["valid"])] == [9]


def test_nan_names_the_batch_and_keeps_the_checkpoint(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Number 10 poisons a batch; the data hold it once."""
    import json

    rows = [[n % 10 for n in row] for row in json.loads((data / "train.json").read_text())]
    rows[17][0] = 10
    (data / "train.json").write_text(json.dumps(rows))
    options = ("--poison", "10", "--save-interval-updates", "1", "--max-epoch", "1")
    assert train(data, tmp_path / "run", *options, arch="toy_other") == 1
    error = capsys.readouterr().err.splitlines()[-1]
    saved = load_checkpoint(tmp_path / "run" / LAST).header["progress"]["update"]
    assert error.startswith(f"docnmt-train: error: update {saved + 1} (epoch 1): ")
    assert " nan " in error
    assert "17" in error
    assert f" update {saved}" in error


def test_full_disk_leaves_the_earlier_checkpoint(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    train(data, run, "--max-update", "2")
    before = (run / LAST).read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) // 2, hard))
    try:
        status = train(data, run, "--max-update", "6", "--log-interval", "1000")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert status == 1
    error = capsys.readouterr().err.splitlines()[-1]
    assert "checkpoint_best.safetensors" in error
    assert (run / LAST).read_bytes() == before
    assert not list(run.glob(".*.tmp"))
    assert train(data, run, "--max-update", "6", "--log-interval", "1000") == 0


KILLED = """
import os, signal, sys
import safetensors.torch
sys.path.insert(0, sys.argv[1])
import toy
save, count = safetensors.torch.save_file, 0
def half(tensors, path, metadata):
    global count
    count += 1
    save(tensors, path, metadata)
    if count == 3:  # the third file of the run, half written
        os.truncate(path, os.path.getsize(path) // 2)
        os.kill(os.getpid(), signal.SIGKILL)
safetensors.torch.save_file = half
from pathlib import Path
sys.exit(toy.train(Path(sys.argv[2]), Path(sys.argv[3]), "--max-update", "8", "--save-interval-updates", "2"))
"""


def test_kill_during_a_checkpoint_leaves_the_earlier_one(data: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    command = [sys.executable, "-c", KILLED, str(Path(toy.__file__).parent), str(data), str(run)]
    assert subprocess.run(command, capture_output=True, check=False).returncode == -signal.SIGKILL
    assert load_checkpoint(run / LAST).header["progress"]["update"] == 4
    assert len(list(run.glob(".*.tmp"))) == 1
    assert train(data, run, "--max-update", "8") == 0
    assert not list(run.glob(".*.tmp"))
    train(data, tmp_path / "whole", "--max-update", "8")
    assert log(run) == log(tmp_path / "whole")
    assert_same_checkpoint(run / LAST, tmp_path / "whole" / LAST)


def test_out_of_memory_fails_first_and_names_a_limit_that_fits(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train(data, tmp_path / "run", "--max-update", "9", "--memory", "25", arch="toy_other") == 1
    error = capsys.readouterr().err.splitlines()[-1]
    assert "train rows " in error
    limit = error.partition("--max-tokens ")[2].partition(" fits")[0]
    assert 10 <= int(limit) <= 25
    assert not (tmp_path / "run" / LAST).exists()
    smaller = ("--max-update", "9", "--memory", "25", "--max-tokens", limit)
    assert train(data, tmp_path / "run", *smaller, arch="toy_other") == 0


def test_what_is_loaded_is_read_under_the_lock(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another training comes and ends after the command has begun and before it has the lock: it is gone on with."""
    opened = RunFolder.opened

    def late(folder: RunFolder) -> contextlib.AbstractContextManager[None]:
        monkeypatch.setattr(RunFolder, "opened", opened)
        assert train(data, tmp_path / "run", "--max-update", "4") == 0
        return opened(folder)

    monkeypatch.setattr(RunFolder, "opened", late)
    assert train(data, tmp_path / "run", "--max-update", "6") == 0
    assert "update 4" in capsys.readouterr().err
    assert [line["update"] for line in log(tmp_path / "run", ["train"])] == [3, 6]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ("--arch toy --poison 3", "--poison"),
        ("--arch toy --restore-file x", "--restore-file"),
        ("--arch toi", "--arch"),
        ("--arch toy --max-tokens 0 --lr -1", "--max-tokens"),
        ("--arch toy --lr-scheduler cosine", "--lr-period-updates"),
        ("--arch toy --min-lr 0.5", "--lr-scheduler"),
        ("--arch toy --device quantum", "--device"),
        ("--arch toy leftover", "'leftover'"),
    ],
)
def test_usage_errors(
    data: Path, tmp_path: Path, options: str, complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(data), "--save-dir", str(tmp_path / "S"), *options.split()]) == 2
    error = capsys.readouterr().err
    assert complaint in error
    assert len(error.splitlines()) == 1
    assert not (tmp_path / "S").exists()


def test_a_folder_that_holds_a_run_is_not_new(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run"
    assert train(data, run, "--max-epoch", "1") == 0
    (run / LAST).unlink()
    best = (run / "checkpoint_best.safetensors").read_bytes()
    assert train(data, run, "--max-epoch", "1") == 1
    assert "checkpoint_best.safetensors" in capsys.readouterr().err
    assert (run / "checkpoint_best.safetensors").read_bytes() == best
    (run / "checkpoint_best.safetensors").unlink()
    assert train(data, run, "--max-epoch", "1") == 1
    assert "train.jsonl" in capsys.readouterr().err
    assert train(data, run, "--max-epoch", "1", "--overwrite") == 0


def test_overwrite_keeps_the_old_run_until_the_new_one_has_a_checkpoint(data: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert train(data, run, "--max-epoch", "1") == 0
    before = {file.name: file.read_bytes() for file in run.iterdir()}
    assert train(data, run, "--max-epoch", "1", "--overwrite", "--memory", "1", arch="toy_other") == 1  # in the probe
    assert {file.name: file.read_bytes() for file in run.iterdir()} == before
    assert train(data, run, "--max-update", "4", "--overwrite", "--seed", "7") == 0
    assert not (run / ".replaced").exists()
    assert train(data, tmp_path / "fresh", "--max-update", "4", "--seed", "7") == 0
    assert log(run) == log(tmp_path / "fresh")


OLD, NEW = ("config.yaml", "train.jsonl", "checkpoint_best.safetensors", LAST), ("config.yaml", "train.jsonl")


@pytest.mark.parametrize("new", [NEW, (*NEW, LAST)], ids=["without a checkpoint", "with a checkpoint"])
def test_a_run_that_is_replaced_survives_a_kill_at_every_step(tmp_path: Path, new: tuple[str, ...]) -> None:
    """After a kill the folder holds all of the old run, or all of the new one if that has a checkpoint, though every
    other time the process that puts it back is killed at the same step."""
    steps = ("replace", "rename", "unlink", "mkdir", "rmdir")

    def work(folder: Path, last: int, *, overwrite: bool) -> int:
        """In a process that dies before its step `last`."""
        child = os.fork()
        if child:
            return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        left = last

        def counted(step: Callable[..., object]) -> Callable[..., object]:
            def dying(*given: object, **named: object) -> object:
                nonlocal left
                left -= 1
                if left < 0:
                    os._exit(9)
                return step(*given, **named)

            return dying

        for name in steps:
            setattr(os, name, counted(getattr(os, name)))
        with RunFolder(folder).opened():
            if overwrite:
                RunFolder(folder).clear()
                for file in new:
                    (folder / file).write_text("new")
        os._exit(0)

    status, last = 9, 0
    while status == 9:
        folder = tmp_path / str(last)
        folder.mkdir()
        for file in OLD:
            (folder / file).write_text("old")
        status = work(folder, last, overwrite=True)
        begun = (folder / LAST).exists() and (folder / LAST).read_text() == "new"
        if last % 2:
            work(folder, last, overwrite=False)
        assert work(folder, 100, overwrite=False) == 0
        files = {file.name: file.read_text() for file in folder.iterdir() if file.name != ".lock"}
        assert files == (dict.fromkeys(new, "new") if begun else dict.fromkeys(OLD, "old")), f"killed at step {last}"
        last += 1
    assert last > 8


def test_a_hang_up_saves_as_a_termination_does(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--max-epoch", "3", "--signal-at", "6", "--signal-number", str(int(signal.SIGHUP)))
    assert train(data, tmp_path / "run", *options, arch="toy_other") == 143
    update = load_checkpoint(tmp_path / "run" / LAST).header["progress"]["update"]
    error = capsys.readouterr().err
    assert f"{LAST} holds update {update}" in error
    assert error.endswith("docnmt-train: stopped by SIGHUP\n")
