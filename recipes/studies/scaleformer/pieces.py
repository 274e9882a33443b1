"""The table of real.sh: translations in pieces as long as those of training, and in longer ones.

    python recipes/studies/scaleformer/pieces.py runs/scaleformer-real
    python recipes/studies/scaleformer/pieces.py scaleformer-real.jsonl

Reads SEED/SYSTEM/LINES.json, what docnmt-score printed, in the folder of the recipe or in a kept file
(recipes/studies/tools/measured.py). Means over seeds, with the smallest and the largest.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from lengths import spread

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
from measured import find, read_json

LENGTHS = ("8", "16", "32", "whole")
METRICS = ("s-BLEU", "chrF")


def table(folder: Path) -> Iterator[str]:
    """Markdown, a row a system."""
    scores: dict[str, dict[tuple[str, str], list[float]]] = defaultdict(lambda: defaultdict(list))
    for path in (path for lines in LENGTHS for path in find(folder, f"*/*/{lines}.json")):
        for metric in METRICS:
            scores[path.parent.name][metric, path.stem].append(read_json(path)[metric])
    heads = [f"{metric}: {lines}" for metric in METRICS for lines in LENGTHS]
    yield f"| | seeds | {' | '.join(heads)} |"
    yield f"| --- | ---: |{' ---: |' * len(heads)}"
    for system, of in sorted(scores.items()):
        found = [of[metric, lines] for metric in METRICS for lines in LENGTHS]
        yield f"| {system} | {max(map(len, found))} | {' | '.join(spread(values, 2) for values in found)} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path, metavar="FOLDER", help="of the recipe, or a file that was kept")
    print("\n".join(table(parser.parse_args().work)))


if __name__ == "__main__":
    main()
