"""The table of learning.sh: updates that each combination needed, and what each factor is worth.

    python recipes/studies/discourse/learning_time.py runs/learning --most 3000 \\
        --keep recipes/studies/discourse/learning.json
    python recipes/studies/discourse/learning_time.py recipes/studies/discourse/learning.json --most 3000

A factor's effect is the ratio of the updates at its second level to those at its first. Effects and what two factors do
together are fitted to the logarithm of the updates by least squares, with a constant for each seed, so that cells may
have different seeds; intervals are Student's t of the residuals. What did not get there counts as --most, so a ratio
with such a training in it is too near to 1.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterator, Sequence
from itertools import combinations, product
from pathlib import Path

import numpy as np

try:
    from scipy import stats
except ImportError:
    sys.exit("learning_time.py: error: needs scipy; pip install -e '.[evaluation]'")

from docnmt.runtime.system import write_json

sys.path.append(str(Path(__file__).parents[1] / "tools"))
from systems import first_as_good, read_log, validations

#: Cell → seed → update of the first validation that was good enough, or None.
Reached = dict[str, dict[str, int | None]]
#: Trainings from which on the effects of pairs are fitted, too.
MANY = 20
FACTORS = {
    "start": ("equal", "random"),
    "schedule": ("all", "chosen"),
    "scale": ("0.1", "0.7"),
    "form": ("flat", "tree"),
}


def read(folder: Path, nll: float, most: int) -> Reached:
    """Of the logs `SEED/CELL/train.jsonl`; trainings that are not at their end are left out."""
    reached: Reached = {}
    for log in sorted(folder.glob("*/*/train.jsonl")):
        lines = read_log(log)
        update = first_as_good(validations(lines), nll)
        if update is not None or max((line["update"] for line in lines), default=0) >= most:
            reached.setdefault(log.parent.name, {})[log.parent.parent.name] = update
    return reached


def effects(reached: Reached, most: int) -> Iterator[tuple[str, float, float, float]]:
    """(factor or two of them, ratio, low, high): second level against first; of two factors the second's ratio where
    the first has its second level, against where it has its first. Pairs are left out below `MANY` trainings.

    Raises:
        ValueError: there are too few trainings to tell all effects apart.
    """
    runs = [
        (cell.split("-"), seed, update or most) for cell, by_seed in reached.items() for seed, update in by_seed.items()
    ]
    signs = [
        [1.0 if levels[i] == both[1] else -1.0 for i, both in enumerate(FACTORS.values())] for levels, _, _ in runs
    ]
    single, names = np.array(signs), list(FACTORS)
    pairs = list(combinations(range(len(names)), 2))
    if len(runs) < MANY:
        pairs = []
    seeds = np.array([[seed == other for other in sorted({s for _, s, _ in runs})] for _, seed, _ in runs], dtype=float)
    x = np.hstack([single, *(single[:, [i]] * single[:, [j]] for i, j in pairs), seeds])
    y = np.log([update for _, _, update in runs])
    freedom = len(y) - x.shape[1]
    if freedom < 1 or np.linalg.matrix_rank(x) < x.shape[1]:
        raise ValueError(f"{len(y)} trainings are too few for {x.shape[1]} effects and seeds")
    solution = np.linalg.lstsq(x, y, rcond=None)[0]
    variance = ((y - x @ solution) ** 2).sum() / freedom
    errors = np.sqrt(variance * np.diag(np.linalg.inv(x.T @ x)))
    half = float(stats.t.isf(0.025, freedom)) * errors
    labels = [f"{second} : {first}" for first, second in FACTORS.values()]
    labels += [f"{names[i]} × {names[j]}" for i, j in pairs]
    for number, label in enumerate(labels):
        times = 2 if number < len(names) else 4  # from −1 to 1; a difference of differences
        low, high = solution[number] - half[number], solution[number] + half[number]
        yield label, *(math.exp(times * value) for value in (solution[number], low, high))


def tables(reached: Reached, most: int) -> Iterator[str]:
    """Markdown."""
    seeds = sorted({seed for cell in reached.values() for seed in cell}, key=int)
    yield f"| start | schedule | scale | form |{''.join(f' seed {seed} |' for seed in seeds)} geometric mean |"
    yield f"| --- | --- | --- | --- |{' ---: |' * (len(seeds) + 1)}"
    for levels in product(*FACTORS.values()):
        if (cell := reached.get("-".join(levels))) is None:
            continue
        shown = [f"{cell[seed]:,}" if cell.get(seed) else f"> {most:,}" if seed in cell else "–" for seed in seeds]
        mean = math.exp(sum(math.log(update or most) for update in cell.values()) / len(cell))
        least = "≥ " if None in cell.values() else ""
        yield f"| {' | '.join(levels)} | {' | '.join(shown)} | {least}{mean:,.0f} |"
    try:
        rows = list(effects(reached, most))
    except ValueError as error:
        yield f"\nNo effects: {error}."
        return
    yield "\n| | updates | 95 % |\n| --- | ---: | --- |"
    for label, ratio, low, high in rows:
        yield f"| {label} | {ratio:.2f} × | {low:.2f} to {high:.2f} |"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path, nargs="+", metavar="FOLDER", help="of the recipe, or what --keep wrote")
    parser.add_argument("--nll", type=float, default=0.01, help="nats a target subword that are good enough [0.01]")
    parser.add_argument("--most", type=int, required=True, metavar="N", help="updates after which a training gave up")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="write the numbers here, too")
    options = parser.parse_args(arguments)
    reached: Reached = {}
    try:
        for work in options.work:
            kept = not work.is_dir()
            cells = json.loads(work.read_text(encoding="utf-8")) if kept else read(work, options.nll, options.most)
            for cell, seeds in cells.items():
                reached.setdefault(cell, {}).update(seeds)
    except OSError as error:
        parser.error(f"{error.filename}: {error.strerror}")
    if not reached:
        parser.error(f"{options.work[0]}: no training SEED/CELL/train.jsonl that is at its end")
    if options.keep:
        write_json(options.keep, reached)
    print("\n".join(tables(reached, options.most)))


if __name__ == "__main__":
    main()
