"""The folder of one training run: its files, its lock and its checkpoints."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docnmt.core.training.folder_lock import LOCK, SIGN, FolderLock
from docnmt.registry.options import settings, to_dict
from docnmt.runtime.errors import UserError
from docnmt.runtime.files import BEST, LAST, make_folder, write_text

#: The file that identifies a folder as a run's, which is also a `--config` that repeats the run; and the log.
CONFIG, LOG = "config.yaml", "train.jsonl"
#: The folder for a run that `--overwrite` replaces, until the new one has a checkpoint; and its name while files are
#: moved into it or back, when none of the run's files is a new one's.
ASIDE, MOVING = ".replaced", ".replacing"
_OURS = re.compile(
    r"config\.yaml|train\.jsonl|\.lock|\.replaced|\.replacing|\.running|checkpoint_(last|best|(best_)?\d+)\.safetensors"
)
_TEMPORARY = re.compile(
    r"\.(running|config\.yaml|train\.jsonl|checkpoint_\w+\.safetensors)\.(docnmt-\d+-\w{8}|\d+)\.tmp"
)


class RunFolder:
    """The folder of a run, given by `--save-dir`.

    Raises:
        UserError: the path is a file, or a folder that is not empty and not a run's.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.lock = path, FolderLock(path, f"--save-dir {path}")
        if path.exists() and not path.is_dir():
            raise UserError(f"--save-dir {path}: is a file, expected a folder; choose another name")
        names = [file.name for file in path.iterdir()] if path.exists() else []
        strange = [name for name in names if not _OURS.fullmatch(name) and not _TEMPORARY.fullmatch(name)]
        if strange and not {CONFIG, LAST} & set(names):
            raise UserError(
                f"--save-dir {path}: is not empty and was not written by docnmt-train ({CONFIG} is missing); "
                "choose another folder"
            )

    @property
    def last(self) -> Path:
        """The path of checkpoint_last."""
        return self.path / LAST

    @property
    def best(self) -> Path:
        """The path of checkpoint_best."""
        return self.path / BEST

    @property
    def log(self) -> Path:
        """The path of train.jsonl."""
        return self.path / LOG

    def kept(self) -> dict[int, Path]:
        """Return the numbered checkpoints by update, ascending."""
        found = {}
        for file in self.path.glob("checkpoint_*.safetensors"):
            match = re.fullmatch(r"checkpoint_(\d+)\.safetensors", file.name)
            if match:
                found[int(match[1])] = file
        return dict(sorted(found.items()))

    def keep(self, update: int) -> Path:
        """Return the path of a numbered checkpoint."""
        return self.path / f"checkpoint_{update}.safetensors"

    @contextlib.contextmanager
    def opened(self) -> Iterator[None]:
        """Create the folder, hold its lock against a second training, and clean up after one that was killed.

        Raises:
            UserError: another process trains here, or the folder cannot be written.
        """
        new, stack = not self.path.exists(), contextlib.ExitStack()
        try:
            make_folder(self.path.parent)
            self.path.mkdir(exist_ok=True)
            stack.enter_context(self.lock.held())
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
                if new and {file.name for file in self.path.iterdir()} <= {LOCK, SIGN}:  # nothing was written
                    shutil.rmtree(self.path)

    def check_new(self) -> None:
        """Refuse to begin a run in a folder with another run's results.

        Raises:
            UserError: there are checkpoints, or a log with validations.
        """
        found = [path.name for path in sorted(self.path.glob("checkpoint_*.safetensors"))]
        if not found and self.log.exists() and '"event": "valid"' in self.log.read_text("utf-8", "replace"):
            found = [LOG]
        if found:
            raise UserError(
                f"--save-dir {self.path}: holds {found[0]} of a run, and no {LAST} to go on from; give another "
                "folder, or --overwrite to delete it"
            )

    def clear(self) -> None:
        """Move the folder's run aside, and nothing else; `settle` deletes it or puts it back."""
        (self.path / MOVING).mkdir(exist_ok=True)
        for file in self._of_run():
            os.replace(file, self.path / MOVING / file.name)
        os.replace(self.path / MOVING, self.path / ASIDE)

    def settle(self) -> None:
        """Delete the run that was moved aside if the new one has a checkpoint; else put it back, all of it.

        A process may be killed at any step of this and of `clear`; the next one's `settle` goes on.
        """
        aside, moving = self.path / ASIDE, self.path / MOVING
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
        """Return the run's files."""
        return [file for file in self.path.iterdir() if _OURS.fullmatch(file.name) and file.name[0] != "."]

    def write_config(self, config: dict[str, Any]) -> None:
        """Write the resolved configuration as a `--config` file that repeats the run."""
        import yaml

        text = "# the resolved configuration; docnmt-train --config THIS_FILE repeats or continues the run\n"
        for section, values in config.items():
            usual = {each.name: each.default for each in settings(type(values))}
            given = {
                name.replace("_", "-"): value  # None is written only if it is not the option's default
                for name, value in to_dict(values).items()
                if name != "overwrite" and (value is not None or usual[name] is not None)
            }
            text += f"\n# {section}\n" + (yaml.safe_dump(given, sort_keys=False, allow_unicode=True) if given else "")
        write_text(self.path / CONFIG, text)
