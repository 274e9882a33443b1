"""`meta.json`, the description of a folder of preprocessed data."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from docnmt.core.data.schema import SCHEMAS, AnyMeta, FileEntry
from docnmt.core.formats.file_blocks import blocks
from docnmt.runtime.checksums import KIND, checking, checksum, file_checksum
from docnmt.runtime.errors import UserError
from docnmt.runtime.files import write_json
from docnmt.runtime.structured import checked, parse_json, read_limited
from docnmt.runtime.version import __version__

META = "meta.json"
FORMAT = 1
#: Files that do not count as data: the fingerprint does not depend on the names of documents.
_BESIDE = re.compile(r"\.names\.text\.(offsets\.)?bin$|^dropped\.tsv$")
#: The list of documents that were left out.
DROPPED = "dropped.tsv"
_AGAIN = "preprocess again"


def read_meta(folder: Path, *, task: str | None = None) -> dict[str, Any]:
    """Read a folder's `meta.json` and check the sizes of the files it lists, without reading them.

    Args:
        task: what the folder must be made for, if that matters.

    Raises:
        UserError: the folder is not a data folder, has another format, is damaged, or a file is missing or truncated;
            or it is made for another task.
    """
    path = Path(folder) / META
    if not path.exists():
        raise UserError(f"{folder}: not a data folder ({META} is missing); make one with docnmt-preprocess")
    meta = parse_json(read_limited(path), str(path), _AGAIN)
    if not isinstance(meta, dict) or not {"format", "task"} <= meta.keys():
        raise UserError(f"{path}: not written by docnmt-preprocess; name a folder that is")
    if meta["format"] != FORMAT:
        raise UserError(
            f"{path}: data format {meta['format']} of docnmt {meta.get('docnmt')}, this is docnmt {__version__} "
            f"with format {FORMAT}; preprocess again"
        )
    made_for = meta["task"]
    schema = SCHEMAS.get(made_for, AnyMeta) if isinstance(made_for, str) else AnyMeta
    files = checked(meta, schema, str(path), _AGAIN).files
    sealed = "checksum" in meta or any(entry.xxh3 is not None for entry in files.values())
    if checking() and sealed and meta.get("checksum") != _checksum(meta):
        raise UserError(f"{path}: is damaged, or was changed by hand (another checksum); {_AGAIN}")
    for name, entry in files.items():
        _check_size(path.parent / name, entry)
    if task not in (None, made_for):
        raise UserError(f"{folder}: was made for --task {made_for}, not {task}; preprocess with --task {task}")
    return meta


def _check_size(path: Path, entry: FileEntry) -> None:
    """Raise an error for a file that is missing, or shorter or longer than it should be."""
    try:
        size = path.stat().st_size
    except OSError as error:
        raise UserError(f"{path}: missing; {_AGAIN}") from error
    if size != entry.bytes:
        raise UserError(f"{path}: {size:,} bytes, expected {entry.bytes:,}: truncated or changed; {_AGAIN}")
    if entry.dtype is not None and entry.length is not None:
        expected = np.dtype(entry.dtype).itemsize * entry.length
    elif entry.documents is not None and entry.sentences is not None and entry.levels is not None:
        expected = 12 * (entry.documents + 1) + 4 * entry.sentences * entry.levels
    else:
        return
    if size != expected:
        raise UserError(f"{path}: {META} says {entry.bytes:,} bytes and what takes {expected:,}; {_AGAIN}")


def check_files(folder: Path, meta: Mapping[str, Any], *beginnings: str) -> None:
    """Compare all files whose names begin with one of `beginnings` with their checksums; old folders have none.

    Raises:
        UserError: a file differs.
    """
    for name, entry in meta["files"].items() if checking() else ():
        if name.startswith(beginnings) and KIND in entry and file_checksum(folder / name) != entry[KIND]:
            raise UserError(f"{folder / name}: is damaged (another checksum); {_AGAIN}, or copy it again")


def verify_folder(folder: Path) -> Iterator[tuple[Path, str, bool]]:
    """Yield every file, the finding, and whether it is intact: by its xxh3, or its SHA-256 in folders of old versions.

    Raises:
        UserError: see `read_meta`.
    """
    meta = read_meta(folder)
    yield folder / META, "holds" if "checksum" in meta else "has no checksum", True
    for name, entry in meta["files"].items():
        kind = KIND if KIND in entry else "sha256"
        found = file_checksum(folder / name) if kind == KIND else _sha256(folder / name)
        good = found == entry[kind]
        yield folder / name, f"holds ({kind})" if good else f"is damaged (another {kind}); {_AGAIN}", good


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    for block in blocks(path):
        digest.update(block)
    return digest.hexdigest()


def _checksum(meta: Mapping[str, Any]) -> str:
    """Return the checksum of `meta.json` without its checksum, whatever its white space."""
    return checksum(json.dumps({k: v for k, v in meta.items() if k != "checksum"}, sort_keys=True).encode())


def file_entry(content: bytes) -> dict[str, Any]:
    """Return a small file's entry in `meta.json`."""
    return {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest(), KIND: checksum(content)}


def write_meta(folder: Path, *, task: str, files: Mapping[str, Mapping[str, Any]], **content: object) -> dict[str, Any]:
    """Write `meta.json` with the format, docnmt's version and a fingerprint of the data; return its content.

    Args:
        files: for each file of the folder at least its `bytes` and `sha256`.
        content: everything else, as JSON types.
    """
    digest = hashlib.sha256(task.encode())
    for name in sorted(name for name in files if not _BESIDE.search(name)):
        digest.update(f"\n{name} {files[name]['sha256']}".encode())
    content = {
        "format": FORMAT,
        "docnmt": __version__,
        "task": task,
        "fingerprint": digest.hexdigest()[:32],
        **content,
        "files": files,
    }
    text = json.dumps(content, ensure_ascii=False).encode("utf-8", "replace")  # paths need not be UTF-8
    meta: dict[str, Any] = json.loads(text)  # as `read_meta` will read it
    meta["checksum"] = _checksum(meta)
    write_json(folder / META, meta)
    return meta
