"""The table of what retrieval.py kept.

python recipes/studies/discourse/retrieval_table.py recipes/studies/discourse/retrieval.jsonl
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))

from measured import find, read_json


def main() -> None:
    """Parse and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kept", type=Path, metavar="FILE.jsonl")
    kinds = ["found", "right", "address", "ellipsis", "pronoun", "sense"]
    print(f"| reads | questions | number | {' | '.join(kinds)} |\n| --- | --- |{' ---: |' * (len(kinds) + 1)}")
    for path in find(parser.parse_args().kept, "*/*.json"):
        row = read_json(path)
        cells = " | ".join(f"{row[kind]:.1f}" for kind in kinds)
        print(f"| {path.parent.name} | {path.stem} | {row['questions']} | {cells} |")


if __name__ == "__main__":
    main()
