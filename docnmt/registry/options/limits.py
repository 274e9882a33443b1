"""Checks of values for the `problems` of configuration classes."""

from __future__ import annotations

import math
from pathlib import Path

from docnmt.registry.options.setting import flag


def below(config: object, least: int, *names: str) -> list[str]:
    """Return problems of values smaller than `least`; None passes."""
    values = ((name, getattr(config, name)) for name in names)
    return [
        f"{flag(name)}: must be at least {least}, got {value}"
        for name, value in values
        if value is not None and value < least
    ]


def above(config: object, most: int, *names: str) -> list[str]:
    """Return problems of values larger than `most`, which can only be mistakes; None passes."""
    values = ((name, getattr(config, name)) for name in names)
    return [
        f"{flag(name)}: must be at most {most:,}, got {value}"
        for name, value in values
        if value is not None and value > most
    ]


def no_share(config: object, *names: str) -> list[str]:
    """Return problems of values outside [0, 1)."""
    values = ((name, getattr(config, name)) for name in names)
    return [f"{flag(name)}: must be in [0, 1), got {value}" for name, value in values if not 0 <= value < 1]


def infinite(config: object) -> list[str]:
    """Return problems of infinite values, which no option accepts."""
    values = ((name, value) for name, value in vars(config).items() if isinstance(value, float) and math.isinf(value))
    return [f"{flag(name)}: expected a number, got '{value}'" for name, value in values]


def same_path(one: str | None, other: str | None) -> bool:
    """Return True if both are given and name the same file, existing or not."""
    return one is not None and other is not None and Path(one).resolve() == Path(other).resolve()


def same_file(config: object, read: str, written: str) -> list[str]:
    """Return a problem if the file to be read is also the one to be written."""
    path = getattr(config, written)
    same = same_path(getattr(config, read), path)
    return [f"{flag(written)} {path}: is the file that is read; give another name"] if same else []
