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
            UserError: nothing is finished, or a cell was run with other options than the study's now.
        """
        cells: dict[str, dict[int, dict[str, Any]]] = {}
        for cell in study.cells():
            path = cell.folder(runs) / "result.json"
            if not path.exists():
                continue
            result = json.loads(path.read_text(encoding="utf-8"))
            if result["options"] != list(cell.options):
                raise UserError(f"{path}: was made with other options than the study has now")
            cells.setdefault(cell.variant, {})[cell.seed] = result
        if not cells:
            raise UserError(f"{runs / study.name}: no cell is finished; run run.py first")
        svm = runs / study.name / "svm.json"
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
