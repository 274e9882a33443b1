"""Plug-ins: packages that are installed with an entry point `docnmt.plugins`, and folders given as `--user-dir`."""

from __future__ import annotations

import importlib.util
import os
import sys
import zlib
from pathlib import Path

from docnmt.errors import UsageError, UserError


def import_plugins(user_dir: str | None) -> None:
    """Import the plug-in folder of `--user-dir` and the installed plug-ins (entry points `docnmt.plugins`).

    Raises:
        UsageError: the folder is missing or fails to import.
    """
    from importlib.metadata import entry_points

    for entry_point in entry_points(group="docnmt.plugins"):
        entry_point.load()
    if user_dir is None:
        return
    folder = Path(user_dir).resolve()
    if not folder.is_dir():
        raise UsageError(f"--user-dir {user_dir}: no such folder")
    files = [folder] if (folder / "__init__.py").exists() else sorted(folder.glob("*.py"))
    if not files:
        raise UsageError(f"--user-dir {user_dir}: holds no Python files")
    for file in files:
        if str(file.parent) not in sys.path:
            sys.path.append(str(file.parent))  # behind all others, so that no file takes the place of a module
        try:
            _import(file)
        except UserError:
            raise
        except Exception as error:
            raise UsageError(f"--user-dir {user_dir}: {file.name} fails to import: {error!r}") from error


def _import(path: Path) -> None:
    """Import a file or a package once, under its own name, or another one where a module has that already."""
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
        del sys.modules[name]
        raise


def _is_another(name: str, file: Path) -> bool:
    """Whether another module than this file has the name, imported or not."""
    if name in sys.modules:
        return getattr(sys.modules[name], "__file__", None) != str(file)
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return False
    return spec is not None and spec.origin is not None and Path(spec.origin).resolve() != file.resolve()
