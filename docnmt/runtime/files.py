"""Atomic writing of files and folders, checks before writing, and the checkpoint of a run."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import glob
import json
import os
import re
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from docnmt.runtime.errors import UserError
from docnmt.runtime.hub import fetched, is_address

#: The names of the checkpoints that every run has.
LAST, BEST = "checkpoint_last.safetensors", "checkpoint_best.safetensors"
#: AT_FDCWD and RENAME_EXCHANGE of Linux's <fcntl.h>.
_HERE, _EXCHANGE = -100, 2
#: In the names of temporary files and folders: docnmt made them. The number of the process and a random word follow.
_MADE = "docnmt-"


def fsync_path(path: Path) -> None:
    """Force a file, or a folder's list of names, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _umask() -> int:
    """Return the permissions removed from this process's new files; the umask can only be read by setting it."""
    umask = os.umask(0o077)
    os.umask(umask)
    return umask


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; on success it is fsynced and renamed to `path`, else removed.

    If `path` is a link, its target is replaced. Nobody else can read the file while it is written; then it has the
    permissions of the one that it replaces, or those of a new file. Temporary files of killed processes are removed.

    Raises:
        UserError: the system refused (disk full, no permission), or `path` is a folder or a device; an existing file at
            `path` is untouched.
    """
    path = Path(os.path.realpath(path))
    if path.exists() and not path.is_file():
        raise UserError(f"{path}: is a folder or a device, expected the name of a file; choose another")
    temporary, lock = path, -1
    try:
        make_folder(path.parent)
        _sweep(path)
        temporary, lock = _temporary(path, folder=False)
        yield temporary
        os.chmod(temporary, _mode(path, new=0o666))
        fsync_path(temporary)
        os.replace(temporary, path)
        fsync_path(path.parent)
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {error.strerror or error}; nothing was changed") from error
    finally:
        if lock >= 0:
            with contextlib.suppress(OSError):
                temporary.unlink()
            os.close(lock)


def make_folder(path: Path) -> None:
    """A folder for output; it is said on stderr if it is new, as a name may have been mistyped.

    Raises:
        OSError: it cannot be made.
    """
    if not path.exists():
        path.mkdir(parents=True, exist_ok=True)
        print(f"note: {path}: is a new folder", file=sys.stderr)


def _temporary(path: Path, *, folder: bool) -> tuple[Path, int]:
    """Create a new file or folder beside `path` that only its owner can read, locked for the life of this process."""
    make = tempfile.mkdtemp if folder else tempfile.mkstemp  # never through a link, nor what is there already
    while True:
        made = make(prefix=f".{path.name}.{_MADE}{os.getpid()}-", suffix=".tmp", dir=path.parent)
        if isinstance(made, str):
            temporary, lock = Path(made), os.open(made, os.O_RDONLY | os.O_NOFOLLOW)
        else:
            lock, temporary = made[0], Path(made[1])
        with contextlib.suppress(OSError):  # on a file system without locks nothing is ever swept up
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if temporary.exists():  # else another process has swept it up before it was locked
            return temporary, lock
        os.close(lock)


def _mode(path: Path, *, new: int) -> int:
    """Return the permissions of what is at a path, or those that a new file or folder gets."""
    try:
        return stat.S_IMODE(path.stat().st_mode) & 0o777
    except FileNotFoundError:
        return new & ~_umask()


def check_readable(path: Path) -> None:
    """Check before long work that a file can be opened for reading at its end.

    Raises:
        UserError: it cannot be opened.
    """
    try:
        path.open("rb").close()
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror or error}") from error


def check_writable(path: Path) -> None:
    """Check before long work that `replacing` can write a file of this name at its end.

    Raises:
        UserError: it is a folder or a device, or its folder takes no new files.
    """
    with contextlib.suppress(_Checked), replacing(path):
        raise _Checked


class _Checked(Exception):
    """Leaves `replacing` without writing a file."""


def check_new(path: Path, *, overwrite: bool) -> None:
    """Check before long work that no file of this name exists, or that it may be replaced.

    Raises:
        UserError: it exists and `overwrite` is False; or it cannot be written.
    """
    check_writable(path)
    if path.exists() and not overwrite:
        raise UserError(f"{path}: exists already; give --overwrite to replace it or choose another name")


def write_text(path: Path, text: str) -> None:
    """Write a small text file completely or not at all."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, value: object) -> None:
    """Write a JSON file completely or not at all, in a readable layout."""
    write_text(path, json.dumps(value, ensure_ascii=False, indent=1) + "\n")


