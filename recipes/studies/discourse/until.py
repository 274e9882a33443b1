"""Run docnmt-train until a validation is good enough, and no longer: how many updates does it take to learn this?

    python recipes/studies/discourse/until.py --nll 0.01 -- docnmt-train data-bin --save-dir runs/cond --max-update 4000

The training ends as by SIGTERM, with its last checkpoint saved. Where `train.jsonl` in its --save-dir has such a
validation, nothing is run; otherwise an interrupted training goes on.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "tools"))
from systems import first_as_good, read_log, validations

#: Seconds between two looks at the log.
_PAUSE = 1.0


def reached(log: Path, nll: float) -> bool:
    """Whether a validation in `train.jsonl` is at most `nll`, nats a target subword."""
    if not log.exists():
        return False
    whole = log.read_text(encoding="utf-8").rpartition("\n")[0]  # a line may be half written
    return first_as_good(validations(json.loads(line) for line in whole.splitlines()), nll) is not None


def train(command: Sequence[str], log: Path, nll: float) -> int:
    """Run the command until then. Its exit status; 0 where it was ended here."""
    with subprocess.Popen(command) as process:
        for number in (signal.SIGTERM, signal.SIGHUP):  # who stops this means the training
            signal.signal(number, lambda number, frame: process.send_signal(number))
        while process.poll() is None:
            time.sleep(_PAUSE)
            if reached(log, nll):
                process.send_signal(signal.SIGTERM)
                process.wait()
                return 0
        return process.returncode


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nll", type=float, required=True, help="nats a target subword")
    parser.add_argument("command", nargs="+", metavar="COMMAND", help="behind --: docnmt-train with its options")
    options = parser.parse_args(arguments)
    if "--save-dir" not in options.command[:-1]:
        parser.error("the command has no --save-dir, where its log would be")
    log = Path(options.command[options.command.index("--save-dir") + 1]) / "train.jsonl"
    if log.exists():
        read_log(log)  # a damaged one ends here, with its line
    if not reached(log, options.nll):
        sys.exit(train(options.command, log, options.nll))


if __name__ == "__main__":
    main()
