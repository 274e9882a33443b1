"""Errors that the user can fix: shown as one line, without a traceback."""

from __future__ import annotations

import re
from collections.abc import Sequence

#: Control characters other than tab and line feed, which could control a terminal.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


class UserError(Exception):
    """An error whose one line names the file, line, option or tensor, the expectation and the fix. Exit status 1."""


class UsageError(UserError):
    """An error of the command line or a configuration file, with all problems, not only the first. Exit status 2."""

    def __init__(self, problems: str | Sequence[str]) -> None:
        self.problems = [problems] if isinstance(problems, str) else list(problems)
        numbered = (f"({i}) {problem}" for i, problem in enumerate(self.problems, 1))
        super().__init__(
            self.problems[0] if len(self.problems) == 1 else f"{len(self.problems)} problems: {'; '.join(numbered)}"
        )


class Terminated(BaseException):
    """Raised when SIGTERM arrives. Training saves before it ends; everything else just ends with status 143."""

    signal = "SIGTERM"


class HungUp(Terminated):
    """Raised when SIGHUP arrives, with the same effect as SIGTERM."""

    signal = "SIGHUP"


def printable(text: str) -> str:
    """Return a text for a terminal: control characters (escape sequences, reversed writing) are written as `\\x1b`."""
    return _CONTROL.sub(lambda found: ascii(found[0])[1:-1], text)


def shortened(text: str, most: int = 4000) -> str:
    """Return a message without its middle if it is too long to read."""
    return text if len(text) <= most else f"{text[: most // 2]} … {text[-most // 2 :]}"
