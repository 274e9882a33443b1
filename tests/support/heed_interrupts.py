"""SIGINT in programs that tests start."""

from __future__ import annotations

import signal


def heed_interrupts() -> None:
    """A job that a script started in the background ignores SIGINT, and so would what the tests start."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
