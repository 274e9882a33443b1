"""Conversion of configurations to and from JSON and YAML."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from docnmt.registry.options.section import Section, build
from docnmt.runtime.errors import UsageError, UserError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

C = TypeVar("C")


def to_dict(config: DataclassInstance) -> dict[str, Any]:
    """Return a configuration as plain JSON types."""
    return {k: list(v) if isinstance(v, tuple) else v for k, v in dataclasses.asdict(config).items()}


def from_dict(
    config: type[C], values: Mapping[str, Any], *, where: str, explain: Callable[[str], str] = lambda key: ""
) -> C:
    """Restore a configuration from `to_dict`; options added since have their defaults.

    Raises:
        UsageError: unknown keys or wrong types, all of them, with `where` as their place.
    """
    try:
        resolved: C = build([Section(where, config)], values, {}, explain)[where]
        return resolved
    except UsageError as error:
        raise UsageError([f"{where}: {problem.removeprefix('--config: ')}" for problem in error.problems]) from None


def read_yaml(path: Path) -> dict[str, Any]:
    """Read a YAML file that is a flat mapping.

    Raises:
        UsageError: the file is unreadable, not YAML, or not a flat mapping of scalars and lists.
    """
    from docnmt.runtime.structured import read_yaml as read  # not at the top: most commands read none

    try:
        return read(path)
    except UserError as error:
        raise UsageError(f"--config {error}") from error
