"""docnmt-inspect: what is in a checkpoint, a run's folder or a data folder."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from docnmt.cli import command as cli
from docnmt.cli.given import Given
from docnmt.config import Section, option
from docnmt.errors import UserError

DESCRIPTION = """Print what a checkpoint holds (architecture, parameters, options, progress, scores), or what a folder
of preprocessed data holds. Of a training run's folder its best checkpoint is shown."""

EXAMPLES = (
    "docnmt-inspect runs/bible/checkpoint_best.safetensors",
    "docnmt-inspect runs/bible",
    "docnmt-inspect data-bin/bible",
)


@dataclass(frozen=True)
class InspectConfig:
    """What to look at."""

    path: str = option(dataclasses.MISSING, "a checkpoint, --save-dir or data folder", positional=True, metavar="PATH")


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit status."""
    return cli.run("docnmt-inspect", body, argv)


def body(given: Given) -> int:
    """Print the description."""
    config = cli.Command("docnmt-inspect", DESCRIPTION, EXAMPLES).resolve(given, [Section("inspect", InspectConfig)])
    path = Path(config["inspect"].path)
    if not path.exists():
        raise UserError(f"{path}: no such file or folder")
    if (path / "meta.json").is_file():
        from docnmt.data.describe import describe_folder

        print(describe_folder(path))
        return 0
    from docnmt.training.describe import describe_checkpoint
    from docnmt.training.loading import find_checkpoint

    print(describe_checkpoint(find_checkpoint(path)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
