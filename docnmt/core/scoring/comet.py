"""The metric COMET (Rei et al. 2022), if its package is installed: a learned metric that also reads the source.

A window of N sentences is read as one text and slides over each document (SLIDE: Raunak et al. 2024, Reference-free
Evaluation for Machine Translation using a Sliding Document Window). The score is the mean over windows. Every sentence
of a window has an equal share of it, so shares add up to documents and to the whole.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import ModuleType, SimpleNamespace
from typing import Protocol

import numpy as np

from docnmt.runtime.errors import UserError


def require_comet() -> ModuleType:
    """Import the package.

    Raises:
        UserError: it is not installed.
    """
    try:
        return importlib.import_module("comet")
    except ImportError as error:
        raise UserError("COMET is not installed; pip install 'docnmt[comet]', or leave --comet away") from error


class _CometOutput(Protocol):
    """The scores of the rows that a COMET model was given."""

    scores: Sequence[float]


class _CometModel(Protocol):
    """What is called of a loaded COMET model; the package lacks types."""

    def predict(self, rows: list[dict[str, str]], *, batch_size: int, gpus: int) -> _CometOutput:
        """Score rows of `src`, `mt` and perhaps `ref`."""

    def requires_references(self) -> bool:
        """Whether each row must have a `ref`."""


@dataclass(frozen=True)
class Comet:
    """A COMET model and its input; as a metric, the mean of shares, times 100.

    Attributes:
        model: name at the model hub, or the path of a checkpoint.
        window, stride: sentences read at once, and the distance between the beginnings of two windows.
        reference_free: True if the model is given no reference.
    """

    model: str
    window: int = 1
    stride: int = 1
    reference_free: bool = False

    def counts(
        self,
        systems: Sequence[Sequence[str]],
        sources: Sequence[str],
        reference: Sequence[str],
        document_offsets: Sequence[int] | np.ndarray,
    ) -> list[np.ndarray]:
        """Return for each system, (S, 2): the sum of every sentence's shares of scores, and the sum of its shares.

        Raises:
            UserError: the package is not installed, or the model is not available or needs a reference.
        """
        scorer = self._load()
        spans = list(windows(document_offsets, self.window, self.stride))
        found = []
        for hypotheses in systems:
            texts = {"src": sources, "mt": hypotheses} | ({} if self.reference_free else {"ref": reference})
            rows = [{name: " ".join(filter(None, lines[a:b])) for name, lines in texts.items()} for a, b in spans]
            counts = np.zeros((len(sources), 2))
            for (a, b), score in zip(spans, scorer.predict(rows, batch_size=16, gpus=0).scores, strict=True):
                counts[a:b] += np.array([float(score), 1]) / (b - a)
            found.append(counts)
        return found

    def _load(self) -> _CometModel:
        comet = require_comet()
        try:
            path = self.model if self.model.endswith(".ckpt") else comet.download_model(self.model)
            scorer: _CometModel = comet.load_from_checkpoint(path)
        except (OSError, KeyError, ValueError) as error:
            reason = " ".join(str(error).split())
            raise UserError(
                f"COMET's model '{self.model}' cannot be loaded: {reason}; give the path of a .ckpt file"
            ) from error
        if self.reference_free and scorer.requires_references():
            raise UserError(f"--comet-qe: '{self.model}' needs references; Unbabel/wmt22-cometkiwi-da does not")
        return scorer

    def _compute_score_from_stats(self, stats: list[float]) -> SimpleNamespace:
        total, shares = stats
        return SimpleNamespace(score=100 * total / shares if shares else 0.0)  # no text scores 0, as in BLEU

    def get_signature(self) -> str:
        """Return everything that the number depends on, in sacreBLEU's manner."""
        nrefs = 0 if self.reference_free else 1
        return f"nrefs:{nrefs}|model:{self.model}|window:{self.window}|stride:{self.stride}"


def windows(document_offsets: Sequence[int] | np.ndarray, window: int, stride: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of `window` sentences, one every `stride` sentences of a document; the last ends with the document.

    A document of fewer sentences is one window.
    """
    for begin, end in pairwise(np.asarray(document_offsets).tolist()):
        last = max(begin, end - window)
        for first in [*range(begin, last, stride), *([last] if begin < end else [])]:
            yield first, min(first + window, end)