@contextlib.contextmanager
def replacing_folder(path: Path, *, marker: str, overwrite: bool) -> Iterator[Path]:
    """Yield a temporary folder beside `path` that replaces it on success and is removed otherwise.

    `marker` is a file that identifies docnmt's folders (`meta.json`). If `path` is a link, its target is
    replaced. Remains of killed processes beside `path` are removed, or put back if `path` is missing.

    Raises:
        UserError: `path` exists and is not empty, and it is not docnmt's or `overwrite` is False.
    """
    path = Path(os.path.realpath(path))
    try:
        make_folder(path.parent)
        _sweep(path)
        check_folder(path, marker=marker, overwrite=overwrite)
        temporary, lock = _temporary(path, folder=True)
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {error.strerror or error}") from error
    try:
        yield temporary
        for file in temporary.rglob("*"):
            fsync_path(file)
        os.chmod(temporary, _mode(path, new=0o777))
        if not exchange(temporary, path):
            old = temporary.with_suffix(".old")
            if path.exists():
                os.replace(path, old)  # if killed here, the next run puts it back
            os.replace(temporary, path)
            shutil.rmtree(old, ignore_errors=True)
        fsync_path(path.parent)
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {error.strerror or error}; nothing was changed") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        os.close(lock)


def exchange(one: Path, other: Path) -> bool:
    """Exchange two paths atomically; return False if one is missing or the system cannot do it."""
    try:
        rename = ctypes.CDLL(None).renameat2
    except AttributeError:  # not Linux, or an old C library
        return False
    return bool(rename(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE) == 0)


def _sweep(path: Path) -> None:
    """Remove temporary files and folders of `path` whose process has ended, which shows by their lock. Put a folder
    back that was moved aside to be replaced, if nothing took its place. What others made stays, whatever its name."""
    for left in path.parent.glob(f".{glob.escape(path.name)}.{_MADE}*"):
        made = re.fullmatch(rf"{_MADE}(\d+)-\w{{8}}\.(tmp|old)", left.name[len(path.name) + 2 :])
        if made is None or left.is_symlink():
            continue
        with contextlib.suppress(OSError):
            if made[2] == "old" and path.exists():
                shutil.rmtree(left)
                continue
            if made[2] == "old":
                os.replace(left, path)
                print(f"note: {path}: is put back; a process was killed while it was being replaced", file=sys.stderr)
                continue
            if _lives(made[1]):  # a library may have put an unlocked file there
                continue
            lock = os.open(left, os.O_RDONLY | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(left) if left.is_dir() else left.unlink()
            finally:
                os.close(lock)


def _lives(word: str) -> bool:
    """Return True if this is the number of a process that runs on this machine."""
    try:
        os.kill(int(word), 0)
    except (ValueError, OverflowError, ProcessLookupError):
        return False
    except OSError:  # another user's
        return True
    return True


def check_folder(path: Path, *, marker: str, overwrite: bool) -> None:
    """Refuse, before any work is done, to overwrite something else than docnmt's own folder.

    Raises:
        UserError: `path` is a file, or a folder that is not empty and not docnmt's, or has a folder of others in
            it, or `overwrite` is False; or nothing can be written, or folders cannot be replaced there.
    """
    above = next(parent for parent in Path(os.path.realpath(path)).parents if os.path.lexists(parent))
    prefix = f".{path.name}.{_MADE}{os.getpid()}-"
    try:
        os.rmdir(tempfile.mkdtemp(prefix=prefix, suffix=".tmp", dir=above))  # permissions do not say all
    except OSError as error:
        what = f"{above} is not a folder that takes new files ({error.strerror or error})"
        raise UserError(f"{path}: cannot be written: {what}; choose another") from error
    if not path.exists():
        return
    if not path.is_dir():
        raise UserError(f"{path}: is a file, expected a folder; choose another name")
    if os.path.ismount(path):
        raise UserError(
            f"{path}: is where a disk is mounted and cannot be replaced as a whole; give a folder inside it"
        )
    if not any(path.iterdir()):
        return
    if not (path / marker).exists():
        raise UserError(f"{path}: is not empty and was not written by docnmt ({marker} is missing); choose another")
    if not overwrite:
        raise UserError(f"{path}: exists already; give --overwrite to replace it or choose another folder")
    if foreign := next((each for each in sorted(path.iterdir()) if each.is_dir()), None):  # docnmt writes files only
        raise UserError(f"{path}: --overwrite would delete {foreign}, a folder that is not part of it; move it away")


def find_checkpoint(path: str | Path) -> Path:
    """Return the checkpoint file for a file, a folder or an address `hf://org/name`; in a folder the best, or the last
    if none was validated.

    Raises:
        UserError: there is none.
    """
    path = fetched(path) if is_address(path) else Path(path)
    if not path.is_dir():
        if not path.is_file():
            raise UserError(f"{path}: no such checkpoint or folder of checkpoints")
        return path
    for name in (BEST, LAST):
        if (path / name).is_file():
            return path / name
    raise UserError(f"{path}: holds neither {BEST} nor {LAST}; is it the --save-dir of a training run?")
