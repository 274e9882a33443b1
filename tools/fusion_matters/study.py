"""A study file, and the cells it asks for.

data: novels33                 # folder under --data
train:                         # options of docnmt-train, the same for every cell
  arch: fusion_classifier_arxiv
  lr: 3.0e-4
grid:                          # every family with every operator: variants named FAMILY.OPERATOR
  - {positions: [sinusoidal], fusions: [add, gate_scalar]}
variants:                      # further ones by name: options on top of `train`
  no_sqrt: {no-scale-embeddings: true}
reference: sinusoidal.add      # what paired differences are taken against
contrasts:                     # the differences that answer the study's questions, chosen beforehand: variant, other
  - [sinusoidal.gate_scalar, sinusoidal.add]
test_units: labels             # a label's test texts are no independent ones, as of one novel [texts]
seeds: 10
cells: novels33                # where its cells stand, to share those of another study [the file's name]
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from docnmt.errors import UserError

RESULT = "result.json"
NEEDED = {"data", "train", "reference"}
KEYS = NEEDED | {"grid", "variants", "contrasts", "test_units", "seeds", "cells"}
UNITS = ("texts", "labels")


@dataclass(frozen=True)
class Cell:
    """One training: a variant with a seed.

    Attributes:
        study: the folder of the study's cells. data: the data folder's name.
        options: of docnmt-train, in a fixed order, without the seed and the folders.
    """

    study: str
    data: str
    variant: str
    seed: int
    options: tuple[str, ...]

    def folder(self, runs: Path) -> Path:
        """Where everything of this cell stands."""
        return runs / self.study / self.variant / f"seed-{self.seed}"

    def result(self, runs: Path) -> dict[str, Any] | None:
        """What was measured, or None before the cell is done.

        Raises:
            UserError: the file is damaged, or was made with other options than the study has now.
        """
        path = self.folder(runs) / RESULT
        try:
            known = json.loads(path.read_text(encoding="utf-8"))
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
        variants: options of docnmt-train by variant. grid: those that are a family with an operator.
        contrasts: pairs of variants whose differences are tested together.
        test_units: what is independent of each other in the test part: texts, or labels.
    """

    name: str
    data: str
    folder: str
    variants: Mapping[str, tuple[str, ...]]
    grid: tuple[str, ...]
    reference: str
    contrasts: tuple[tuple[str, str], ...]
    test_units: str
    seeds: int

    def cells(self) -> list[Cell]:
        """Seed by seed, so that a study that was cut short has whole pairs."""
        return [
            Cell(self.folder, self.data, variant, seed, options)
            for seed in range(self.seeds)
            for variant, options in self.variants.items()
        ]


def read_study(path: Path) -> Study:
    """Read a study file.

    Raises:
        UserError: it cannot be read, or a key is unknown, missing or of the wrong kind.
    """
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UserError(f"{path}: cannot be read: {' '.join(str(error).split())}") from error
    if not isinstance(content, dict):
        raise UserError(f"{path}: expected keys and values, as study.py shows, got {type(content).__name__}")
    if unknown := sorted(set(content) - KEYS):
        raise UserError(f"{path}: there is no key {', '.join(unknown)}; there are {', '.join(sorted(KEYS))}")
    if missing := sorted(NEEDED - set(content)):
        raise UserError(f"{path}: lacks {', '.join(missing)}")
    try:
        study = _study(path.stem, content)
    except KeyError as error:
        raise UserError(f"{path}: grid: a block lacks {error}") from error
    except (AttributeError, TypeError, ValueError) as error:
        raise UserError(f"{path}: a value is not of the form that study.py shows: {error}") from error
    if study.seeds < 1:
        raise UserError(f"{path}: seeds: must be at least 1, got {study.seeds}")
    if study.test_units not in UNITS:
        raise UserError(f"{path}: test_units: expected {' or '.join(UNITS)}, got '{study.test_units}'")
    for name in (study.reference, *(name for pair in study.contrasts for name in pair)):
        if name not in study.variants:
            raise UserError(f"{path}: '{name}' is none of the variants {', '.join(study.variants)}")
    return study


def _study(name: str, content: Mapping[str, Any]) -> Study:
    grid = dict(_grid(content))
    variants = grid | content.get("variants", {})
    options = {variant: flags({**content["train"], **changes}) for variant, changes in variants.items()}
    contrasts = tuple((str(variant), str(other)) for variant, other in content.get("contrasts", ()))
    return Study(
        name, str(content["data"]), str(content.get("cells", name)), options, tuple(grid), str(content["reference"]),
        contrasts, str(content.get("test_units", "texts")), int(content.get("seeds", 10)),
    )  # fmt: skip


def _grid(content: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every family with every operator: names and options on top of `train`."""
    for block in content.get("grid", ()):
        for position in block["positions"]:
            for fusion in block["fusions"]:
                yield f"{position}.{fusion}", {"position": position, "position-fusion": fusion}


def flags(options: Mapping[str, Any]) -> tuple[str, ...]:
    """Options as a command line has them: `true` is `--name`, `false` `--no-name`, a list several values."""
    line: list[str] = []
    for name, value in options.items():
        if isinstance(value, bool):
            line.append(f"--{name}" if value else f"--no-{name}")
        else:
            line += [f"--{name}", *map(str, value if isinstance(value, list) else [value])]
    return tuple(line)
