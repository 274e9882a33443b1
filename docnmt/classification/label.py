"""Labelling new texts with a trained classifier: what `docnmt-classify` does."""

from __future__ import annotations

import dataclasses
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import numpy as np

from docnmt.classification.preprocess import label_numbers
from docnmt.classification.scores import classification_scores
from docnmt.classification.table import read_labelled, read_texts
from docnmt.config import option
from docnmt.errors import UserError
from docnmt.files import check_new, write_json
from docnmt.formats.text import TextLines


@dataclass(frozen=True)
class ClassifyConfig:
    """A trained classifier, and texts."""

    path: str = option(
        dataclasses.MISSING, "checkpoint, or the --save-dir of a run, whose best is taken", metavar="CKPT"
    )
    input: str | None = option(
        None,
        "texts, one a line (.jsonl: an object with 'text' a line), or with --labelled a table with labels [stdin]",
        positional=True,
        metavar="FILE",
    )
    labelled: bool = option(False, "FILE is a .tsv, .csv or .jsonl table with labels: score the model's against them")
    all_probabilities: bool = option(False, "show every label's probability, not the chosen one's alone")
    results: str | None = option(None, "with --labelled: write the scores there", metavar="FILE.json")
    overwrite: bool = option(False, "replace --results if it exists")
    max_tokens: int = option(16_384, "tokens labelled at once; a longer text is labelled by itself")
    device: str = option("auto", "cpu, cuda, cuda:1 …; auto takes cuda where there is one", metavar="NAME")

    def problems(self) -> list[str]:
        """Contradictions between the values."""
        found = [] if self.max_tokens >= 1 else [f"--max-tokens: must be at least 1, got {self.max_tokens}"]
        if self.labelled and self.input is None:
            found.append("--labelled needs the table's FILE: its ending says how to read it")
        if self.results is not None and not self.labelled:
            found.append("--results has no effect without --labelled")
        return found


def classify(config: ClassifyConfig, out: TextIO) -> None:
    """Write a line for each text, in input order: its label, a tab, the label's probability.

    Raises:
        UserError: no classifier at the path, texts that cannot be read, a label that the classifier does not know.
    """
    if config.results is not None:
        check_new(Path(config.results), overwrite=config.overwrite)
    from docnmt.classification.task import TextClassification, label_probabilities
    from docnmt.runtime import pick_device, tune
    from docnmt.training.loading import load_model

    print(tune(), file=sys.stderr)
    loaded = load_model(config.path, device=pick_device(config.device))
    task = loaded.task
    if not isinstance(task, TextClassification):
        raise UserError(f"{config.path}: is a model of the task {loaded.header['task']}, not a text classifier")
    table = read_labelled(Path(config.input)) if config.labelled and config.input is not None else None
    truth = None if table is None else np.array(label_numbers(table, task.labels, config.path))
    texts = table.texts if table is not None else _texts(config.input)
    data = task.texts(texts, loaded.model, name=config.input or "stdin")
    if cut := int((np.diff(data.arrays.token_offsets) > data.lengths).sum()):
        print(
            f"warning: {cut:,} of {len(texts):,} texts are longer than the {task.config.max_length:,} tokens that the "
            "classifier reads (the --max-length of its training)", file=sys.stderr,
        )  # fmt: skip
    probabilities = label_probabilities(loaded.model, data, max_tokens=config.max_tokens)
    for row in probabilities:
        out.write(_line(row, task.labels, config.all_probabilities))
    if truth is not None:
        scores = classification_scores(truth, probabilities.argmax(1), task.labels)
        print(scores, file=sys.stderr)
        if config.results is not None:
            write_json(Path(config.results), scores.to_dict())


def _texts(path: str | None) -> list[str]:
    return list(TextLines(sys.stdin.buffer, name="stdin")) if path is None else read_texts(Path(path))


def _line(probabilities: np.ndarray, labels: tuple[str, ...], every: bool) -> str:
    chosen = int(probabilities.argmax())
    if not every:
        return f"{labels[chosen]}\t{probabilities[chosen]:.4f}\n"
    named = (f"{label}={value:.4f}" for label, value in zip(labels, probabilities, strict=True))
    return "\t".join((labels[chosen], *named)) + "\n"
