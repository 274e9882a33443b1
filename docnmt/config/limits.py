"""Checks of values that several configuration classes make (`problems`)."""

from __future__ import annotations

from docnmt.config.setting import flag


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
