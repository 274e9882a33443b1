"""Memory of a training: what `docnmt-train --dry-run` predicts, beside the peak of the training itself.

    python recipes/studies/scale/memory.py DATA --size small --tokens 600 1200 --update 20

For each architecture, batch size and number type, two processes are forked from one that has imported everything and
computed nothing: one rehearses as a dry run does, the other trains and validates. The peak is what the system counted
for the whole process (`ru_maxrss`), the libraries with it. Several of these tools can share the work (`--part 1/4`).
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path

from docnmt.cli.train import parse
from docnmt.core.training.dry_run import rehearse
from docnmt.core.training.start import prepare, train_command
from docnmt.core.training.trainer import open_epoch
from docnmt.core.training.update import peak_memory, probe
from docnmt.runtime.device import tune

ARCHITECTURES = (
    "transformer", "copy_transformer", "hier_transformer", "cond_transformer", "hier_cond_transformer",
    "concat_transformer", "doc_transformer", "scaleformer",
)  # fmt: skip
MIB = 2**20


def predict(words: list[str], answer: Path) -> None:
    """In a process of its own: bytes before the first batch, in the rehearsal, and predicted."""
    tune(new_shapes=True)
    run = prepare(parse(words))
    before = peak_memory(run.device)
    epoch = open_epoch(run)
    probe(run, epoch.data, epoch.plan)
    expected = rehearse(run, epoch.data, epoch.plan)
    answer.write_text(json.dumps([before, expected.measured, expected.predicted]))


def forked(work: Callable[[], None]) -> int:
    """Do it in a child that says nothing; returns the child's peak in bytes."""
    child = os.fork()
    if child == 0:
        error = os.dup(2)
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        try:
            work()
        except BaseException:  # a child must not go on with the parent's loop
            os.write(error, traceback.format_exc().encode())
            os._exit(1)
        os._exit(0)
    _, status, usage = os.wait4(child, 0)
    if status:
        raise RuntimeError(f"status {status}")
    return usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def measure(data: str, arch: str, options: list[str], updates: int) -> str:
    """A row of the table."""
    with tempfile.TemporaryDirectory() as folder:
        words = [data, "--arch", arch, *options, "--save-dir", f"{folder}/run", "--device", "cpu"]
        answer = Path(folder) / "answer.json"
        forked(lambda: predict(words, answer))
        before, tried, predicted = json.loads(answer.read_text())
        peak = forked(lambda: train_command(parse([*words, "--max-update", str(updates)])))
    cells = [f"{value / MIB:,.0f}" for value in (before, tried, predicted, peak)]
    return f"| `{arch}` | {' '.join(options)} | {' | '.join(cells)} | {100 * (predicted / peak - 1):+.0f} % |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", help="a folder of docnmt-preprocess")
    parser.add_argument("--arch", nargs="+", default=list(ARCHITECTURES), help="without their sizes [all]")
    parser.add_argument("--size", nargs="+", default=["tiny", "small"])
    parser.add_argument("--tokens", type=int, nargs="+", default=[600, 1200], help="--max-tokens of each [600 1200]")
    parser.add_argument("--bf16", action=argparse.BooleanOptionalAction, default=True, help="also with --bf16 [yes]")
    parser.add_argument("--update", type=int, default=20, help="updates of each training [20]")
    parser.add_argument("--part", default="1/1", help="N/OF: every OF-th row from the N-th on [1/1]")
    given = parser.parse_args()
    number, of = map(int, given.part.split("/"))
    print("| architecture | options | before, MiB | tried | predicted | measured | difference |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: |", flush=True)
    types = [[], ["--bf16"]] if given.bf16 else [[]]
    rows = list(itertools.product(given.size, given.tokens, types, given.arch))
    for size, tokens, kind, arch in rows[number - 1 :: of]:
        print(measure(given.data, f"{arch}_{size}", ["--max-tokens", str(tokens), *kind], given.update), flush=True)


if __name__ == "__main__":
    main()
