"""Figure 2 and tables 2 and 3 of Kiros and Chan, "InferLite", from runs and evaluations, beside the published rows.

    python recipes/studies/inferlite/tables.py --results results --runs runs --figure figure2.png > tables.md

Names say what a run is, as run.sh gives them: `TYPES,WIDTH` an inferlite, with a third part an
ablation or its codes; `bow,TYPES`, `sif,TYPES`, `borep-max,TYPES` and `untrained,WIDTH` what was not trained; anything
else another encoder: of the vectors `glove`, or `translation-summaries`. `NAME@2` is NAME with another seed: the tables
have means over seeds, differences.py their intervals.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from rows import CLASSIFICATION, SIMILARITY, Tasks, group, merit, order, over_seeds, read_results, split_seed

sys.path.append(str(Path(__file__).parents[1] / "tools"))
from measured import find, read_text

#: Published rows (Kiros & Chan 2018, tables 2 and 3): 942k training pairs, 300-d GloVe.
PUBLISHED = {
    "published glove BOW": "78.7 78.5 91.6 87.6 79.8 83.6 72.1/80.9 78.6 | 80.0 – 52.5 42.3 54.2 52.7 –",
    "published glove + WR (SIF)": "– – – – – – – 84.6 | 86.0 – 56.2 56.6 68.5 71.1 –",
    "published InferSent": "81.1 86.3 92.4 90.2 84.6 88.2 76.2/83.1 86.3 | 88.4 75.8/75.5 59.2 58.9 69.6 71.3 71.4",
    "published glove,1": "79.6 82.2 92.0 89.5 83.0 88.2 75.5/82.7 85.9 | 88.3 78.1/78.0 62.4 60.4 71.6 74.6 70.3",
    "published glove,3": "80.9 84.1 92.4 89.6 85.8 90.0 76.5/83.4 85.5 | 88.1 78.4/78.3 61.9 61.3 71.7 74.5 71.2",
    "published glove+news,1": "79.0 82.7 92.1 89.8 83.7 89.2 76.9/83.7 86.7 | 88.5 78.0/78.1 63.0 58.8 71.2 74.2 70.2",
    "published glove+news,3": "80.4 84.8 91.9 89.7 86.3 89.8 77.0/83.9 86.6 | 88.5 77.5/77.4 61.7 59.5 71.0 73.9 71.6",
}

WITHOUT_MSRVID = "* without MSRvid, which is not free to pass on: not comparable with the published column"
NOTHING_LEARNED = "† the commonest class's share of the test sentences, which a classifier that learned nothing gets"


def bag(name: str) -> str:
    """The bag of words of the same vectors."""
    return f"bow,{name.split(',')[0] if group(name) >= 2 else 'glove'}"


def accuracy(result: Mapping[str, Any]) -> str:
    """`75.5/82.7` for accuracy and F1; `66.5†/79.9` where the accuracy is the commonest class's share."""
    # Cross-validated accuracies are means of rounded ones, so the last place may differ by one.
    nothing = abs(result["accuracy"] - result.get("majority", 0)) < 0.015
    behind = f"/{result['f1']:.1f}" if "f1" in result else ""
    return f"{result['accuracy']:.1f}{'†' if nothing else ''}{behind}"


def correlation(result: Mapping[str, Any]) -> str:
    """Pearson, and Spearman behind it; of STS12-16 the unweighted mean of the subsets."""
    return f"{100 * result['pearson']:.1f}/{100 * result['spearman']:.1f}"


def table(rows: Mapping[str, Tasks], names: Sequence[str], cell: Callable[[Any], str], part: int) -> list[str]:
    """A Markdown table of tasks by systems, the published rows first; the mean where no task is missing."""
    partial = any("subsets" in t.get("STS12", {}) and "MSRvid" not in t["STS12"]["subsets"] for t in rows.values())
    heads = [f"{name}*" if name == "STS12" and partial else name for name in names]
    lines = [f"| | width | {' | '.join(heads)} | mean |", f"|---|{'---:|' * (len(names) + 2)}"]
    for name, row in PUBLISHED.items():
        lines.append(f"| {name} | {300 if 'WR' in name or 'BOW' in name else '4,096'} | "
                     f"{' | '.join(row.split(' | ')[part].split())} | |")  # fmt: skip
    for system, tasks in rows.items():
        cells = [cell(tasks[name]) if name in tasks else "" for name in names]
        average = f"{mean(merit(tasks[name]) for name in names):.1f}" if all(cells) else ""
        width = max(int(task["dimensions"]) for task in tasks.values())
        lines.append(f"| {system} | {width:,} | {' | '.join(cells)} | {average} |")
    return lines


def wins(rows: Mapping[str, Tasks]) -> list[str]:
    """On how many tasks each trained encoder is better than what it has to beat."""

    def count(system: str, other: str) -> str:
        mine, theirs = rows[system], rows.get(other, {})
        both = [name for name in (*CLASSIFICATION, *SIMILARITY) if name in mine and name in theirs]
        return f"{sum(merit(mine[name]) > merit(theirs[name]) for name in both)} of {len(both)}" if both else ""

    others = [name for name in ("untrained,1", "untrained,3", "bilstm-max", "source2token") if name in rows]
    lines = [f"| better than | {' | '.join(['bow of its vectors', *others])} |", f"|---|{'---:|' * (len(others) + 1)}"]
    for system in rows:
        if group(system) > 0:
            cells = ["" if other == system else count(system, other) for other in (bag(system), *others)]
            lines.append(f"| {system} | {' | '.join(cells)} |")
    return lines


