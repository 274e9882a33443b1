"""`docnmt.preprocess`, `docnmt.generate`, `docnmt.score`: what the commands do, for a Python program.

options by name → words (`called`) → configuration → the command's function → its result as a value
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docnmt.cli.command import called
from docnmt.cli.commands import COMMANDS, translating
from docnmt.cli.score import SCORE, scored

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
