"""What goes wrong among several processes: one is killed, is out of memory, gets a signal; a second job comes along."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import rank_toy
from rank_jobs import torchrun
from toy import log, train, write_toy_data

from docnmt.core.training.checkpoint import load_checkpoint
from docnmt.core.training.run_folder import RunFolder
from docnmt.runtime import jobs
from docnmt.runtime.system import UsageError, UserError

LAST = "checkpoint_last.safetensors"
OFTEN = ("--save-interval-updates", "10", "--disable-validation", "--log-interval", "1")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write_toy_data(tmp_path / "data")


@contextlib.contextmanager
def job(processes: int, data: Path, run: Path, *options: str, arch: str = "toy") -> Iterator[subprocess.Popen[str]]:
    """A job under way; whatever is left of it is killed at the end."""
    for file in run.parent.glob("pid.*"):
        file.unlink()
    start = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    words = [*start, rank_toy.__file__, arch, str(data), str(run), *options]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def pid(run: Path, rank: int) -> int:
    return int((run.parent / f"pid.{rank}").read_text())


def updates(run: Path) -> int:
    """How far the log has come."""
    try:
        lines = (run / "train.jsonl").read_text().splitlines()
        return int(json.loads(lines[-1])["update"]) if lines else 0
    except (OSError, ValueError):
        return 0


def wait_for(run: Path, update: int, process: subprocess.Popen[str]) -> None:
    while updates(run) < update and process.poll() is None:
        time.sleep(0.02)


def own_lines(err: str) -> list[str]:
    """What the command itself says at its end; torchrun adds a report of its own."""
    return [line for line in err.splitlines() if line.startswith("docnmt-train:")]


@pytest.mark.parametrize("killed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_a_killed_rank_is_named_and_the_last_checkpoint_goes_on(data: Path, tmp_path: Path, killed: int) -> None:
    run = tmp_path / "run"
    with job(2, data, run, "--max-update", "100000", *OFTEN) as process:
        wait_for(run, 25, process)
        os.kill(pid(run, killed), signal.SIGKILL)
        err = process.communicate(timeout=60)[1]
    assert process.returncode != 0
    (line,) = own_lines(err)
    assert line.startswith(f"docnmt-train: error: rank {killed} (")
    saved = load_checkpoint(run / LAST).header["progress"]["update"]
    assert saved >= 20
    limit = ("--max-update", str(saved + 15))
    assert train(data, run, *limit, *OFTEN) == 0  # one process goes on with the updates of two
    train(data, tmp_path / "whole", "--update-freq", "2", *limit, *OFTEN)
    for line, other in zip(log(tmp_path / "whole"), log(run), strict=True):
        other.pop("idle", None)
        assert other.pop("event") == line.pop("event")
        assert other == pytest.approx(line, rel=1e-5)


@pytest.mark.parametrize(
    ("frozen", "options"), [(0, ()), pytest.param(1, ("--shard",), marks=pytest.mark.slow)], ids=["whole", "sharded"]
)
def test_a_frozen_rank_ends_the_job(
    data: Path, tmp_path: Path, frozen: int, options: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stopped process keeps its connections open: only the time says that it computes no more."""
    run = tmp_path / "run"
    monkeypatch.setenv("DOCNMT_RANK_TIMEOUT", "0.15")
    with job(2, data, run, "--max-update", "100000", *OFTEN, *options) as process:
        wait_for(run, 25, process)
        os.kill(pid(run, frozen), signal.SIGSTOP)
        assert process.stderr is not None
        err = ""
        for line in process.stderr:
            err += line
            if own_lines(line):
                os.kill(pid(run, frozen), signal.SIGKILL)  # torchrun itself waits half a minute for it
        process.wait(60)
    assert process.returncode != 0
    (line,) = own_lines(err)
    assert line.startswith(f"docnmt-train: error: rank {frozen} (")
    assert "DOCNMT_RANK_TIMEOUT" in line
    assert load_checkpoint(run / LAST).header["progress"]["update"] >= 20
    assert train(data, run, "--max-update", str(updates(run)), *OFTEN) == 0


