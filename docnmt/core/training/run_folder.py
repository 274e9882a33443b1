"""The folder of a run, and its lock."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import re
import shutil
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docnmt.options import settings, to_dict
from docnmt.runtime.system import BEST, LAST, UserError, make_folder, write_text

# A lock that admits one job at a time to a folder, also across machines that share the file system.
#
# The system's lock on `.lock` keeps out other processes of this machine and, on most file systems, of others. Not
# every
# file system passes locks between machines; so the job also writes `.running` there, with its machine and
# process, and touches it while it lives.


LOCK, SIGN = ".lock", ".running"
#: Seconds between two touches, and after how many without one a job on another machine is considered dead.
BEAT, DEAD = 20.0, 120.0


class FolderLock:
    """The exclusive right to write into a folder, which this process holds while it trains there.

    Args:
        folder: must exist. name: its name in messages.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self.sign, self.name, self._folder = folder / SIGN, name, folder
        self._token = json.dumps({"host": socket.gethostname(), "machine": _machine(), "process": os.getpid()})

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lock inside the context.

        Raises:
            UserError: another job holds it, here or elsewhere.
            OSError: the folder cannot be written.
        """
        with (self._folder / LOCK).open("a") as file:
            system_knows = True
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UserError(f"{self.name}: another docnmt-train is writing there{self._who()}") from None
            except OSError as error:
                if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS):
                    raise
                system_knows = False  # this file system has no locks: `.running` must suffice
            self._check_others(here=not system_knows)
            self._claim()
            ended = threading.Event()
            threading.Thread(target=self._beat, args=(ended,), daemon=True).start()
            try:
                yield
            finally:
                ended.set()
                with contextlib.suppress(OSError):
                    if self._is_ours():
                        self.sign.unlink()

    def check(self) -> None:
        """Check before a write that the lock is still ours.

        Raises:
            UserError: this process slept for so long that another job has taken the folder.
        """
        if not self._is_ours():
            raise UserError(
                f"{self.name}: another docnmt-train has taken it over{self._who()}; this one writes no more"
            )

    def _is_ours(self) -> bool:
        try:
            return self.sign.read_text(encoding="utf-8") == self._token
        except OSError:
            return False

    def _claim(self) -> None:
        """Create `.running`; if two jobs start at once, only one succeeds."""
        self.sign.unlink(missing_ok=True)
        try:
            with self.sign.open("x", encoding="utf-8") as file:
                file.write(self._token)
                file.flush()
                os.fsync(file.fileno())
        except FileExistsError:
            raise UserError(f"{self.name}: another docnmt-train begins there at this moment") from None

    def _check_others(self, *, here: bool) -> None:
        """Refuse a folder with a live job elsewhere, or, with `here`, on this machine; ages are the file system's."""
        try:
            sign, modified = json.loads(self.sign.read_text(encoding="utf-8")), self.sign.stat().st_mtime
        except (OSError, ValueError):
            return
        if not isinstance(sign, dict) or (sign.get("machine") == _machine() and not here):
            return
        clock = self.sign.with_name(f"{SIGN}.{os.getpid()}.tmp")
        clock.touch()
        age = clock.stat().st_mtime - modified
        clock.unlink()
        if age < DEAD:
            raise UserError(
                f"{self.name}: another docnmt-train is writing there{self._who()}; it gave a sign of life "
                f"{max(age, 0):.0f} seconds ago; if it was killed, try again in {DEAD - max(age, 0):.0f} seconds"
            )

    def _who(self) -> str:
        """Return ` (process 12 on node03)`, or nothing."""
        try:
            sign = json.loads(self.sign.read_text(encoding="utf-8"))
            return f" (process {sign['process']} on {sign['host']})"
        except (OSError, ValueError, TypeError, KeyError):
            return ""

    def _beat(self, ended: threading.Event) -> None:
        while not ended.wait(BEAT):
            with contextlib.suppress(OSError):
                if self._is_ours():
                    os.utime(self.sign)


def _machine() -> str:
    """Return an identifier of this machine that is unique until it restarts."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return socket.gethostname()


# The folder of one training run: its files, its lock and its checkpoints.


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
