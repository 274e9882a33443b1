"""A full disk, Ctrl-C, SIGTERM and kill -9 leave the earlier folder as it was."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from heed_interrupts import heed_interrupts
from parallel_text import ParallelText

COMMAND = [sys.executable, "-m", "docnmt.cli.preprocess"]


@pytest.fixture
def text(tmp_path: Path) -> ParallelText:
    """A corpus that was preprocessed before."""
    text = ParallelText(tmp_path)
    assert text.preprocess("--vocab-size", "60") == 0
    return text


def contents(text: ParallelText) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in text.data.iterdir()}


def leftovers(text: ParallelText) -> list[Path]:
    return [path for path in text.folder.iterdir() if path.is_dir() and path != text.data]


def start(text: ParallelText, *more: str) -> subprocess.Popen[str]:
    """Preprocess again, with so much text that there is time to interrupt it."""
    for side in ("en", "de"):
        train = text.path(f"train.{side}")
        train.write_text((train.read_text() + "\n") * 300)
    command = [*COMMAND, *text.arguments("--overwrite", "--vocab-size", "60", *more)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, preexec_fn=heed_interrupts)


def wait_for_temporary(text: ParallelText, process: subprocess.Popen[str]) -> None:
    """Until it writes."""
    deadline = time.monotonic() + 60
    while not any(file.suffix == ".bin" for folder in leftovers(text) for file in folder.iterdir()):
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_a_full_disk(text: ParallelText) -> None:
    before = contents(text)

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # the write fails with an error instead
        resource.setrlimit(resource.RLIMIT_FSIZE, (1500, 1500))

    command = [*COMMAND, *text.arguments("--overwrite", "--vocab-size", "50")]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, preexec_fn=limit, check=False)
    assert done.returncode == 1
    error = done.stderr.splitlines()[-1]
    assert str(text.data) in error
    assert contents(text) == before
    assert leftovers(text) == []


@pytest.mark.parametrize(
    ("number", "status", "said"), [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "SIGTERM")]
)
def test_interrupts(text: ParallelText, number: signal.Signals, status: int, said: str) -> None:
    before = contents(text)
    process = start(text)
    wait_for_temporary(text, process)
    process.send_signal(number)
    assert said in process.communicate(timeout=60)[1].splitlines()[-1]
    assert process.returncode == status
    assert contents(text) == before
    assert leftovers(text) == []


@pytest.mark.slow
def test_workers_end_with_a_killed_parent(text: ParallelText) -> None:
    process = start(text, "--workers", "2")
    children: list[int] = []
    deadline = time.monotonic() + 60
    while len(children) < 3 and process.poll() is None and time.monotonic() < deadline:
        listing = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
        children = [int(child) for child in listing.split()]  # two workers and multiprocessing's resource tracker
        time.sleep(0.005)
    assert len(children) == 3
    process.kill()
    process.communicate(timeout=60)
    deadline = time.monotonic() + 20
    while any(_alive(child) for child in children) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(_alive(child) for child in children)


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return "\nState:\tZ" not in Path(f"/proc/{process}/status").read_text()
