"""Training of SentencePiece in a process of its own, which can be killed: training ignores signals while it runs.

The process reads a line of JSON (the options) and then lines of text from stdin, and writes the model to stdout.
"""

from __future__ import annotations

import contextlib
import ctypes
import io
import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator

from docnmt.core.data.tokenizer import Tokenizer
from docnmt.runtime.errors import UserError

#: Longer lines (in characters) are divided for training; SentencePiece takes minutes for one of a million.
LONGEST_LINE = 10_000
#: PR_SET_PDEATHSIG of Linux's <sys/prctl.h>: request a signal when the parent ends.
_PDEATHSIG = 1


def train_in_process(lines: Iterable[str], **options: object) -> Tokenizer:
    """Run `Tokenizer.train(lines, **options)` so that SIGTERM and Ctrl-C end it at once.

    Raises:
        UserError: see there; or the process was killed.
    """
    command = [sys.executable, "-c", f"from {__name__} import main; main()"]
    with tempfile.TemporaryFile() as model, subprocess.Popen(command, stdin=subprocess.PIPE, stdout=model) as process:
        try:
            assert process.stdin is not None
            with contextlib.suppress(BrokenPipeError), io.TextIOWrapper(process.stdin, "utf-8", newline="\n") as text:
                text.write(json.dumps(options) + "\n")
                text.writelines(f"{piece}\n" for line in lines for piece in pieces(line))
            status = process.wait()
        except BaseException:
            process.kill()
            raise
        model.seek(0)
        content = model.read()
    if status == 3:
        raise UserError(content.decode())
    if status != 0:
        raise UserError(f"training the vocabulary ended with status {status} (out of memory?); lower --subword-sample")
    return Tokenizer.from_bytes(content)


def pieces(line: str) -> Iterator[str]:
    """Divide a line into pieces of at most `LONGEST_LINE` characters, between words if possible."""
    while len(line) > LONGEST_LINE:
        place = line.rfind(" ", LONGEST_LINE // 2, LONGEST_LINE)
        place = LONGEST_LINE if place < 0 else place
        yield line[:place]
        line = line[place:]
    yield line


def main() -> None:
    """Run the training process: it ends with status 0 and a model, or with 3 and an error message."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends it
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PDEATHSIG, signal.SIGKILL)  # a killed parent cannot end it
    options = json.loads(sys.stdin.buffer.readline())
    lines = (line.decode().removesuffix("\n") for line in sys.stdin.buffer)
    try:
        content, status = Tokenizer.train(lines, **options).to_bytes(), 0
    except UserError as error:
        content, status = str(error).encode(), 3
    sys.stdout.buffer.write(content)
    sys.stdout.buffer.flush()
    sys.exit(status)
