"""Files that appear whole or not at all, folders that are ours before we write into them, and a run's checkpoint."""

from __future__ import annotations

import contextlib
import fcntl
import glob
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from docnmt.errors import UserError

#: The names of the checkpoints every run has.
LAST, BEST = "checkpoint_last.safetensors", "checkpoint_best.safetensors"


def fsync_path(path: Path) -> None:
    """Force a file, or a folder's list of names, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _umask() -> int:
    """What this process takes from the permissions of new files; it can only be read by setting it."""
    umask = os.umask(0o077)
    os.umask(umask)
    return umask


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path beside `path`; on success it is fsynced and renamed to `path`, else removed.

    Raises:
        UserError: the system refused (disk full, no permission), or `path` is a folder or a device; whatever stood at
            `path` is untouched.
    """
    if path.exists() and not path.is_file():
        raise UserError(f"{path}: is a folder or a device, expected the name of a file; choose another")
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        os.chmod(temporary, 0o666 & ~_umask())  # safetensors' own files are their owner's alone
        fsync_path(temporary)
        os.replace(temporary, path)
        fsync_path(path.parent)
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {error.strerror or error}; nothing was changed") from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


def check_readable(path: Path) -> None:
    """Before long work that ends in reading it: can the file be opened?

    Raises:
        UserError: it cannot.
    """
    try:
        path.open("rb").close()
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror or error}") from error


def check_writable(path: Path) -> None:
    """Before long work that ends in writing it: can `replacing` write a file of this name?

    Raises:
        UserError: it is a folder or a device, or its folder takes no new files.
    """
    with contextlib.suppress(_Checked), replacing(path) as temporary:
        temporary.touch()
        raise _Checked


class _Checked(Exception):
    """Leaves `replacing` without a file."""


def check_new(path: Path, *, overwrite: bool) -> None:
    """Before long work that ends in writing it: is there no such file, or may it be replaced?

    Raises:
        UserError: there is one, and nobody said so.
    """
    if path.exists() and not overwrite:
        raise UserError(f"{path}: exists already; give --overwrite to replace it or choose another name")


def write_text(path: Path, text: str) -> None:
    """Write a small text file whole or not at all."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, value: object) -> None:
    """Write a JSON file whole or not at all, readable by a person."""
    write_text(path, json.dumps(value, ensure_ascii=False, indent=1) + "\n")


@contextlib.contextmanager
def replacing_folder(path: Path, *, marker: str, overwrite: bool) -> Iterator[Path]:
    """A temporary folder beside `path` that takes its place on success and is removed otherwise.

    `marker` is the file that shows a folder to be ours (`meta.json`). What a killed process left beside `path` is
    removed.

    Raises:
        UserError: `path` exists and is not empty, and it is not ours or `overwrite` is False.
    """
    check_folder(path, marker=marker, overwrite=overwrite)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _sweep(path)
        temporary, lock = _locked_folder(path)
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {error.strerror or error}") from error
    try:
        yield temporary
        for file in temporary.rglob("*"):
            fsync_path(file)
        os.chmod(temporary, 0o777 & ~_umask())
        old = path.with_name(f".{path.name}.{os.getpid()}.old")
        if path.exists():
            os.replace(path, old)
        os.replace(temporary, path)
        fsync_path(path.parent)
        shutil.rmtree(old, ignore_errors=True)
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {error.strerror or error}; nothing was changed") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        os.close(lock)


def _locked_folder(path: Path) -> tuple[Path, int]:
    """A new temporary folder for `path`, and the lock on it that this process holds while it lives."""
    while True:
        temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent))
        lock = os.open(temporary, os.O_RDONLY)
        with contextlib.suppress(OSError):  # a file system without locks: then nothing is ever swept up there
            fcntl.flock(lock, fcntl.LOCK_EX)
        if temporary.exists():  # else another process has swept it up before it was locked
            return temporary, lock
        os.close(lock)


def _sweep(path: Path) -> None:
    """Remove temporary folders of `path` whose process lives no longer: nobody holds their lock."""
    for folder in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
        with contextlib.suppress(OSError):
            lock = os.open(folder, os.O_RDONLY)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder)
            finally:
                os.close(lock)


def check_folder(path: Path, *, marker: str, overwrite: bool) -> None:
    """Refuse, before any work is done, to write over something.

    Raises:
        UserError: `path` is a file, or a folder that is not empty and either not ours or `overwrite` is False.
    """
    if not path.exists():
        return
    if not path.is_dir():
        raise UserError(f"{path}: is a file, expected a folder; choose another name")
    if not any(path.iterdir()):
        return
    if not (path / marker).exists():
        raise UserError(f"{path}: is not empty and was not written by docnmt ({marker} is missing); choose another")
    if not overwrite:
        raise UserError(f"{path}: exists already; give --overwrite to replace it or choose another folder")


def find_checkpoint(path: str | Path) -> Path:
    """A checkpoint file for a file or a folder; of a folder its best, or its last where none was validated.

    Raises:
        UserError: there is none.
    """
    path = Path(path)
    if not path.is_dir():
        if not path.is_file():
            raise UserError(f"{path}: no such checkpoint or folder of checkpoints")
        return path
    for name in (BEST, LAST):
        if (path / name).is_file():
            return path / name
    raise UserError(f"{path}: holds neither {BEST} nor {LAST}; is it the --save-dir of a training run?")
