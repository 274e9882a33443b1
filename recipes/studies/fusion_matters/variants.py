"""The variants of a study file: what its grid and its values to choose among stand for, as options of docnmt-train."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any


def settings(options: Mapping[str, Any], choose: Mapping[str, Sequence[Any]]) -> dict[str, tuple[str, ...]]:
    """All combinations of the values to choose among, by name, each with the options of docnmt-train."""
    if not choose:
        return {}
    if empty := [name for name, values in choose.items() if not values]:
        raise ValueError(f"choose: {empty[0]} has no values")
    settings = (dict(zip(choose, values, strict=True)) for values in product(*choose.values()))
    return {
        ",".join(f"{name}={value}" for name, value in setting.items()): flags({**options, **setting})
        for setting in settings
    }


def grid(blocks: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every family with every operator: names and options on top of `train`."""
    for block in blocks:
        for position in block["positions"]:
            for fusion in block["fusions"]:
                own = {"position": position, "position-fusion": fusion, **block.get("options", {})}
                yield f"{block.get('name', position)}.{fusion}", own


def flags(options: Mapping[str, Any]) -> tuple[str, ...]:
    """Options as a command line has them: `true` is `--name`, `false` `--no-name`, a list several values."""
    line: list[str] = []
    for name, value in options.items():
        if isinstance(value, bool):
            line.append(f"--{name}" if value else f"--no-{name}")
        else:
            line += [f"--{name}", *map(str, value if isinstance(value, list) else [value])]
    return tuple(line)
