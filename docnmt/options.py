"""Typed options: a dataclass field is an option, with its help, range and rules.

words, YAML ─ build ─ Setting.convert (msgspec) ─ {section: dataclass} ─ contradictions: every problem at once
default < architecture < --config file < command line
"""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import functools
import math
import re
import types
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import signature
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    NamedTuple,
    ParamSpec,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec
import msgspec.yaml

from docnmt.runtime.system import UsageError, UserError, Value, checked, in_one_line, read_limited

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

C = TypeVar("C")
P = ParamSpec("P")
R = TypeVar("R")

# The rules of an option, as data, with their words for errors, help and docs.


class Open(NamedTuple):
    """An end of `between` that is not a value itself: (0, Open(1)) is 0 ≤ value < 1."""

    end: float


#: Where values begin and end; None where they do not.
Between = tuple["float | Open | None", "float | Open | None"]


def _range_words(between: Between) -> str:
    """Return a range in words: `from 1 to 1,000`, `at least 1`, `above 0 and at most 1`."""
    least, most = between
    if isinstance(least, (int, float)) and isinstance(most, (int, float)):
        return f"from {least:,} to {most:,}"
    ends = ((least, "above", "at least"), (most, "below", "at most"))
    return " and ".join(
        f"{beyond} {end.end:,}" if isinstance(end, Open) else f"{including} {end:,}"
        for end, beyond, including in ends
        if end is not None
    )


class Needs(NamedTuple):
    """A condition on other options: if it does not hold, the option's value contradicts them, or nothing reads it."""

    other: str | tuple[str, ...]  # an option, or a property computed from several; of several names one is enough
    values: Collection[Any] | None = None  # of `other` with which the option has a meaning; None: not 0, "", nothing
    says: str = ""  # the condition in words, if `other` and `values` do not express it
    typed: bool = False  # is only a typed option refused? A `--config` file may serve several architectures
    without: Collection[Any] = ()  # in place of `values`: those with which it has none

    @property
    def names(self) -> tuple[str, ...]:
        """The options of which one is enough, as a tuple."""
        return (self.other,) if isinstance(self.other, str) else self.other

    def met(self, config: object) -> bool:
        """Return True if a configuration meets the condition."""
        values = [getattr(config, name) for name in self.names]
        if self.without:
            return any(value not in self.without for value in values)
        return any(bool(value) if self.values is None else value in self.values for value in values)

    def words(self) -> str:
        """Return the condition in words: `--by`, `--lr-scheduler cosine or plateau`."""
        if self.says:
            return self.says
        values = sorted(map(str, self.without)) or self.values
        if values is None:
            return " or ".join(map(flag, self.names))
        if list(values) in ([True], [False]):
            return _with_value(self.names[0], *values)
        *first, last = map(str, values)
        listed = f"{', '.join(first)} or {last}" if first else last
        return f"{flag(self.names[0])} {'other than ' if self.without else ''}{listed}"


#: As `option` takes it: a name alone is an option that must be given, a tuple of names options of which one must be.
_SomeNeeds = str | tuple[str, ...] | Needs | list[Needs]


def _as_needs(given: _SomeNeeds) -> tuple[Needs, ...]:
    if isinstance(given, (Needs, list)):
        return (given,) if isinstance(given, Needs) else tuple(given)
    return (Needs(given),) if given else ()


def flag(name: str) -> str:
    """Return the option of a field."""
    return "--" + name.replace("_", "-")


def underscored(word: str) -> str:
    """Return the field of an option or of a YAML key."""
    return word.lstrip("-").replace("-", "_")


def _with_value(name: str, value: object) -> str:
    """Return an option with a value as it is typed: `--merge mean`, `--no-gate`."""
    if isinstance(value, bool):
        return flag(name) if value else flag(f"no_{name}")
    return f"{flag(name)} {' '.join(map(str, value)) if isinstance(value, tuple) else value}"


def nearest(word: str, names: Iterable[str]) -> str:
    """Return "did you mean 'name'? " with the name most similar to a word; an empty text if none is similar."""
    close = difflib.get_close_matches(word, list(names), n=1)
    return f"did you mean '{close[0]}'? " if close else ""


