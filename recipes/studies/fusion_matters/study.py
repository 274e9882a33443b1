"""A study file, and the cells it asks for.

base: ag_news.yaml             # a study beside this one whose keys hold where this one has none
data: novels33                 # folder under --data
train:                         # options of docnmt-train, the same for every cell
  arch: fusion_classifier_arxiv
  lr: 3.0e-4
grid:                          # every family with every operator: variants named FAMILY.OPERATOR, or NAME.OPERATOR in a
                               # block that has a name; such a block is compared within itself, not with the reference
  - {positions: [sinusoidal], fusions: [add, gate_scalar]}
  - {positions: [sinusoidal], fusions: [add], name: paper, options: {embedding-std: 1.0, lr: 3.0e-4}}
variants:                      # further ones by name: options on top of `train`
  no_sqrt: {no-scale-embeddings: true}
choose:                        # each variant's own best of these, by validation; what a variant gives itself stays
  embedding-std: [0.03, 0.1, 0.3, 1.0]
  lr: [3.0e-4, 1.0e-3]
choice_seeds: [100, 101]       # the seeds that choose; none of them is reported, and they never read the test part
reference: sinusoidal.add      # what paired differences are taken against
contrasts:                     # the differences that answer the study's questions, chosen beforehand: variant, other
  - [sinusoidal.gate_scalar, sinusoidal.add]
contrasts_named: after seed 2  # when they were, if not [before any cell ran]
plan: {effect: 0.5, sd: 0.4}   # points: the smallest difference that matters, the sd expected of one
shuffle: [3, 10, 0]            # also test with words shuffled inside windows of so many; 0: the whole text
test_units: labels             # a label's test texts are no independent ones, as of one novel [texts]
seeds: 10
cells: novels33                # where its cells stand, to share those of another study [the file's name]
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from variants import flags, grid, settings

from docnmt.runtime.system import UserError

sys.path.append(str(Path(__file__).parents[1] / "tools"))
from measured import read_json

RESULT, SCORES = "result.json", "scores.json"
NEEDED = {"data", "train", "reference"}
KEYS = NEEDED | {
    "grid", "variants", "choose", "choice_seeds", "contrasts", "contrasts_named", "plan", "shuffle", "test_units",
    "seeds", "cells",
}  # fmt: skip
UNITS = ("texts", "labels")


@dataclass(frozen=True)
class Cell:
    """One training: a variant with a seed.

    Attributes:
        study: the folder of the study's cells. data: the data folder's name.
        options: of docnmt-train, in a fixed order, without the seed and the folders.
        setting: the values that it tries, of a cell that only helps to choose them; such a cell is never tested.
        shuffle: windows inside which words are shuffled for further tests.
    """

    study: str
    data: str
    variant: str
    seed: int
    options: tuple[str, ...]
    setting: str = ""
    shuffle: tuple[int, ...] = ()

    def folder(self, runs: Path) -> Path:
        """Where everything of this cell stands."""
        variant = runs / self.study / self.variant
        return (variant / "choice" / self.setting if self.setting else variant) / f"seed-{self.seed}"

    def result(self, runs: Path) -> dict[str, Any] | None:
        """What was measured, or None before the cell is done."""
        path = self.folder(runs) / RESULT
        try:
            known = read_json(path)
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise UserError(f"{path}: cannot be read: {error}; delete it to run the cell again") from error
        if not isinstance(known, dict) or known.get("options") != list(self.options):
            raise UserError(f"{path}: was made with other options; delete the cell's folder or give other --runs")
        return known


@dataclass(frozen=True)
class Study:
    """A study file.

    Attributes:
        name: of the file, without its ending. data: the data folder's name. folder: of its cells under --runs; two
            studies of one folder share the cells that both have.
        variants: options of docnmt-train by variant. apart: those of the grid's blocks with a name.
        candidates: by variant whose options are not settled, by setting, the options with it (see `choice.py`).
        choice_seeds: seeds of the cells that choose among them.
        contrasts: pairs of variants whose differences are tested together. contrasts_named: when they were.
        plan: the smallest difference that matters and the sd expected of one, in points.
        shuffle: windows of the tests with shuffled words.
        test_units: what is independent of each other in the test part: texts, or labels.
    """

    name: str
    data: str
    folder: str
    variants: Mapping[str, tuple[str, ...]]
    apart: tuple[str, ...]
    candidates: Mapping[str, Mapping[str, tuple[str, ...]]]
    choice_seeds: tuple[int, ...]
    reference: str
    contrasts: tuple[tuple[str, str], ...]
    contrasts_named: str
    plan: tuple[float, float] | None
    shuffle: tuple[int, ...]
    test_units: str
    seeds: int

    @property
    def metric(self) -> str:
        """By what the reference's checkpoint is chosen: `accuracy`, or `loss`."""
        options, name = self.variants[self.reference], "--best-checkpoint-metric"
        return options[options.index(name) + 1] if name in options else "loss"

    def cells(self) -> list[Cell]:
        """Those of the variants that are settled; seed by seed, so that a study that was cut short has whole pairs."""
        return [
            Cell(self.folder, self.data, variant, seed, options, shuffle=self.shuffle)
            for seed in range(self.seeds)
            for variant, options in self.variants.items()
            if variant not in self.candidates
        ]

    def choice_cells(self) -> list[Cell]:
        """Those that choose the options of the other variants."""
        return [
            Cell(self.folder, self.data, variant, seed, options, setting)
            for variant, settings in self.candidates.items()
            for setting, options in settings.items()
            for seed in self.choice_seeds
        ]


