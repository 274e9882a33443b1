"""Tables and a plot of an experiment, from the files that its commands wrote.

    python tools/results_table.py runs/quickstart --plot runs/quickstart/accuracy.png

FOLDER holds a folder for each system: `model/` (what docnmt-train wrote), for each test set NAME a folder
`NAME/scores.json` (docnmt-generate --results-path) and for each contrastive set a file `NAME.json` (docnmt-score
--contrastive --json). Prints Markdown: size and cost of training, scores by test set, contrastive accuracy by label.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from docnmt.errors import UserError
from docnmt.training.checkpoint import read_header

METRICS = ("s-BLEU", "d-BLEU", "chrF", "TER")
BEST = Path("model") / "checkpoint_best.safetensors"


@dataclass(frozen=True)
class System:
    """What was measured of one model.

    Attributes:
        minutes: of training and validation.
        speed: target subwords a second, the median over the lines of the log.
        memory: largest resident memory of training in GB.
        scores: by test set.
        contrastive: by contrastive set, in the order in which they were made.
    """

    name: str
    arch: str
    parameters: int
    updates: int
    minutes: float
    speed: float
    memory: float
    scores: dict[str, dict[str, Any]]
    contrastive: dict[str, dict[str, Any]]

    @classmethod
    def read(cls, folder: Path) -> System:
        """From a system's folder.

        Raises:
            OSError: a file is missing.
            UserError: the checkpoint is missing or not one.
            ValueError: a file is not what its name says.
        """
        header, shapes = read_header(folder / BEST)
        parameters = sum(math.prod(shape) for name, shape in shapes.items() if name.startswith("model."))
        log = read_log(folder / "model" / "train.jsonl")
        train = [line for line in log if line["event"] == "train"]
        return cls(
            folder.name, header["arch"], parameters, max(line["update"] for line in log),
            minutes=max(line.get("wall", 0.0) for line in log) / 60,
            speed=median([line["tokens_per_second"] for line in train] or [math.nan]),
            memory=max([line["peak_memory"] for line in train] or [math.nan]) / 1e9,
            scores={path.parent.name: _read(path) for path in sorted(folder.glob("*/scores.json"))},
            contrastive={path.stem: _read(path) for path in sorted(folder.glob("*.json"), key=_made)},
        )  # fmt: skip


def read_log(path: Path) -> list[dict[str, Any]]:
    """The lines of a `train.jsonl`.

    Raises:
        OSError: it cannot be read.
        ValueError: a line is not JSON.
    """
    lines = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            lines.append(json.loads(line))
        except json.JSONDecodeError as error:
            raise ValueError(f"{path}, line {number}: not a line of train.jsonl ({error})") from error
    return lines


def _made(path: Path) -> tuple[int, str]:
    return path.stat().st_mtime_ns, path.name


def _read(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content


def training_table(systems: Sequence[System]) -> Iterator[str]:
    """Size and cost of every system."""
    yield "| system | architecture | parameters | updates | minutes | subwords a second | peak memory |"
    yield "| --- | --- |" + " ---: |" * 5
    for s in systems:
        cost = f"{s.minutes:.1f} | {s.speed:,.0f} | {s.memory:.1f} GB"
        yield f"| {s.name} | `{s.arch}` | {s.parameters:,} | {s.updates:,} | {cost} |"


def score_table(systems: Sequence[System]) -> Iterator[str]:
    """Scores of every test set and system."""
    yield "| test set | system | " + " | ".join(METRICS) + " |"
    yield "| --- | --- |" + " ---: |" * len(METRICS)
    for test in sorted({test for s in systems for test in s.scores}):
        for s in systems:
            if test in s.scores:
                yield f"| {test} | {s.name} | " + " | ".join(f"{s.scores[test][m]:.1f}" for m in METRICS) + " |"


def contrastive_tables(systems: Sequence[System]) -> Iterator[Iterator[str]]:
    """A table a label (distance, phenomenon …) for all contrastive sets with the same values, as often each."""
    sets: dict[str, list[str]] = {}
    for name, report in ((name, report) for s in systems for name, report in s.contrastive.items()):
        same = sets.setdefault(str({label: _questions(values) for label, values in report["by"].items()}), [])
        if name not in same:
            same.append(name)
    for names in sets.values():
        rows = [(name, s.name, s.contrastive[name]) for name in names for s in systems if name in s.contrastive]
        for label in sorted(set(rows[0][2]["by"]) - {"kind"}) or [""]:
            yield _contrastive_table(label, rows)


def _questions(values: dict[str, dict[str, Any]]) -> list[tuple[str, int]]:
    return [(value, cell["groups"]) for value, cell in values.items()]


def _contrastive_table(label: str, rows: Sequence[tuple[str, str, dict[str, Any]]]) -> Iterator[str]:
    """Accuracy in percent, over all and by the values of a label; what guessing gets, and how many questions, first."""
    values = list(rows[0][2]["by"].get(label, {}))
    yield f"| context | system | all | {' | '.join(f'{label} {value}' for value in values)} |".replace("|  |", "|")
    yield "| --- | --- |" + " ---: |" * (1 + len(values))
    for title, number in (("questions", "{groups:,}"), ("chance", "{chance:.1f}")):
        yield f"| | {title} | {_cells(rows[0][2], label, number)} |"
    for context, system, report in rows:
        yield f"| {context} | {system} | {_cells(report, label, '{accuracy:.1f}')} |"


def _cells(report: dict[str, Any], label: str, number: str) -> str:
    return " | ".join(number.format(**cell) for cell in (report, *report["by"].get(label, {}).values()))


def plot(systems: Sequence[System], path: Path) -> None:
    """Contrastive accuracy by distance of the deciding sentence: a colour a system, a line style a context.

    Of more than three systems only with the first, the true context.
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    lines, chance = ("-o", "--", ":", "-.") if len(systems) <= 3 else ("-o",), 0.0
    for number, system in enumerate(systems):
        for line, (context, report) in zip(lines, system.contrastive.items(), strict=False):
            cells = report["by"].get("distance", {})
            accuracies, chance = [cell["accuracy"] for cell in cells.values()], report["chance"]
            label = f"{system.name}, {context}"
            axes.plot([int(d) for d in cells], accuracies, line, color=f"C{number}", label=label)
    axes.axhline(chance, color="grey", linewidth=1, linestyle=":", label=f"chance ({chance:.0f} %)")
    axes.set(xlabel="sentences back to the one that decides", ylabel="right translation preferred (%)", ylim=(0, 103))
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(frameon=False, fontsize="small", loc="outside upper center", ncols=2)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="a folder for each system in it")
    parser.add_argument("--systems", nargs="+", metavar="NAME", help="these, in this order [all, by name]")
    parser.add_argument("--plot", type=Path, metavar="PNG", help="also draw contrastive accuracy by distance")
    options = parser.parse_args(arguments)
    names = options.systems or sorted(path.parent.parent.name for path in options.folder.glob(f"*/{BEST}"))
    if not names:
        parser.error(f"{options.folder}: no system in it (NAME/{BEST}); run the recipe first")
    try:
        systems = [System.read(options.folder / name) for name in names]
    except OSError as error:
        parser.error(f"{error.filename}: {error.strerror}; run the recipe to its end first")
    except (UserError, ValueError) as error:
        parser.error(str(error))
    tables = [training_table(systems)]
    if any(s.scores for s in systems):
        tables.append(score_table(systems))
    tables += contrastive_tables(systems)
    print("\n\n".join("\n".join(table) for table in tables))
    if options.plot:
        plot(systems, options.plot)
        print(f"\nAccuracy by distance: {options.plot}")


if __name__ == "__main__":
    main()
