"""Checks of the arguments that modules are constructed with."""

from __future__ import annotations


def check_at_least(least: int, **values: int) -> None:
    """Raise ValueError where a value is below `least`, naming the argument, what was expected and what was given."""
    for name, value in values.items():
        if value < least:
            raise ValueError(f"{name}: expected at least {least}, got {value}")


def check_one_of(known: tuple[str, ...], **values: str) -> None:
    """Raise ValueError where a value is none of the `known` ones, as `check_at_least` does."""
    for name, value in values.items():
        if value not in known:
            raise ValueError(f"{name}: expected one of {', '.join(known)}, got {value!r}")
