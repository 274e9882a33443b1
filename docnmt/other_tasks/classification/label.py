"""Labelling of new texts with a trained classifier, which `docnmt-classify` runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TextIO

import numpy as np

from docnmt.core.training.checkpoint import load_model
from docnmt.other_tasks.classification.classification_task import TextClassification, label_probabilities
from docnmt.other_tasks.classification.config import ClassifyConfig
from docnmt.other_tasks.classification.data import label_numbers, read_labelled, read_texts
from docnmt.other_tasks.classification.scores import classification_scores
from docnmt.runtime.errors import UserError
from docnmt.runtime.files import write_json
from docnmt.runtime.tuning import pick_device


def classify(config: ClassifyConfig, out: TextIO) -> None:
    """Write a line for each text, in input order: its label, a tab, the label's probability.

    Raises:
        UserError: there is no classifier at the path, texts cannot be read, or the classifier does not know a label.
    """
    loaded = load_model(config.path, device=pick_device(config.device))
    task = loaded.task
    if not isinstance(task, TextClassification):
        raise UserError(f"{config.path}: is a model of the task {loaded.header['task']}, not a text classifier")
    path = None if config.input is None else Path(config.input)
    truth = None
    if config.labelled and path is not None:
        table = read_labelled(path)
        texts, truth = table.texts, np.array(label_numbers(table, task.labels, config.path))
    else:
        texts = read_texts(path)
    data = task.texts(texts, loaded.model, name=config.input or "stdin")
    if cut := int((np.diff(data.arrays.token_offsets) > data.lengths).sum()):
        print(
            f"warning: {cut:,} of {len(texts):,} texts are longer than the {task.config.max_length:,} tokens that the "
            "classifier reads (the --max-length of its training)",
            file=sys.stderr,
        )
    probabilities = label_probabilities(loaded.model, data, max_tokens=config.max_tokens)
    for row in probabilities:
        out.write(_line(row, task.labels, config.all_probabilities))
    if truth is not None:
        scores = classification_scores(truth, probabilities.argmax(1), task.labels)
        print(scores, file=sys.stderr)
        if config.results is not None:
            write_json(Path(config.results), scores.to_dict())


def _line(probabilities: np.ndarray, labels: tuple[str, ...], every: bool) -> str:
    chosen = int(probabilities.argmax())
    if not every:
        return f"{labels[chosen]}\t{probabilities[chosen]:.4f}\n"
    named = (f"{label}={value:.4f}" for label, value in zip(labels, probabilities, strict=True))
    return "\t".join((labels[chosen], *named)) + "\n"