# Fields of configuration dataclasses that are also command-line options.

Choices = Sequence[str] | Callable[[], Sequence[str]]


@dataclass(frozen=True)
class _Option:
    """The command-line properties of a field, besides its type and its default; see `option`."""

    help: str = ""
    choices: Choices | None = None
    metavar: str | None = None
    positional: bool = False
    aliases: Sequence[str] = ()
    basic: bool = False
    between: Between | None = None
    needs: tuple[Needs, ...] = ()
    excludes: tuple[str, ...] = ()

    def rules(self) -> list[str]:
        """Return its rules in words: `at least 1`, `needs --by`, `not with --verify`."""
        allowed = [_range_words(self.between)] if self.between else []
        needed = [f"needs {needs.words()}" for needs in self.needs]
        return allowed + needed + [f"not with {flag(name)}" for name in self.excludes]


def option(
    default: object, help: str, *, choices: Choices | None = None, metavar: str | None = None,
    positional: bool = False, aliases: Sequence[str] = (), basic: bool = False, between: Between | None = None,
    needs: _SomeNeeds = (), excludes: tuple[str, ...] = (),
) -> Any:  # fmt: skip  # like dataclasses.field: a field of any type
    """Define a field of a configuration dataclass that is also a command-line option.

    Supported types: bool (`--flag/--no-flag`), int, float, str, Literal, `X | None`, `tuple[X, ...]` (several values).
    A default of `dataclasses.MISSING` makes it required; `choices` may be a function (a registry's `names`); `aliases`
    have their dashes. `--help` shows `basic` and required options, and all of a class without basic ones. `between` are
    the least and the largest number: None means no limit, `Open` a limit that is itself excluded. `needs` is a
    condition for every value but the default: an option that must be given, a tuple of options of which one must be
    given, or `Needs`; the options that it `excludes` must keep their defaults."""
    about = _Option(help, choices, metavar, positional, aliases, basic, between, _as_needs(needs), excludes)
    return field(default=default, metadata={"option": about})


@dataclass(frozen=True)
class NoOptions:
    """The configuration of a component without options."""


# Settings: fields of configuration classes, with their types analysed. msgspec converts and checks values.

#: The largest whole number: arrays and generators of random numbers have 64 bits.
_LARGEST = (1 << 63) - 1
#: A hint for names that are not registered.
PLUGIN = "a plug-in's needs its --user-dir"
_EXPECTED = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}


@dataclass(frozen=True)
class Setting:
    """One field of a configuration class, with its type analysed."""

    name: str
    flag: str  # on the command line: `--max-tokens`; of a positional argument the field's name
    kind: type  # bool, int, float or str
    checked: Any  # the same for msgspec, with its range
    optional: bool
    several: bool
    literals: tuple[object, ...] | None  # the values that its type allows, where that says so
    default: object
    option: _Option

    @property
    def choices(self) -> tuple[object, ...] | None:
        """The values that it may have; a registry's names are those that are registered now."""
        named = self.option.choices
        choices = named() if callable(named) else named or self.literals
        return None if choices is None else tuple(choices)

    @functools.cached_property
    def required(self) -> bool:
        """True if a value must be given."""
        return self.default is dataclasses.MISSING

    def convert(self, value: object) -> object:
        """Convert a word of the command line, or a value of YAML or JSON, to this setting's type. A `ValueError` says
        that it is not of this type, out of its range, or not among the choices."""
        if self.optional and (value is None or (value == "none" and "none" not in (self.choices or ()))):
            return None
        if self.several:
            return tuple(map(self._scalar, value if isinstance(value, (list, tuple)) else [value]))
        return self._scalar(value)

    def _scalar(self, value: object) -> object:
        """One value, converted by msgspec, which knows its type and range, and looked for among the choices."""
        if isinstance(value, _Spelt):
            value = str(value) if self.kind is str else value.number
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        text_or_value = str(value) if self.kind is str and number else value  # YAML has read a text as a number
        choices = self.choices
        with contextlib.suppress(msgspec.ValidationError):
            converted = msgspec.convert(text_or_value, self.checked, strict=False)
            finite = self.kind is not float or math.isfinite(converted)
            if finite and (choices is None or converted in choices):
                return converted
        raise ValueError(f"{self.flag}: {self._mistake(value, choices)}")

    def _mistake(self, value: object, choices: tuple[object, ...] | None) -> str:
        """What was expected and what was given, in words."""
        if choices is None:
            size = " of 64 bits" if self.kind is int and len(str(value)) > 18 else ""
            between = f", {_range_words(self.option.between)}" if self.option.between else ""
            return f"expected {_EXPECTED[self.kind]}{size}{between}, got {value!r}"
        names = [*map(str, choices)]
        listed = set(str(value).split(",")) & set(names)
        meant = "several names stand apart: a b" if listed else nearest(str(value), names).rstrip()
        hints = [meant, PLUGIN if callable(self.option.choices) else ""]  # a registry's
        return "; ".join([f"expected one of {', '.join(names)}, got {value!r}", *filter(None, hints)])


