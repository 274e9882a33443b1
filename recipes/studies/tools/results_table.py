"""Tables and a plot of an experiment, from the files that its commands wrote.

    python recipes/studies/tools/results_table.py runs/quickstart --plot runs/quickstart/accuracy.png
    python recipes/studies/tools/results_table.py runs/quickstart --keep kept.jsonl \\
        && python recipes/studies/tools/results_table.py kept.jsonl

FOLDER holds a folder for each system: `model/` (what docnmt-train wrote), for each test set NAME a folder
`NAME/scores.json` (docnmt-generate --results-path), in it `against-OTHER.json` where it was compared with another
system (docnmt-score --paired --json), and for each contrastive set a file `NAME.json` (docnmt-score --contrastive
--json). Prints Markdown: size and cost of training, an overview, scores by test set, contrastive accuracy
by label.
`--keep FILE.jsonl` writes what was measured of each system there, a line a system; such a file can stand for FOLDER
when the checkpoints are gone, and systems measured later can be kept beside the others.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from measured import find, keep
from paired_shares import mcnemar, score_interval
from systems import BEST, System

from docnmt.runtime.system import UserError

METRICS = ("s-BLEU", "d-BLEU", "chrF", "TER")


def training_table(systems: Sequence[System], until: float | None) -> Iterator[str]:
    """Size and cost of every system; its validation in nats a target subword: the best, the last, and when it was down
    to `until`. Of a system that started from another one the cost of that comes first."""
    costs = ["parameters", "updates", "minutes", "subwords a second", "peak memory", "valid nll, best", "last"]
    yield from _head(("system", "architecture"), costs if until is None else [*costs, f"≤ {until:g} at update"])
    for s in systems:
        updates, minutes = f"{s.updates:,}", f"{s.minutes:.1f}"
        if s.before[0]:
            updates, minutes = f"{s.before[0]:,} + {updates}", f"{s.before[1]:.1f} + {minutes}"
        cost = f"{minutes} | {s.speed:,.0f} | {s.memory:.1f} GB | {s.valid_nll[0]:.4g} | {s.valid_nll[1]:.4g}"
        if until is not None:
            reached = s.updates_until(until)
            cost += " | –" if reached is None else f" | {reached:,}"
        yield f"| {s.name} | `{s.arch}` | {s.parameters:,} | {updates} | {cost} |"


def score_table(systems: Sequence[System]) -> Iterator[str]:
    """Scores of every test set and system; a dash where there was no reference."""
    yield from _head(("test set", "system"), METRICS)
    for test in test_sets(systems):
        for s in systems:
            if test in s.scores:
                yield f"| {test} | {s.name} | " + " | ".join(_score(s, test, metric) for metric in METRICS) + " |"


def overview(systems: Sequence[System]) -> Iterator[str]:
    """One number for each test set and contrastive set: s-BLEU, or the accuracy over all questions in percent."""
    contexts = dict.fromkeys(name for s in systems for name in s.contrastive)
    yield from _head(("",), [s.name for s in systems])
    for test in test_sets(systems):
        yield f"| {test}, s-BLEU | {' | '.join(_score(s, test, METRICS[0]) for s in systems)} |"
    for name in contexts:
        cells = (f"{s.contrastive[name]['accuracy']:.1f}" if name in s.contrastive else "–" for s in systems)
        yield f"| {name}, right % | {' | '.join(cells)} |"


def paired_table(systems: Sequence[System]) -> Iterator[str]:
    """Differences to another system's translations, with the middle 95 % of the bootstrap over documents."""
    yield from _head(("test set", "system", "against", *METRICS), ())
    for test in test_sets(systems):
        for s in systems:
            for other, comparisons in s.paired.get(test, {}).items():
                by_name = {comparison["metric"]: comparison for comparison in comparisons}
                cells = (_difference(by_name[metric]) if metric in by_name else "–" for metric in METRICS)
                yield f"| {test} | {s.name} | {other} | {' | '.join(cells)} |"


def _head(texts: Sequence[str], numbers: Sequence[str]) -> Iterator[str]:
    """The first two lines of a table: columns of texts, then of numbers."""
    yield "|" + "".join(f" {title} |" if title else " |" for title in (*texts, *numbers))
    yield "|" + " --- |" * len(texts) + " ---: |" * len(numbers)


