"""`meta.json`: what a data folder holds, and whether it still does."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from docnmt.errors import UserError
from docnmt.files import write_json
from docnmt.version import __version__

MARKER = "meta.json"
FORMAT = 1


def write_meta(folder: Path, content: dict[str, Any]) -> None:
    """Describe a finished folder: `content`, the size and sha256 of every file, and a fingerprint of them all."""
    files = {
        str(path.relative_to(folder)): {"bytes": path.stat().st_size, "sha256": file_hash(path)}
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
    digest = hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()
    about = {"format": FORMAT, "docnmt": __version__, "fingerprint": digest}
    write_json(folder / MARKER, about | content | {"files": files})


def read_meta(folder: Path) -> dict[str, Any]:
    """The description of a data folder; sizes of files are checked, their content is not read.

    Raises:
        UserError: not a data folder, one of another format version, or a file that is missing or was cut.
    """
    path = folder / MARKER
    try:
        meta: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        files, version = dict(meta["files"]), meta["format"]
    except FileNotFoundError:
        raise UserError(f"{folder}: is not a data folder ({MARKER} is missing); make one with docnmt-preprocess") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path}: is damaged ({error}); preprocess again") from error
    if version != FORMAT:
        raise UserError(f"{path}: format version {version}, this docnmt reads {FORMAT}; preprocess again")
    for name, about in files.items():
        file = folder / name
        actual = file.stat().st_size if file.is_file() else None
        if actual != about["bytes"]:
            found = "is missing" if actual is None else f"has {actual} bytes"
            raise UserError(f"{file}: {found}, expected {about['bytes']} bytes; it is damaged, preprocess again")
    return meta


def file_hash(path: Path) -> str:
    """sha256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() if hasattr(hashlib, "file_digest") else _hash(file)


def _hash(file: Any) -> str:
    """The same on Python 3.10, which has no `file_digest`."""
    digest = hashlib.sha256()
    while block := file.read(1 << 20):
        digest.update(block)
    return digest.hexdigest()
