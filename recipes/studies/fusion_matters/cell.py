"""Train one cell and test it, in one process: docnmt-train with the options after `--`, then the best checkpoint.

    python recipes/studies/fusion_matters/cell.py data-bin/ag_news runs/cell -- --arch fusion_classifier_tiny \\
        --max-epoch 2

`scores.json` in the folder is what was measured. The same command again continues a training that was cut short, and
tests again what is trained; the same commit, seed and machine give the same digits. run.py calls this for every cell.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

from evaluate import evaluate, training_cost, validated
from origin import origin
from study import SCORES

from docnmt.cli import command as cli
from docnmt.cli import train
from docnmt.core.training.checkpoint import load_model
from docnmt.core.training.start import train_command
from docnmt.runtime.system import UsageError, write_json

SPENT = "processor_seconds.txt"


def body(argv: list[str]) -> None:
    """Parse, train, test, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("data", type=Path, metavar="DATA", help="the data folder")
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="for the run and the scores")
    parser.add_argument("--valid-only", action="store_true", help="do not read the test part")
    parser.add_argument("--retest", action="store_true", help="do not train")
    parser.add_argument(
        "--shuffle", type=int, nargs="+", default=[], metavar="N", help="also test with words shuffled in windows of N"
    )
    split = argv.index("--") if "--" in argv else len(argv)
    options = parser.parse_args(argv[:split])
    if wrong := [n for n in options.shuffle if n < 0]:
        raise UsageError(f"--shuffle: must be at least 0 (the whole text), got {wrong[0]}")
    options.folder.mkdir(parents=True, exist_ok=True)
    spent = options.folder / SPENT
    try:
        scores = measured(options, [str(options.data), "--save-dir", str(options.folder / "run"), *argv[split + 1 :]])
    finally:  # a training that goes on another day has cost both
        with spent.open("a", encoding="utf-8") as file:
            file.write(f"{0.0 if options.retest else time.process_time():.2f}\n")  # a retest says nothing of the cost
    scores["processor_seconds"] = sum(map(float, spent.read_text(encoding="utf-8").split()))
    write_json(options.folder / SCORES, scores)


def measured(options: argparse.Namespace, words: list[str]) -> dict[str, Any]:
    """Train as `words` tell docnmt-train, test; what came out and what it was made with."""
    made, run = origin(), options.folder / "run"
    if not options.retest:
        train_command(train.parse(words))
    loaded = load_model(run)
    scores = validated(loaded) if options.valid_only else evaluate(loaded, options.data, options.shuffle)
    return {**scores, **training_cost(run), **made}


if __name__ == "__main__":
    sys.exit(cli.run("cell.py", body))
