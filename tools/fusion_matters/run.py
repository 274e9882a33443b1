"""Run a study: train and test every cell (variant × seed), several at a time, and go on where it stopped.

    python tools/fusion_matters/run.py recipes/fusion_matters/novels33.yaml --data data-bin --runs runs/fusion --jobs 2

A cell is `docnmt-train` with the cell's options, then the test of its best checkpoint; `result.json` in its folder says
that it is done. The same command again skips what is done and continues a training that was cut short. Cells of one
seed share initial weights, order and dropout (see `docnmt.modules.random_stream`), so variants compare in pairs.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from study import Cell, read_study

from docnmt.data.meta import read_meta
from docnmt.errors import UserError
from docnmt.files import write_json
from docnmt.progress import Progress

RESULT, SCORES, LAST = "result.json", "scores.json", "checkpoint_last.safetensors"


@dataclass(frozen=True)
class Runner:
    """How cells are run.

    Attributes:
        data: the data folder. runs: where cells stand. threads: of each cell's process.
    """

    data: Path
    runs: Path
    threads: int

    def is_done(self, cell: Cell) -> bool:
        """Whether the cell has its result.

        Raises:
            UserError: it has one, of other options or other data.
        """
        path = cell.folder(self.runs) / RESULT
        if not path.exists():
            return False
        known = json.loads(path.read_text(encoding="utf-8"))
        for name, now in (("options", list(cell.options)), ("fingerprint", read_meta(self.data)["fingerprint"])):
            if known[name] != now:
                raise UserError(f"{path}: was made with other {name}; delete the folder or give other --runs")
        return True

    def run(self, cell: Cell) -> None:
        """Train, test, write the result.

        Raises:
            UserError: a command failed; its log is named.
        """
        folder = cell.folder(self.runs)
        folder.mkdir(parents=True, exist_ok=True)
        train = ["-m", "docnmt.cli.train", str(self.data), "--save-dir", str(folder / "run"), "--seed", str(cell.seed)]
        self._call([*train, *cell.options], folder)
        self._call(
            [str(Path(__file__).parent / "evaluate.py"), str(folder / "run"), str(self.data), str(folder / SCORES)],
            folder,
        )
        scores = json.loads((folder / SCORES).read_text(encoding="utf-8"))
        write_json(
            folder / RESULT,
            {
                "study": cell.study, "variant": cell.variant, "seed": cell.seed, "options": list(cell.options),
                "fingerprint": read_meta(self.data)["fingerprint"], "threads": self.threads,
                **scores,
            },
        )  # fmt: skip
        (folder / SCORES).unlink()
        (folder / "run" / LAST).unlink()  # the best checkpoint is kept

    def _call(self, arguments: Sequence[str], folder: Path) -> None:
        log = folder / "log.txt"
        environment = {**os.environ, "OMP_NUM_THREADS": str(self.threads)}
        with log.open("ab") as file:
            process = subprocess.run(
                [sys.executable, *arguments], stdout=file, stderr=file, env=environment, check=False
            )
        if process.returncode:
            last = log.read_text(encoding="utf-8", errors="replace").strip().rpartition("\n")[2]
            raise UserError(f"{log}: exit status {process.returncode}: {last}")


def run_all(runner: Runner, cells: Sequence[Cell], jobs: int) -> int:
    """Run what is not done; returns how many cells failed."""
    waiting = [cell for cell in cells if not runner.is_done(cell)]
    failed = 0
    with (
        ThreadPoolExecutor(jobs) as pool,
        Progress(len(cells), "cells", unit="cells", initial=len(cells) - len(waiting)) as bar,
    ):
        futures = {pool.submit(runner.run, cell): cell for cell in waiting}
        for future in as_completed(futures):
            cell = futures[future]
            try:
                future.result()
            except UserError as error:
                failed += 1
                bar.print(f"{cell.variant} seed {cell.seed} failed: {error}")
            bar.update(note=f"{cell.variant} seed {cell.seed}")
    return failed


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("study", type=Path, metavar="STUDY.yaml")
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="where the data folders are")
    parser.add_argument("--runs", type=Path, required=True, metavar="DIR", help="where the cells' folders go")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="cells at a time [1]")
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="threads of a cell [1]")
    parser.add_argument("--variants", nargs="+", metavar="NAME", help="these only [all of the study]")
    parser.add_argument("--seeds", nargs="+", type=int, metavar="N", help="these only [all of the study]")
    parser.add_argument("--list", action="store_true", help="say which cells are done and which are not, and stop")
    options = parser.parse_args()
    try:
        study = read_study(options.study)
        if unknown := set(options.variants or ()) - set(study.variants):
            raise UserError(f"--variants: {', '.join(sorted(unknown))}: there are {', '.join(study.variants)}")
        cells = [
            cell
            for cell in study.cells()
            if cell.variant in (options.variants or study.variants)
            and cell.seed in (options.seeds or range(study.seeds))
        ]
        runner = Runner(options.data / study.data, options.runs, options.threads)
        if options.list:
            for cell in cells:
                print("done" if runner.is_done(cell) else "open", cell.variant, f"seed {cell.seed}", *cell.options)
            return 0
        return 1 if run_all(runner, cells, options.jobs) else 0
    except UserError as error:
        print(f"run.py: error: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
