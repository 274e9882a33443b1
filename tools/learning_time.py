"""The table of recipes/discourse/learning.sh: updates that each combination needed, and what each factor is worth.

    python tools/learning_time.py runs/learning --most 4000 --keep docs/measured/learning.json
    python tools/learning_time.py docs/measured/learning.json --most 4000

A factor's effect is the ratio of the updates at its second level to those at its first, the geometric mean over all
combinations of the others, with Student's t interval over seeds. What did not get there counts as --most, so a ratio
with such a training in it is too near to 1.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path

from scipy import stats
from systems import read_log

from docnmt.files import write_json

#: Cell → seed → update of the first validation that was good enough, or None.
Reached = dict[str, dict[str, int | None]]
FACTORS = {
    "start": ("equal", "random"),
    "schedule": ("all", "chosen"),
    "scale": ("0.1", "0.7"),
    "form": ("flat", "tree"),
}


def read(folder: Path, nll: float, most: int) -> Reached:
    """Of the logs `SEED/CELL/train.jsonl`; trainings that are not at their end are left out."""
    found: Reached = {}
    for log in sorted(folder.glob("*/*/train.jsonl")):
        lines = read_log(log)
        good = (line["update"] for line in lines if line["event"] == "valid" and line["nll"] <= nll)
        update = next(good, None)
        if update is not None or max(line["update"] for line in lines) >= most:
            found.setdefault(log.parent.name, {})[log.parent.parent.name] = update
    return found


def effects(reached: Reached, most: int) -> Iterator[tuple[str, str, list[float]]]:
    """(factor, the form or "both", the log ratio of each seed that has all cells)."""
    for factor, form in product(FACTORS, ("both", *FACTORS["form"])):
        if factor == "form" and form != "both":
            continue
        others = {name: levels for name, levels in FACTORS.items() if name != factor}
        if form != "both":
            others["form"] = (form,)
        pairs = [
            tuple("-".join({**dict(zip(others, rest, strict=True)), factor: level}[name] for name in FACTORS)
                  for level in FACTORS[factor])
            for rest in product(*others.values())
        ]  # fmt: skip
        cells = [reached.get(cell, {}) for pair in pairs for cell in pair]
        seeds = set.intersection(*(set(cell) for cell in cells))
        ratios = []
        for seed in sorted(seeds):
            logs = [math.log((reached[b][seed] or most) / (reached[a][seed] or most)) for a, b in pairs]
            ratios.append(sum(logs) / len(logs))
        yield factor, form, ratios


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
    yield ""
    yield "| factor | form | updates | 95 % | seeds |"
    yield "| --- | --- | ---: | --- | ---: |"
    for factor, form, ratios in effects(reached, most):
        if not ratios:
            continue
        mean, interval = sum(ratios) / len(ratios), "–"
        if len(ratios) > 1:
            half = float(stats.t.isf(0.025, len(ratios) - 1) * stats.sem(ratios))
            interval = f"{math.exp(mean - half):.2f} to {math.exp(mean + half):.2f}"
        first, second = FACTORS[factor]
        yield f"| {second} : {first} | {form} | {math.exp(mean):.2f} × | {interval} | {len(ratios)} |"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path, metavar="FOLDER", help="the recipe's folder, or what --keep wrote")
    parser.add_argument("--nll", type=float, default=0.01, help="nats a target subword that are good enough [0.01]")
    parser.add_argument("--most", type=int, required=True, metavar="N", help="updates after which a training gave up")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="write the numbers here, too")
    options = parser.parse_args(arguments)
    if options.work.is_dir():
        reached = read(options.work, options.nll, options.most)
    else:
        reached = json.loads(options.work.read_text(encoding="utf-8"))
    if options.keep:
        write_json(options.keep, reached)
    print("\n".join(tables(reached, options.most)))


if __name__ == "__main__":
    main()
