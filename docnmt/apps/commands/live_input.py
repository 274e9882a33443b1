"""Live input: documents that have ended are translated together, and never wait for further input."""

from __future__ import annotations

import os
import select
import stat
from collections.abc import Callable, Generator
from typing import BinaryIO

from docnmt.core.formats.running_text import RunningText
from docnmt.runtime.errors import UserError

#: Characters of ended documents that are translated together: enough for full batches, but so few that an
#: endless input takes no more memory than a long one.
TOGETHER = 1 << 20
#: Bytes read at once, and seconds to wait for more input before ended documents are translated.
_BLOCK, _MOMENT = 1 << 16, 0.05


class Arriving:
    """A binary stream, read as input arrives.

    Args:
        idle: called before a read that would wait.

    Attributes:
        size: bytes of all, if the stream is a file. read: bytes so far. ended: True at the end.
    """

    def __init__(self, source: BinaryIO, *, name: str, idle: Callable[[], object]) -> None:
        self._source, self._name, self._idle = source, name, idle
        self.read, self.ended = 0, False
        descriptor = self._descriptor()
        status = None if descriptor is None else os.fstat(descriptor)
        self.size = status.st_size if status is not None and stat.S_ISREG(status.st_mode) else None

    def _descriptor(self) -> int | None:
        """Return the file descriptor, or None for a stream in memory."""
        try:
            return self._source.fileno()
        except (OSError, AttributeError):
            return None

    def _waits(self) -> bool:
        """Return True if nothing has arrived for a moment."""
        descriptor = self._descriptor()
        if descriptor is None:
            return False
        try:
            return not select.select([descriptor], [], [], _MOMENT)[0]
        except (OSError, ValueError):  # select does not support it
            return True

    def blocks(self) -> Generator[bytes, None, None]:
        """Yield the input, block by block.

        Raises:
            UserError: the stream cannot be read.
        """
        read = getattr(self._source, "read1", self._source.read)
        while True:
            if self._waits():
                self._idle()
            try:
                block = read(_BLOCK)
            except OSError as error:
                raise UserError(f"{self._name}: cannot be read: {error.strerror or error}") from error
            if not block:
                self.ended = True
                return
            self.read += len(block)
            yield block


class Gathered:
    """Collects ended documents to be translated together.

    Args:
        translate: translates them. most: characters from which on they are translated at once; None: only at the end.
    """

    def __init__(self, translate: Callable[[RunningText], object], *, most: int | None = TOGETHER) -> None:
        self._translate, self._most = translate, most
        self._parts: list[RunningText] = []
        self._size = 0

    def add(self, part: RunningText) -> None:
        """Add a document, and translate all if there are enough."""
        self._parts.append(part)
        self._size += part.size
        if self._most is not None and self._size >= self._most:
            self.flush()

    def idle(self) -> None:
        """Translate the ended documents, because the input pauses."""
        if self._most is not None:
            self.flush()

    def flush(self) -> None:
        """Translate all collected documents."""
        if self._parts:
            together, self._parts, self._size = RunningText.together(self._parts), [], 0
            self._translate(together)
