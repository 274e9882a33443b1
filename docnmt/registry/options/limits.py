"""Checks of values that several configuration classes make (`problems`)."""

from __future__ import annotations

import math
from pathlib import Path

from docnmt.registry.options.setting import flag


def below(config: object, least: int, *names: str) -> list[str]:
    """Problems of the values that are smaller than `least`; None is none."""
    values = ((name, getattr(config, name)) for name in names)
    return [
        f"{flag(name)}: must be at least {least}, got {value}"
        for name, value in values
        if value is not None and value < least
    ]


def above(config: object, most: int, *names: str) -> list[str]:
    """Problems of the values that are larger than `most`, which nobody means; None is none."""
    values = ((name, getattr(config, name)) for name in names)
    return [
        f"{flag(name)}: must be at most {most:,}, got {value}"
        for name, value in values
        if value is not None and value > most
    ]


def no_share(config: object, *names: str) -> list[str]:
    """Problems of the values outside [0, 1)."""
    values = ((name, getattr(config, name)) for name in names)
    return [f"{flag(name)}: must be in [0, 1), got {value}" for name, value in values if not 0 <= value < 1]


def infinite(config: object) -> list[str]:
    """Problems of the values that are infinite, which no option means."""
    values = ((name, value) for name, value in vars(config).items() if isinstance(value, float) and math.isinf(value))
    return [f"{flag(name)}: expected a number, got '{value}'" for name, value in values]


def same_path(one: str | None, other: str | None) -> bool:
    """Whether both are given and name one file, there or not."""
    return one is not None and other is not None and Path(one).resolve() == Path(other).resolve()


def same_file(config: object, read: str, written: str) -> list[str]:
    """A problem where the file that is read is the one that would be written."""
    path = getattr(config, written)
    same = same_path(getattr(config, read), path)
    return [f"{flag(written)} {path}: is the file that is read; give another name"] if same else []
