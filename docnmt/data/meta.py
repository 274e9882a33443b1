"""`meta.json`: what a folder of preprocessed data holds."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from docnmt.errors import UserError
from docnmt.files import write_json
from docnmt.version import __version__

META = "meta.json"
FORMAT = 1
#: Files that say something of the data and are none: the same text is the same data, whatever its documents are called.
_BESIDE = re.compile(r"\.names\.text\.(offsets\.)?bin$|^dropped\.tsv$")
#: The list of documents that were left out.
DROPPED = "dropped.tsv"


def read_meta(folder: Path) -> dict[str, Any]:
    """The content of a folder's `meta.json`; the files it lists have the sizes it says. Nothing is hashed.

    Raises:
        UserError: not a data folder, written in another format, or a file is missing or truncated.
    """
    path = Path(folder) / META
    try:
        meta = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise UserError(f"{folder}: not a data folder ({META} is missing); make one with docnmt-preprocess") from error
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: cannot be read: {error}; preprocess again") from error
    if not isinstance(meta, dict) or not {"format", "task"} <= meta.keys():
        raise UserError(f"{path}: not written by docnmt-preprocess; name a folder that is")
    if meta["format"] != FORMAT:
        raise UserError(
            f"{path}: data format {meta['format']} of docnmt {meta.get('docnmt')}, this is docnmt {__version__} "
            f"with format {FORMAT}; preprocess again"
        )
    for name, entry in meta.get("files", {}).items():
        try:
            size = (path.parent / name).stat().st_size
        except OSError as error:
            raise UserError(f"{path.parent / name}: missing; preprocess again") from error
        if size != entry["bytes"]:
            raise UserError(
                f"{path.parent / name}: {size:,} bytes, expected {entry['bytes']:,}: truncated or changed; "
                "preprocess again"
            )
    return meta


def file_entry(content: bytes) -> dict[str, Any]:
    """A small file's entry in `meta.json`."""
    return {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def write_meta(folder: Path, *, task: str, files: Mapping[str, Mapping[str, Any]], **content: object) -> dict[str, Any]:
    """Write `meta.json` with the format, docnmt's version and a fingerprint of the data; returns it.

    Args:
        files: for each file of the folder at least its `bytes` and `sha256`.
        content: everything else, as JSON types.
    """
    digest = hashlib.sha256(task.encode())
    for name in sorted(name for name in files if not _BESIDE.search(name)):
        digest.update(f"\n{name} {files[name]['sha256']}".encode())
    meta = {
        "format": FORMAT, "docnmt": __version__, "task": task, "fingerprint": digest.hexdigest()[:32],
        **content, "files": files,
    }  # fmt: skip
    write_json(folder / META, meta)
    return meta