def settings(config: type) -> tuple[Setting, ...]:
    """Return the settings of a configuration class, in order."""
    return _settings(config)  # mypy takes no class for the key of a cache


@functools.cache
def _settings(config: type) -> tuple[Setting, ...]:
    hints, more_needs = get_type_hints(config), dict[str, tuple[Needs, ...]]()
    for part in reversed(config.__mro__):
        for name, needs in vars(part).get("also_needs", {}).items():
            more_needs[name] = more_needs.get(name, ()) + _as_needs(needs)
    return tuple(_setting(f, hints[f.name], more_needs.get(f.name, ())) for f in dataclasses.fields(config))


def _setting(f: dataclasses.Field[Any], hint: Any, more_needs: tuple[Needs, ...]) -> Setting:
    about: _Option = f.metadata.get("option", _Option())
    if more_needs:
        about = dataclasses.replace(about, needs=about.needs + more_needs)
    optional = get_origin(hint) in (Union, types.UnionType)
    if optional:
        hint = next(part for part in get_args(hint) if part is not types.NoneType)
    if several := get_origin(hint) is tuple:
        hint = get_args(hint)[0]
    literals = get_args(hint) if get_origin(hint) is Literal else None
    kind = type(literals[0]) if literals else hint
    if kind not in _EXPECTED:
        raise TypeError(f"option {f.name}: a configuration value is bool, int, float or str, not {kind}")
    limits: dict[str, Any] = {"ge": -_LARGEST, "le": _LARGEST} if kind is int else {}
    for closed, opened, end in zip(("ge", "le"), ("gt", "lt"), about.between or (), strict=False):
        if isinstance(end, Open):
            limits.pop(closed, None)
            limits[opened] = end.end
        elif end is not None:
            limits[closed] = end
    checked = Annotated[kind, msgspec.Meta(**limits)] if limits else kind
    default = f.default if f.default_factory is dataclasses.MISSING else f.default_factory()
    name = f.name if about.positional else flag(f.name)
    return Setting(f.name, name, kind, checked, optional, several, literals, default, about)


def contradictions(config: object, typed: Collection[str] = (), wrong_values: Collection[str] = ()) -> list[str]:
    """Return a message for each error in a configuration: ranges, conditions, and its own method `problems`. `typed`
    are the options on the command line; of `wrong_values`, which have defaults in their place, nothing more is said."""
    every = [setting for setting in settings(type(config)) if setting.name not in wrong_values]
    changed = {setting.name for setting in every if getattr(config, setting.name) != setting.default}
    wrong, unmet, both = list[str](), list[str](), list[str]()
    for setting in every:
        value, rules = getattr(config, setting.name), setting.option
        try:
            setting.convert(value)
        except ValueError as error:
            wrong.append(str(error))
        unsure = any(name in wrong_values for needs in rules.needs for name in needs.names)
        for needs in () if unsure else rules.needs:
            if setting.name in (typed if needs.typed else changed) and not needs.met(config):
                given = _with_value(setting.name, value) if isinstance(value, bool) else setting.flag
                unmet.append(f"{given} needs {needs.words()}")
                break
        others = [flag(other) for other in rules.excludes if {setting.name, other} <= changed]
        both += [f"{setting.flag} does not go with {other}; give one of them" for other in others]
    return wrong + unmet + both + ([] if wrong or wrong_values else own_problems(config, type(config)))


