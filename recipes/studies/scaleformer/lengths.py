"""The table of recipes/studies/scaleformer/run.sh: what a model does at 1, 2 and 4 times the length of its training.

    python recipes/studies/scaleformer/lengths.py runs/scaleformer \\
        --keep recipes/studies/scaleformer/scaleformer.json --plot lengths.png
    python recipes/studies/scaleformer/lengths.py recipes/studies/scaleformer/scaleformer.json
    python recipes/studies/scaleformer/lengths.py recipes/studies/scaleformer/fresh.json --minus r-16

Reads SEED/SYSTEM/positions.json, which loss_by_position.py wrote. Of each length the share of subwords that the model
finds most likely, and the nats a subword at all places and in the first bin of places, which training had too; means
over seeds, with the lowest and highest share.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import mean
from typing import TypedDict

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
from measured import over_seeds

from docnmt.runtime.system import write_json

SPLITS = {"test": "L", "test1": "2 L", "test2": "4 L"}


class Bin(TypedDict):
    """Places from `first` on: how many subwords, nats a subword, share of the most likely ones."""

    first: int
    subwords: float
    nats: float
    right: float


#: System → seed → split → bins.
Measured = dict[str, dict[str, dict[str, list[Bin]]]]


def read(folder: Path) -> Measured:
    """Of all systems whose measurement is there."""
    measured: Measured = {}
    for path in sorted(folder.glob("*/*/positions.json")):
        splits = json.loads(path.read_text(encoding="utf-8"))["splits"]
        measured.setdefault(path.parent.name, {})[path.parent.parent.name] = splits
    return measured


def average(bins: Sequence[Bin]) -> tuple[float, float]:
    """Nats and share over all subwords of the bins."""
    subwords = sum(span["subwords"] for span in bins)
    nats, right = (
        sum(span["subwords"] * value for span, value in zip(bins, values, strict=True)) / subwords
        for values in zip(*((span["nats"], span["right"]) for span in bins), strict=True)
    )
    return nats, right


def table(measured: Measured) -> Iterator[str]:
    """Markdown, a row a system."""
    heads = [f"{length}: right, %" for length in SPLITS.values()] + [f"{length}: nats" for length in SPLITS.values()]
    places = {span["first"] for seeds in measured.values() for bins in seeds.values() for span in bins["test2"]} - {0}
    heads += [f"{length}: nats, first {min(places)} places" for length in list(SPLITS.values())[1:]]
    yield f"| | seeds | {' | '.join(heads)} |"
    yield f"| --- | ---: |{' ---: |' * len(heads)}"
    for system, seeds in measured.items():
        right = {split: [100 * average(splits[split])[1] for splits in seeds.values()] for split in SPLITS}
        nats = {split: mean(average(splits[split])[0] for splits in seeds.values()) for split in SPLITS}
        trained = {s: mean(splits[s][0]["nats"] for splits in seeds.values()) for s in list(SPLITS)[1:]}
        cells = [spread(r, 1) for r in right.values()]
        cells += [f"{value:.4f}" for value in (*nats.values(), *trained.values())]
        yield f"| {system} | {len(seeds)} | {' | '.join(cells)} |"


def differences(measured: Measured, other: str) -> Iterator[str]:
    """Markdown: each system minus `other`, right subwords and nats, over the seeds of both, with 95 % intervals."""
    heads = [*SPLITS.values(), *(f"{length}, by seed" for length in SPLITS.values())]
    yield f"| − {other} | seeds | {' | '.join(heads)} |"
    yield f"| --- | ---: |{' --- |' * len(heads)}"
    for system, seeds in measured.items():
        both = [(splits, measured[other][seed]) for seed, splits in seeds.items() if seed in measured[other]]
        if system == other or not both:
            continue
        for name, part, scale, digits in (("right, points", 1, 100, 1), ("nats", 0, 1, 2)):
            more = [[scale * (average(one[s])[part] - average(two[s])[part]) for one, two in both] for s in SPLITS]
            by_seed = [", ".join(f"{value:+.{digits}f}" for value in values).replace("-", "−") for values in more]
            cells = [*(over_seeds(values, digits) for values in more), *by_seed]
            yield f"| {system}: {name} | {len(both)} | {' | '.join(cells)} |"


def spread(values: Sequence[float], digits: int) -> str:
    """One number; the mean, the smallest and the largest of several; a dash for none."""
    if len(values) < 2:
        return f"{values[0]:.{digits}f}" if values else "–"
    return f"{mean(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def draw(measured: Measured, path: Path) -> None:
    """Nats over places in texts of four times the training length, means over seeds."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7.5, 4.2), layout="constrained")
    split = list(SPLITS)[-1]
    for number, (system, seeds) in enumerate(measured.items()):
        bins = [[span for span in splits[split] if span["subwords"] > 1000] for splits in seeds.values()]
        first = [span["first"] for span in bins[0]]
        curve = [mean(span["nats"] for span in row) for row in zip(*bins, strict=True)]
        axes.plot(first, curve, marker="o", label=system, linestyle=("-", "--", ":")[number // 10])
    axes.set(xlabel="place in the document, from", ylabel="nats a subword", ylim=(0, None))
    axes.legend(frameon=False, fontsize=8, ncols=2)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=120)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path, nargs="+", metavar="FOLDER", help="of the recipe, or what --keep wrote")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="write the numbers here, too")
    parser.add_argument("--plot", type=Path, metavar="PNG", help="draw nats by place at the longest length")
    parser.add_argument("--minus", metavar="SYSTEM", help="also print what the others have more than this one, by seed")
    options = parser.parse_args(arguments)
    measured: Measured = {}
    try:
        for work in options.work:
            systems = read(work) if work.is_dir() else json.loads(work.read_text(encoding="utf-8"))
            for system, seeds in systems.items():
                measured.setdefault(system, {}).update(seeds)
    except OSError as error:
        parser.error(f"{error.filename}: {error.strerror}")
    if not measured:
        parser.error(f"{options.work[0]}: no SEED/SYSTEM/positions.json")
    if options.keep:
        write_json(options.keep, measured)
    if options.plot:
        draw(measured, options.plot)
    print("\n".join(table(measured)))
    if options.minus is not None:
        if options.minus not in measured:
            parser.error(f"--minus: no system '{options.minus}'; there are {', '.join(measured)}")
        print("\n" + "\n".join(differences(measured, options.minus)))


if __name__ == "__main__":
    main()