def read_study(path: Path) -> Study:
    """Read a study file."""
    content = _content(path)
    if unknown := sorted(set(content) - KEYS):
        raise UserError(f"{path}: there is no key {', '.join(unknown)}; there are {', '.join(sorted(KEYS))}")
    if missing := sorted(NEEDED - set(content)):
        raise UserError(f"{path}: lacks {', '.join(missing)}")
    try:
        study = _study(path.stem, content)
    except KeyError as error:
        raise UserError(f"{path}: a block of grid, or plan, lacks {error}") from error
    except (AttributeError, TypeError, ValueError) as error:
        raise UserError(f"{path}: a value is not of the form that study.py shows: {error}") from error
    if study.seeds < 1:
        raise UserError(f"{path}: seeds: must be at least 1, got {study.seeds}")
    if study.candidates and not study.choice_seeds:
        raise UserError(f"{path}: choice_seeds: choose needs a seed or several that are not reported, as [100]")
    if reported := sorted(set(study.choice_seeds) & set(range(study.seeds))):
        raise UserError(f"{path}: choice_seeds: {reported[0]} is a seed that is reported; take others, as [100]")
    if study.plan is not None and min(study.plan) <= 0:
        raise UserError(f"{path}: plan: effect and sd must be above 0, got {study.plan[0]} and {study.plan[1]}")
    if min(study.shuffle, default=0) < 0:
        raise UserError(f"{path}: shuffle: must be at least 0 (the whole text), got {min(study.shuffle)}")
    if study.test_units not in UNITS:
        raise UserError(f"{path}: test_units: expected {' or '.join(UNITS)}, got '{study.test_units}'")
    for name in (study.reference, *(name for pair in study.contrasts for name in pair)):
        if name not in study.variants:
            raise UserError(f"{path}: '{name}' is none of the variants {', '.join(study.variants)}")
    return study


def _content(path: Path, above: tuple[Path, ...] = ()) -> dict[str, Any]:
    """Keys and values, those of its base included; `above`: the studies that are built on this one."""
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UserError(f"{path}: cannot be read: {' '.join(str(error).split())}") from error
    if not isinstance(content, dict):
        raise UserError(f"{path}: expected keys and values, as study.py shows, got {type(content).__name__}")
    base = content.pop("base", None)
    if base is None:
        return content
    other = path.parent / str(base)
    if other.resolve() in (one.resolve() for one in (path, *above)):
        raise UserError(f"{path}: base: {base} is built on this study itself")
    return {**_content(other, (path, *above)), **content}


def _study(name: str, content: Mapping[str, Any]) -> Study:
    blocks = content.get("grid", ())
    own = {**dict(grid(blocks)), **content.get("variants", {})}
    variants = {variant: {**content["train"], **options} for variant, options in own.items()}
    candidates = {
        variant: settings(options, {k: v for k, v in content.get("choose", {}).items() if k not in own[variant]})
        for variant, options in variants.items()
    }
    plan = content.get("plan")
    return Study(
        name=name, data=str(content["data"]), folder=str(content.get("cells", name)),
        variants={variant: flags(options) for variant, options in variants.items()},
        apart=tuple(dict(grid([block for block in blocks if "name" in block]))),
        candidates={variant: settings for variant, settings in candidates.items() if settings},
        choice_seeds=tuple(map(int, content.get("choice_seeds", ()))), reference=str(content["reference"]),
        contrasts=tuple((str(variant), str(other)) for variant, other in content.get("contrasts", ())),
        contrasts_named=str(content.get("contrasts_named", "before any cell ran")),
        plan=None if plan is None else (float(plan["effect"]), float(plan["sd"])),
        shuffle=tuple(map(int, content.get("shuffle", ()))), test_units=str(content.get("test_units", "texts")),
        seeds=int(content.get("seeds", 10)),
    )  # fmt: skip
