"""`docnmt.preprocess`, `train`, `generate`, `score`: what the commands do, for a Python program.

options by name → words (`called`) → configuration → the command's function → its result as a value
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docnmt.cli.command import called
from docnmt.cli.commands import COMMANDS, translating
from docnmt.cli.score import SCORE, scored
from docnmt.cli.train import TRAIN, resolve
from docnmt.runtime.system import UsageError

if TYPE_CHECKING:
    from docnmt.apps.commands.generate import Generated


def preprocess(**options: object) -> Path:
    """Preprocess as docnmt-preprocess does; return the folder, which `docnmt.train` and `docnmt.generate` take.

    `docnmt.preprocess(source_lang="en", target_lang="de", trainpref="train", validpref="dev", destdir="data-bin")`. The
    options are the command's, with underscores; None leaves one out, several values are a list. The report goes to
    stderr, and the command's errors are `UserError`s."""
    command = COMMANDS["preprocess"]
    with called(command, [], options) as given:
        command.body(given)
        return Path(str(given.get("destdir")))


@dataclass(frozen=True)
class Trained:
    """The results of a training: its `--save-dir`, an argument of `docnmt.load`; its checkpoints `last` and `best`, or
    None; `history`, the events of its `train.jsonl`, in order."""

    path: Path
    last: Path | None
    best: Path | None
    history: list[dict[str, Any]]


def train(data: str | Path, **options: object) -> Trained:
    """Train as docnmt-train does: `docnmt.train("data-bin", arch="transformer_tiny", save_dir="runs/a", max_update=9)`.

    `data` is a folder that docnmt-preprocess wrote; options and errors are as in `preprocess`. Messages go to
    stderr."""
    with called(TRAIN, [str(data)], options) as given:
        config = resolve(given)
        if config["run"].dry_run:
            raise UsageError("--dry-run: docnmt.train() trains; docnmt-train shows what a training would be")
        from docnmt.core.training.run_folder import RunFolder
        from docnmt.core.training.start import train_command

        train_command(config)
    folder = RunFolder(Path(config["run"].save_dir))
    last, best = (path if path.exists() else None for path in (folder.last, folder.best))
    log = folder.log.read_text(encoding="utf-8") if folder.log.exists() else ""
    return Trained(folder.path, last, best, [json.loads(line) for line in log.splitlines()])


def generate(data: str | Path, path: str | Path | Sequence[str | Path], **options: object) -> Generated:
    """Translate and score a split as docnmt-generate does: `docnmt.generate("data-bin", "runs/a", beam=4)`.

    `data` is a folder that docnmt-preprocess wrote, `path` a checkpoint or a `--save-dir`, or several, which translate
    together; options and errors are as in `preprocess`. Nothing is printed to stdout. Notes and progress go to
    stderr."""
    paths = [path] if isinstance(path, (str, Path)) else path
    words, command = [str(data), f"--path={':'.join(map(str, paths))}"], COMMANDS["generate"]
    with called(command, words, options) as given, open(os.devnull, "w", encoding="utf-8") as nowhere:
        sections = translating(command.config(given), "report")
        from docnmt.apps.commands.generate import generate
        from docnmt.runtime.jobs import joined

        with joined():
            return generate(*sections, out=nowhere)


def score(**options: object) -> dict[str, Any]:
    """Score as docnmt-score does: `docnmt.score(ref="test.de", sys="hypotheses.txt")`; return what the command prints
    with `--json`. Options and errors are as in `preprocess`."""
    with called(SCORE, [], options) as given:
        report, _ = scored(given)
        return {} if report is None else report.to_dict()
