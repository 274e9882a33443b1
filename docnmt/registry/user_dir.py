"""Plug-ins: installed packages with an entry point `docnmt.plugins`, and folders given as `--user-dir`."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
import traceback
import zlib
from collections.abc import Iterator
from pathlib import Path

from docnmt.registry.registry import forgotten_on_error
from docnmt.runtime.errors import Terminated, UsageError, UserError

#: Files in a plug-in folder that are not imported.
_OTHERS = ("test_*.py", "*_test.py", "conftest.py", "setup.py")
#: The files and packages imported so far: a checksum of each, by its path.
_imported: dict[Path, int] = {}


def import_plugins(user_dir: str | Path | None) -> None:
    """Import the plug-in folder of `--user-dir` and the installed plug-ins (entry points `docnmt.plugins`).

    Raises:
        UsageError: the folder is missing or fails to import, or has changed since this process imported it.
    """
    from importlib.metadata import entry_points

    for entry_point in entry_points(group="docnmt.plugins"):
        with _named(f"the installed plug-in '{entry_point.name}' ({entry_point.value})"):
            entry_point.load()
    if user_dir is None:
        return
    folder = Path(user_dir).resolve()
    if not folder.is_dir():
        raise UsageError(f"--user-dir {user_dir}: {'is a file, expected a' if folder.exists() else 'no such'} folder")
    files = [folder] if (folder / "__init__.py").exists() else _files(folder)
    if not files:
        raise UsageError(f"--user-dir {user_dir}: holds no Python files")
    for file in files:
        if str(file.parent) not in sys.path:
            sys.path.append(str(file.parent))  # last, so that no file hides a module
        with _named(f"--user-dir {user_dir}: {file.name}", folder):
            _import(file)


def imported() -> dict[str, str]:
    """Return the plug-in files and packages of this process, with a checksum of each."""
    return {path.name: f"{content:08x}" for path, content in _imported.items()}


def _files(folder: Path) -> list[Path]:
    """Return the files of a plug-in, without its tests."""
    return [file for file in sorted(folder.glob("*.py")) if not any(file.match(other) for other in _OTHERS)]


@contextlib.contextmanager
def _named(what: str, folder: Path | None = None) -> Iterator[None]:
    """Turn any error while a plug-in is imported into one that names its place (in its folder, if possible), and
    undo its registrations."""
    try:
        with forgotten_on_error():
            yield
    except (UserError, KeyboardInterrupt, Terminated):
        raise
    except BaseException as error:  # `sys.exit`, too: it would end the command with status 0
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename).is_file()]
        frame = ([frame for frame in frames if folder in Path(frame.filename).parents] or frames)[-1]
        place = f" ({Path(frame.filename).name}, line {frame.lineno})"
        raise UsageError(f"{what} fails to import: {error!r}{place}") from error


def place_in_plugin(error: BaseException) -> str:
    """Return file and line of the innermost call in a plug-in that an error came through; "" if it met none."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        file = Path(frame.filename)
        if any(path in (file, *file.parents) for path in _imported):
            return f"{file}, line {frame.lineno}"
    return ""


def _import(path: Path) -> None:
    """Import a file or a package once, under its own name, or another one if a module has that already.

    Raises:
        UsageError: it has changed since.
    """
    content = _checksum(path)
    if _imported.setdefault(path, content) != content:
        raise UsageError(f"{path}: has changed since this process imported it; start Python anew")
    inside = [str(path)] if path.is_dir() else None
    file = path / "__init__.py" if path.is_dir() else path
    name = path.stem
    if _is_another(name, file):
        name = f"{name}_{zlib.crc32(os.fsencode(path)):08x}"
    if name in sys.modules:
        return
    spec = importlib.util.spec_from_file_location(name, file, submodule_search_locations=inside)
    assert spec is not None
    assert spec.loader is not None  # it has Python's ending
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name], _imported[path]
        raise


def _checksum(path: Path) -> int:
    """Return the checksum of a file, or of all Python files of a package."""
    found = 0
    for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
        found = zlib.crc32(file.read_bytes(), found)
    return found


def _is_another(name: str, file: Path) -> bool:
    """Return True if another module than this file has the name, imported or not."""
    if name in sys.modules:
        return getattr(sys.modules[name], "__file__", None) != str(file)
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return False
    return spec is not None and spec.origin is not None and Path(spec.origin).resolve() != file.resolve()
