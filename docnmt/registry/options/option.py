"""Fields of configuration dataclasses that are also command-line options."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from docnmt.registry.options.rules import Between, Needs, SomeNeeds, as_needs, flag, range_words

Choices = Sequence[str] | Callable[[], Sequence[str]]


@dataclass(frozen=True)
class Option:
    """The command-line properties of a field, besides its type and its default; see `option`."""

    help: str = ""
    choices: Choices | None = None
    metavar: str | None = None
    positional: bool = False
    aliases: Sequence[str] = ()
    basic: bool = False
    between: Between | None = None
    needs: tuple[Needs, ...] = ()
    excludes: tuple[str, ...] = ()

    def rules(self) -> list[str]:
        """Return its rules in words: `at least 1`, `needs --by`, `not with --verify`."""
        allowed = [range_words(self.between)] if self.between else []
        needed = [f"needs {each.words()}" for each in self.needs]
        return allowed + needed + [f"not with {flag(name)}" for name in self.excludes]


def option(
    default: object,
    help: str,
    *,
    choices: Choices | None = None,
    metavar: str | None = None,
    positional: bool = False,
    aliases: Sequence[str] = (),
    basic: bool = False,
    between: Between | None = None,
    needs: SomeNeeds = (),
    excludes: tuple[str, ...] = (),
) -> Any:  # like dataclasses.field: a field of any type
    """Define a field of a configuration dataclass that is also a command-line option.

    Supported types: bool (`--flag/--no-flag`), int, float, str, Literal, `X | None`, `tuple[X, ...]` (several values).

    Args:
        default: its default value; `dataclasses.MISSING` makes the option required.
        choices: allowed values, or a function that returns them when needed (a registry's `names`).
        positional: True if it is given by place instead of by name.
        aliases: other spellings (`--batch-size` for `--max-sentences`), with the dashes.
        basic: True if `--help` shows it; others are shown by `--help-all` only. Required options are always shown, and
            so are all of a class without basic ones.
        between: the least and the largest number; None means no limit, `Open` a limit that is itself excluded.
        needs: a condition for every value but the default: an option that must be given, a tuple of options of which
            one must be given, or `Needs`.
        excludes: options that must keep their defaults if this one does not.
    """
    about = Option(help, choices, metavar, positional, aliases, basic, between, as_needs(needs), excludes)
    return field(default=default, metadata={"option": about})


@dataclass(frozen=True)
class NoOptions:
    """The configuration of a component without options."""
