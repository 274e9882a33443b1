"""Conditions: options that have an effect only with some values of another one."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

from docnmt.registry.options.setting import flag


class Condition(NamedTuple):
    """A condition: `options` have an effect only if `other` has one of `values`.

    `other` is an option, or a property that follows from several of them; then `needs` names the missing setting.
    """

    options: tuple[str, ...]
    other: str
    values: Collection[str | int | None]
    needs: str = ""


class Except(frozenset[Any]):
    """All values but these, as the `values` of a `Condition`."""

    def __contains__(self, value: object) -> bool:
        return not super().__contains__(value)

    def __str__(self) -> str:
        return f"any but {', '.join(sorted(map(str, self)))}"


def collected(config: type, name: str) -> list[Any]:
    """Return the entries of the tuples `name` in a configuration class and its bases, the most general first."""
    return [entry for part in reversed(config.__mro__) for entry in vars(part).get(name, ())]


def without_effect(config: object, given: Collection[str]) -> list[str]:
    """Return problems of given options that have no effect, by the `conditions` of the configuration's class."""
    found: dict[str, str] = {}
    for names, other, values, needs in collected(type(config), "conditions"):
        value = getattr(config, other)
        for name in names:
            if name in given and value not in values:
                belongs = str(values) if isinstance(values, Except) else ", ".join(map(str, values))
                why = f"without {needs}" if needs else f"with {flag(other)} {value}; it belongs to {belongs}"
                found.setdefault(name, f"{flag(name)} has no effect {why}")
    return list(found.values())
