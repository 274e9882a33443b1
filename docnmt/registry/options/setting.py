"""Settings: fields of configuration classes, with their types analysed, and conversion of values from text."""

from __future__ import annotations

import dataclasses
import difflib
import functools
import types
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from docnmt.registry.options.option import Option
from docnmt.registry.options.rules import Needs, collected_needs, flag

#: The largest whole number: arrays and generators of random numbers have 64 bits.
LARGEST = (1 << 63) - 1
#: A hint for names that are not registered.
PLUGIN = "a plug-in's needs its --user-dir"


@dataclass(frozen=True)
class Setting:
    """One field of a configuration class, with its type analysed.

    Attributes:
        flag: the name on the command line: `--max-tokens`; for a positional argument the field's name.
        literals: the values that its type allows, where that says so.
    """

    name: str
    flag: str
    kind: type
    optional: bool
    several: bool
    literals: tuple[object, ...] | None
    default: object
    option: Option

    @property
    def choices(self) -> tuple[object, ...] | None:
        """The values that it may have; a registry's names are those that are registered now."""
        named = self.option.choices
        found = named() if callable(named) else named or self.literals
        return None if found is None else tuple(found)

    @property
    def required(self) -> bool:
        """True if a value must be given."""
        return self.default is dataclasses.MISSING

    def convert(self, value: object) -> object:
        """Convert a string (command line) or a YAML or JSON value to this setting's type.

        Raises:
            ValueError: the value is not of this type or not among the choices.
        """
        if value is None or (self.optional and value == "none" and "none" not in (self.choices or ())):
            if self.optional:
                return None
            raise ValueError(f"{self.flag}: expected {_EXPECTED[self.kind]}, got nothing")
        if self.several:
            return tuple(self._scalar(item) for item in (value if isinstance(value, (list, tuple)) else [value]))
        return self._scalar(value)

    def _scalar(self, value: object) -> object:
        converted = convert(value, self.kind)
        if converted is None:
            raise ValueError(f"{self.flag}: expected {_EXPECTED[self.kind]}, got {value!r}")
        if self.kind is int and isinstance(converted, int) and abs(converted) > LARGEST:
            raise ValueError(f"{self.flag}: must be at most {LARGEST:,}, got {value!r}")
        if self.choices is not None and converted not in self.choices:
            names = [*map(str, self.choices)]
            plugin = PLUGIN if callable(self.option.choices) else ""  # a registry's names
            hints = (f"expected one of {', '.join(names)}, got {value!r}", nearest(str(value), names).rstrip(), plugin)
            raise ValueError(f"{self.flag}: {'; '.join(filter(None, hints))}")
        return converted


_EXPECTED = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}


def convert(value: object, kind: type) -> object:
    """Convert a value to `kind`, or return None if it is none. Bool and nan are no numbers, 1.0 is no whole number."""
    if kind is bool:
        return {"true": True, "false": False}.get(str(value).lower())
    if kind is str:
        return str(value) if isinstance(value, (str, int, float)) and not isinstance(value, bool) else None
    if isinstance(value, bool) or (kind is int and isinstance(value, float)):
        return None
    try:
        number = kind(value)
        return number if number == number else None  # nan is not itself
    except (TypeError, ValueError):
        return None


def nearest(word: str, names: Iterable[str]) -> str:
    """Return "did you mean 'name'? " with the name most similar to a word; an empty text if none is similar."""
    close = difflib.get_close_matches(word, list(names), n=1)
    return f"did you mean '{close[0]}'? " if close else ""


def underscored(word: str) -> str:
    """Return the field of an option or of a YAML key."""
    return word.lstrip("-").replace("-", "_")


def settings(config: type) -> tuple[Setting, ...]:
    """Return the settings of a configuration class, in order."""
    return _settings(config)


@functools.cache
def _settings(config: type) -> tuple[Setting, ...]:
    hints, needs = get_type_hints(config), collected_needs(config)
    return tuple(_setting(f, hints[f.name], needs.get(f.name, ())) for f in dataclasses.fields(config))


def _setting(f: dataclasses.Field[Any], hint: object, more: tuple[Needs, ...]) -> Setting:
    option: Option = f.metadata.get("option", Option())
    if more:
        option = dataclasses.replace(option, needs=option.needs + more)
    optional = several = False
    if get_origin(hint) in (Union, types.UnionType):
        hint = next(a for a in get_args(hint) if a is not type(None))
        optional = True
    if get_origin(hint) is tuple:
        hint, several = get_args(hint)[0], True
    literals = None
    if get_origin(hint) is Literal:
        literals = get_args(hint)
        hint = type(literals[0])
    if hint not in _EXPECTED:
        raise TypeError(f"option {f.name}: a configuration value is bool, int, float or str, not {hint}")
    default = f.default if f.default_factory is dataclasses.MISSING else f.default_factory()
    name = f.name if option.positional else flag(f.name)
    return Setting(f.name, name, hint, optional, several, literals, default, option)
