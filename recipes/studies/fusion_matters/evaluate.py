"""Test a cell: the best checkpoint of a run on the test part of its data, text by text."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from gate_values import gate_values

from docnmt.core.corpus import TokenArray
from docnmt.core.training.checkpoint import LoadedModel
from docnmt.other_tasks.classification import (
    LabelledArrays,
    TextClassification,
    TextDataset,
    classification_scores,
    label_probabilities,
)

#: Shortest input at which accuracy is measured; the next ones are 2, 4, 8 … times as long.
SHORTEST = 128
#: A cut is measured where it shortens at least this share of the texts.
SHORTENED = 0.01


def evaluate(loaded: LoadedModel, data_dir: Path, windows: Sequence[int] = ()) -> dict[str, Any]:
    """Scores of the test part; `correct` is 1 or 0 for every text in order.

    `accuracy_at_length` is the accuracy when texts are cut after so many tokens: up to twice what was trained on, and
    up to the longest text for training (where test texts are longer, `by_text_length` says what matters).
    `accuracy_shuffled` is the accuracy when words are shuffled inside each of these `windows` (see `shuffled`).
    """
    task: TextClassification = loaded.task
    arrays = LabelledArrays.open(data_dir, "test")
    lengths = np.diff(arrays.token_offsets)

    @cache
    def predict(max_length: int | None, window: int) -> np.ndarray:
        texts = arrays if window == 1 else shuffled(arrays, window, max_length)
        data = TextDataset(texts, max_length, str(getattr(loaded.model, "position_count")), "test")  # noqa: B009
        labels: np.ndarray = label_probabilities(loaded.model, data, max_tokens=16_384).argmax(1)
        return labels

    def accuracy(max_length: int | None, window: int = 1) -> float:
        return float((predict(max_length, window) == arrays.labels).mean())

    started = time.perf_counter()
    predicted = predict(task.config.max_length, 1)
    seconds = time.perf_counter() - started
    train = LabelledArrays.open(data_dir, "train")
    longest = min(int(lengths.max()), int(np.diff(train.token_offsets).max()))
    longest = min(longest, 2 * (task.config.max_length or longest))
    cuts = [SHORTEST * 2**k for k in range(20) if SHORTEST * 2**k <= longest]
    cuts = [cut for cut in cuts if (lengths > cut).mean() >= SHORTENED]
    fusion = getattr(loaded.model, "embedding").fusion  # noqa: B009 (typed as a plain module)
    return {
        **classification_scores(arrays.labels, predicted, task.labels).to_dict(),
        **validated(loaded),
        "train_texts": len(train),
        "parameters": sum(parameter.numel() for parameter in loaded.model.parameters()),
        "fusion_parameters": sum(p.numel() for p in fusion.parameters()) if fusion is not None else 0,
        "test_seconds": seconds,
        "accuracy_at_length": {str(cut): accuracy(cut) for cut in cuts},
        "accuracy_shuffled": {str(window): accuracy(task.config.max_length, window) for window in windows},
        "by_text_length": by_length(lengths, predicted == arrays.labels),
        "gate": gates.summary() if (gates := gate_values(loaded, arrays)) is not None else None,
        "correct": "".join("01"[right] for right in (predicted == arrays.labels).astype(int)),
    }


def validated(loaded: LoadedModel) -> dict[str, Any]:
    """What the best checkpoint scored on the validation part, and when."""
    scores = loaded.header["scores"]
    return {
        "valid_accuracy": scores["accuracy"],
        "valid_loss": scores["loss"],
        "best_update": loaded.header["progress"]["update"],
    }


def shuffled(arrays: LabelledArrays, window: int, max_length: int | None = None, *, seed: int = 0) -> LabelledArrays:
    """The texts with their words in a random order inside each window of so many words; 0: in the whole text.

    Windows begin with the text and do not end with its sentences: the words change, their places and sentences stay.
    Words beyond `max_length`, which a model does not read, stay where they are.
    """
    offsets = arrays.token_offsets
    text = np.repeat(np.arange(len(arrays)), np.diff(offsets))
    positions = np.arange(len(text)) - np.repeat(offsets[:-1], np.diff(offsets))
    part = positions // window if window else np.zeros_like(positions)
    order = np.random.default_rng(seed).random(len(text))
    if max_length is not None:
        beyond = positions >= max_length
        part, order = np.where(beyond, positions.max(initial=0), part), np.where(beyond, positions, order)
    order = np.lexsort((order, part, text))
    return replace(arrays, sentences=TokenArray(arrays.sentences.tokens[order], arrays.sentences.offsets))


def by_length(lengths: np.ndarray, right: np.ndarray) -> list[dict[str, int]]:
    """Texts and right labels among them, by the texts' whole length: up to 64 tokens, 65 to 128, 129 to 256, …"""
    bins = np.maximum(np.ceil(np.log2(np.maximum(lengths, 1))).astype(int), 6)
    return [
        {"up_to": 2 ** int(b), "texts": int((bins == b).sum()), "right": int(right[bins == b].sum())}
        for b in np.unique(bins)
    ]


def training_cost(run: Path) -> dict[str, Any]:
    """Updates, seconds and peak memory (bytes) of a run, and its validations."""
    lines = [json.loads(line) for line in (run / "train.jsonl").read_text(encoding="utf-8").splitlines()]
    return {
        "train_updates": max(line["update"] for line in lines),
        "train_seconds": max(line.get("wall", 0.0) for line in lines),
        "peak_memory": max(line.get("peak_memory", 0) for line in lines),
        "validations": [
            {key: line[key] for key in ("update", "loss", "accuracy")} for line in lines if line["event"] == "valid"
        ],
    }
