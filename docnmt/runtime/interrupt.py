"""Ctrl-C in a command's first moments, while Python still imports: a line and status 130 instead of a traceback."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType


class _Interrupt:
    """The handler of SIGINT in a command: it ends the process until the work has begun, and raises from then on."""

    def __init__(self, command: str) -> None:
        self.command, self.begun = command, False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Handle the signal."""
        if self.begun and not _imports_torch():
            raise KeyboardInterrupt
        os.write(2, f"{self.command}: interrupted\n".encode())
        os._exit(130)


def end_quietly() -> None:
    """If this process is a command of docnmt, let Ctrl-C end it with one line, until `work_begins`.

    The package calls this before it imports anything else. Nothing is at work then that could be lost.
    """
    command = _command()
    if command and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _Interrupt(command))


def work_begins() -> None:
    """Let Ctrl-C raise KeyboardInterrupt from now on, except while torch is imported, which would abort."""
    handler = signal.getsignal(signal.SIGINT)
    if isinstance(handler, _Interrupt):
        handler.begun = True


def _command() -> str:
    """Return the name of the command that this process was started as (a script, or `-m docnmt.cli.NAME`), or ""."""
    name = os.path.basename(sys.argv[0]) if sys.argv else ""
    if name == "-m":  # Python looks for the module
        named = [after for before, after in zip(sys.orig_argv, sys.orig_argv[1:], strict=False) if before == "-m"]
        name = named[0].replace("docnmt.cli.", "docnmt-") if named else ""
    return name if name.startswith("docnmt-") else ""


def _imports_torch() -> bool:
    return bool(getattr(getattr(sys.modules.get("torch"), "__spec__", None), "_initializing", False))
