"""Errors that are the user's to mend: shown as one line, without a traceback."""

from __future__ import annotations

import re
from collections.abc import Sequence

#: Control characters but tab and line feed: what could steer a terminal.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


class UserError(Exception):
    """One line that names the file, line, option or tensor, what was expected and how to fix it. Exit status 1."""


class UsageError(UserError):
    """The command line or a configuration file is wrong. Carries every problem found, not the first. Exit status 2."""

    def __init__(self, problems: str | Sequence[str]) -> None:
        self.problems = [problems] if isinstance(problems, str) else list(problems)
        numbered = (f"({i}) {problem}" for i, problem in enumerate(self.problems, 1))
        super().__init__(
            self.problems[0] if len(self.problems) == 1 else f"{len(self.problems)} problems: {'; '.join(numbered)}"
        )


class Terminated(BaseException):
    """SIGTERM arrived. Training saves before it lets this pass; everything else just ends with status 143."""

    signal = "SIGTERM"


class HungUp(Terminated):
    """SIGHUP arrived, with the same effect."""

    signal = "SIGHUP"


def printable(text: str) -> str:
    """Text for a terminal: what could steer it (escape sequences, reversed writing) is spelt, `\\x1b`."""
    return _CONTROL.sub(lambda found: ascii(found[0])[1:-1], text)


def shortened(text: str, most: int = 4000) -> str:
    """A message without its middle, where it is longer than anybody reads."""
    return text if len(text) <= most else f"{text[: most // 2]} … {text[-most // 2 :]}"
