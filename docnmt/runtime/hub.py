"""Models on the Hugging Face hub, or in its local cache: `hf://org/name`, `hf://org/name@revision`."""

from __future__ import annotations

import re
from pathlib import Path

from docnmt.runtime.errors import UserError

#: A `Path` has lost one of the strokes.
_ADDRESS = re.compile(r"hf:/{1,2}([\w.-]+/[\w.-]+)(?:@(\S+))?")
#: What docnmt reads of a repository; weights in any other form are not fetched.
_FILES = ("checkpoint_*.safetensors", "*.json", "*.yaml", "README.md")


def is_address(path: str | Path) -> bool:
    """Whether a path is one of the hub's."""
    return str(path).startswith("hf:/")


def fetched(path: str | Path) -> Path:
    """The folder of a model, from the cache or downloaded into it. With HF_HUB_OFFLINE=1 nothing is downloaded.

    Raises:
        UserError: the address is none, the package is missing, or the model cannot be had.
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
    """`org/name` as an address, where there is no such path and no folder `org`; everything else as it is."""
    organisation = path.partition("/")[0]
    looks_so = re.fullmatch(r"[\w.-]+/[\w.-]+", path) is not None and not organisation.startswith(".")
    return f"hf://{path}" if looks_so and not Path(organisation).exists() else path
