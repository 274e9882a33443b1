"""Models on the Hugging Face hub, or in its local cache: `hf://org/name`, `hf://org/name@revision`."""

from __future__ import annotations

import re
from pathlib import Path

from docnmt.runtime.errors import UserError

#: The pattern of addresses; in a `Path` one of the slashes is lost.
_ADDRESS = re.compile(r"hf:/{1,2}([\w.-]+/[\w.-]+)(?:@(\S+))?")
#: The files that docnmt reads of a repository; weights in other formats are not downloaded.
_FILES = ("checkpoint_*.safetensors", "*.json", "*.yaml", "README.md")


def is_address(path: str | Path) -> bool:
    """Return True if a path is an address on the hub."""
    return str(path).startswith("hf:/")


def fetched(path: str | Path) -> Path:
    """Return the folder of a model, from the cache or downloaded into it. With HF_HUB_OFFLINE=1 nothing is downloaded.

    Raises:
        UserError: the address is malformed, the package is missing, or the model is not available.
    """
    found = _ADDRESS.fullmatch(str(path))
    if found is None:
        raise UserError(f"{path}: expected hf://ORGANISATION/NAME, or hf://ORGANISATION/NAME@REVISION")
    try:
        from huggingface_hub import snapshot_download
    except ImportError as error:
        raise UserError(f"{path}: needs huggingface_hub; pip install 'docnmt[hub]'") from error
    try:
        return Path(snapshot_download(found[1], revision=found[2], allow_patterns=list(_FILES)))
    except (OSError, ValueError) as error:
        why = str(error).strip().partition("\n")[0]
        raise UserError(f"hf://{found[1]}: cannot be had from the Hugging Face hub: {why}") from error


def address_of(path: str) -> str:
    """Turn `org/name` into an address if there is no such path and no folder `org`; return all else unchanged."""
    organisation = path.partition("/")[0]
    looks_so = re.fullmatch(r"[\w.-]+/[\w.-]+", path) is not None and not organisation.startswith(".")
    return f"hf://{path}" if looks_so and not Path(organisation).exists() else path
