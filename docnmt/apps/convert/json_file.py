"""JSON files of other toolkits, with values that are checked when they are used."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from docnmt.runtime.errors import UserError
from docnmt.runtime.structured import read_json


class JsonFile:
    """A file with one JSON object.

    Attributes:
        values: the content; empty if the file is `optional` and missing.

    Raises:
        UserError: the file is missing, or contains something else.
    """

    def __init__(self, path: Path, *, optional: bool = False) -> None:
        self.path = path
        self.values: Mapping[str, object] = {}
        if optional and not path.exists():
            return
        self.values = read_json(path, dict[str, object])

    def whole(self, name: str) -> int:
        """Return a required whole number."""
        value = self.values.get(name)
        if not isinstance(value, int) or isinstance(value, bool):
            raise UserError(f"{self.path}: '{name}': expected a whole number, got {value!r}")
        return value

    def number(self, name: str, default: float) -> float:
        """Return a number, or the default if it is missing."""
        value = self.values.get(name, default)
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            raise UserError(f"{self.path}: '{name}': expected a number, got {value!r}")
        return float(value)

    def flag(self, name: str, default: bool) -> bool:
        """Return a truth value, or the default if it is missing."""
        value = self.values.get(name, default)
        if not isinstance(value, bool):
            raise UserError(f"{self.path}: '{name}': expected true or false, got {value!r}")
        return value

    def token(self, name: str, default: str) -> str:
        """Return a text, or the `content` of an object; the default if it is missing."""
        value = self.values.get(name, default)
        value = value.get("content") if isinstance(value, dict) else value
        if not isinstance(value, str):
            raise UserError(f"{self.path}: '{name}': expected a text, got {value!r}")
        return value

    def rows(self) -> dict[str, int]:
        """Return the whole file as a table, text → row, in which no row occurs twice."""
        table = {name: row for name, row in self.values.items() if isinstance(row, int) and row >= 0}
        if len(set(table.values())) < len(self.values):
            raise UserError(f"{self.path}: expected a row, 0 or more, for each piece, and none twice")
        return table
