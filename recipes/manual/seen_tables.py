"""Tables of what seen.py or memory_alone.py kept.

python recipes/manual/seen_tables.py docs/measured/seen.jsonl
python recipes/manual/seen_tables.py docs/measured/memory.jsonl
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))

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


def seen(found: Rows) -> Iterator[str]:
    """Of all lines and documents; then of the documents that the rule of docnmt-preprocess passes."""
    titles = ["training", "part", "lines", "verbatim", "seen", "nearly", "documents", "no line seen", "below a tenth"]
    yield from table(titles, [
        [*name.removesuffix(".json").split("/"), f"{row['lines']:,}"]
        + [share(row, f"lines {how}", "lines") for how in ("verbatim", "seen", "nearly")]
        + [f"{row['documents']:,}", share(row, "documents without a line seen", "documents"),
           share(row, "documents below a tenth seen", "documents")]
        for name, row in found.items()
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
        for name, row in found.items() if name.split("/")[0] in ("manual", "help", "handbooks", "wesnoth")
    ])  # fmt: skip


def memory(found: Rows) -> Iterator[str]:
    """Scores of the most similar training line's translation."""
    body = [
        [*name.removesuffix(".json").split("/"), f"{row['lines']:,}", *(f"{row[metric]:.2f}" for metric in METRICS)]
        for name, row in found.items()
    ]
    yield from table(["memory", "part of the test text", "lines", *METRICS], body)


def main() -> None:
    """Parse and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kept", type=Path, metavar="FILE.jsonl")
    path = parser.parse_args().kept
    found = {name: row["json"] for name, row in rows(path).items()}
    kind = memory if "s-BLEU" in next(iter(found.values())) else seen
    print("\n".join(kind(found)))


if __name__ == "__main__":
    main()