def _p_value(value: float) -> str:
    return "p < 0.001" if value < 0.001 else f"p {value:.3f}"


def _difference(comparison: dict[str, Any]) -> str:
    bounds = f"{comparison['low']:+.1f} to {comparison['high']:+.1f}"
    return f"{comparison['difference']:+.1f} ({bounds}), {_p_value(comparison['p_value'])}"


def test_sets(systems: Sequence[System]) -> list[str]:
    """The names of all test sets, numbers in them by size."""
    names = {test for s in systems for test in s.scores}
    return sorted(
        names, key=lambda name: [part.zfill(9) if part.isdigit() else part for part in re.split(r"(\d+)", name)]
    )


def _score(system: System, test: str, metric: str) -> str:
    score = system.scores.get(test, {}).get(metric)
    return "–" if score is None else f"{score:.1f}"


def contrastive_tables(systems: Sequence[System]) -> Iterator[Iterator[str]]:
    """A table a label (distance, phenomenon …) for all contrastive sets with the same values, as often each."""
    sets: dict[str, list[tuple[str, str, dict[str, Any]]]] = {}
    names = dict.fromkeys(name for s in systems for name in s.contrastive)
    for name, s in ((name, s) for name in names for s in systems if name in s.contrastive):
        report = s.contrastive[name]
        key = str({label: _questions(values) for label, values in report["by"].items()})
        sets.setdefault(key, []).append((name, s.name, report))
    for rows in sets.values():
        for label in sorted(set(rows[0][2]["by"]) - {"kind"}) or [""]:
            yield _contrastive_table(label, rows)


def _questions(values: dict[str, dict[str, Any]]) -> list[tuple[str, int]]:
    return [(value, cell["groups"]) for value, cell in values.items()]


def _contrastive_table(label: str, rows: Sequence[tuple[str, str, dict[str, Any]]]) -> Iterator[str]:
    """Accuracy in percent, over all and by the values of a label; what guessing gets, and how many questions, first."""
    values = list(rows[0][2]["by"].get(label, {}))
    yield from _head(("context", "system"), ["all", *(f"{label} {value}" for value in values)])
    for title, number in (("questions", "{groups:,}"), ("chance", "{chance:.1f}")):
        yield f"| | {title} | {_cells(rows[0][2], label, number)} |"
    for context, system, report in rows:
        yield f"| {context} | {system} | {_cells(report, label, '{accuracy:.1f}')} |"


def _cells(report: dict[str, Any], label: str, number: str) -> str:
    return " | ".join(number.format(**cell) for cell in (report, *report["by"].get(label, {}).values()))


def context_table(systems: Sequence[System]) -> Iterator[str]:
    """What the true context is worth against others: points, Tango's 95 % score interval, McNemar's exact test."""
    yield from _head(("context", "system"), ["right only in the true one", "only in this one", "true minus this"])
    names = dict.fromkeys(name for s in systems for name in s.contrastive)
    for name, s in ((name, s) for name in names for s in systems):
        report = s.contrastive.get(name, {})
        if "against_true" in report:
            gained, lost = report["against_true"]
            share = 100 * (gained - lost) / report["groups"]
            low, high = score_interval(gained, lost, report["groups"])
            yield (
                f"| {name} | {s.name} | {gained:,} | {lost:,} | {share:+.1f} "
                f"({100 * low:+.1f} to {100 * high:+.1f}), {_p_value(mcnemar(gained, lost))} |"
            )


def conclusion(systems: Sequence[System]) -> str:
    """What the contrastive sets say of each system, in a sentence; empty where there is no context to compare with."""
    parts, questions, chance = [], 0, 0.0
    for system in systems:
        own = system.contrastive.get("true-context")
        others = {name: report for name, report in system.contrastive.items() if "against_true" in report}
        if own is None or not others:
            continue
        name, other = "foreign-context", others.get("foreign-context")
        if other is None:  # its own context in another order may hold all that is needed
            name, other = next(iter(others.items()))
        gained, lost = other["against_true"]
        used = score_interval(gained, lost, other["groups"])[0] > 0
        parts.append(
            f"{system.name} gets {own['accuracy']:.1f} % with the true context and {other['accuracy']:.1f} % with "
            f"another one ({name}), so it {'uses' if used else 'does not use'} what it reads"
        )
        questions, chance = own["groups"], own["chance"]
    if not parts:
        return ""
    return f"In short: of {questions:,} questions, of which guessing gets {chance:.1f} % right, {'; '.join(parts)}."


