"""docnmt-inspect: what is in a checkpoint, a run's folder or a data folder."""

from __future__ import annotations

import dataclasses
import sys
from dataclasses import dataclass
from pathlib import Path

from docnmt.cli.command import Command
from docnmt.cli.given import Given
from docnmt.config import Section, option
from docnmt.errors import UserError
from docnmt.files import find_checkpoint

COMMAND = Command(
    "docnmt-inspect",
    """Print what a checkpoint holds (architecture, parameters, options, progress, scores), or what a folder
of preprocessed data holds. Of a training run's folder its best checkpoint is shown.""",
    """
docnmt-inspect runs/bible/checkpoint_best.safetensors
docnmt-inspect runs/bible
docnmt-inspect data-bin/bible
""",
)


@dataclass(frozen=True)
class InspectConfig:
    """What to look at."""

    path: str = option(dataclasses.MISSING, "a checkpoint, --save-dir or data folder", positional=True, metavar="PATH")


@COMMAND.main
def main(given: Given) -> None:
    """Print the description."""
    config = COMMAND.resolve(given, [Section("inspect", InspectConfig)])
    path = Path(config["inspect"].path)
    if not path.exists():
        raise UserError(f"{path}: no such file or folder")
    if (path / "meta.json").is_file():
        from docnmt.data.report import describe_folder

        print(describe_folder(path))
        return
    from docnmt.training.describe import describe_checkpoint

    print(describe_checkpoint(find_checkpoint(path)))


if __name__ == "__main__":
    sys.exit(main())
