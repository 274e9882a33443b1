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
from docnmt.core.training.run import ProcessorTime
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


def test_signal_handlers_are_put_back(data: Path, tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    train(data, tmp_path / "run", "--max-update", "1")
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before


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
    assert f"holds update {saved}" in error


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
    assert_same_checkpoint(run / LAST, tmp_path / "whole" / LAST)


def test_out_of_memory_fails_first_and_names_a_limit_that_fits(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train(data, tmp_path / "run", "--max-update", "9", "--memory", "25", arch="toy_other") == 1
    error = capsys.readouterr().err.splitlines()[-1]
    assert "tokens in" in error
    assert "train rows " in error
    limit = error.partition("--max-tokens ")[2].partition(" fits")[0]
    assert 10 <= int(limit) <= 25
    assert not (tmp_path / "run" / LAST).exists()
    smaller = ("--max-update", "9", "--memory", "25", "--max-tokens", limit)
    assert train(data, tmp_path / "run", *smaller, arch="toy_other") == 0


def test_out_of_memory_in_validation_names_the_batch(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nine updates an epoch and at most two probes before them."""
    assert train(data, tmp_path / "run", "--max-epoch", "1", "--memory-at", "13", arch="toy_other") == 1
    assert "validation after update 9" in capsys.readouterr().err.splitlines()[-1]


def test_one_unit_that_is_too_large(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert train(data, tmp_path / "run", "--max-update", "9", "--memory", "3", arch="toy_other") == 1
    assert "--max-doc-tokens" in capsys.readouterr().err


def test_probing_leaves_the_model_alone(data: Path, tmp_path: Path) -> None:
    """Weights, gradients and the batch norm's running mean are as before; so is resuming, which probes again."""
    from docnmt.cli.train import parse
    from docnmt.core.training.start import prepare
    from docnmt.core.training.trainer import open_epoch
    from docnmt.core.training.update import largest_batches, probe

    words = [str(data), "--arch", "toy", "--save-dir", str(tmp_path / "run"), "--max-tokens", "40"]
    run = prepare(parse(words))
    before = {name: tensor.clone() for name, tensor in run.model.state_dict().items()}
    epoch = open_epoch(run)
    probe(run, epoch.data, epoch.plan)
    assert all(tensor.equal(before[name]) for name, tensor in run.model.state_dict().items())
    assert all(parameter.grad is None for parameter in run.model.parameters())
    largest = [epoch.data.sizes[units] for units in largest_batches(epoch.data.sizes, epoch.plan)]
    assert largest[0].sum() == max(epoch.data.sizes[units].sum() for units in epoch.plan)
    assert any(max(epoch.data.sizes) in sizes for sizes in largest)


def test_another_architecture_names_only_that(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train(data, tmp_path / "run", "--max-update", "2")
    capsys.readouterr()
    assert train(data, tmp_path / "run", "--max-update", "4", arch="toy_wide") == 2
    error = capsys.readouterr().err
    assert "--arch" in error
    assert "--width" not in error


def test_second_training_in_the_same_folder_is_refused(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from docnmt.core.training.run_folder import RunFolder

    with RunFolder(tmp_path / "run").opened():
        assert train(data, tmp_path / "run", "--max-update", "1") == 1
    assert str(os.getpid()) in capsys.readouterr().err


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
        ("--arch toy --save-dir S --poison 3", "--poison"),
        ("--arch toy --save-dir S --dropot 3", "--dropout"),
        ("--arch toy --save-dir S -q 3", "unknown option -q"),
        ("--arch toy --save-dir S --restore-file x", "--restore-file"),
        ("--arch toy --save-dir S --fp16", "--fp16"),
        ("--arch toy --save-dir S --dropot -1", "--dropout"),
        ("--arch toi --save-dir S", "--arch"),
        ("--save-dir S", "--arch"),
        ("--arch toy", "--save-dir"),
        ("--arch toy --save-dir S --max-tokens 0 --lr -1", "--max-tokens"),
        ("--arch toy --save-dir S --lr-scheduler cosine", "--lr-period-updates"),
        ("--arch toy --save-dir S --min-lr 0.5", "--lr-scheduler"),
        ("--arch toy --save-dir S --device quantum", "--device"),
        ("--arch toy --save-dir S --criterion toi", "--criterion"),
        ("--arch toy --save-dir S --max-update 1.5", "--max-update"),
        ("--arch toy --save-dir S --seed 99999999999999999999", "--seed"),
        ("--arch toy --save-dir S --remove-bpe", "--remove-bpe"),
        ("--arch toy --save-dir S --optimizer adam", "--optimizer"),
        ("--arch toy --save-dir S --lr nan", "--lr"),
        ("--arch toy --save-dir S leftover", "'leftover'"),
    ],
)
def test_usage_errors(
    data: Path, tmp_path: Path, options: str, complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [str(tmp_path / "S") if word == "S" else word for word in options.split()]
    assert main([str(data), *words]) == 2
    error = capsys.readouterr().err
    assert complaint in error
    assert len(error.splitlines()) == 1
    assert not (tmp_path / "S").exists()


def test_a_file_of_options_is_checked_like_the_command_line(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "options.yaml"
    file.write_text("max-update: 3\nmax_update: 4\ndropot: 1\nbf16: maybe\n")
    assert main([str(data), "--arch", "toy", "--save-dir", str(tmp_path / "S"), "--config", str(file)]) == 2
    error = capsys.readouterr().err
    assert "3 problems" in error
    assert "'max-update'" in error
    assert f"--config {file}" in error
    assert "--bf16" in error


def test_a_file_of_options_knows_every_spelling(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "options.yaml"
    command = [
        str(data),
        "--arch",
        "toy",
        "--save-dir",
        str(tmp_path / "S"),
        "--max-update",
        "0",
        "--config",
        str(file),
    ]
    file.write_text("batch-size: 2\ndebug: false\nskip-checksums: true\n")
    assert main(command) == 0
    file.write_text("max-sentences: 1\nbatch_size: 2\n")
    assert main(command) == 2
    assert "'max-sentences'" in capsys.readouterr().err
    file.write_text("user-dir: nowhere\n")
    assert main(command) == 2
    assert "user-dir" in capsys.readouterr().err
    file.write_text("debug: true\nlr: much\n")
    assert main(command) == 2
    assert "Traceback" in capsys.readouterr().err


def test_data_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "nothing"), "--arch", "toy", "--save-dir", str(tmp_path / "S")]) == 1
    assert "nothing" in capsys.readouterr().err
    assert main([str(tmp_path / "nothing")]) == 2
    error = capsys.readouterr().err
    assert "nothing" in error
    assert "--arch" in error


def test_parts_that_do_not_fit_together(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert train(data, tmp_path / "run", arch="transformer_tiny") == 2
    error = capsys.readouterr().err
    assert "--criterion" in error
    assert "--task" in error


def test_list_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list"]) == 0
    text = capsys.readouterr().out
    for name in ("document_translation", "toy_wide ", "label_smoothed_cross_entropy", "beam_search", "sinusoidal"):
        assert name in text
    for options, there, absent in (
        (["--help"], "hier_cond_transformer", "--poison"),
        (["--arch", "toy_other", "--help"], "--poison", "--top-t"),
        (["--arch", "hier_cond_transformer_tiny", "--help"], "--top-t", "--adam-betas"),
        (["--arch", "hier_cond_transformer_tiny", "--help-all"], "--adam-betas", "--poison"),
    ):
        with pytest.raises(SystemExit) as stopped:
            main(options)
        assert stopped.value.code == 0
        text = capsys.readouterr().out
        assert there in text
        assert absent not in text


def test_options_of_one_name_take_a_value_or_none_do() -> None:
    """Else the command line could not be read before it is known which architecture it is for."""
    from docnmt.cli.train import CHOSEN
    from docnmt.options import settings as settings_of

    forms: dict[str, set[tuple[bool, bool]]] = {}
    for registry in CHOSEN.values():
        for config in filter(None, map(registry.config, registry.names())):
            for setting in settings_of(config):
                forms.setdefault(setting.name, set()).add((setting.kind is bool, setting.several))
    assert {name: form for name, form in forms.items() if len(form) > 1} == {}


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
    assert train(data, run, "--max-epoch", "1", "--overwrite", "--seed", "7") == 0
    assert not (run / ".replaced").exists()
    assert (run / LAST).read_bytes() != before[LAST]


def test_a_hang_up_saves_as_a_termination_does(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--max-epoch", "3", "--signal-at", "6", "--signal-number", str(int(signal.SIGHUP)))
    assert train(data, tmp_path / "run", *options, arch="toy_other") == 143
    update = load_checkpoint(tmp_path / "run" / LAST).header["progress"]["update"]
    error = capsys.readouterr().err
    assert f"{LAST} holds update {update}" in error
    assert error.endswith("docnmt-train: stopped by SIGHUP\n")


@pytest.mark.parametrize("has", [False, True])
def test_a_processor_without_bfloat16_is_refused(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, has: bool
) -> None:
    monkeypatch.setattr("docnmt.core.training.start.multiplies_bfloat16", lambda: has)
    command = (data, tmp_path / "run", "--max-update", "2", "--device", "cpu")
    for trial in (("--dry-run",), ()):
        assert train(*command, *trial, "--bf16") == (0 if has else 2)
        error = capsys.readouterr().err
        assert ("error: --bf16" in error) is not has
        assert has or ("--no-bf16" in error and "--force-bf16" in error and not (tmp_path / "run" / LAST).exists())
    assert train(*command, "--dry-run", "--bf16", "--force-bf16") == 0
    assert train(data, tmp_path / "other", *command[2:], "--bf16", "--force-bf16") == 0


def test_too_little_processor_time_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    watch = ProcessorTime()
    monkeypatch.setattr("time.monotonic", lambda: watch.wall + 100)
    monkeypatch.setattr("time.process_time", lambda: watch.processor + 120)
    for there, warned in ((1, False), (2, False), (4, True)):  # more threads than processors cannot use more
        monkeypatch.setattr("docnmt.core.training.run.processors", lambda there=there: there)
        assert bool(watch.warning(4)) == warned
    assert watch.warning(4) == ""


OLD, NEW = ("config.yaml", "train.jsonl", "checkpoint_best.safetensors", LAST), ("config.yaml", "train.jsonl")


@pytest.mark.parametrize("new", [NEW, (*NEW, LAST)], ids=["without a checkpoint", "with a checkpoint"])
@pytest.mark.parametrize("deaths", [1, 2])
def test_a_run_that_is_replaced_survives_a_kill_at_every_step(
    tmp_path: Path, new: tuple[str, ...], deaths: int
) -> None:
    """After a kill the folder holds all of the old run, or all of the new one if that has a checkpoint; also if the
    process that puts it back is killed at the same step."""
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
        if deaths == 2:
            work(folder, last, overwrite=False)
        assert work(folder, 100, overwrite=False) == 0
        files = {file.name: file.read_text() for file in folder.iterdir() if file.name != ".lock"}
        assert files == (dict.fromkeys(new, "new") if begun else dict.fromkeys(OLD, "old")), f"killed at step {last}"
        last += 1
    assert last > 8
