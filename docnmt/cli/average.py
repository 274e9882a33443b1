"""The command docnmt-average: average several checkpoints to one model."""

from __future__ import annotations

import dataclasses
import sys
from dataclasses import dataclass
from pathlib import Path

from docnmt.cli.command import Command, Given
from docnmt.options import Section, option
from docnmt.runtime.system import check_new

COMMAND = Command(
    "docnmt-average",
    """Write the mean of the weights of several checkpoints of one run, which often translates better than any
of them. The result is a checkpoint to generate with, not to train on.""",
    """
docnmt-average --save-dir runs/bible --last 5 --output mean.safetensors   (trained with --keep-last 5)
docnmt-average --inputs a.safetensors b.safetensors --output mean.safetensors
""",
)


@dataclass(frozen=True)
class AverageConfig:
    """Options for the checkpoints and the output."""

    output: str = option(dataclasses.MISSING, "the checkpoint to write", metavar="FILE")
    inputs: tuple[str, ...] = option((), "checkpoint files", metavar="FILE")
    save_dir: str | None = option(None, "or: the folder of a training run", metavar="DIR")
    last: int | None = option(None, "with --save-dir: its N newest numbered checkpoints", between=(1, None))
    overwrite: bool = option(False, "replace --output if it exists")

    def problems(self) -> list[str]:
        """Return a message for each contradiction between the values."""
        if bool(self.inputs) == (self.save_dir is not None):
            return ["give either --inputs FILE … or --save-dir DIR --last N"]
        if (self.save_dir is None) != (self.last is None):
            return ["--save-dir and --last go together"]
        twice = [name for number, name in enumerate(self.inputs) if name in self.inputs[:number]]
        return [f"--inputs: {name} is named twice" for name in twice[:1]]


@COMMAND.main
def main(given: Given) -> None:
    """Average, and print the checkpoints used."""
    config = COMMAND.resolve(given, [Section("average", AverageConfig)])["average"]
    output = Path(config.output)
    check_new(output, overwrite=config.overwrite)
    from docnmt.core.training.checkpoint import average_checkpoints, last_checkpoints

    inputs = [Path(name) for name in config.inputs] or last_checkpoints(Path(config.save_dir), config.last)
    average_checkpoints(inputs, output)
    print(f"{output}: mean of {', '.join(map(str, inputs))}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
