"""Tables of what seen.py, memory_alone.py or parts.py kept.

python recipes/studies/manual/seen_tables.py recipes/studies/manual/seen.jsonl
python recipes/studies/manual/seen_tables.py recipes/studies/manual/memory.jsonl
python recipes/studies/manual/seen_tables.py recipes/studies/manual/manual.jsonl
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))

from measured import rows

Rows = dict[str, dict[str, Any]]
METRICS = ("s-BLEU", "d-BLEU", "chrF", "TER")


def share(row: dict[str, Any], part: str, whole: str) -> str:
    """A count with its share of another one in percent."""
    return f"{row[part]:,} ({100 * row[part] / row[whole]:.0f} %)" if row[whole] else "–"


def table(titles: list[str], body: list[list[str]]) -> Iterator[str]:
    """Two columns of names, then numbers."""
    for line in (titles, ["---", "---", *["---:"] * (len(titles) - 2)], *body):
        yield "| " + " | ".join(line) + " |"
    yield ""


def seen(by_name: Rows) -> Iterator[str]:
    """Of all lines and documents; then of the documents that the rule of docnmt-preprocess passes."""
    titles = ["training", "part", "lines", "verbatim", "seen", "nearly", "documents", "no line seen", "below a tenth"]
    yield from table(titles, [
        [*name.removesuffix(".json").split("/"), f"{row['lines']:,}"]
        + [share(row, f"lines {how}", "lines") for how in ("verbatim", "seen", "nearly")]
        + [f"{row['documents']:,}", share(row, "documents without a line seen", "documents"),
           share(row, "documents below a tenth seen", "documents")]
        for name, row in by_name.items()
    ])  # fmt: skip
    titles = [
        "training",
        "part",
        "documents below a half by runs",
        "their lines",
        "verbatim",
        "seen",
        "no line verbatim",
    ]
    own = "by runs: their lines"
    yield from table(titles, [
        [*name.removesuffix(".json").split("/"), f"{row['by runs: documents below a half']:,}", f"{row[own]:,}"]
        + [share(row, f"{own} {how}", own) for how in ("verbatim", "seen")]
        + [f"{row['by runs: without a line verbatim']:,}"]
        for name, row in by_name.items() if name.split("/")[0] in ("manual", "help", "handbooks", "wesnoth")
    ])  # fmt: skip


def memory(by_name: Rows) -> Iterator[str]:
    """Scores of the most similar training line's translation."""
    body = [
        [*name.removesuffix(".json").split("/"), f"{row['lines']:,}", *(f"{row[metric]:.2f}" for metric in METRICS)]
        for name, row in by_name.items()
    ]
    yield from table(["memory", "part of the test text", "lines", *METRICS], body)


def over(row: dict[str, Any], other: str) -> str:
    """A difference in s-BLEU with its interval and p."""
    if not any(map(any, row.get(other, {}).values())):
        return ""
    difference, low, high, p = row[other]["s-BLEU"]
    return f"{difference:+.2f} ({low:+.2f} to {high:+.2f}), p {p:.3f}".replace("-", "−").replace("p 0.", "p .")


def systems(by_name: Rows) -> Iterator[str]:
    """Scores of systems, a table for each part of the test text."""
    for part in dict.fromkeys(name.rpartition("/")[0] for name in by_name):
        rows = {name.rpartition("/")[2].removesuffix(".json"): row for name, row in by_name.items() if part in name}
        body = [
            [system, over(row, "over the sentence model"), *(f"{row[metric]:.2f}" for metric in METRICS)]
            for system, row in rows.items()
        ]
        lines, documents = next((row["lines"], row["documents"]) for row in rows.values())
        what = f"{part.replace('/', ', ')}: {lines:,} lines in {documents} documents"
        yield from table([what, "s-BLEU over the sentence model", *METRICS], body)
    body = []
    for name, row in by_name.items():
        if "over the memory" in row:
            corpus, part, system = name.removesuffix(".json").split("/")
            body.append([system, f"{corpus}, {part}", over(row, "over the memory")])
    yield from table(["system", "part of the test text", "s-BLEU over the translation memory"], body)


def main() -> None:
    """Parse and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kept", type=Path, metavar="FILE.jsonl")
    path = parser.parse_args().kept
    by_name = {name: row["json"] for name, row in rows(path).items()}
    first = next(iter(by_name.values()))
    kind = systems if "over the sentence model" in first else memory if "s-BLEU" in first else seen
    print("\n".join(kind(by_name)))


if __name__ == "__main__":
    main()
