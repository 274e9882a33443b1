"""What docnmt-senteval measured of InferLite's encoders, by name and seed.

`NAME.json` is seed 1, `NAME@2.json` seed 2 and so on, as run.sh names them; tables.py says what
a NAME is.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path
from statistics import mean
from typing import Any

sys.path.append(str(Path(__file__).parents[1] / "tools"))
from measured import find, read_json

CLASSIFICATION = ("MR", "CR", "SUBJ", "MPQA", "SST2", "TREC", "MRPC", "SICK-E")
SIMILARITY = ("SICK-R", "STS-B", "STS12", "STS13", "STS14", "STS15", "STS16")
UNTRAINED = ("bow", "sif", "borep-mean", "borep-max", "untrained")

#: Shares of the commonest test class, for results that were kept before they held their own.
MAJORITY = {"CR": 63.76, "MRPC": 66.49, "SICK-E": 56.69}
Tasks = Mapping[str, Mapping[str, Any]]


def group(name: str) -> int:
    """0 not trained, 1 another encoder, 2 inferlite, 3 an ablation of it, 4 codes."""
    parts = name.split(",")
    if parts[0] in UNTRAINED and len(parts) > 1:
        return 0
    if len(parts) == 1:
        return 1
    return 4 if any(part.startswith("hash") for part in parts) else min(len(parts), 3)


def order(name: str) -> tuple[Any, ...]:
    """By group, number of embedding types, then name; 256 bits before 1,024."""
    pieces = [(int(piece), "") if piece.isdigit() else (-1, piece) for piece in re.split(r"(\d+)", name)]
    return (group(name), name.count("+"), pieces)


def merit(result: Mapping[str, Any]) -> float:
    """The figure that systems are compared by: accuracy, or Pearson's correlation times 100."""
    return result["accuracy"] if "accuracy" in result else 100 * result["pearson"]


def split_seed(name: str) -> tuple[str, int]:
    """A run's name without its seed, and the seed."""
    encoder, _, seed = name.partition("@")
    return encoder, int(seed or 1)


def over_seeds(rows: Mapping[str, Tasks]) -> dict[str, Tasks]:
    """`NAME`, `NAME@2` … as one: every number's mean, of the tasks that all have."""
    several: dict[str, list[Tasks]] = {}
    for name, tasks in rows.items():
        several.setdefault(split_seed(name)[0], []).append(tasks)
    return {
        name: {
            task: {
                key: mean(seed[task][key] for seed in seeds) if isinstance(value, (int, float)) else value
                for key, value in row.items()
            }
            for task, row in seeds[0].items()
            if all(task in seed for seed in seeds)
        }
        for name, seeds in several.items()
    }


def read_results(folder: Path) -> tuple[dict[str, Tasks], str]:
    """The tasks of every results file, and the protocol that they share."""
    paths = sorted(find(folder, "*.json"), key=lambda path: order(path.stem))
    stored = {path.stem: read_json(path) for path in paths}
    protocols = {content["settings"]["protocol"] for content in stored.values()}
    if len(protocols) != 1:
        raise SystemExit(f"{folder}: expected results of one protocol, got {', '.join(sorted(protocols)) or 'none'}")
    rows = {
        name: {
            task: {"majority": MAJORITY[task], **row} if task in MAJORITY else row
            for task, row in content["tasks"].items()
        }
        for name, content in stored.items()
    }
    return rows, protocols.pop()
