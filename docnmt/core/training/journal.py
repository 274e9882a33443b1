"""The log of a run: train.jsonl, TensorBoard and lines on stderr."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from docnmt.registry.options import to_dict
from docnmt.runtime.errors import UserError, printable
from docnmt.runtime.files import replacing
from docnmt.runtime.structured import Count, OpenObject, checked, parse_json, read_limited

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

_FORMATS = {"lr": ".3g", "tokens_per_second": ",.0f", "ppl": ".2f", "epoch": "d", "update": ",d"}


def format_values(values: Mapping[str, float]) -> str:
    """Format values as `loss 3.214, ppl 18.20, lr 0.0005`."""
    return ", ".join(f"{name.replace('_', ' ')} {value:{_FORMATS.get(name, '.3f')}}" for name, value in values.items())


def say(text: str) -> None:
    """Print a line on stderr, outside a progress bar."""
    print(printable(text), file=sys.stderr, flush=True)


class _Entry(OpenObject):
    """The part of a log line that is checked when a run continues."""

    update: Count = 0


class Journal:
    """Appends JSON objects, one per line, to `path`; a continued run first drops lines written after its checkpoint.

    Args:
        path: the JSON-lines file; None: another rank writes the log.
        update: the current update of the run.
        tensorboard: folder for TensorBoard's event files, or None.
        options: of the run, by section; TensorBoard compares runs by them. metric: the run's main metric, a name in
            `valid`.

    Raises:
        UserError: a file cannot be written.
    """

    def __init__(
        self, path: Path | None, *, update: int, tensorboard: str | None = None,
        options: Mapping[str, Any] | None = None, metric: str = "loss",
    ) -> None:  # fmt: skip
        self.path = path
        self._file: TextIO | None = None
        self._board: SummaryWriter | None = None
        if path is None:
            return
        if path.exists():
            self._drop_after(path, update)
        try:
            self._file = path.open("a", encoding="utf-8")
            if tensorboard is not None:
                from torch.utils.tensorboard import SummaryWriter

                self._board = SummaryWriter(tensorboard, purge_step=update + 1)
                self._describe(options or {}, metric)
        except OSError as error:
            raise UserError(f"{error.filename or path}: cannot be written: {error.strerror or error}") from error

    def _describe(self, options: Mapping[str, Any], metric: str) -> None:
        """Write the options and the metric to TensorBoard, which compares runs by them."""
        from torch.utils.tensorboard.summary import hparams

        values = {
            f"{section}.{name}": value if isinstance(value, (bool, int, float, str)) else str(value)
            for section, config in options.items()
            for name, value in to_dict(config).items()
        }
        assert self._board is not None
        for summary in hparams(values, {f"valid/{metric}": 0.0}):
            self._board._get_file_writer().add_summary(summary)

    def _drop_after(self, path: Path, update: int) -> None:
        """Drop lines written after `update`, and a last line that a killed process did not finish; drop damaged lines,
        too, with a warning."""
        lines = read_limited(path).splitlines(keepends=True)
        kept: list[bytes] = []
        for number, line in enumerate(lines, 1):
            where = f"{path}:{number}"
            try:
                if checked(parse_json(line, where), _Entry, where).update <= update:
                    kept.append(line)
            except UserError as error:
                if number < len(lines) or line.endswith(b"\n"):
                    say(f"warning: {printable(str(error))}; the line is left out")
        if len(kept) < len(lines):
            with replacing(path) as temporary:
                temporary.write_bytes(b"".join(kept))

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *error: object) -> None:
        if self._file is not None:
            self._file.close()
        if self._board is not None:
            self._board.close()

    def show(self, update: int, texts: Mapping[str, str]) -> None:
        """Show texts in Markdown, in TensorBoard only."""
        if self._board is not None:
            for name, text in texts.items():
                self._board.add_text(name, text, update)

    def write(self, event: str, update: int, values: Mapping[str, float]) -> None:
        """Log the values of one kind of event (`train`, `valid`, `epoch`) at an update."""
        if self._file is None:
            return
        finite = {name: value if math.isfinite(value) else None for name, value in values.items()}  # JSON has no NaN
        try:
            self._file.write(json.dumps({"event": event, "update": update, **finite}) + "\n")
            self._file.flush()
        except OSError as error:
            raise UserError(f"{self.path}: cannot be written: {error.strerror or error}") from error
        if self._board is not None:
            for name, value in values.items():
                self._board.add_scalar(f"{event}/{name}", value, update)
