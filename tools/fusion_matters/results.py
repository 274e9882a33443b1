"""The runs of a study, read back from the cells' own files."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from paired import PairedComparison, compare
from study import Study

from docnmt.errors import UserError

#: What results do not hold that were made before it was measured; such cells stay of use.
UNKNOWN = {"gate": None, "peak_memory": float("nan"), "made_on": "unknown"}


@dataclass(frozen=True)
class Results:
    """What is done of a study.

    Attributes:
        cells: by variant and seed, the content of `result.json`.
        svm: the baseline's scores, where `svm.json` stands in the study's folder.
    """

    study: Study
    cells: dict[str, dict[int, dict[str, Any]]]
    svm: dict[str, Any] | None

    @classmethod
    def read(cls, study: Study, runs: Path) -> Results:
        """Every finished cell of the study; variants without any are left out.

        Raises:
            UserError: nothing is finished, or a cell's file is damaged or of other options than the study's now.
        """
        cells: dict[str, dict[int, dict[str, Any]]] = {}
        for cell in study.cells():
            result = cell.result(runs)
            if result is not None:
                cells.setdefault(cell.variant, {})[cell.seed] = {**UNKNOWN, **result}
        if not cells:
            raise UserError(f"{runs / study.folder}: no cell is finished; run run.py first")
        svm = runs / study.folder / "svm.json"
        return cls(study, cells, json.loads(svm.read_text(encoding="utf-8")) if svm.exists() else None)

    @property
    def variants(self) -> list[str]:
        """Those with results, in the study's order."""
        return [variant for variant in self.study.variants if variant in self.cells]

    def values(self, variant: str, get: Callable[[dict[str, Any]], float]) -> np.ndarray:
        """A number of every finished seed of a variant."""
        return np.array([get(self.cells[variant][seed]) for seed in sorted(self.cells[variant])])

    def accuracy(self, variant: str) -> np.ndarray:
        """Test accuracy in percent, seed by seed."""
        return self.values(variant, lambda cell: 100 * cell["accuracy"])

    def pairs(self, variant: str, reference: str | None = None) -> tuple[list[int], np.ndarray]:
        """Seeds that both have, and the differences of their test accuracy in points."""
        other = self.cells.get(reference or self.study.reference, {})
        seeds = sorted(self.cells[variant].keys() & other.keys())
        return seeds, np.array([100 * (self.cells[variant][s]["accuracy"] - other[s]["accuracy"]) for s in seeds])

    def comparison(self, variant: str, reference: str | None = None) -> PairedComparison | None:
        """Against the reference over the seeds that both have; None without any, or for the reference itself."""
        _, differences = self.pairs(variant, reference)
        if variant == (reference or self.study.reference) or not len(differences):
            return None
        return compare(differences, np.zeros_like(differences))

    def families(self) -> dict[str, list[str]]:
        """Operators with results by family: the variants that are named FAMILY.OPERATOR, in the study's order."""
        found: dict[str, list[str]] = {}
        for variant in self.variants:
            family, dot, operator = variant.partition(".")
            if dot and "." not in operator:
                found.setdefault(family, []).append(operator)
        return found

    def gap_to_svm(self, variant: str) -> tuple[float, float] | None:
        """Accuracy above the baseline's in points, the mean over seeds, and its standard error over the test texts.

        None without a baseline, or one without `correct`.
        """
        if self.svm is None or "correct" not in self.svm:
            return None
        right = np.mean([_ones(cell["correct"]) for cell in self.cells[variant].values()], axis=0)
        differences = 100 * (right - _ones(self.svm["correct"]))
        return float(differences.mean()), float(differences.std(ddof=1) / np.sqrt(len(differences)))


def _ones(correct: str) -> np.ndarray:
    """(N,) 1.0 where a text is labelled right, else 0.0."""
    return np.array([float(right) for right in correct])
