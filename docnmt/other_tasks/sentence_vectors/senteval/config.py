"""The options of `docnmt-senteval`. This file imports no torch."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Literal

from docnmt.options import Needs, option

_RANDOM = Needs("baseline", ("borep-mean", "borep-max"), typed=True)


@dataclass(frozen=True)
class SentEvalConfig:
    """Options for the encoder, the tasks and the protocol."""

    data: str = option(
        dataclasses.MISSING, "folder of the tasks' TSV files (MR/all.tsv, STS14/OnWN.tsv …)", metavar="DIR"
    )
    path: str | None = option(None, "trained model: a checkpoint, or a --save-dir (its best)", metavar="CKPT")
    representation: Literal["vectors", "soft", "codes"] = option(
        "vectors",
        "of a hashing model: sentence vectors, codes before the threshold, or binary codes",
        needs="path",
    )
    baseline: Literal["bow", "sif", "borep-mean", "borep-max"] | None = option(
        None,
        "mean of word vectors, SIF-weighted mean without its common direction, or random projections",
        needs="vectors",
    )
    vectors: tuple[str, ...] = option(
        (), "word vectors of the baseline, one file a type", metavar="FILE", needs="baseline"
    )
    unit_vectors: bool = option(
        False, "bring the baseline's word vectors to unit length first, as InferLite does", needs="baseline"
    )
    frequencies: str | None = option(
        None, "word counts for sif: a word and its count a line", metavar="FILE", needs=Needs("baseline", ("sif",))
    )
    width: int = option(
        4096,
        "of the random projections",
        between=(1, None),
        needs=_RANDOM,
    )
    seed: int = option(
        1,
        "of the random projections",
        between=(0, None),
        needs=_RANDOM,
    )
    tasks: tuple[str, ...] = option((), "names of tasks [all but the probing tasks]", metavar="NAME")
    protocol: Literal["default", "fast"] = option(
        "default",
        "SentEval's settings for published numbers, or quick ones (5 folds, less patience, larger batches) whose "
        "accuracies are not comparable",
    )
    results_path: str | None = option(None, "write the results there, task by task", metavar="FILE.json")
    overwrite: bool = option(False, "start anew, whatever the results file holds")

    def problems(self) -> list[str]:
        """Return a message for each contradiction between the values."""
        found = [] if self.baseline != "sif" or self.frequencies else ["--baseline sif needs --frequencies"]
        if (self.path is None) == (self.baseline is None):
            found.append("give either --path (a trained model) or --baseline")
        return found