@pytest.mark.parametrize("minutes", ["0", "-1", "soon", "nan", "inf"])
def test_the_time_that_ranks_wait_is_a_number(minutes: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCNMT_RANK_TIMEOUT", minutes)
    with pytest.raises(UsageError, match="DOCNMT_RANK_TIMEOUT"):
        jobs.timeout()


@pytest.mark.parametrize("fast", [0, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("options", [pytest.param((), marks=pytest.mark.slow), ("--shard",)], ids=["whole", "sharded"])
def test_one_rank_decides_when_a_checkpoint_is_due(
    data: Path, tmp_path: Path, fast: int, options: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clocks differ. Here a quarter of an hour passes in one rank at every update, and never in the other."""
    monkeypatch.setenv("FAST_CLOCK", str(fast))
    limits = ("--max-update", "40", "--disable-validation", "--log-interval", "1")
    with job(2, data, tmp_path / "run", *limits, "--keep-last", "100", *options) as process:
        err = process.communicate(timeout=90)[1]
    assert process.returncode == 0, err
    kept = [
        load_checkpoint(path).header["progress"]["update"] for path in RunFolder(tmp_path / "run").numbered().values()
    ]
    assert kept == (list(range(1, 41)) if fast == 0 else [40])


def test_ranks_have_the_same_options(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rank that validates or ends at another update than the others would wait for them forever."""
    monkeypatch.setenv("OTHER_OPTIONS", "--validate-interval-updates 3")
    with job(2, data, tmp_path / "run", "--max-update", "8") as process:
        err = process.communicate(timeout=60)[1]
    assert process.returncode != 0
    (line,) = own_lines(err)
    assert "rank 0 and rank 1" in line


def test_sigterm_to_any_rank_saves_once(data: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    with job(2, data, run, "--max-update", "100000", "--disable-validation", "--log-interval", "1") as process:
        wait_for(run, 5, process)
        os.kill(pid(run, 1), signal.SIGTERM)
        err = process.communicate(timeout=60)[1]
    assert own_lines(err) == ["docnmt-train: stopped by SIGTERM"]
    assert load_checkpoint(run / LAST).header["progress"]["update"] == updates(run) >= 5
    assert sorted(file.name for file in run.iterdir()) == [".lock", LAST, "config.yaml", "train.jsonl"]


def test_a_rank_names_its_batch(data: Path, tmp_path: Path) -> None:
    rows = [[n % 10 for n in row] for row in json.loads((data / "train.json").read_text())]
    rows[17][0] = 10
    (data / "train.json").write_text(json.dumps(rows))
    done = torchrun(2, rank_toy.__file__, "toy_other", str(data), str(tmp_path / "run"), "--poison", "10")
    (line,) = own_lines(done.stderr)
    assert line.startswith("docnmt-train: error: rank ")
    assert "nan" in line
    assert "17" in line


def test_a_rank_without_memory_for_the_largest_batch_tries_no_other_that_needs_all_ranks(
    data: Path, tmp_path: Path
) -> None:
    """Under --shard, in one rank alone, before the first update: the others know nothing of smaller batches."""
    options = ("--shard", "--memory-at", "1", "--max-epoch", "1", "--disable-validation")
    done = torchrun(2, rank_toy.__file__, "toy_other", str(data), str(tmp_path / "run"), *options, timeout=90)
    assert done.returncode != 0
    (line,) = own_lines(done.stderr)
    assert "--max-tokens" in line


def test_a_job_that_no_lock_stopped_ends_the_first(tmp_path: Path) -> None:
    """Its machine shares the folder and not the locks."""
    folder = RunFolder(tmp_path / "run")
    with folder.opened():
        folder.check_ours()
        (tmp_path / "run" / ".lock").write_text("process 12 on node03\nits own\n")
        with pytest.raises(UserError):
            folder.check_ours()
    assert (tmp_path / "run" / ".lock").read_text() == "process 12 on node03\nits own\n"


def test_the_lock_of_a_killed_job_is_free(tmp_path: Path) -> None:
    run = tmp_path / "run"
    hold = "import os, sys, pathlib\nfrom docnmt.core.training.run_folder import RunFolder\n"
    hold += "with RunFolder(pathlib.Path(sys.argv[1])).opened():\n    print(os.getpid(), flush=True)\n    input()\n"
    with subprocess.Popen(
        [sys.executable, "-c", hold, str(run)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        number = process.stdout.readline().strip()
        with pytest.raises(UserError, match=number):
            RunFolder(run).opened().__enter__()
        process.kill()
    with RunFolder(run).opened():
        pass
