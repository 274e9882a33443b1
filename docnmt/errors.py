"""Errors that are the user's to mend: shown as one line, without a traceback."""

from __future__ import annotations

from collections.abc import Sequence


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
