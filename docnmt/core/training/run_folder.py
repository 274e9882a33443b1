"""The folder of a run: its files, its lock, and the run that `--overwrite` replaces.

`opened` → locked, temporary files of a killed run deleted → a run writes → `settle`d, unlocked.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import shutil
import socket
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docnmt.options import settings, to_dict
from docnmt.runtime.system import BEST, LAST, OpenObject, UserError, make_folder, write_text

#: What identifies a folder as a run's, also a `--config` that repeats it; the log; what a run locks, with its name.
CONFIG, _LOG, _LOCK = "config.yaml", "train.jsonl", ".lock"
#: The folder for a run that `--overwrite` replaces, until the new one has a checkpoint; and its name while files are
#: moved into it or back, when none of the run's files is a new one's.
_ASIDE, _MOVING = ".replaced", ".replacing"
_OURS = re.compile(
    r"config\.yaml|train\.jsonl|\.lock|\.replaced|\.replacing|checkpoint_(last|best|(best_)?\d+)\.safetensors"
)
_TEMPORARY = re.compile(r"\.(config\.yaml|train\.jsonl|checkpoint_\w+\.safetensors)\.docnmt-\w{8}\.tmp")
#: What `flock` says on a file system without locks.
_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS)


class ModelRecord(OpenObject, omit_defaults=True):
    """What is recorded about a model, in a results folder and in the checkpoints of models that start from it."""

    checkpoint: str
    arch: str
    update: int  # number of its updates, those of its start not counted
    weights: str  # checksum
    data: str  # fingerprint of its training data
    loss: float | None = None  # of the last validation
    averaged: int = 0  # number of checkpoints of which it is the mean
    start: ModelRecord | None = None  # the model of --finetune-from-model
    lacks: tuple[str, ...] = ()  # parts, none of a document, that the model which starts from this one has newly

    def __str__(self) -> str:
        facts = f"{self.arch}, {f'mean of {self.averaged} up to ' if self.averaged else ''}update {self.update:,}, "
        facts += "not validated" if self.loss is None else f"validation loss {self.loss:.4f}"
        return f"{self.checkpoint}: {facts}" + (f"; started from {self.start}" if self.start else "")

    @property
    def lineage(self) -> list[ModelRecord]:
        """This model, its start, the start of that, and so on."""
        return [self, *(self.start.lineage if self.start else ())]

    @property
    def updates(self) -> int:
        """The number of all updates, those of its starts included."""
        return sum(model.update for model in self.lineage)


class RunFolder:
    """The folder of a run, given by `--save-dir`; a file, or a folder of other things, is refused."""

    def __init__(self, path: Path) -> None:
        self.path, self.last, self.best, self.log = path, path / LAST, path / BEST, path / _LOG
        self._token = f"process {os.getpid()} on {socket.gethostname()}\n{uuid.uuid4()}\n"  # what holds the lock
        if path.exists() and not path.is_dir():
            raise UserError(f"--save-dir {path}: is a file, expected a folder; choose another name")
        names = [file.name for file in path.iterdir()] if path.exists() else []
        strange = [name for name in names if not _OURS.fullmatch(name) and not _TEMPORARY.fullmatch(name)]
        if strange and not {CONFIG, LAST} & set(names):
            raise UserError(
                f"--save-dir {path}: is not empty and was not written by docnmt-train ({CONFIG} is missing); "
                "choose another folder"
            )

    def numbered(self) -> dict[int, Path]:
        """Return the numbered checkpoints by update, ascending."""
        matches = ((re.fullmatch(r"checkpoint_(\d+)", file.stem), file) for file in self.path.glob("*.safetensors"))
        return dict(sorted((int(match[1]), file) for match, file in matches if match))

    @contextlib.contextmanager
    def opened(self) -> Iterator[None]:
        """Create the folder, hold its lock against a second training, and clean up after one that was killed."""
        new, stack = not self.path.exists(), contextlib.ExitStack()
        try:
            make_folder(self.path.parent)
            self.path.mkdir(exist_ok=True)
            stack.enter_context(self._locked())
        except OSError as error:
            raise UserError(f"--save-dir {self.path}: cannot be written: {error.strerror or error}") from error
        with stack:
            for file in self.path.iterdir():
                if _TEMPORARY.fullmatch(file.name):
                    file.unlink()
            self.settle()
            try:
                yield
            finally:
                self.settle()
                nothing_written = [file.name for file in self.path.iterdir()] == [_LOCK]
                if new and nothing_written and self._is_ours():
                    shutil.rmtree(self.path)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the system's lock on `.lock`, which names this process; it ends with the process, however that ends."""
        with (self.path / _LOCK).open("a+", encoding="utf-8") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UserError(f"--save-dir {self.path}: another docnmt-train is writing there{self._who()}") from None
            except OSError as error:
                if error.errno not in _NO_LOCKS:
                    raise
            file.truncate(0)
            file.write(self._token)
            file.flush()
            try:
                yield
            finally:
                if self._is_ours():
                    file.truncate(0)

    def _is_ours(self) -> bool:
        with contextlib.suppress(OSError):
            return (self.path / _LOCK).read_text(encoding="utf-8") == self._token
        return False

    def _who(self) -> str:
        """Return ` (process 12 on node03)`, or nothing."""
        with contextlib.suppress(OSError, ValueError):
            return f" ({name})" if (name := (self.path / _LOCK).read_text(encoding="utf-8").partition("\n")[0]) else ""
        return ""

    def check_ours(self) -> None:
        """Refuse to write if another job has named itself in `.lock` since: one that the system's lock did not stop."""
        if not self._is_ours():
            raise UserError(
                f"--save-dir {self.path}: another docnmt-train has taken it over{self._who()}; this one writes no more"
            )

    def check_new(self) -> None:
        """Refuse to begin a run in a folder with another run's checkpoints, or a log with validations."""
        results = [path.name for path in sorted(self.path.glob("checkpoint_*.safetensors"))]
        if not results and self.log.exists() and '"event": "valid"' in self.log.read_text("utf-8", "replace"):
            results = [_LOG]
        if results:
            raise UserError(
                f"--save-dir {self.path}: holds {results[0]} of a run, and no {LAST} to go on from; give another "
                "folder, or --overwrite to delete it"
            )

    def clear(self) -> None:
        """Move the folder's run aside, and nothing else; `settle` deletes it or puts it back."""
        (self.path / _MOVING).mkdir(exist_ok=True)
        for file in self._of_run():
            os.replace(file, self.path / _MOVING / file.name)
        os.replace(self.path / _MOVING, self.path / _ASIDE)

    def settle(self) -> None:
        """Delete the run that was moved aside if the new one has a checkpoint; else put it back, all of it. A process
        may be killed at any step of this and of `clear`; the next one's `settle` goes on."""
        aside, moving = self.path / _ASIDE, self.path / _MOVING
        if aside.exists() and self.last.exists():
            shutil.rmtree(aside)
        elif aside.exists():
            for file in self._of_run():
                file.unlink()
            os.replace(aside, moving)
        if moving.exists():
            for file in moving.iterdir():
                os.replace(file, self.path / file.name)
            moving.rmdir()

    def _of_run(self) -> list[Path]:
        return [file for file in self.path.iterdir() if _OURS.fullmatch(file.name) and file.name[0] != "."]

    def write_config(self, config: dict[str, Any]) -> None:
        """Write the resolved configuration as a `--config` file that repeats the run."""
        import yaml

        text = "# the resolved configuration; docnmt-train --config THIS_FILE repeats or continues the run\n"
        for section, values in config.items():
            defaults = {setting.name: setting.default for setting in settings(type(values))}
            given = {
                name.replace("_", "-"): value  # None is written only if it is not the option's default
                for name, value in to_dict(values).items()
                if name != "overwrite" and (value is not None or defaults[name] is not None)
            }
            text += f"\n# {section}\n" + (yaml.safe_dump(given, sort_keys=False, allow_unicode=True) if given else "")
        write_text(self.path / CONFIG, text)
