"""Processes that are killed, hung up or terminated at any moment and started again end with what one process gives."""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import toy
from parallel_text import ParallelText
from toy import assert_same_checkpoint, log, train, write_toy_data

from docnmt.cli.inspect import main as inspect

LAST = "checkpoint_last.safetensors"
TRAIN = "import sys; sys.path.insert(0, sys.argv[1]); import toy; from pathlib import Path\n"
TRAIN += "train = lambda: sys.exit(toy.train(Path(sys.argv[2]), Path(sys.argv[3]), *sys.argv[4:], arch='toy_other'))\n"
#: One process after the other until one does not die, ten at most. Before, another training imports what they need.
AGAIN = """
import os
assert toy.train(Path(sys.argv[2]), Path(sys.argv[3] + "-before"), "--max-update", "1", arch="toy_other") == 0
for _ in range(10):
    if (child := os.fork()) == 0:
        train()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print(status, flush=True)
    if status == 0:
        break
"""


def command(data: Path, run: Path, *options: str, code: str = "train()") -> list[str]:
    return [sys.executable, "-c", TRAIN + code, str(Path(toy.__file__).parent), str(data), str(run), *options]


@pytest.mark.parametrize("number", [signal.SIGKILL, pytest.param(signal.SIGHUP, marks=pytest.mark.slow)])
def test_training_that_dies_again_and_again(tmp_path: Path, number: signal.Signals) -> None:
    """Every process dies in its eighth forward pass, two of which are the probe's."""
    data = write_toy_data(tmp_path / "data")
    limits = ("--max-update", "11", "--save-interval-updates", "2")
    assert train(data, tmp_path / "whole", *limits, arch="toy_other") == 0
    deaths = ("--signal-at", "8", "--signal-number", str(int(number)))
    done = subprocess.run(
        command(data, tmp_path / "parts", *limits, *deaths, code=AGAIN), capture_output=True, text=True, check=False
    )
    *dead, status = map(int, done.stdout.split())
    assert status == 0, done.stderr
    assert set(dead) <= {-number, 128 + signal.SIGTERM}, done.stderr
    assert len(dead) >= 2
    assert_same_checkpoint(tmp_path / "whole" / LAST, tmp_path / "parts" / LAST)
    assert log(tmp_path / "whole") == log(tmp_path / "parts")
    assert not list((tmp_path / "parts").glob(".*.tmp"))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_training_under_random_signals(tmp_path: Path, seed: int) -> None:
    """Signals of random kinds at random moments, from the start of the process on."""
    draw = random.Random(seed)
    data = write_toy_data(tmp_path / "data", seed=seed)
    options = ("--max-epoch", "12", "--save-interval-updates", str(draw.choice((1, 3, 50))), "--keep-last", "2")
    options += ("--validate-interval-updates", str(draw.choice((4, 100))))
    assert train(data, tmp_path / "whole", *options, arch="toy_other") == 0
    started = time.monotonic()
    assert subprocess.run(command(data, tmp_path / "one", *options), capture_output=True, check=False).returncode == 0
    length, kills = time.monotonic() - started, 0
    while True:
        with subprocess.Popen(command(data, tmp_path / "parts", *options), stderr=subprocess.PIPE) as process:
            wait = draw.uniform(0, 1.3 * length) if kills < 25 else None
            try:
                status = process.wait(wait)
            except subprocess.TimeoutExpired:
                process.send_signal(draw.choice((signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT)))
                kills, status = kills + 1, process.wait()
            error = b"" if process.stderr is None else process.stderr.read()
        assert status in (0, -9, -15, -1, -2, 130, 143), error
        if status == 0:
            break
    assert_same_checkpoint(tmp_path / "whole" / LAST, tmp_path / "parts" / LAST)
    assert log(tmp_path / "whole") == log(tmp_path / "parts")
    assert inspect(["--verify", str(tmp_path / "parts")]) == 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_preprocessing_under_random_kills(tmp_path: Path, seed: int) -> None:
    """The folder is at every moment the old one or the new one, or the next run puts it back."""
    draw = random.Random(seed)
    text = ParallelText(tmp_path)
    assert text.preprocess("--vocab-size", "60") == 0
    shutil.copytree(text.data, tmp_path / "good")
    words = [sys.executable, "-m", "docnmt.cli.preprocess", *text.arguments("--vocab-size", "60", "--overwrite")]
    started = time.monotonic()
    assert subprocess.run(words, capture_output=True, check=False).returncode == 0
    length = time.monotonic() - started
    for _ in range(10):
        with subprocess.Popen(words, stderr=subprocess.DEVNULL) as process:
            try:
                process.wait(draw.uniform(0.3 * length, 1.1 * length))
            except subprocess.TimeoutExpired:
                process.kill()
        assert inspect(["--verify", str(text.data)]) == 0
        for file in (tmp_path / "good").glob("*.bin"):
            assert (text.data / file.name).read_bytes() == file.read_bytes()
    assert subprocess.run(words, capture_output=True, check=False).returncode == 0
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]
