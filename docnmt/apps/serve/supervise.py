"""Several worker processes of one service: copies of this process, started anew where one dies, ended by a signal."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable

from docnmt.runtime.errors import Terminated

#: A worker that has lived for less than so many seconds is started again after as many.
PAUSE = 1.0


class Supervisor:
    """Runs `work(number)`, with number from 0, in `count` processes.

    Each is a copy of this process (`fork`). So it shares the memory to which nobody writes, and has the same weights as
    the others even if their file has changed meanwhile. This process must have no threads that compute.

    Args:
        patience: seconds after which a worker that has not ended on a signal is killed.
    """

    def __init__(self, count: int, work: Callable[[int], None], *, patience: float) -> None:
        self._work, self._patience = work, patience
        self._left = set(range(count))  # to be started
        self._running: dict[int, tuple[int, float]] = {}  # process → worker's number, and the time of its start
        hangup = {signal.SIGHUP} if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN else set()
        self._stops = {signal.SIGTERM, signal.SIGINT, *hangup}
        self._lives = os.pipe()  # nothing is written; its end tells the workers that this process has died

    def run(self) -> None:
        """Keep all workers running until a signal ends them; it is then raised here, too."""
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {*self._stops, signal.SIGCHLD})
        came = signal.SIGTERM
        try:
            gc.freeze()  # else the collector would write to shared memory
            while True:
                for number in sorted(self._left):
                    self._start(number, mask)
                self._left.clear()
                came = signal.Signals(signal.sigwait({*self._stops, signal.SIGCHLD}))
                if came in self._stops:
                    break
                self._note_the_dead()
            self._end(came)
        finally:
            self._kill()
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        signal.raise_signal(came)

    def _start(self, number: int, mask: set[signal.Signals | int]) -> None:
        sys.stderr.flush()
        if process := os.fork():
            self._running[process] = number, time.monotonic()
            return
        status = 1
        try:
            os.setpgid(0, 0)  # a terminal's Ctrl-C is this worker's only by way of its parent
            os.close(self._lives[1])
            threading.Thread(target=self._end_with_parent, daemon=True).start()
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            self._work(number)
            status = 0
        except (Terminated, KeyboardInterrupt):
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(status)  # what follows is the parent's

    def _end_with_parent(self) -> None:
        os.read(self._lives[0], 1)
        os.kill(os.getpid(), signal.SIGTERM)

    def _note_the_dead(self) -> None:
        """Report workers that have ended, and note that they are to be started again."""
        for number, process, status, age in self._ended():
            how = f"signal {-status}" if status < 0 else f"status {status}"
            print(f"docnmt-serve: worker {number + 1} (process {process}) ended with {how}; it is started anew",
                  file=sys.stderr, flush=True)  # fmt: skip
            self._left.add(number)
            if age < PAUSE:
                time.sleep(PAUSE)

    def _ended(self) -> list[tuple[int, int, int, float]]:
        """Return number, process, exit status and age of each worker that has ended, and forget it."""
        found = []
        for process in list(self._running):
            ended, status = os.waitpid(process, os.WNOHANG)
            if ended:
                number, begun = self._running.pop(process)
                found.append((number, process, os.waitstatus_to_exitcode(status), time.monotonic() - begun))
        return found

    def _end(self, came: signal.Signals) -> None:
        """Pass a signal on, and those that follow it, until all workers have ended or the patience has."""
        until = time.monotonic() + self._patience
        number: int | None = came
        while True:
            for process in self._running if number in self._stops else ():
                os.kill(process, number or 0)
            self._ended()
            left = until - time.monotonic()
            if not self._running or left <= 0:
                return
            info = signal.sigtimedwait({*self._stops, signal.SIGCHLD}, left)
            number = info.si_signo if info else None

    def _kill(self) -> None:
        for process in self._running:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
