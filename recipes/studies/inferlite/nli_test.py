"""Accuracy of trained sentence encoders on the test pairs; of codes also before the threshold.

The validation pairs chose the checkpoint, the test pairs nothing.
    python recipes/studies/inferlite/nli_test.py runs/*/ > nli-test.md
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import torch

from docnmt.core.batch import plan_batches
from docnmt.core.training.checkpoint import load_model
from docnmt.other_tasks.options import NliConfig
from docnmt.other_tasks.sentence_vectors.encoders import SentencePairModel
from docnmt.other_tasks.sentence_vectors.use import Nli
from docnmt.runtime.device import tune
from docnmt.runtime.system import UserError


@torch.no_grad()
def accuracies(model: SentencePairModel, task: Nli, split: str, max_tokens: int = 4000) -> tuple[float, float | None]:
    """In percent: as the model answers (by its codes if it has any), and by its codes before the threshold."""
    data = task.dataset(split, model)
    right = 0
    for units in plan_batches(data.sizes, max_tokens, seed=0, epoch=0, shuffle=False):
        batch = data.batch(units)
        right += int((model(batch).argmax(1) == batch.labels).sum())
    soft = None
    if model.hash is not None:
        soft = 100 * task.evaluate(model, split, {"max_tokens": max_tokens})["soft_accuracy"]
    return 100 * right / len(data.sizes), soft


def row(run: Path, split: str) -> str:
    """A line of the table."""
    loaded = load_model(run)
    if not isinstance(loaded.model, SentencePairModel):
        raise UserError(f"{run}: is a {loaded.arch}; expected a model of the task nli")
    task = Nli.load(NliConfig(), loaded.header["config"]["run"]["data"])
    if task.fingerprint != loaded.header["fingerprint"]:
        raise UserError(f"{task.data_dir or run}: is not the data that {run} was trained on")
    hard, soft = accuracies(loaded.model, task, split)
    return f"| {run.name} | {hard:.2f} | {'' if soft is None else f'{soft:.2f}'} |"


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path, help="--save-dirs of docnmt-train; their data folders are needed")
    parser.add_argument("--split", default="test")
    options = parser.parse_args(argv)
    tune()
    print(f"| run | NLI accuracy, {options.split} | codes before the threshold |\n|---|---:|---:|")
    try:
        for run in options.runs:
            print(row(run, options.split), flush=True)
    except UserError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
