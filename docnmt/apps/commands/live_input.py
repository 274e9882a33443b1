"""Input that comes while earlier input is translated: what is there is taken together, what is closed never waits."""

from __future__ import annotations

import os
import select
import stat
from collections.abc import Callable, Generator
from typing import BinaryIO

from docnmt.core.formats.running_text import RunningText
from docnmt.runtime.errors import UserError

#: Characters of closed documents that are translated together: so much that batches are full, and so little that an
#: endless input takes no more memory than a long one.
TOGETHER = 1 << 20
#: Bytes read at once, and seconds in which more may come before what is closed is translated.
_BLOCK, _MOMENT = 1 << 16, 0.05


class Arriving:
    """A binary stream, read as it comes.

    Args:
        idle: called before a read that would wait.

    Attributes:
        size: bytes of all, where the stream is a file. read: bytes so far. ended: there is no more.
    """

    def __init__(self, source: BinaryIO, *, name: str, idle: Callable[[], object]) -> None:
        self._source, self._name, self._idle = source, name, idle
        self.read, self.ended = 0, False
        descriptor = self._descriptor()
        status = None if descriptor is None else os.fstat(descriptor)
        self.size = status.st_size if status is not None and stat.S_ISREG(status.st_mode) else None

    def _descriptor(self) -> int | None:
        """None where the stream is not the system's: all of it is there."""
        try:
            return self._source.fileno()
        except (OSError, AttributeError):
            return None

    def _waits(self) -> bool:
        """Nothing has come for a moment."""
        descriptor = self._descriptor()
        if descriptor is None:
            return False
        try:
            return not select.select([descriptor], [], [], _MOMENT)[0]
        except (OSError, ValueError):  # it cannot be asked
            return True

    def blocks(self) -> Generator[bytes, None, None]:
        """What has come, block by block.

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
    """Closed documents that wait to be translated together.

    Args:
        translate: takes them. most: characters from which on they do not wait for more; None: they wait for the end.
    """

    def __init__(self, translate: Callable[[RunningText], object], *, most: int | None = TOGETHER) -> None:
        self._translate, self._most = translate, most
        self._parts: list[RunningText] = []
        self._size = 0

    def add(self, part: RunningText) -> None:
        """One more."""
        self._parts.append(part)
        self._size += part.size
        if self._most is not None and self._size >= self._most:
            self.flush()

    def idle(self) -> None:
        """The input waits: what is closed is translated now."""
        if self._most is not None:
            self.flush()

    def flush(self) -> None:
        """Translate all that is there."""
        if self._parts:
            together, self._parts, self._size = RunningText.together(self._parts), [], 0
            self._translate(together)