def own_problems(config: object, kind: type) -> list[str]:
    """Return the result of the method `problems` of a configuration, or of its base `kind`; [] if there is none."""
    problems = kind.problems(config) if hasattr(kind, "problems") else []
    if not isinstance(problems, list):
        raise TypeError(f"{kind.__qualname__}.problems: expected a list of sentences, got {problems!r}")
    return problems


def same_path(one: str | None, other: str | None) -> bool:
    """Return True if both are given and name one file, whether it exists or not."""
    return one is not None and other is not None and Path(one).resolve() == Path(other).resolve()


# The sections of a command's configuration, resolved; and configurations as JSON.


@dataclass(frozen=True)
class Section:
    """A part of a command's configuration."""

    name: str
    config: type
    values: Mapping[str, Any] = field(default_factory=dict)  # the architecture's, between the defaults and the file's
    use: str = ""  # what its required options are for, where that is not all that the command does

    @property
    def settings(self) -> tuple[Setting, ...]:
        """The settings of its class."""
        return settings(self.config)


def build(
    sections: Sequence[Section], file: Mapping[str, Any], typed: Mapping[str, Any],
    unknown: Callable[[str], str] = lambda key: f"unknown key {key}", where: str = "",
) -> dict[str, Any]:  # fmt: skip
    """Resolve every section: default < architecture < file < typed; a `UsageError` has every problem found. `file` is
    the content of the `--config` file, flat, `where` its name, `typed` are words by field name; `unknown` returns the
    problem of a key, in quotation marks, that is no option."""
    problems: list[str] = []
    beginning = f"{where}: " if where else ""
    every = {setting.name: setting for section in sections for setting in section.settings}
    names = {underscored(alias): name for name, setting in every.items() for alias in setting.option.aliases}
    spelt: dict[str, str] = {}  # the option → how the file spells it
    for key in file:
        name = names.get(underscored(key), underscored(key))
        if name not in every:
            problems.append(f"{beginning}{unknown(repr(key))}")
        elif name in spelt:
            problems.append(f"{beginning}'{spelt[name]}' and '{key}' are one option; keep one of them")
        spelt[name] = key
    of_file = {name: file[key] for name, key in spelt.items()}
    wrong_values: set[str] = set()
    resolved: dict[str, Any] = {}  # all sections that have their required options
    for section in sections:
        sources = ((typed, "", ""), (of_file, beginning, ""), (section.values, "", " (set by the architecture)"))
        values: dict[str, object] = {}
        for setting in section.settings:
            source, before, behind = next((given for given in sources if setting.name in given[0]), ({}, "", ""))
            try:
                if source:
                    values[setting.name] = setting.convert(source[setting.name])
                elif setting.required:
                    problems.append(f"{setting.flag} is required: {setting.option.help}")
            except ValueError as error:
                problems.append(f"{before}{error}{behind}")
                wrong_values.add(setting.name)
        if all(setting.name in values for setting in section.settings if setting.required):
            resolved[section.name] = section.config(**values)
    for config in resolved.values():
        problems += contradictions(config, typed, wrong_values)
    if problems:
        raise UsageError(problems)
    return resolved


def to_dict(config: DataclassInstance) -> dict[str, Any]:
    """Return a configuration as plain JSON types."""
    return {k: list(v) if isinstance(v, tuple) else v for k, v in dataclasses.asdict(config).items()}


def from_dict(config: type[C], values: Mapping[str, Any], *, where: str) -> C:
    """Restore a configuration from `to_dict`; options added since have their defaults."""
    try:
        resolved: C = build([Section(where, config)], values, {})[where]
        return resolved
    except UsageError as error:
        raise UsageError([f"{where}: {problem}" for problem in error.problems]) from None


_VALUE: Any = Value  # mypy has no type for unions


