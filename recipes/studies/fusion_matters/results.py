"""The runs of a study, read back from the cells' own files, or from the one file that they are kept in."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from paired import PairedComparison, compare
from published import ARCHITECTURE, PUBLISHED_TEXTS
from scipy_stats import stats
from study import Study, read_json
from two_way import TwoWay, two_way

from docnmt.runtime.system import UserError

#: What results do not hold that were made before it was measured; such cells stay of use.
UNKNOWN = {
    "gate": None, "peak_memory": float("nan"), "made_on": "unknown", "commit": "unknown", "accuracy_shuffled": {},
    "processor_seconds": float("nan"), "train_texts": None, "validations": [],
}  # fmt: skip


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
        """Every finished cell of the study; variants without any are left out."""
        cells: dict[str, dict[int, dict[str, Any]]] = {}
        made: dict[str, Path] = {}
        for cell in study.cells():
            result = cell.result(runs)
            if result is not None:
                cells.setdefault(cell.variant, {})[cell.seed] = {**UNKNOWN, **result}
                made.setdefault(result["fingerprint"], cell.folder(runs))
        if len(made) > 1:
            one, other, *_ = made.values()
            raise UserError(f"{one} and {other}: cells were made with different data; delete one of both")
        if not cells:
            raise UserError(f"{runs / study.folder}: no cell is finished; run run.py first")
        return cls(study, cells, _svm(runs / study.folder / "svm.json"))

    @property
    def variants(self) -> list[str]:
        """Those with results, in the study's order."""
        return [variant for variant in self.study.variants if variant in self.cells]

    @property
    def published_otherwise(self) -> str:
        """What the published numbers were made with, where these cells were made with something else; else empty."""
        cells = [cell for seeds in self.cells.values() for cell in seeds.values()]
        said, theirs = [], PUBLISHED_TEXTS.get(self.study.data)
        ours = {cell["train_texts"] for cell in cells} - {None, theirs}
        if theirs is not None and ours:
            said.append(f"{theirs:,} training texts, here {' or '.join(f'{n:,}' for n in sorted(ours))}")
        options, arch = self.study.variants[self.study.reference], ARCHITECTURE.get(self.study.data)
        if arch is not None and (options[options.index("--arch") + 1] != arch or "--embed-dim" in options):
            said.append(f"the notebooks' model ({arch}), here one of {cells[0]['parameters']:,} parameters")
        return f"† published with {'; and with '.join(said)}." if said else ""

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

    def two_way(self, variant: str, reference: str | None = None) -> TwoWay:
        """The difference over seeds and test units at once, in points; NaN where a cell lacks them."""
        other = reference or self.study.reference
        seeds, _ = self.pairs(variant, other)
        key, read = READERS[self.study.test_units]
        pairs = [(self.cells[variant][seed], self.cells[other][seed]) for seed in seeds]
        if not pairs or any(key not in cell for pair in pairs for cell in pair):
            return TwoWay((math.nan, math.nan), math.nan)
        sizes = read(pairs[0][0][key])[1]
        differences = np.array([read(mine[key])[0] - read(theirs[key])[0] for mine, theirs in pairs])
        return two_way(100 * differences * len(sizes) / sizes.sum())

    def gap(self, variant: str, reference: str) -> tuple[float, float]:
        """Accuracy less the reference's in points (mean over seeds), and half its 95 % interval over test units."""
        seeds, _ = self.pairs(variant, reference)
        key, read = READERS[self.study.test_units]
        answers = [[read(self.cells[name][seed][key]) for seed in seeds] for name in (variant, reference)]
        mine, theirs = (np.mean([right for right, _ in runs], axis=0) for runs in answers)
        return _over_units(mine - theirs, answers[0][0][1])

    def families(self) -> dict[str, list[str]]:
        """Operators with results by family, in the study's order: of the variants named FAMILY.OPERATOR."""
        operators: dict[str, list[str]] = {}
        for variant in self.variants:
            family, _, operator = variant.partition(".")
            if operator:
                operators.setdefault(family, []).append(operator)
        return operators

    def gap_to_svm(self, variant: str) -> tuple[float, float] | None:
        """Accuracy less the baseline's in points, the mean over seeds, and half its 95 % interval over the test units.

        None without a baseline, or one without `correct` (and `confusion`, where units are labels).
        """
        key, read = READERS[self.study.test_units]
        if self.svm is None or key not in self.svm:
            return None
        theirs, sizes = read(self.svm[key])
        mine = np.mean([read(cell[key])[0] for cell in self.cells[variant].values()], axis=0)
        return _over_units(mine - theirs, sizes)


def _over_units(differences: np.ndarray, sizes: np.ndarray) -> tuple[float, float]:
    """The mean of differences in what is right, in points, and half its 95 % interval over the test units (N,)."""
    mean = differences.sum() / sizes.sum()
    spread = np.sqrt(((differences - mean * sizes) ** 2).sum() * len(sizes) / (len(sizes) - 1)) / sizes.sum()
    return float(100 * mean), float(100 * spread * stats.t.isf(0.025, len(sizes) - 1))


def _texts(correct: str) -> tuple[np.ndarray, np.ndarray]:
    """(N,) 1.0 where a text is labelled right, else 0.0; and ones: a unit is a text."""
    right = np.array([float(mark) for mark in correct])
    return right, np.ones_like(right)


def _labels(confusion: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    """How many texts of each label are labelled right, and how many it has: a unit is a label."""
    counts = np.array(confusion, dtype=float)
    return counts.diagonal(), counts.sum(1)


#: By test unit: where a result has what is read, and how.
READERS: dict[str, tuple[str, Callable[[Any], tuple[np.ndarray, np.ndarray]]]] = {
    "texts": ("correct", _texts), "labels": ("confusion", _labels),
}  # fmt: skip


def _svm(path: Path) -> dict[str, Any] | None:
    """What baseline.py wrote, if it did."""
    try:
        known: dict[str, Any] = read_json(path)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: cannot be read: {error}; make it again with baseline.py") from error
    return known
