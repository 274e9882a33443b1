"""SentencePiece trains in a process that can be ended, and gives the same model as in this one."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import small_system
from parallel_text import ParallelText

from docnmt.core.tokenizer import LONGEST_LINE, Tokenizer, pieces, train_in_process
from docnmt.runtime.system import UserError

LINES = [line for document in small_system.text(40, 8, seed=9) for line in document]


def test_the_model_is_the_same() -> None:
    assert train_in_process(LINES, vocab_size=45).to_bytes() == Tokenizer.train(LINES, 45).to_bytes()
    with pytest.raises(UserError, match="--vocab-size"):
        train_in_process(LINES, vocab_size=9999)


def test_threads_of_this_process_do_not_stop_it() -> None:
    """OpenMP's threads are not there in a forked process; the first training here leaves some."""
    draw = random.Random(1)
    words = ["".join(draw.choices("abcdefghijklmnop", k=draw.randint(2, 9))) for _ in range(3000)]
    lines = [" ".join(draw.choices(words, k=12)) for _ in range(3000)]
    model = Tokenizer.train(lines, 500)
    assert train_in_process(lines, vocab_size=500).to_bytes() == model.to_bytes()


def test_long_lines_are_trained_on_in_pieces() -> None:
    line = "word " * 10_000 + "x" * 30_000
    assert "".join(pieces(line)) == line
    assert max(map(len, pieces(line))) <= LONGEST_LINE
    assert list(pieces("short")) == ["short"]


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_sigterm_ends_it_at_once(tmp_path: Path) -> None:
    """Training that heeds no signal is left in a moment; nothing is left running or on the disk."""
    text = ParallelText(tmp_path)
    for side in ("en", "de"):
        lines = (" ".join(f"{word}{n % 977}{side}" for word in small_system.WORDS) for n in range(40_000))
        text.path(f"train.{side}").write_text("\n".join(lines) + "\n")
    command = [sys.executable, "-m", "docnmt.cli.preprocess", *text.arguments("--vocab-size", "8000")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        deadline = time.monotonic() + 60
        while not children.read_text() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        child = int(children.read_text())
        time.sleep(0.5)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=20) == 143
        status = Path(f"/proc/{child}/status")
        assert not status.exists() or "\nState:\tZ" in status.read_text()
    assert not text.data.exists()
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]