class _Spelt(str):
    """A number as a YAML file writes it, for an option that takes a text: the folder 010 is not the folder 8."""

    number: float


def _as_spelt(value: Any, node: Any) -> Any:  # of PyYAML
    """Return a value of YAML with its numbers as they are written, where that is not as Python writes them."""
    if isinstance(value, list) and isinstance(node.value, list):
        return [_as_spelt(part, of_part) for part, of_part in zip(value, node.value, strict=True)]
    if type(value) not in (int, float) or node.value == str(value):
        return value
    spelt = _Spelt(node.value)
    spelt.number = value
    return spelt


def checked_yaml(content: bytes, where: str, *, octal: bool = True) -> Any:
    """Return the root of YAML, PyYAML's node. Refuse a key that stands twice, of which a parser keeps only the last,
    and without `octal` numbers like 010, which is 8."""
    import yaml  # not for every command

    root = yaml.compose(content, Loader=yaml.SafeLoader)
    nodes, seen = [root], set[int]()
    while nodes:
        node = nodes.pop()
        if id(node) in seen:  # an alias
            continue
        seen.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            nodes += node.value
        elif isinstance(node, yaml.MappingNode):
            keys: set[str] = set()
            for key, value in node.value:
                if str(key.value) in keys and key.value != "<<":
                    raise UserError(f"{where}:{key.start_mark.line + 1}: {key.value!r} stands there twice; keep one")
                keys.add(str(key.value))
                nodes.append(value)
        elif not octal and node is not None and node.tag.endswith(":int") and re.match(r"[-+]?0[0-9_]", node.value):
            raise UserError(
                f"{where}:{node.start_mark.line + 1}: {node.value} is another number in YAML; write it without the zero"
            )
    return root


def read_yaml(path: Path) -> dict[str, Any]:
    """Read a YAML file of options: `name: value` lines, whose values are scalars or lists of them."""
    try:
        content = read_limited(path)
        root = checked_yaml(content, str(path))
        pairs = [pair for pair in getattr(root, "value", ()) if isinstance(pair, tuple)]  # of a mapping
        if any(key.tag.endswith(":merge") for key, _ in pairs):
            raise UserError(f"{path}: '<<' merges options from elsewhere; write each option on a line of its own")
        values = msgspec.yaml.decode(content, type=dict[str, Any] | None) or {}
        written = {key.value: node for key, node in pairs}
        for key, value in values.items():
            checked(value, _VALUE, f"{path}: '{key}'")
        return {key: _as_spelt(value, written[key]) if key in written else value for key, value in values.items()}
    except UserError as error:
        raise UsageError(f"--config {error}") from None
    except Exception as error:  # PyYAML's constructors raise any error of a conversion like `!!bool x`
        raise UsageError(f"--config {path}: not valid YAML: {in_one_line(error)}") from None


# Options given by name in Python.


def words_of(options: Mapping[str, Any]) -> list[str]:
    """Convert options by name to the words of a command line; None and no values leave one out."""
    words: list[str] = []
    for name, value in options.items():
        if isinstance(value, bool):
            words.append(flag(name if value else f"no_{name}"))
        elif isinstance(value, (list, tuple)):
            words += [flag(name), *map(str, value)] if value else []
        elif value is not None:
            words.append(f"{flag(name)}={value}")
    return words


def unknown_options(wrong: Collection[str], there: Collection[str]) -> UsageError:
    """Return the error for options that do not exist: each with the nearest existing one, and a list of all."""
    names = sorted(there)
    return UsageError(
        [f"unknown option '{name}'; {nearest(name, names)}there are {', '.join(names)}" for name in sorted(wrong)]
    )


def named_options(function: Callable[P, R]) -> Callable[P, R]:
    """Wrap a function so that unknown options raise docnmt's error instead of Python's TypeError."""
    known = signature(function).parameters.keys() - {"self"}

    @functools.wraps(function)
    def checked_call(*args: P.args, **kwargs: P.kwargs) -> R:
        if wrong := kwargs.keys() - known:
            raise unknown_options(wrong, known)
        return function(*args, **kwargs)

    return checked_call
