"""Differences between encoders over seeds, with 95 % intervals: do types, width, gates and training matter?

    python recipes/studies/inferlite/differences.py --results inferlite/results > differences.md

What is not trained has one file, which stands for every seed. A difference is of the mean over the tasks that both have
in every seed, seed by seed. The interval is Student's t over seeds: what another training would give on the same tasks.
p is of the paired t-test, by Holm over the table.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean

import numpy as np
from rows import CLASSIFICATION, SIMILARITY, Tasks, group, merit, read_results, split_seed

from docnmt.cli import command as cli

sys.path.append(str(Path(__file__).parents[1] / "fusion_matters"))
from paired import compare, holm

PROBING = ("Length", "WordContent", "BigramShift")
SECTIONS = {"classification": CLASSIFICATION, "similarity": SIMILARITY, "probing": PROBING}


def by_seed(rows: Mapping[str, Tasks]) -> dict[str, dict[int, Tasks]]:
    """Encoder → seed → tasks."""
    by_encoder: dict[str, dict[int, Tasks]] = {}
    for name, tasks in rows.items():
        encoder, seed = split_seed(name)
        by_encoder.setdefault(encoder, {})[seed] = tasks
    return by_encoder


def pairs(names: Sequence[str]) -> list[tuple[str, str]]:
    """What is compared: with the bag of words and the untrained encoder, width 3 with 1, more types with GloVe alone,
    an ablation or code with the whole encoder."""
    wanted = []
    for name in names:
        parts = name.split(",")
        if group(name) == 2:
            wanted += [(name, f"bow,{parts[0]}"), (name, f"untrained,{parts[1]}")]
            wanted += [(name, f"{parts[0]},1")] if parts[1] == "3" else []
            wanted += [(name, f"glove,{parts[1]}")] if "+" in parts[0] else []
        elif group(name) >= 3:
            wanted.append((name, ",".join(parts[:2])))
    return [(one, other) for one, other in wanted if other in names]


def differences(
    one: Mapping[int, Tasks], other: Mapping[int, Tasks], tasks: Sequence[str], *, trained: bool = True
) -> np.ndarray:
    """(seeds,) of the mean over the tasks that all have; an `other` that is not `trained` serves every seed."""
    seeds = [seed for seed in one if seed in other or not trained]
    both = [(one[seed], other.get(seed, next(iter(other.values())))) for seed in seeds]
    known = [task for task in tasks if all(task in mine and task in theirs for mine, theirs in both)]
    if not known:
        return np.array([])
    return np.array([mean(merit(mine[t]) - merit(theirs[t]) for t in known) for mine, theirs in both])


def table(by_encoder: Mapping[str, Mapping[int, Tasks]], tasks: Sequence[str]) -> list[str]:
    """A row a pair; empty without one that has these tasks."""
    rows = [
        (one, other, differences(by_encoder[one], by_encoder[other], tasks, trained=group(other) > 0))
        for one, other in pairs(list(by_encoder))
    ]
    tested = [(one, other, compare(d, np.zeros_like(d))) for one, other, d in rows if len(d)]
    if not tested:
        return []
    adjusted = holm(np.array([c.t_p for _, _, c in tested]))
    lines = ["| difference | seeds | points | 95 % | p, Holm |", "|---|---:|---:|---:|---:|"]
    for (one, other, c), p in zip(tested, adjusted, strict=True):
        bounds = "" if np.isnan(c.sd) else f"{c.interval[0]:+.2f} to {c.interval[1]:+.2f}"
        lines.append(f"| {one} − {other} | {c.n} | {c.mean:+.2f} | {bounds} | {'' if np.isnan(p) else f'{p:.3f}'} |")
    return lines


def body(argv: list[str]) -> None:
    """Parse, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--results", type=Path, required=True, help="folder of docnmt-senteval's JSON files")
    options = parser.parse_args(argv)
    by_encoder = by_seed(read_results(options.results)[0])
    for title, tasks in SECTIONS.items():
        if lines := table(by_encoder, tasks):
            print("\n".join([f"### Differences in {title}", "", *lines, ""]))


if __name__ == "__main__":
    sys.exit(cli.run("differences.py", body))
