"""SIGTERM and Ctrl-C wait until the model is in a state that can be saved."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

from docnmt.errors import Terminated

_RAISES: dict[int, type[BaseException]] = {signal.SIGTERM: Terminated, signal.SIGINT: KeyboardInterrupt}


class Interrupts:
    """While entered, the first signal is only noted and `check` raises it; a second one of the kind raises at once."""

    def __init__(self) -> None:
        self.pending: type[BaseException] | None = None
        self._at_once = False
        self._old: dict[int, object] = {}

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():  # elsewhere Python allows no handlers
            self._old = {number: signal.signal(number, self._handle) for number in _RAISES}
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._old.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def _handle(self, number: int, frame: FrameType | None) -> None:
        kind = _RAISES[number]
        if self._at_once or self.pending is kind:
            raise kind
        self.pending = kind

    def check(self) -> None:
        """Raise the signal that has arrived, if one has."""
        if self.pending is not None:
            raise self.pending

    @contextlib.contextmanager
    def at_once(self) -> Iterator[None]:
        """Inside, a signal raises where it arrives: for work that changes nothing."""
        self.check()
        self._at_once = True
        try:
            yield
        finally:
            self._at_once = False
