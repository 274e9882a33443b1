"""Run studies: train and test every cell (variant × seed), several at a time, and go on where it stopped.

    python recipes/studies/fusion_matters/run.py recipes/studies/fusion_matters/novels33.yaml --data data-bin \\
        --runs runs --jobs 2

A cell is one process, cell.py: `docnmt-train` with the cell's options, then the test of its best checkpoint;
`result.json` in its folder says that it is done, and holds all that report.py reads: checkpoints may be deleted. What
a study leaves to choose is chosen first, by cells that are validated and never tested. The same command again skips
what is done and continues a training that was cut short. Ctrl-C and SIGTERM stop the trainings, which save first.
Cells of one seed share initial weights, order and dropout (see `docnmt.other_tasks.classification`), so
variants compare in
pairs.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path

from choice import settled
from study import RESULT, SCORES, Cell, Study, read_study

from docnmt.cli import command as cli
from docnmt.core.corpus import read_meta
from docnmt.runtime.progress import Progress
from docnmt.runtime.system import BEST, LAST, UsageError, UserError, write_json


@dataclass(frozen=True)
class Runner:
    """How cells are run.

    Attributes:
        data: where the data folders are. runs: where cells stand. threads: of each cell's process.
        discard: delete a cell's best checkpoint, too, once it is tested.
        retest: test the finished cells again, as after a change of what is measured, and train none.
        processes: those that run now. stopped: set, no other is begun.
    """

    data: Path
    runs: Path
    threads: int
    discard: bool = False
    retest: bool = False
    processes: set[subprocess.Popen[bytes]] = field(default_factory=set)
    stopped: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def is_done(self, cell: Cell) -> bool:
        """Whether the cell has its result."""
        known, data = cell.result(self.runs), self.data / cell.data
        if known is not None and known["fingerprint"] != read_meta(data)["fingerprint"]:
            raise UserError(
                f"{cell.folder(self.runs) / RESULT}: was made with other data than {data}; delete the cell's folder or "
                "give other --runs"
            )
        return known is not None

    def run(self, cell: Cell) -> None:
        """Train, test, write the result."""
        folder, data = cell.folder(self.runs), self.data / cell.data
        folder.mkdir(parents=True, exist_ok=True)
        how = [flag for flag, on in (("--retest", self.retest), ("--valid-only", bool(cell.setting))) if on]
        if cell.shuffle:
            how += ["--shuffle", *map(str, cell.shuffle)]
        process = [str(Path(__file__).parent / "cell.py"), str(data), str(folder), *how]
        self._call([*process, "--", "--seed", str(cell.seed), *cell.options], folder)
        scores = json.loads((folder / SCORES).read_text(encoding="utf-8"))
        write_json(
            folder / RESULT,
            {
                "study": cell.study, "variant": cell.variant, "seed": cell.seed, "options": list(cell.options),
                "fingerprint": read_meta(data)["fingerprint"], **scores,
            },
        )  # fmt: skip
        (folder / SCORES).unlink()
        (folder / "run" / LAST).unlink(missing_ok=True)
        if self.discard or cell.setting:
            (folder / "run" / BEST).unlink()

    def stop(self) -> None:
        """End the trainings, which save first, and begin no other."""
        with self.lock:
            self.stopped.set()
            for process in self.processes:
                process.terminate()

    def _call(self, arguments: Sequence[str], folder: Path) -> None:
        log = folder / "log.txt"
        environment = {**os.environ, "OMP_NUM_THREADS": str(self.threads)}
        with log.open("ab") as file:
            begin = file.tell()
            with self.lock:
                if self.stopped.is_set():
                    raise UserError("stopped")
                process = subprocess.Popen([sys.executable, *arguments], stdout=file, stderr=file, env=environment)
                self.processes.add(process)
            status = process.wait()
            with self.lock:
                self.processes.remove(process)
        if status:
            lines = log.read_bytes()[begin:].decode(errors="replace").splitlines()
            said = next((line for line in reversed(lines) if ": error: " in line), lines[-1] if lines else "")
            raise UserError(f"{log}: exit status {status}: {said}")


def run_all(runner: Runner, cells: Sequence[Cell], jobs: int) -> int:
    """Run what is not done; returns how many cells failed."""
    waiting = [cell for cell in cells if runner.is_done(cell) == runner.retest]
    failed = 0
    with (
        ThreadPoolExecutor(jobs) as pool,
        Progress(len(cells), "cells", unit="cells", initial=len(cells) - len(waiting)) as bar,
    ):
        futures = {pool.submit(runner.run, cell): cell for cell in waiting}
        try:
            for future in as_completed(futures):
                cell = futures[future]
                try:
                    future.result()
                except UserError as error:
                    failed += 1
                    bar.print(f"{cell.study} {cell.variant} seed {cell.seed} failed: {error}")
                bar.update(note=f"{cell.variant} seed {cell.seed}")
        except BaseException:  # Ctrl-C, SIGTERM: or the pool would begin all other cells before it lets this pass
            runner.stop()
            pool.shutdown(cancel_futures=True)
            raise
    return failed


def chosen(studies: Sequence[Study], variants: Sequence[str] | None, seeds: Sequence[int] | None) -> list[Cell]:
    """The cells of these variants and seeds, each once; None: all. Those come first that choose a variant's options."""
    names = list(dict.fromkeys(variant for study in studies for variant in study.variants))
    most = max(study.seeds for study in studies)
    if unknown := sorted(set(variants or ()) - set(names)):
        raise UsageError(f"--variants: there is no {', '.join(unknown)}; there are {', '.join(names)}")
    if foreign := sorted(set(seeds or ()) - set(range(most))):
        raise UsageError(f"--seeds: there is no {', '.join(map(str, foreign))}; there are 0 to {most - 1}")
    choices = dict.fromkeys(cell for study in studies for cell in study.choice_cells())
    cells = dict.fromkeys(cell for study in studies for cell in study.cells())
    wanted = [*choices, *(cell for cell in cells if seeds is None or cell.seed in seeds)]
    return [cell for cell in wanted if not variants or cell.variant in variants]