def times(rows: Mapping[str, Tasks]) -> list[str]:
    """The time of each evaluation over all its tasks, and the longest of them."""
    lines = ["| | tasks | encoding, s | classifiers, s | longest task |", "|---|---:|---:|---:|---|"]
    for name, tasks in rows.items():
        encoding, rest = (sum(task[part] for task in tasks.values()) for part in ("encoding s", "classifier s"))
        longest = max(tasks, key=lambda task: tasks[task]["classifier s"])
        seconds = tasks[longest]["classifier s"]
        lines.append(f"| {name} | {len(tasks)} | {encoding:,.0f} | {rest:,.0f} | {longest}, {seconds:,.0f} s |")
    return lines


def training(run: Path) -> dict[str, float] | None:
    """The best validation of a run, its updates and minutes; None where it was not validated yet."""
    rows = [json.loads(line) for line in read_text(run / "train.jsonl").splitlines()]
    valid = [row for row in rows if row["event"] == "valid"]
    if not valid:
        return None
    best = max(valid, key=lambda row: row["accuracy"])
    return {**best, "minutes": rows[-1]["wall"] / 60, "updates": rows[-1]["update"]}


def runs_table(runs: Mapping[str, Mapping[str, float] | None]) -> list[str]:
    """Accuracy on the validation pairs, with the time it took; of codes by the thresholded ones."""
    lines = ["| run | NLI dev accuracy | best update | updates | training minutes |", "|---|---:|---:|---:|---:|"]
    for name, row in runs.items():
        if row is None:
            lines.append(f"| {name} | not validated yet | | | |")
        else:
            cells = f"{100 * row['accuracy']:.2f} | {row['update']:,} | {row['updates']:,} | {row['minutes']:.1f}"
            lines.append(f"| {name} | {cells} |")
    return lines


def figure_2(runs: Mapping[str, Mapping[str, float] | None]) -> dict[str, dict[str, float]]:
    """Embedding types → width → NLI accuracy in percent, the mean over seeds."""
    bars: dict[str, dict[str, list[float]]] = {}
    for name, row in runs.items():
        if group(name) == 2 and row is not None:
            types, width = split_seed(name)[0].split(",")
            bars.setdefault(types, {}).setdefault(width, []).append(100 * row["accuracy"])
    return {types: {width: mean(values) for width, values in row.items()} for types, row in bars.items()}


def draw(bars: Mapping[str, Mapping[str, float]], path: Path) -> None:
    """Figure 2: a bar for each width, side by side for each choice of types."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 3.5), layout="constrained")
    axis = figure.subplots()
    for shift, width in ((-0.2, "1"), (0.2, "3")):
        drawn = {position: row[width] for position, row in enumerate(bars.values()) if width in row}
        shown = axis.bar([position + shift for position in drawn], list(drawn.values()), 0.38, label=f"width {width}")
        axis.bar_label(shown, fmt="%.1f", fontsize=8)
    axis.set_xticks(range(len(bars)), [name.replace("+", "\n+") for name in bars])
    axis.set_xlim(-0.5, len(bars) - 0.5)
    axis.set_ylim(bottom=100 / 3)
    axis.set_ylabel("NLI dev accuracy, % (from chance)")
    figure.legend(loc="outside upper center", ncols=2, frameon=False)
    figure.savefig(path, dpi=150)


def similarity(rows: Mapping[str, Tasks]) -> dict[str, list[str]]:
    """The section of table 3, if any of its tasks was evaluated."""
    known = any(name in tasks for tasks in rows.values() for name in SIMILARITY)
    lines = table(rows, SIMILARITY, correlation, 1)
    note = ["", WITHOUT_MSRVID] if "STS12*" in lines[0] else []
    return {"Similarity (table 3): Pearson / Spearman": [*lines, *note]} if known else {}


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, required=True, help="folder of docnmt-senteval's JSON files")
    parser.add_argument(
        "--runs", type=Path, help="folder of docnmt-train's --save-dirs: a table of their training, too"
    )
    parser.add_argument("--figure", type=Path, help="draw figure 2 there, a .png")
    options = parser.parse_args(argv)
    logs = find(options.runs, "*/train.jsonl") if options.runs else ()
    folders = sorted((path.parent for path in logs), key=lambda path: order(path.name))
    runs = {path.name: training(path) for path in folders}
    bars = figure_2(runs)
    stored, protocol = read_results(options.results)
    rows = over_seeds(stored)
    sections = {"NLI and training; hashed models by their codes": runs_table(runs)} if options.runs else {}
    sections |= {
        f"Classification (table 2), protocol {protocol}: accuracy, F1 behind it": [
            *table(rows, CLASSIFICATION, accuracy, 0),
            "",
            NOTHING_LEARNED,
        ],
        **similarity(rows),
        "Tasks on which a system is better": wins(rows),
        "Time of the evaluations": times(rows),
    }
    for title, lines in sections.items():
        print("\n".join([f"### {title}", "", *lines, ""]))
    if options.figure and bars:
        draw(bars, options.figure)


if __name__ == "__main__":
    main()
