"""The log of a run: train.jsonl, TensorBoard and lines on stderr."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from docnmt.errors import UserError
from docnmt.files import write_text

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

_FORMATS = {"lr": ".3g", "tokens_per_second": ",.0f", "ppl": ".2f", "epoch": "d", "update": ",d"}


def format_values(values: Mapping[str, float]) -> str:
    """`loss 3.214, ppl 18.20, lr 0.0005`."""
    return ", ".join(f"{name.replace('_', ' ')} {value:{_FORMATS.get(name, '.3f')}}" for name, value in values.items())


def say(text: str) -> None:
    """Print a line on stderr, outside a progress bar."""
    print(text, file=sys.stderr, flush=True)


class Journal:
    """Appends one JSON object a line to `path`; continuing a run first drops what was written after its checkpoint.

    Args:
        path: the JSON-lines file.
        update: the update at which the run stands.
        tensorboard: folder for TensorBoard's event files, or None.

    Raises:
        UserError: a file cannot be written.
    """

    def __init__(self, path: Path, *, update: int, tensorboard: str | None = None) -> None:
        self.path = path
        self._file: TextIO | None = None
        self._board: SummaryWriter | None = None
        if path.exists():
            lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
            kept = [line for line in lines if _is_before(line, update)]
            if len(kept) < len(lines):
                write_text(path, "".join(kept))
        try:
            self._file = path.open("a", encoding="utf-8")
            if tensorboard is not None:
                from torch.utils.tensorboard import SummaryWriter

                self._board = SummaryWriter(tensorboard, purge_step=update + 1)
        except OSError as error:
            raise UserError(f"{error.filename or path}: cannot be written: {error.strerror or error}") from error

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *error: object) -> None:
        if self._file is not None:
            self._file.close()
        if self._board is not None:
            self._board.close()

    def write(self, event: str, update: int, values: Mapping[str, float]) -> None:
        """Log `values` of one kind of event (`train`, `valid`, `epoch`) at an update."""
        finite = {name: value if math.isfinite(value) else None for name, value in values.items()}  # JSON has no NaN
        try:
            assert self._file is not None
            self._file.write(json.dumps({"event": event, "update": update, **finite}) + "\n")
            self._file.flush()
        except OSError as error:
            raise UserError(f"{self.path}: cannot be written: {error.strerror or error}") from error
        if self._board is not None:
            for name, value in values.items():
                self._board.add_scalar(f"{event}/{name}", value, update)


def _is_before(line: str, update: int) -> bool:
    try:
        entry = json.loads(line)
        return isinstance(entry, dict) and entry.get("update", 0) <= update
    except ValueError:  # the line that a killed process did not finish
        return False
