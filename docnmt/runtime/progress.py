"""Progress displays of long work on stderr: a bar on a terminal, a plain line every ten seconds in a log."""

from __future__ import annotations

import contextlib
import io
import math
import select
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from types import TracebackType
from typing import Any, BinaryIO, TextIO

#: Seconds between two updates, on a terminal and in a log.
_TERMINAL_INTERVAL, _LOG_INTERVAL = 0.1, 10.0
#: Bytes that a pipe takes without waiting if it says that it takes any, with room for a note (PIPE_BUF is 512 or more).
_ATOMIC = 400


def format_count(value: float) -> str:
    """Format a count for people: 999, 12.3k, 4.56M."""
    if not math.isfinite(value):
        return str(value)
    for limit, divisor, suffix in ((1e3, 1.0, ""), (1e6, 1e3, "k"), (1e9, 1e6, "M"), (float("inf"), 1e9, "G")):
        shown = f"{value / divisor:{'.3g' if suffix and value < 99.95 * divisor else '.0f'}}"
        if float(shown) * divisor < limit:  # what rounds to 1000k is 1M
            break
    return shown + suffix


def format_seconds(seconds: float) -> str:
    """Format a duration for people: 3.2s, 4:05, 2:07:09."""
    if seconds < 59.5:
        return f"{seconds:.1f}s" if seconds < 9.95 else f"{seconds:.0f}s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def how_many(number: int, noun: str) -> str:
    """Format a number with its noun: `1 document`, `2,000 documents`."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


class Progress:
    """A progress display with rate and time left.

    `with Progress(total, "training", unit="tok") as bar: bar.update(n, note="loss 3.2")`. The total is in any unit,
    None if it is unknown; `initial` work was done before and counts in the bar, not in the rate. A bar that is not
    `lasting` disappears, as inside work that says itself what came of it."""

    def __init__(
        self, total: int | None, label: str, *, unit: str = "", initial: int = 0, lasting: bool = True,
        file: TextIO | None = None,
    ) -> None:  # fmt: skip
        self.total, self.label, self.unit, self.initial, self.done = total, label, unit, initial, initial
        self.file = sys.stderr if file is None else file
        self._terminal = self.file.isatty()
        self._note, self._lasting = "", lasting
        self._start = self._shown = time.monotonic()
        self._first: tuple[float, int] | None = None

    def __enter__(self) -> Progress:
        return self

    def update(self, n: int = 1, *, note: str | None = None) -> None:
        """Count `n` more units as done; `note` is shown at the end of the line until the next note."""
        self.done += n
        if note is not None:
            self._note = note
        now = time.monotonic()
        if n and self._first is None:
            self._first = now, self.done
        if now - self._shown >= (_TERMINAL_INTERVAL if self._terminal else _LOG_INTERVAL):
            self._shown, line = now, self._line(now)
            self._clear()
            self._write(line if self._terminal else f"{line}\n")

    def print(self, text: str) -> None:
        """Print a separate line without breaking the bar."""
        self._clear()
        self._write(f"{text}\n")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        now = time.monotonic()
        self._clear()
        if not self._lasting or (kind is not None and issubclass(kind, Exception)):  # the error's message is enough
            return
        state = "" if kind is None else " (stopped)"
        new = f"{self.done - self.initial:,} of " if self.initial else ""  # the time is for these
        amount = f"{new}{self._amount()} in " if self.unit or self.done else ""
        parts = (f"{self.label}{state}: {amount}{format_seconds(now - self._start)}", self._rate(now), self._note)
        self._write(", ".join(filter(None, parts)) + "\n")

    def _amount(self) -> str:
        return f"{self.done:,} {self.unit}".rstrip()

    def _rate(self, now: float) -> str:
        elapsed = now - self._start
        rate = (self.done - self.initial) / elapsed if elapsed > 0 else 0.0
        return f"{format_count(rate)} {self.unit}/s".replace(" /s", "/s") if rate > 0.5 else ""  # or it says 0

    def _left(self, now: float) -> str:
        """The time left, by the rate since the first unit of work, which takes along what is done once; by that since
        the start as long as little was done behind it."""
        begun, before = self._first or (self._start, self.initial)
        if self.done - before < (self.total or 0) / 100:
            begun, before = self._start, self.initial
        if not self.total or self.done <= before:
            return ""
        return f"{format_seconds((now - begun) * max(self.total - self.done, 0) / (self.done - before))} left"

    def _line(self, now: float) -> str:
        """Return the line, cut at the width of a terminal."""
        tail = ", ".join(filter(None, (self._rate(now), self._left(now), self._note)))
        if self.total:
            share = min(self.done / self.total, 1.0)
            bar = f" [{'#' * round(20 * share):.<20}]" if self._terminal else ""
            line = f"{self.label}{bar} {100 * share:3.0f}% of {format_count(self.total)}, {tail}"
        else:
            amount = f"{self._amount()}, {tail}" if self.done else format_seconds(now - self._start)
            line = f"{self.label}: {amount}"
        return line[: shutil.get_terminal_size().columns - 1] if self._terminal else line

    def _write(self, text: str) -> None:
        """Write a line and its end in one call: another process may write to the same file."""
        self.file.write(text)
        self.file.flush()

    def _clear(self) -> None:
        if self._terminal:
            print("\r\x1b[K", end="", file=self.file, flush=True)


@contextlib.contextmanager
def waiting(label: str, *, file: TextIO | None = None) -> Iterator[None]:
    """Show the elapsed time during one call that reports no progress, such as a library's training."""
    done = threading.Event()
    with Progress(None, label, file=file) as bar:

        def show() -> None:
            """Redraw the time until the call is done."""
            while not done.wait(_TERMINAL_INTERVAL):
                bar.update(0)

        thread = threading.Thread(target=show, daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()


class _Lasting(io.RawIOBase):
    """The bytes of a stream. What it cannot take, or not now, is dropped; what comes next says how much."""

    def __init__(self, stream: BinaryIO, *, waits: bool) -> None:
        self._stream, self._waits, self._dropped = stream, waits, 0

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._stream.fileno()

    def isatty(self) -> bool:
        return self._stream.isatty()

    def write(self, data: Any, /) -> int:
        content = bytes(data)
        note = b"note: %d bytes of this log were dropped\n" % self._dropped if self._dropped else b""
        for begin in range(0, len(content), _ATOMIC):
            part = content[begin : begin + _ATOMIC]
            try:
                if not self._waits and not select.select([], [self._stream], [], 0)[1]:
                    raise BlockingIOError
                if note:
                    self._stream.write(note)
                    note, self._dropped = b"", 0
                self._stream.write(part)
                self._stream.flush()
            except (OSError, ValueError):
                self._dropped += len(part)
        return len(content)


def lasting(stream: TextIO, *, waits: bool) -> TextIO:
    """Return a text stream that never fails: a full device stops nothing. It `waits` for a pipe that is read slowly;
    else what that does not take at once is dropped."""
    binary = getattr(stream, "buffer", None)
    if binary is None:
        return stream
    raw = getattr(binary, "raw", binary)  # a buffer would keep what could not be written, and fail again
    parts = io.BufferedWriter(_Lasting(raw, waits=waits))
    return io.TextIOWrapper(parts, stream.encoding or "utf-8", "backslashreplace", line_buffering=True)
