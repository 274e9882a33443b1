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
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from docnmt.errors import UserError

KEYS = {"data", "train", "grid", "variants", "reference", "seeds"}


@dataclass(frozen=True)
class Cell:
    """One training: a variant with a seed.

    Attributes:
        options: of docnmt-train, in a fixed order, without the seed and the folders.
    """

    study: str
    variant: str
    seed: int
    options: tuple[str, ...]

    def folder(self, runs: Path) -> Path:
        """Where everything of this cell stands."""
        return runs / self.study / self.variant / f"seed-{self.seed}"


@dataclass(frozen=True)
class Study:
    """A study file.

    Attributes:
        name: of the file, without its ending. data: the data folder's name.
        variants: options of docnmt-train by variant.
    """

    name: str
    data: str
    variants: Mapping[str, tuple[str, ...]]
    reference: str
    seeds: int

    def cells(self) -> list[Cell]:
        """Seed by seed, so that a study that was cut short has whole pairs."""
        return [
            Cell(self.name, variant, seed, options)
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
    variants: dict[str, dict[str, Any]] = {}
    for block in content.get("grid", []):
        for position in block["positions"]:
            for fusion in block["fusions"]:
                variants[f"{position}.{fusion}"] = {"position": position, "position-fusion": fusion}
    variants |= content.get("variants", {})
    reference = str(content["reference"])
    if reference not in variants:
        raise UserError(f"{path}: the reference '{reference}' is none of the variants {', '.join(variants)}")
    options = {name: flags({**content["train"], **changes}) for name, changes in variants.items()}
    return Study(path.stem, str(content["data"]), options, reference, int(content.get("seeds", 10)))


def flags(options: Mapping[str, Any]) -> tuple[str, ...]:
    """Options as a command line has them: `true` is `--name`, `false` `--no-name`, a list several values."""
    line: list[str] = []
    for name, value in options.items():
        if isinstance(value, bool):
            line.append(f"--{name}" if value else f"--no-{name}")
        else:
            line += [f"--{name}", *map(str, value if isinstance(value, list) else [value])]
    return tuple(line)