#: How the contexts of a system are drawn, one over the other: line, its width, and what marks its points. Each leaves
#: those under it to be seen.
_STYLES = (("-", 6.0, "o"), ("--", 2.5, "s"), (":", 1.5, "^"), ("-.", 1.0, "v"))


def plot(systems: Sequence[System], path: Path) -> None:
    """Contrastive accuracy by distance of the deciding sentence: a colour a system, a line style a context.

    Of more than three systems only with the true context. Lines that are one stay apart by their widths.
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    colors = plt.colormaps["tab10" if len(systems) <= 10 else "tab20"].colors

    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    styles, chance = _STYLES if len(systems) <= 3 else _STYLES[:1], 0.0
    for number, system in enumerate(systems):
        contexts = sorted(system.contrastive, key=lambda name: name != "true-context")  # else as they were made
        for (line, width, marker), context in zip(styles, contexts, strict=False):
            report = system.contrastive[context]
            cells = report["by"].get("distance", {})
            accuracies, chance = [cell["accuracy"] for cell in cells.values()], report["chance"]
            numbers = all(map(str.isdigit, cells))  # ContraPro's end in ">3"
            distances = [int(d) for d in cells] if numbers else list(cells)
            first = line == "-"
            axes.plot(
                distances, accuracies, line, marker=marker, linewidth=width if len(styles) > 1 else 1.5,
                markersize=9 if first and len(styles) > 1 else 5, color=colors[number % len(colors)],
                alpha=0.4 if first and len(styles) > 1 else 1, markerfacecolor=None if first else "white",
                label=f"{system.name}, {context}",
            )  # fmt: skip
    axes.axhline(chance, color="black", linewidth=0.8, zorder=10, label=f"chance ({chance:.0f} %)")
    axes.set(xlabel="sentences back to the one that decides", ylabel="right translation preferred (%)", ylim=(0, 103))
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(frameon=False, fontsize="small", loc="outside upper center", ncols=2)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="a folder for each system in it")
    parser.add_argument("--systems", nargs="+", metavar="NAME", help="these, in this order [all, by name]")
    parser.add_argument("--until", type=float, metavar="NLL", help="also the update whose validation was down to this")
    parser.add_argument("--plot", type=Path, metavar="PNG", help="also draw contrastive accuracy by distance")
    parser.add_argument("--keep", type=Path, metavar="FILE.jsonl", help="also write what was measured there")
    options = parser.parse_args(arguments)
    trained = [path.parent.parent.name for path in find(options.folder, f"*/{BEST}")]
    kept = [path.stem for path in find(options.folder, "*.json")]
    names = options.systems or sorted(trained or kept)
    if not names:
        parser.error(f"{options.folder}: no system in it (NAME/{BEST}); run the recipe first")
    try:
        read = System.read if trained else lambda path: System.kept(path.with_name(f"{path.name}.json"))
        systems = [read(options.folder / name) for name in names]
    except OSError as error:
        parser.error(f"{error.filename}: {error.strerror}; run the recipe to its end first")
    except (UserError, ValueError) as error:
        parser.error(str(error))
    if options.keep:
        keep(options.keep, {f"{system.name}.json": asdict(system) for system in systems})
    tables = [training_table(systems, options.until)]
    if judged := [s for s in systems if s.scores or s.contrastive]:
        tables.append(overview(judged))
    if any(s.scores for s in systems):
        tables.append(score_table(systems))
    if any(s.paired for s in systems):
        tables.append(paired_table(systems))
    tables += contrastive_tables(systems)
    if any("against_true" in report for s in systems for report in s.contrastive.values()):
        tables.append(context_table(systems))
    print("\n\n".join("\n".join(table) for table in tables))
    if options.plot:
        plot(systems, options.plot)
        print(f"\nAccuracy by distance: {options.plot}")
    if said := conclusion(systems):
        print(f"\n{said}")


if __name__ == "__main__":
    main()
