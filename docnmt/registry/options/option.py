"""A field of a configuration dataclass that is also a command-line option."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

Choices = Sequence[str] | Callable[[], Sequence[str]]


@dataclass(frozen=True)
class Option:
    """How the command line shows and reads a field, besides its type and its default; see `option`."""

    help: str = ""
    choices: Choices | None = None
    metavar: str | None = None
    positional: bool = False
    aliases: Sequence[str] = ()
    basic: bool = False


def option(
    default: object,
    help: str,
    *,
    choices: Choices | None = None,
    metavar: str | None = None,
    positional: bool = False,
    aliases: Sequence[str] = (),
    basic: bool = False,
) -> Any:  # as dataclasses.field: a field of any type
    """A field of a configuration dataclass that is also a command-line option.

    Types understood: bool (`--flag/--no-flag`), int, float, str, Literal, `X | None`, `tuple[X, ...]` (several values).

    Args:
        default: its value where none is given; `dataclasses.MISSING` makes the option required.
        choices: allowed values, or a function that lists them when asked (a registry's `names`).
        positional: given by place instead of by name.
        aliases: other spellings (`--batch-size` for `--max-sentences`), with the dashes.
        basic: `--help` shows it; of the others only `--help-all`. Required options are always shown, and so are all of
            a class that marks none.
    """
    return field(default=default, metadata={"option": Option(help, choices, metavar, positional, aliases, basic)})


@dataclass(frozen=True)
class NoOptions:
    """The configuration of a component that has none."""
