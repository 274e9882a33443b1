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
KEYS = {"data", "train", "grid", "variants", "reference", "seeds", "cells"}


@dataclass(frozen=True)
class Cell:
    """One training: a variant with a seed.

    Attributes:
        study: the folder of the study's cells.
        options: of docnmt-train, in a fixed order, without the seed and the folders.
    """

    study: str
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
        variants: options of docnmt-train by variant.
    """

    name: str
    data: str
    folder: str
    variants: Mapping[str, tuple[str, ...]]
    reference: str
    seeds: int

    def cells(self) -> list[Cell]:
        """Seed by seed, so that a study that was cut short has whole pairs."""
        return [
            Cell(self.folder, variant, seed, options)
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
    if not isinstance(content, dict) or set(content) - KEYS or not {"data", "train", "reference"} <= set(content):
        raise UserError(f"{path}: expected the keys data, train, reference and any of {', '.join(sorted(KEYS))}")
    try:
        variants = dict(_variants(content))
        options = {name: flags({**content["train"], **changes}) for name, changes in variants.items()}
        seeds = int(content.get("seeds", 10))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path}: a value is not of the form that study.py shows: {error!r}") from error
    if seeds < 1:
        raise UserError(f"{path}: seeds: must be at least 1, got {seeds}")
    reference = str(content["reference"])
    if reference not in variants:
        raise UserError(f"{path}: the reference '{reference}' is none of the variants {', '.join(variants)}")
    folder = str(content.get("cells", path.stem))
    return Study(path.stem, str(content["data"]), folder, options, reference, seeds)


def _variants(content: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Names and options on top of `train`: of the grid, then of the list."""
    for block in content.get("grid", []):
        for position in block["positions"]:
            for fusion in block["fusions"]:
                yield f"{position}.{fusion}", {"position": position, "position-fusion": fusion}
    yield from content.get("variants", {}).items()


def flags(options: Mapping[str, Any]) -> tuple[str, ...]:
    """Options as a command line has them: `true` is `--name`, `false` `--no-name`, a list several values."""
    line: list[str] = []
    for name, value in options.items():
        if isinstance(value, bool):
            line.append(f"--{name}" if value else f"--no-{name}")
        else:
            line += [f"--{name}", *map(str, value if isinstance(value, list) else [value])]
    return tuple(line)
