"""Scores of systems on a test set and on what is new there, each beside the sentence model and a translation memory.

    python recipes/studies/manual/parts.py runs/manual --reference corpora/manual/test.fr --name manual \\
        --systems sentence exact fuzzy knn copy-1 copy-2 > kept.jsonl
    python recipes/studies/manual/seen_tables.py kept.jsonl

Scores runs/manual/SYSTEM/test/hypotheses.txt, and of unseen.py's parts runs/manual/new/PART/SYSTEM-test.txt, by
docnmt-score with `--paired`: against the sentence model, and against `fuzzy`, the translation memory over it. Prints a
line for each part and system, as manual.jsonl has them.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

METRICS = ("s-BLEU", "d-BLEU", "chrF", "TER")
PARTS = {"all lines": None, "unseen lines": "lines", "documents with less than a tenth seen": "documents"}


def scores(reference: Path, system: Path, other: Path) -> dict[str, Any]:
    """What docnmt-score prints of a system and its difference from another one."""
    files = ["--ref", reference, "--sys", system, "--paired", other, "--metrics", "TER"]
    command = [sys.executable, "-m", "docnmt.cli.score", *files, "--json"]
    printed: dict[str, Any] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return printed


def difference(printed: dict[str, Any]) -> dict[str, list[float]]:
    """Of each metric the difference, its 95 % interval and p."""
    return {
        metric["metric"]: [round(metric[name], 4) for name in ("difference", "low", "high", "p_value")]
        for metric in printed["paired"]["metrics"]
    }


def main() -> None:
    """Score and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path, help="folder of recipes/studies/manual/run.sh")
    parser.add_argument("--reference", type=Path, required=True, help="the reference text of the test set")
    parser.add_argument("--name", required=True, help="of the corpus")
    parser.add_argument("--systems", nargs="+", required=True, metavar="SYSTEM")
    options = parser.parse_args()
    for part, folder in PARTS.items():
        new = options.work / "new" / (folder or "")
        files = {
            system: options.work / system / "test" / "hypotheses.txt" if folder is None else new / f"{system}-test.txt"
            for system in options.systems
        }
        reference = options.reference if folder is None else new / "reference.txt"
        for system, file in files.items():
            printed = scores(reference, file, files["sentence"])
            row = {"lines": printed["sentences"], "documents": printed["documents"]}
            row |= {metric: round(printed[metric], 2) for metric in METRICS} | {
                "over the sentence model": difference(printed)
            }
            if system not in ("sentence", "exact", "fuzzy"):
                row["over the memory"] = difference(scores(reference, file, files["fuzzy"]))
            print(json.dumps({"file": f"{options.name}/{part}/{system}.json", "json": row}), flush=True)


if __name__ == "__main__":
    main()
