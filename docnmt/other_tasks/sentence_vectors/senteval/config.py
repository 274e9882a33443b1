"""The options of `docnmt-senteval`. This file imports no torch."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import ClassVar, Literal

from docnmt.registry.options import Condition, below, option


@dataclass(frozen=True)
class SentEvalConfig:
    """Options for the encoder, the tasks and the protocol."""

    conditions: ClassVar[tuple[Condition, ...]] = (
        Condition(("width", "seed"), "baseline", ("borep-mean", "borep-max"), "--baseline borep-mean or borep-max"),
    )

    data: str = option(
        dataclasses.MISSING, "folder of the tasks' TSV files (MR/all.tsv, STS14/OnWN.tsv …)", metavar="DIR"
    )
    path: str | None = option(None, "trained model: a checkpoint, or a --save-dir (its best)", metavar="CKPT")
    representation: Literal["vectors", "soft", "codes"] = option(
        "vectors", "of a hashing model: sentence vectors, codes before the threshold, or binary codes"
    )
    baseline: Literal["bow", "sif", "borep-mean", "borep-max"] | None = option(
        None, "mean of word vectors, SIF-weighted mean without its common direction, or random projections"
    )
    vectors: tuple[str, ...] = option((), "word vectors of the baseline, one file a type", metavar="FILE")
    unit_vectors: bool = option(False, "bring the baseline's word vectors to unit length first, as InferLite does")
    frequencies: str | None = option(None, "word counts for sif: a word and its count a line", metavar="FILE")
    width: int = option(4096, "of the random projections")
    seed: int = option(1, "of the random projections")
    tasks: tuple[str, ...] = option((), "names of tasks [all but the probing tasks]", metavar="NAME")
    protocol: Literal["default", "fast"] = option(
        "default",
        "SentEval's settings for published numbers, or quick ones (5 folds, less patience, larger batches) whose "
        "accuracies are not comparable",
    )
    results_path: str | None = option(None, "write the results there, task by task", metavar="FILE.json")
    overwrite: bool = option(False, "start anew, whatever the results file holds")

    def problems(self) -> list[str]:
        """Contradictions between the values."""
        found = []
        if (self.path is None) == (self.baseline is None):
            found.append("give either --path (a trained model) or --baseline")
        if self.baseline is not None and not self.vectors:
            found.append(f"--baseline {self.baseline} needs --vectors")
        if (self.baseline == "sif") != (self.frequencies is not None):
            found.append("--frequencies belongs to --baseline sif, and sif needs them")
        if self.path is not None and self.vectors:
            found.append("--vectors has no effect with --path: a trained model has its own")
        if self.path is not None and self.unit_vectors:
            found.append("--unit-vectors has no effect with --path")
        if self.path is None and self.representation != "vectors":
            found.append(f"--representation {self.representation} has no effect on a baseline")
        return found + below(self, 1, "width") + below(self, 0, "seed")
