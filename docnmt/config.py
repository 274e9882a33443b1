"""Typed configuration. A dataclass is the one source of its command-line options, help, YAML keys and checks.

A command has *sections*: (name, dataclass, the architecture's values). Values are taken in the order
default < architecture < `--config` file < typed option. Every problem found is reported at once.
A configuration class may have `problems(self) -> list[str]` for contradictions between its values, and `owners`: which
options only some values of another option use, as (names, the other option, those values).
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from docnmt.errors import UsageError

C = TypeVar("C")


def option(
    default: Any,
    help: str,
    *,
    choices: Sequence[str] | Callable[[], Sequence[str]] | None = None,
    metavar: str | None = None,
    positional: bool = False,
    aliases: Sequence[str] = (),
) -> Any:
    """A field of a configuration dataclass that is also a command-line option.

    Types understood: bool (`--flag/--no-flag`), int, float, str, Literal, `X | None`, `tuple[X, ...]` (several values).

    Args:
        default: its value when nobody says otherwise; `dataclasses.MISSING` makes the option required.
        choices: allowed values, or a function that lists them when asked (a registry's `names`).
        positional: given by place instead of by name.
        aliases: other spellings (`--batch-size` for `--max-sentences`), with the dashes.
    """
    metadata = {"help": help, "choices": choices, "metavar": metavar, "positional": positional, "aliases": aliases}
    return field(default=default, metadata=metadata)


@dataclass(frozen=True)
class Setting:
    """One field of a configuration class, its type taken apart."""

    name: str
    kind: type
    optional: bool
    several: bool
    choices: tuple[Any, ...] | None
    field: dataclasses.Field[Any]

    @property
    def flag(self) -> str:
        return self.name if self.field.metadata.get("positional") else "--" + self.name.replace("_", "-")

    @property
    def aliases(self) -> Sequence[str]:
        return tuple(self.field.metadata.get("aliases", ()))

    @property
    def required(self) -> bool:
        return self.field.default is dataclasses.MISSING and self.field.default_factory is dataclasses.MISSING

    def convert(self, value: Any) -> Any:
        """A typed value from a string (command line) or a YAML or JSON value.

        Raises:
            ValueError: it is not of this setting's type or not among its choices.
        """
        if value is None or (self.optional and value == "none" and "none" not in (self.choices or ())):
            if self.optional:
                return None
            raise ValueError(f"{self.flag}: expected {self._expected()}, got nothing")
        if self.several:
            return tuple(self._scalar(item) for item in (value if isinstance(value, (list, tuple)) else [value]))
        return self._scalar(value)

    def _scalar(self, value: Any) -> Any:
        converted = _convert(value, self.kind)
        if converted is None:
            raise ValueError(f"{self.flag}: expected {self._expected()}, got {value!r}")
        if self.choices is not None and converted not in self.choices:
            raise ValueError(f"{self.flag}: expected one of {', '.join(map(str, self.choices))}, got {value!r}")
        return converted

    def _expected(self) -> str:
        return {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}[self.kind]


def _convert(value: Any, kind: type) -> Any:
    """`value` as `kind`, or None where it is not one. A bool and nan are no numbers, 1.0 is no whole number."""
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


def settings(config: type) -> list[Setting]:
    """The settings of a configuration class, in its order."""
    hints = get_type_hints(config)
    return [_setting(f, hints[f.name]) for f in dataclasses.fields(config)]


def _setting(f: dataclasses.Field[Any], hint: Any) -> Setting:
    optional = several = False
    if get_origin(hint) in (Union, types.UnionType):
        hint = next(a for a in get_args(hint) if a is not type(None))
        optional = True
    if get_origin(hint) is tuple:
        hint, several = get_args(hint)[0], True
    choices = f.metadata.get("choices")
    choices = choices() if callable(choices) else choices
    if get_origin(hint) is Literal:
        choices = get_args(hint)
        hint = type(choices[0])
    if hint not in (bool, int, float, str):
        raise TypeError(f"option {f.name}: a configuration value is bool, int, float or str, not {hint}")
    return Setting(f.name, hint, optional, several, tuple(choices) if choices is not None else None, f)


@dataclass(frozen=True)
class Section:
    """A part of a command's configuration: `values` are the architecture's, between the defaults and the file's."""

    name: str
    config: type
    values: Mapping[str, Any] = field(default_factory=dict)


def build(
    sections: Sequence[Section], file: Mapping[str, Any], typed: Mapping[str, Any], explain: Callable[[str], str]
) -> dict[str, Any]:
    """Resolve every section: default < architecture < file < typed.

    Args:
        file: the `--config` file's content, flat; unknown keys are problems.
        typed: command-line strings by field name.
        explain: what to say of an unknown name (did-you-mean, or which architecture has it).

    Raises:
        UsageError: with every problem found.
    """
    problems: list[str] = []
    owners, other = {s.name for section in sections for s in settings(section.config)}, aliases(sections)
    spelt: dict[str, str] = {}  # the option → how the file spells it
    for key in file:
        name = key.replace("-", "_")
        name = other.get(name, name)
        if name not in owners:
            problems.append(f"--config: unknown key '{key}'{explain(key)}")
        elif name in spelt:
            problems.append(f"--config: '{spelt[name]}' and '{key}' are one option; keep one of them")
        spelt[name] = key
    file = {name: file[key] for name, key in spelt.items()}
    resolved: dict[str, Any] = {}
    for section in sections:
        values: dict[str, Any] = {}
        for setting in settings(section.config):
            for source in (typed, file, section.values):
                if setting.name in source:
                    try:
                        values[setting.name] = setting.convert(source[setting.name])
                    except ValueError as error:
                        problems.append(str(error))
                        values[setting.name] = None if setting.required else setting.field.default
                    break
            else:
                if setting.required:
                    problems.append(f"{setting.flag} is required: {setting.field.metadata.get('help', '')}")
                    values[setting.name] = None
        resolved[section.name] = section.config(**values)
    if not problems:
        for config in resolved.values():
            problems += config.problems() if hasattr(config, "problems") else []
    if problems:
        raise UsageError(problems)
    return resolved


class Except(frozenset[Any]):
    """All values but these, among `owners`."""

    def __contains__(self, value: object) -> bool:
        return not super().__contains__(value)

    def __str__(self) -> str:
        return f"any but {', '.join(sorted(self))}"


def without_effect(config: Any, given: Collection[str]) -> list[str]:
    """Problems of the options `given` that nothing reads, by the `owners` of the configuration's class."""
    found: dict[str, str] = {}
    for names, by, users in getattr(config, "owners", ()):
        value = getattr(config, by)
        for name in names:
            if name in given and value not in users:
                flag, own = name.replace("_", "-"), by.replace("_", "-")
                belongs = str(users) if isinstance(users, Except) else ", ".join(map(str, users))
                found.setdefault(name, f"--{flag} has no effect with --{own} {value}; it belongs to {belongs}")
    return list(found.values())


def aliases(sections: Sequence[Section]) -> dict[str, str]:
    """Other spelling → name, of every option that has one."""
    found = ((s, alias) for section in sections for s in settings(section.config) for alias in s.aliases)
    return {alias.lstrip("-").replace("-", "_"): setting.name for setting, alias in found}


def underscored(values: Mapping[str, Any]) -> dict[str, Any]:
    """Keys as Python spells them."""
    return {key.replace("-", "_"): value for key, value in values.items()}


def to_dict(config: Any) -> dict[str, Any]:
    """A configuration as plain JSON types."""
    return {k: list(v) if isinstance(v, tuple) else v for k, v in dataclasses.asdict(config).items()}


def from_dict(config: type[C], values: Mapping[str, Any], *, where: str) -> C:
    """A configuration back from `to_dict`; a value that newer code added takes its default.

    Raises:
        UsageError: unknown keys or wrong types, all of them, named with `where` they stand.
    """
    try:
        resolved: C = build([Section(where, config)], values, {}, lambda key: "")[where]
        return resolved
    except UsageError as error:
        raise UsageError([f"{where}: {problem}" for problem in error.problems]) from None


def read_yaml(path: Path) -> dict[str, Any]:
    """The flat mapping in a YAML file.

    Raises:
        UsageError: not readable, not YAML, or not a flat mapping.
    """
    import yaml

    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--config {path}: cannot be read: {error}") from error
    except yaml.YAMLError as error:
        raise UsageError(f"--config {path}: not valid YAML: {' '.join(str(error).split())}") from error
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise UsageError(f"--config {path}: expected 'option: value' lines, got a {type(content).__name__}")
    return {str(key): value for key, value in content.items()}
