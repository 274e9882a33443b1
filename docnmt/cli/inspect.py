"""The command docnmt-inspect: describe or verify a checkpoint, a run's folder or a data folder."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from docnmt.cli.command import Command, Given
from docnmt.options import Section, option
from docnmt.runtime.system import UserError, find_checkpoint, printable

COMMAND = Command(
    "docnmt-inspect",
    """Print what a checkpoint holds (architecture, parameters, options, progress, scores), or what a folder
of preprocessed data holds. Of a training run's folder its best checkpoint is shown. With --verify everything is
read and compared with its checksums, a line a file; the exit status is 1 if something is damaged.""",
    """
docnmt-inspect runs/bible/checkpoint_best.safetensors
docnmt-inspect runs/bible
docnmt-inspect --card runs/bible > runs/bible/README.md
docnmt-inspect data-bin/bible
docnmt-inspect --verify data-bin/bible
docnmt-inspect --verify runs/bible
""",
)


@dataclass(frozen=True)
class InspectConfig:
    """Options for what is described."""

    path: str = option(dataclasses.MISSING, "a checkpoint, --save-dir or data folder", positional=True, metavar="PATH")
    card: bool = option(False, "print a model card in Markdown, to be sent with the checkpoint", excludes=("verify",))
    verify: bool = option(False, "compare all of it with its checksums; of a --save-dir every checkpoint")


@COMMAND.main
def main(given: Given) -> None:
    """Print the description."""
    config = COMMAND.resolve(given, [Section("inspect", InspectConfig)])
    path = Path(config["inspect"].path)
    if not path.exists():
        raise UserError(f"{path}: no such file or folder")
    if config["inspect"].verify:
        verify(path)
        return
    if config["inspect"].card:
        from docnmt.core.training.dry_run import model_card

        print(printable(model_card(find_checkpoint(path))))
        return
    if (path / "meta.json").is_file():
        from docnmt.core.preprocess import describe_folder

        print(printable(describe_folder(path)))
        return
    from docnmt.core.training.dry_run import describe_checkpoint

    print(printable(describe_checkpoint(find_checkpoint(path))))


def verify(path: Path) -> None:
    """Print the finding for each file.

    Raises:
        UserError: a file is damaged; the message names it, and for a checkpoint the tensor.
    """
    damaged = []
    for file, found, good in _verified(path):
        print(printable(f"{file}: {found}"), flush=True)
        damaged += [] if good else [f"{file}: {found}"]
    if damaged:
        more = f" (and {len(damaged) - 1} files more)" if len(damaged) > 1 else ""
        raise UserError(f"{damaged[0]}{more}")


def _verified(path: Path) -> Iterator[tuple[Path, str, bool]]:
    """Yield each file, the finding, and whether it is intact."""
    if (path / "meta.json").is_file():
        from docnmt.core.corpus import verify_folder

        yield from verify_folder(path)
        return
    from docnmt.core.training.checkpoint import load_checkpoint

    files = sorted(path.glob("checkpoint_*.safetensors")) if path.is_dir() else []
    for file in files or [find_checkpoint(path)]:
        try:
            yield file, f"holds (header and {len(load_checkpoint(file).tensors):,} tensors)", True
        except UserError as error:
            yield file, str(error).removeprefix(f"{file}: "), False


if __name__ == "__main__":
    sys.exit(main())
