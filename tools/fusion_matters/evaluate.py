"""Test a cell: the best checkpoint of a run on the test part of its data, text by text.

Usage: evaluate.py runs/fusion/novels33/sinusoidal.add/seed-0/run data-bin/novels33 scores.json
"""

from __future__ import annotations

import json
import sys
import time
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gate_values import gate_values

from docnmt.classification.data import LabelledArrays, TextDataset
from docnmt.classification.scores import classification_scores
from docnmt.classification.task import TextClassification, label_probabilities
from docnmt.cli import command as cli
from docnmt.errors import UsageError
from docnmt.files import write_json
from docnmt.runtime import tune
from docnmt.training.loading import LoadedModel, load_model
from docnmt.version import __version__

#: Shortest input at which accuracy is measured; the next ones are 2, 4, 8 … times as long.
SHORTEST = 128


def evaluate(loaded: LoadedModel, data_dir: Path) -> dict[str, Any]:
    """Scores of the test part; `correct` is 1 or 0 for every text in order.

    `accuracy_at_length` is the accuracy when texts are cut after so many tokens: up to twice what was trained on.
    """
    task: TextClassification = loaded.task
    arrays = LabelledArrays.open(data_dir, "test")
    lengths = np.diff(arrays.token_offsets)

    @cache
    def predict(max_length: int | None) -> np.ndarray:
        data = TextDataset(arrays, max_length, str(getattr(loaded.model, "position_count")), "test")  # noqa: B009
        labels: np.ndarray = label_probabilities(loaded.model, data, max_tokens=16_384).argmax(1)
        return labels

    started = time.perf_counter()
    predicted = predict(task.config.max_length)
    seconds = time.perf_counter() - started
    longest = min(int(lengths.max()), 2 * (task.config.max_length or int(lengths.max())))
    cuts = [SHORTEST * 2**k for k in range(20) if SHORTEST * 2**k <= longest]
    fusion = getattr(loaded.model, "embedding").fusion  # noqa: B009 (typed as a plain module)
    return {
        **classification_scores(arrays.labels, predicted, task.labels).to_dict(),
        "valid_accuracy": loaded.header["scores"]["accuracy"],
        "best_update": loaded.header["progress"]["update"],
        "parameters": sum(parameter.numel() for parameter in loaded.model.parameters()),
        "fusion_parameters": sum(p.numel() for p in fusion.parameters()) if fusion is not None else 0,
        "test_seconds": seconds,
        "accuracy_at_length": {str(cut): float((predict(cut) == arrays.labels).mean()) for cut in cuts},
        "by_text_length": by_length(lengths, predicted == arrays.labels),
        "gate": gates.summary() if (gates := gate_values(loaded, arrays)) is not None else None,
        "correct": "".join("01"[right] for right in (predicted == arrays.labels).astype(int)),
    }


def by_length(lengths: np.ndarray, right: np.ndarray) -> list[dict[str, int]]:
    """Texts and right labels among them, by the texts' whole length: up to 64 tokens, 65 to 128, 129 to 256, …"""
    bins = np.maximum(np.ceil(np.log2(np.maximum(lengths, 1))).astype(int), 6)
    return [
        {"up_to": 2 ** int(b), "texts": int((bins == b).sum()), "right": int(right[bins == b].sum())}
        for b in np.unique(bins)
    ]


def training_cost(run: Path) -> dict[str, Any]:
    """Updates, seconds and peak memory (bytes) of a run, and what it ran on."""
    lines = [json.loads(line) for line in (run / "train.jsonl").read_text(encoding="utf-8").splitlines()]
    return {
        "train_updates": max(line["update"] for line in lines),
        "train_seconds": max(line.get("wall", 0.0) for line in lines),
        "peak_memory": max(line.get("peak_memory", 0) for line in lines),
        "made_on": f"docnmt {__version__}, torch {torch.__version__}, {torch.backends.cpu.get_cpu_capability()}",
    }


def body(argv: list[str]) -> None:
    """Test, and write the scores."""
    if len(argv) != 3:
        raise UsageError(f"expected RUN DATA OUTPUT.json, got {len(argv)} argument(s)")
    run, data_dir, output = map(Path, argv)
    tune()
    write_json(output, {**evaluate(load_model(run), data_dir), **training_cost(run)})


if __name__ == "__main__":
    sys.exit(cli.run("evaluate.py", body))
