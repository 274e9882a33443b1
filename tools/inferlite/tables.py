"""Tables 2 and 3 and figure 2 of InferLite from the files of runs and evaluations, beside the published rows.

python tools/inferlite/tables.py --results results --runs runs > docs/tables.md
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

CLASSIFICATION = ("MR", "CR", "SUBJ", "MPQA", "SST2", "TREC", "MRPC", "SICK-E")
SIMILARITY = ("SICK-R", "STS-B", "STS12", "STS13", "STS14", "STS15", "STS16")

#: Published rows (Kiros & Chan 2018, tables 2 and 3): 942k training pairs, 300-d GloVe.
PUBLISHED = {
    "published glove BOW": "78.7 78.5 91.6 87.6 79.8 83.6 72.1/80.9 78.6 | 80.0 – 52.5 42.3 54.2 52.7 –",
    "published InferSent": "81.1 86.3 92.4 90.2 84.6 88.2 76.2/83.1 86.3 | 88.4 75.8/75.5 59.2 58.9 69.6 71.3 71.4",
    "published glove,1": "79.6 82.2 92.0 89.5 83.0 88.2 75.5/82.7 85.9 | 88.3 78.1/78.0 62.4 60.4 71.6 74.6 70.3",
    "published glove,3": "80.9 84.1 92.4 89.6 85.8 90.0 76.5/83.4 85.5 | 88.1 78.4/78.3 61.9 61.3 71.7 74.5 71.2",
}


def accuracy(result: Mapping[str, float]) -> str:
    """`75.5/82.7` for accuracy and F1."""
    return "/".join(f"{result[name]:.1f}" for name in ("accuracy", "f1") if name in result)


def correlation(result: Mapping[str, float]) -> str:
    """Pearson, and Spearman behind it; of STS12-16 the unweighted mean of the subsets."""
    return f"{100 * result['pearson']:.1f}/{100 * result['spearman']:.1f}"


def table(
    rows: Mapping[str, Mapping[str, Any]], names: Sequence[str], cell: Callable[[Any], str], part: int
) -> list[str]:
    """A Markdown table of tasks by systems, the published rows first."""
    lines = [f"| | {' | '.join(names)} |", f"|---|{'---:|' * len(names)}"]
    lines += [f"| {name} | {' | '.join(row.split(' | ')[part].split())} |" for name, row in PUBLISHED.items()]
    for system, results in rows.items():
        cells = [cell(results[name]) if name in results else "" for name in names]
        lines.append(f"| {system} | {' | '.join(cells)} |")
    return lines


def times(rows: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The time of each evaluation over all its tasks."""
    sums = {
        name: [sum(task[part] for task in tasks.values()) for part in ("encoding s", "classifier s")]
        for name, tasks in rows.items()
    }
    return [f"- {name}: {encoding:,.0f} + {rest:,.0f}" for name, (encoding, rest) in sums.items()]


def training(run: Path) -> dict[str, float]:
    """The best validation of a run, its updates and minutes."""
    rows = [json.loads(line) for line in (run / "train.jsonl").read_text(encoding="utf-8").splitlines()]
    best = max((row for row in rows if row["event"] == "valid"), key=lambda row: row["accuracy"])
    return {**best, "minutes": rows[-1]["wall"] / 60, "updates": rows[-1]["update"]}


def runs_table(folder: Path) -> list[str]:
    """Figure 2 as a table: accuracy on the validation pairs, by embedding types and width, with the time it took."""
    lines = ["| run | NLI dev accuracy | best update | updates | training minutes |", "|---|---:|---:|---:|---:|"]
    for run in sorted(path.parent for path in folder.glob("*/train.jsonl")):
        try:
            row = training(run)
        except (ValueError, KeyError):
            lines.append(f"| {run.name} | not validated yet | | | |")
            continue
        cells = f"{100 * row['accuracy']:.2f} | {row['update']:,} | {row['updates']:,} | {row['minutes']:.1f}"
        lines.append(f"| {run.name} | {cells} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, required=True, help="folder of docnmt-senteval's JSON files")
    parser.add_argument("--runs", type=Path, required=True, help="folder of docnmt-train's --save-dirs")
    options = parser.parse_args()
    files = sorted(options.results.glob("*.json"))
    rows = {path.stem: json.loads(path.read_text(encoding="utf-8"))["tasks"] for path in files}
    sections = {
        "NLI (figure 2)": runs_table(options.runs),
        "Classification (table 2): accuracy, F1 behind it": table(rows, CLASSIFICATION, accuracy, 0),
        "Similarity (table 3): Pearson / Spearman": table(rows, SIMILARITY, correlation, 1),
        "Seconds of encoding and of all the rest": times(rows),
    }
    for title, lines in sections.items():
        print("\n".join([f"### {title}", "", *lines, ""]))


if __name__ == "__main__":
    main()