def body(argv: list[str]) -> int:
    """Parse and run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("studies", type=Path, nargs="+", metavar="STUDY.yaml", help="one study or several")
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="where the data folders are")
    parser.add_argument("--runs", type=Path, required=True, metavar="DIR", help="where the cells' folders go")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="cells at a time [1]")
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="threads of a cell [1]")
    parser.add_argument("--variants", nargs="+", metavar="NAME", help="these only [all]")
    parser.add_argument("--seeds", nargs="+", type=int, metavar="N", help="these only [all]")
    parser.add_argument(
        "--discard-checkpoints", action="store_true", help="delete a cell's model once it is tested (gates.py needs it)"
    )
    parser.add_argument(
        "--retest", action="store_true", help="train nothing; test the finished cells again, whose models are kept"
    )
    parser.add_argument("--list", action="store_true", help="say which cells are done and which are not, and stop")
    options = parser.parse_args(argv)
    given = {"jobs": options.jobs, "threads": options.threads}
    if wrong := [f"--{name}: must be at least 1, got {number}" for name, number in given.items() if number < 1]:
        raise UsageError(wrong)
    studies = [read_study(path) for path in options.studies]
    runner = Runner(options.data, options.runs, options.threads, options.discard_checkpoints, options.retest)
    choices = [cell for cell in chosen(studies, options.variants, options.seeds) if cell.setting]
    if not options.list:
        for study in studies:
            read_meta(runner.data / study.data)  # or every cell would say that there is none
        if not options.retest and run_all(runner, choices, options.jobs):
            return 1
    studies = [settled(study, options.runs) for study in studies]
    cells = [cell for cell in chosen(studies, options.variants, options.seeds) if not cell.setting]
    if options.list:
        for cell in [*choices, *cells]:
            done = "done" if runner.is_done(cell) else "open"
            print(done, cell.study, cell.variant, f"seed {cell.seed}", *cell.options)
        return 0
    return 1 if run_all(runner, cells, options.jobs) else 0


if __name__ == "__main__":
    sys.exit(cli.run("run.py", body))
