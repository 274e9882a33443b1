"""Deferred signals: SIGTERM and Ctrl-C wait until the model can be saved and all ranks know of them."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import TypeVar

from docnmt.runtime import ranks
from docnmt.runtime.errors import HungUp, Terminated

T = TypeVar("T")

_RAISES: dict[int, type[BaseException]] = {
    signal.SIGTERM: Terminated,
    signal.SIGHUP: HungUp,
    signal.SIGINT: KeyboardInterrupt,
}
#: A second signal within this many seconds is an echo: the first goes to the whole job and again through its launcher.
_ECHO = 10.0


class Interrupts:
    """Inside the context, the first signal is only noted and `check` raises it; a second of its kind raises at once.

    With several ranks, each shares its own signal (`name`) with the others, and all raise the same.
    """

    def __init__(self) -> None:
        self.pending: type[BaseException] | None = None
        self._at_once, self._noted = False, 0.0
        self._old: dict[int, object] = {}

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():  # elsewhere Python allows no handlers
            heard = [n for n in _RAISES if n != signal.SIGHUP or signal.getsignal(n) != signal.SIG_IGN]  # nohup
            self._old = {number: signal.signal(number, self._handle) for number in heard}
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._old.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def _handle(self, number: int, frame: FrameType | None) -> None:
        kind = _RAISES[number]
        again = self.pending is kind and (ranks.world() == 1 or time.monotonic() - self._noted > _ECHO)
        if again or (self._at_once and ranks.may_stop()):
            raise kind
        if self.pending is None:
            self._noted = time.monotonic()
        self.pending = kind

    @property
    def name(self) -> str:
        """The name of the signal that has arrived here, for the other ranks, or an empty string."""
        return "" if self.pending is None else self.pending.__name__

    def check(self) -> None:
        """Raise the signal that has arrived, if any."""
        if self.pending is not None:
            raise self.pending

    @contextlib.contextmanager
    def at_once(self) -> Iterator[None]:
        """Raise signals on arrival inside the context, for work that changes nothing."""
        if ranks.may_stop():
            self.check()
        self._at_once = True
        try:
            yield
        finally:
            self._at_once = False

    def share(self, work: Callable[[], T], *, alone: bool = True) -> list[T]:
        """Run `ranks.share` for work that changes nothing; a signal interrupts it at once."""

        def _interruptible() -> T:
            with self.at_once():
                return work()

        return ranks.share(_interruptible, alone=alone)
