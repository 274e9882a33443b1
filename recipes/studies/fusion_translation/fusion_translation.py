"""The table of recipes/studies/fusion_translation/run.sh: fusion operators in translation, over paired seeds.

    python recipes/studies/fusion_translation/fusion_translation.py runs/fusion-translation \
        --keep recipes/studies/fusion_translation/fusion-translation.json
    python recipes/studies/fusion_translation/fusion_translation.py \\
        recipes/studies/fusion_translation/fusion-translation.json \
        more/runs/fusion-translation
    python recipes/studies/fusion_translation/fusion_translation.py --best runs/fusion-translation/choice/sinusoidal.add

Differences are to addition (`--against`) with the same positions, or with `--family` to the same operator with those
positions, seed by seed: in nats a subword of the dev part (the best validation; less is better), by which rate, scale
and checkpoint were chosen, too, and in BLEU of the test part's sentences. Intervals are Student's t; p-values are of
the paired t-test, by Holm over the nats and over the BLEU of the table. One seed has neither.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from docnmt.runtime.system import write_json

sys.path.append(str(Path(__file__).parents[1] / "tools"))
from systems import System, read_log, validations

sys.path.append(str(Path(__file__).parents[1] / "fusion_matters"))
from paired import PairedComparison, compare, holm

#: Variant → seed → its numbers.
Cells = dict[str, dict[str, dict[str, float]]]


def best(folder: Path) -> str:
    """Of the trainings in a folder the name of the one whose best validation is lowest.

    Raises:
        ValueError: there is none.
    """
    lowest = {
        log.parent.parent.name: min(nll for _, nll in judged)
        for log in folder.glob("*/model/train.jsonl")
        if (judged := validations(read_log(log)))
    }
    if not lowest:
        raise ValueError(f"{folder}: no training with a validation; expected folders RATE.SCALE/model")
    return min(lowest, key=lambda name: lowest[name])


def read(work: Path) -> tuple[Cells, dict[str, str]]:
    """The cells SEED/VARIANT that were translated, and each variant's chosen rate and scale."""
    cells: Cells = {}
    for scores in sorted(work.glob("[0-9]*/*/test/scores.json")):
        system = System.read(scores.parent.parent)
        cells.setdefault(system.name, {})[scores.parent.parent.parent.name] = {
            "parameters": system.parameters,
            "nats": system.valid_nll[0],
            "bleu": system.scores["test"]["s-BLEU"],
        }
    return cells, {name: best(work / "choice" / name) for name in cells}


def kept(file: Path) -> tuple[Cells, dict[str, str]]:
    """The same from a file that --keep wrote."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        return content["cells"], content["chosen"]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{file}: not what --keep writes: {error}") from error


def merge(sources: Sequence[Path]) -> tuple[Cells, dict[str, str]]:
    """The cells and settings of folders of the recipe and of files that --keep wrote, together.

    Raises:
        ValueError: two of them have the same seed of a variant, or other settings for it.
    """
    cells: Cells = {}
    chosen: dict[str, str] = {}
    for source in sources:
        more, settings = read(source) if source.is_dir() else kept(source)
        for name, seeds in more.items():
            if chosen.setdefault(name, settings[name]) != settings[name]:
                raise ValueError(f"{source}: {name} has {settings[name]}, and {chosen[name]} in another")
            if twice := cells.setdefault(name, {}).keys() & seeds:
                raise ValueError(f"{source}: {name} has seed {min(twice)}, as another has")
            cells[name].update(seeds)
    return cells, chosen


def differences(cells: Cells, what: str, against: str, family: str | None) -> dict[str, tuple[PairedComparison, float]]:
    """Variant → its difference, over the seeds of both, to that with the same positions and the operator `against`, or
    to the same operator with the positions `family`; and p by Holm."""
    compared = {}
    for name, seeds in cells.items():
        positions, operator = name.split(".")
        other = f"{positions}.{against}" if family is None else f"{family}.{operator}"
        reference = cells.get(other, {})
        both = [seed for seed in seeds if seed in reference]
        if name != other and both:
            compared[name] = compare(*(np.array([of[seed][what] for seed in both]) for of in (seeds, reference)))
    adjusted = holm(np.array([c.t_p for c in compared.values()]))
    return {name: (c, float(p)) for (name, c), p in zip(compared.items(), adjusted, strict=True)}


def shown(difference: tuple[PairedComparison, float] | None) -> str:
    """Two cells: the difference with its interval, and p."""
    if difference is None:
        return " | "
    c, p = difference
    interval = "" if np.isnan(c.sd) else f" ({c.interval[0]:+.3f} to {c.interval[1]:+.3f})"
    return f"{c.mean:+.3f}{interval} | {'' if np.isnan(p) else f'{p:.3f}'}"


def table(cells: Cells, chosen: dict[str, str], against: str = "add", family: str | None = None) -> Iterator[str]:
    """Markdown, a row a variant."""
    yield "| | rate, scale | parameters | seeds | nats | Δ nats (95 %) | p | s-BLEU | Δ s-BLEU (95 %) | p |"
    yield "| --- | --- | ---: | ---: | ---: | --- | ---: | ---: | --- | ---: |"
    nats, bleu = (differences(cells, what, against, family) for what in ("nats", "bleu"))
    for name, seeds in cells.items():
        means = {what: np.mean([cell[what] for cell in seeds.values()]) for what in ("nats", "bleu")}
        rate, scale = chosen[name].split(".")
        first = next(iter(seeds.values()))
        yield (
            f"| {name} | {rate}, {'√d' if scale == 'scale' else '1'} | {first['parameters']:,} | {len(seeds)} "
            f"| {means['nats']:.3f} | {shown(nats.get(name))} | {means['bleu']:.2f} | {shown(bleu.get(name))} |"
        )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "sources", type=Path, nargs="+", metavar="WORK", help="folders of the recipe, and what --keep wrote: one table"
    )
    parser.add_argument("--best", action="store_true", help="print which training in each folder is best, and end")
    parser.add_argument("--against", default="add", metavar="OPERATOR", help="what all are compared with [add]")
    parser.add_argument(
        "--family", metavar="POSITIONS", help="compare positions, not operators: with these, as sinusoidal"
    )
    parser.add_argument("--keep", type=Path, metavar="FILE", help="write the cells there, for a later table")
    options = parser.parse_args(arguments)
    try:
        if options.best:
            print(*map(best, options.sources), sep="\n")
            return
        cells, chosen = merge(options.sources)
    except OSError as error:
        parser.error(f"{error.filename}: {error.strerror}")
    except ValueError as error:
        parser.error(str(error))
    print("\n".join(table(cells, chosen, options.against, options.family)))
    if options.keep:
        write_json(options.keep, {"cells": cells, "chosen": chosen})


if __name__ == "__main__":
    main()
