"""Checksums of files and tensors: xxh3 (64 bits), read at the speed of memory.

They show damage (a flipped bit, a file that was copied in part), not forgery.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Collection, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import xxhash
from typing_extensions import Buffer

from docnmt.runtime.errors import UserError

if TYPE_CHECKING:
    import numpy as np  # its arrays are no `Buffer` to type checkers

#: The key of checksums in `meta.json` and in a checkpoint's header.
KIND = "xxh3"
#: Advice on damage.
ADVICE = "it was damaged after docnmt wrote it; copy or make it again"
_BLOCK = 1 << 20
_checking: ContextVar[bool] = ContextVar("checking", default=True)


def checksum(*parts: Buffer | np.ndarray) -> str:
    """Return 16 hexadecimal digits for the bytes of all parts (bytes, contiguous arrays), one after the other."""
    digest = xxhash.xxh3_64()
    for part in parts:
        digest.update(part)  # type: ignore[arg-type]  # NumPy's arrays are no `Buffer` to mypy
    return digest.hexdigest()


def file_checksum(path: Path) -> str:
    """Return the checksum of a file's content, in constant memory.

    Raises:
        UserError: the file cannot be read.
    """
    digest, block = xxhash.xxh3_64(), bytearray(_BLOCK)
    try:
        with path.open("rb", buffering=0) as file:
            while count := file.readinto(block):
                digest.update(memoryview(block)[:count])
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror or error}") from error
    return digest.hexdigest()


def checking() -> bool:
    """Return True if files are compared with their checksums."""
    return _checking.get()


@contextlib.contextmanager
def skipped(skip: bool = True) -> Iterator[None]:
    """Compare nothing with checksums inside the context, for `--skip-checksums`."""
    token = _checking.set(not skip)
    try:
        yield
    finally:
        _checking.reset(token)


@dataclass(frozen=True)
class Seal:
    """The checksums of a checkpoint: of its header's text, and of each tensor's type, shape and content."""

    header: str
    tensors: Mapping[str, str]

    @staticmethod
    def of_tensor(dtype: str, shape: Collection[int], content: Buffer | np.ndarray) -> str:
        """Return the checksum of a tensor; `dtype` as `uint8`, `float32`."""
        return checksum(f"{dtype} {list(shape)}".encode(), content)

    def to_json(self) -> str:
        """Return the value that the file stores under the key `KIND`."""
        return json.dumps({"header": self.header, "tensors": dict(self.tensors)})

    @classmethod
    def read(cls, path: Path, metadata: Mapping[str, str], header: Mapping[str, object]) -> Seal | None:
        """Read the seal of a checkpoint and check the header against it; None in files of versions that wrote none.

        Raises:
            UserError: the seal or the header is damaged.
        """
        if KIND not in metadata and "checksums" not in header:
            return None
        try:
            content = json.loads(metadata[KIND])
            seal = cls(str(content["header"]), {str(name): str(sum) for name, sum in content["tensors"].items()})
        except (LookupError, ValueError, TypeError, AttributeError, RecursionError):
            raise UserError(f"{path}: its list of checksums is damaged; {ADVICE}") from None
        if checking() and checksum(metadata["docnmt"].encode()) != seal.header:
            raise UserError(f"{path}: its header is damaged (another checksum); {ADVICE}")
        return seal

    def check_names(self, path: Path, names: Collection[str]) -> None:
        """Check that a file's tensors are those that were written.

        Raises:
            UserError: naming one that is missing or new.
        """
        for name in sorted(self.tensors.keys() ^ set(names)):
            what = "is missing" if name in self.tensors else "has no checksum"
            raise UserError(f"{path}: tensor '{name}' {what}; {ADVICE}")

    def check(self, path: Path, name: str, dtype: str, shape: Collection[int], content: Buffer | np.ndarray) -> None:
        """Compare a tensor with its checksum.

        Raises:
            UserError: they differ.
        """
        if checking() and self.of_tensor(dtype, shape, content) != self.tensors.get(name):
            raise UserError(f"{path}: tensor '{name}' is damaged (another checksum); {ADVICE}")
