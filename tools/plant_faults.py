"""Plant one fault at a time, run the tests that should catch it, and count what is caught.

    python tools/plant_faults.py --kept faults.jsonl                the checked-out tests
    python tools/plant_faults.py --kept old.jsonl --commit e49c34c6 those of a commit, on its own package
    python tools/plant_faults.py --check                            which faults still apply

    plant_faults.tsv: chapter, old text, new text, test files ── a copy of the tree ── one fault ── pytest -x -q a file
                                                                                                        │
    faults.jsonl: a line a fault (with what caught it); what stands there is not run again ◄─────────────┘

A fault is a short text that occurs once in its chapter, or, if the chapter has moved, once in the package. A test file
is named without its folder; what no longer exists is left out.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FAULTS = Path(__file__).with_suffix(".tsv")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kept", type=Path, help="JSON lines, one a fault; resumed if it is there")
    parser.add_argument("--commit", default="HEAD", help="the tree whose package and tests are run")
    parser.add_argument("--check", action="store_true", help="only say which faults do not apply")
    parser.add_argument("--only", default="", help="only chapters whose name contains this")
    parser.add_argument("--seconds", type=float, default=1e9, help="after so long no other fault is planted")
    parser.add_argument("--before", default="", help="a command that runs each pytest, such as 'nice -n 5'")
    options, begun = parser.parse_args(), time.monotonic()
    lines = [line.split("\t") for line in FAULTS.read_text().splitlines() if line and not line.startswith("#")]
    faults = [line for line in lines if options.only in line[0]]
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        archive = subprocess.run(["git", "archive", options.commit], cwd=ROOT, check=True, stdout=subprocess.PIPE)
        subprocess.run(["tar", "-x", "-C", str(tree)], input=archive.stdout, check=True)
        results = _read(options.kept)
        for chapter, old, new, tests in faults:
            fault, path = (chapter, old), _file(tree, chapter, old)
            if path is None:
                print(f"{chapter}: does not apply: {old}")
            elif not options.check and fault not in results and time.monotonic() - begun < options.seconds:
                result = results[fault] = _run(tree, path, old, new, tests.split(), shlex.split(options.before))
                print(chapter, result["by"] or "NOT CAUGHT", result["seconds"], "s", flush=True)
                if options.kept:
                    with options.kept.open("a") as file:
                        file.write(json.dumps({"chapter": chapter, "text": old, **result}) + "\n")
    if not options.check:
        counted = [results[chapter, old] for chapter, old, *_ in faults if (chapter, old) in results]
        caught = sum(bool(result["by"]) for result in counted)
        print(f"{caught} of {len(counted)} faults caught; {len(faults) - len(counted)} do not apply or are left")


def _read(kept: Path | None) -> dict[tuple[str, str], dict[str, object]]:
    if kept is None or not kept.exists():
        return {}
    return {(row["chapter"], row["text"]): row for row in map(json.loads, kept.read_text().splitlines())}


def _file(tree: Path, chapter: str, old: str) -> Path | None:
    """The file that has this text once: the chapter, or the one file of the package to which it has moved."""
    if (tree / chapter).exists() and (tree / chapter).read_text().count(old) == 1:
        return tree / chapter
    files = [path for path in sorted(tree.glob("docnmt/**/*.py")) if old in path.read_text()]
    return files[0] if len(files) == 1 and files[0].read_text().count(old) == 1 else None


def _run(tree: Path, path: Path, old: str, new: str, tests: list[str], before: list[str]) -> dict[str, object]:
    """Which test caught it ("" for none), and the seconds that the runs took."""
    right, begin, caught = path.read_text(), time.monotonic(), ""
    path.write_text(right.replace(old, new))
    environment = {**os.environ, "PYTHONPATH": str(tree), "DOCNMT_ENV": "none", "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        for name in tests:
            for test in sorted(tree.glob(f"**/{name}.py")):
                command = [*before, sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", str(test)]
                done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True)
                if done.returncode < 0:
                    raise SystemExit(f"pytest was ended by signal {-done.returncode}")
                if done.returncode not in (0, 5):  # 5: it has no test that may run here
                    rows = [line for line in done.stdout.splitlines() if line.startswith(("FAILED ", "ERROR "))]
                    failed = [row.split()[1] for row in rows]
                    caught = failed[0] if failed else f"{test.name}: status {done.returncode}"
                    break
            if caught:
                break
    finally:
        path.write_text(right)
    return {"by": caught, "seconds": round(time.monotonic() - begin)}


if __name__ == "__main__":
    main()
