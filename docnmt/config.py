"""Typed configuration. A dataclass is the one source of its command-line options, help, YAML keys and checks.

A command has *sections*: (name, dataclass, the architecture's values). Values are taken in the order
default < architecture < `--config` file < typed option. Every problem found is reported at once.
A configuration class may have `problems(self) -> list[str]` for contradictions between its values, and `conditions`:
which of its options have an effect only with some values of another one.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

from docnmt.errors import UsageError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

# `Any` is the type of option values, which only `Setting` knows, at run time.
C = TypeVar("C")
Choices = Sequence[str] | Callable[[], Sequence[str]]


@dataclass(frozen=True)
class Option:
    """How the command line shows and reads a field, besides its type and its default; see `option`."""

    help: str = ""
    choices: Choices | None = None
    metavar: str | None = None
    positional: bool = False
    aliases: Sequence[str] = ()
    basic: bool = False


def option(
    default: object,
    help: str,
    *,
    choices: Choices | None = None,
    metavar: str | None = None,
    positional: bool = False,
    aliases: Sequence[str] = (),
    basic: bool = False,
) -> Any:  # as dataclasses.field: a field of any type
    """A field of a configuration dataclass that is also a command-line option.

    Types understood: bool (`--flag/--no-flag`), int, float, str, Literal, `X | None`, `tuple[X, ...]` (several values).

    Args:
        default: its value where none is given; `dataclasses.MISSING` makes the option required.
        choices: allowed values, or a function that lists them when asked (a registry's `names`).
        positional: given by place instead of by name.
        aliases: other spellings (`--batch-size` for `--max-sentences`), with the dashes.
        basic: `--help` shows it; of the others only `--help-all`. Required options are always shown, and so are all of
            a class that marks none.
    """
    return field(default=default, metadata={"option": Option(help, choices, metavar, positional, aliases, basic)})


@dataclass(frozen=True)
class NoOptions:
    """The configuration of a component that has none."""


class Condition(NamedTuple):
    """`options` have an effect only where the option `other` has one of `values`."""

    options: tuple[str, ...]
    other: str
    values: Collection[str | int]


class Except(frozenset[Any]):
    """All values but these, as the `values` of a `Condition`."""

    def __contains__(self, value: object) -> bool:
        return not super().__contains__(value)

    def __str__(self) -> str:
        return f"any but {', '.join(sorted(self))}"


@dataclass(frozen=True)
class Setting:
    """One field of a configuration class, its type taken apart."""

    name: str
    kind: type
    optional: bool
    several: bool
    choices: tuple[object, ...] | None
    default: object
    option: Option

    @property
    def flag(self) -> str:
        """What the command line calls it: `--max-tokens`; of a positional one its name."""
        return self.name if self.option.positional else flag(self.name)

    @property
    def required(self) -> bool:
        """Whether a value must be given."""
        return self.default is dataclasses.MISSING

    def convert(self, value: object) -> object:
        """A typed value from a string (command line) or a YAML or JSON value.

        Raises:
            ValueError: it is not of this setting's type or not among its choices.
        """
        if value is None or (self.optional and value == "none" and "none" not in (self.choices or ())):
            if self.optional:
                return None
            raise ValueError(f"{self.flag}: expected {_EXPECTED[self.kind]}, got nothing")
        if self.several:
            return tuple(self._scalar(item) for item in (value if isinstance(value, (list, tuple)) else [value]))
        return self._scalar(value)

    def _scalar(self, value: object) -> object:
        converted = _convert(value, self.kind)
        if converted is None:
            raise ValueError(f"{self.flag}: expected {_EXPECTED[self.kind]}, got {value!r}")
        if self.choices is not None and converted not in self.choices:
            raise ValueError(f"{self.flag}: expected one of {', '.join(map(str, self.choices))}, got {value!r}")
        return converted


_EXPECTED = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}


def _convert(value: object, kind: type) -> object:
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


def flag(name: str) -> str:
    """The option of a field."""
    return "--" + name.replace("_", "-")


def underscored(word: str) -> str:
    """The field of an option or of a YAML key."""
    return word.lstrip("-").replace("-", "_")


def settings(config: type) -> list[Setting]:
    """The settings of a configuration class, in its order."""
    hints = get_type_hints(config)
    return [_setting(f, hints[f.name]) for f in dataclasses.fields(config)]


def _setting(f: dataclasses.Field[Any], hint: object) -> Setting:
    option: Option = f.metadata.get("option", Option())
    optional = several = False
    if get_origin(hint) in (Union, types.UnionType):
        hint = next(a for a in get_args(hint) if a is not type(None))
        optional = True
    if get_origin(hint) is tuple:
        hint, several = get_args(hint)[0], True
    choices = option.choices() if callable(option.choices) else option.choices
    if get_origin(hint) is Literal:
        choices = get_args(hint)
        hint = type(choices[0])
    if hint not in _EXPECTED:
        raise TypeError(f"option {f.name}: a configuration value is bool, int, float or str, not {hint}")
    default = f.default if f.default_factory is dataclasses.MISSING else f.default_factory()
    return Setting(f.name, hint, optional, several, None if choices is None else tuple(choices), default, option)


@dataclass(frozen=True)
class Section:
    """A part of a command's configuration: `values` are the architecture's, between the defaults and the file's."""

    name: str
    config: type
    values: Mapping[str, Any] = field(default_factory=dict)

    @property
    def settings(self) -> list[Setting]:
        """The settings of its class."""
        return settings(self.config)


def aliases(sections: Sequence[Section]) -> dict[str, str]:
    """Other spelling → name, of every option that has one."""
    every = (setting for section in sections for setting in section.settings)
    return {underscored(alias): setting.name for setting in every for alias in setting.option.aliases}


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
    known, other = {s.name for section in sections for s in section.settings}, aliases(sections)
    spelt: dict[str, str] = {}  # the option → how the file spells it
    for key in file:
        name = other.get(underscored(key), underscored(key))
        if name not in known:
            problems.append(f"--config: unknown key '{key}'{explain(key)}")
        elif name in spelt:
            problems.append(f"--config: '{spelt[name]}' and '{key}' are one option; keep one of them")
        spelt[name] = key
    sources = (typed, {name: file[key] for name, key in spelt.items()})
    values = {s.name: _values(s.settings, (*sources, s.values), problems) for s in sections}
    if not problems:
        resolved = {section.name: section.config(**values[section.name]) for section in sections}
        for config in resolved.values():
            problems += config.problems() if hasattr(config, "problems") else []
    if problems:
        raise UsageError(problems)
    return resolved


def _values(wanted: Sequence[Setting], sources: Sequence[Mapping[str, Any]], problems: list[str]) -> dict[str, Any]:
    """The value of each setting in the first source that has one; what is wrong is added to `problems`."""
    values: dict[str, Any] = {}
    for setting in wanted:
        given = next((source[setting.name] for source in sources if setting.name in source), dataclasses.MISSING)
        if given is not dataclasses.MISSING:
            try:
                values[setting.name] = setting.convert(given)
            except ValueError as error:
                problems.append(str(error))
        elif setting.required:
            problems.append(f"{setting.flag} is required: {setting.option.help}")
    return values


def collected(config: type, name: str) -> list[Any]:
    """What a configuration class and those that it extends have in the tuple `name`, the most general first."""
    return [entry for part in reversed(config.__mro__) for entry in vars(part).get(name, ())]


def without_effect(config: object, given: Collection[str]) -> list[str]:
    """Problems of the options `given` that nothing reads, by the `conditions` of the configuration's class."""
    found: dict[str, str] = {}
    for names, other, values in collected(type(config), "conditions"):
        value = getattr(config, other)
        for name in names:
            if name in given and value not in values:
                belongs = str(values) if isinstance(values, Except) else ", ".join(map(str, values))
                problem = f"{flag(name)} has no effect with {flag(other)} {value}; it belongs to {belongs}"
                found.setdefault(name, problem)
    return list(found.values())


def below(config: object, least: int, *names: str) -> list[str]:
    """Problems of the values that are smaller than `least`; None is none."""
    values = ((name, getattr(config, name)) for name in names)
    return [
        f"{flag(name)}: must be at least {least}, got {value}"
        for name, value in values
        if value is not None and value < least
    ]


def no_share(config: object, *names: str) -> list[str]:
    """Problems of the values outside [0, 1)."""
    values = ((name, getattr(config, name)) for name in names)
    return [f"{flag(name)}: must be in [0, 1), got {value}" for name, value in values if not 0 <= value < 1]


def to_dict(config: DataclassInstance) -> dict[str, Any]:
    """A configuration as plain JSON types."""
    return {k: list(v) if isinstance(v, tuple) else v for k, v in dataclasses.asdict(config).items()}


def from_dict(
    config: type[C], values: Mapping[str, Any], *, where: str, explain: Callable[[str], str] = lambda key: ""
) -> C:
    """A configuration back from `to_dict`; a value that newer code added takes its default.

    Raises:
        UsageError: unknown keys or wrong types, all of them, named with `where` they stand.
    """
    try:
        resolved: C = build([Section(where, config)], values, {}, explain)[where]
        return resolved
    except UsageError as error:
        raise UsageError([f"{where}: {problem.removeprefix('--config: ')}" for problem in error.problems]) from None


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
