"""Typed options: a dataclass field is an option with its help, range and rules.
default < architecture < --config file < command line. All problems are reported at once.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import math
import types
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from inspect import signature
from pathlib import Path
from typing import (
    TYPE_CHECKING,
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


# Rules for the values of options and for options together, as data, with their words for errors, help and docs.


class Open(NamedTuple):
    """An end of `between` that is not a value itself: (0, Open(1)) is 0 ≤ value < 1."""

    end: float


#: Where values begin and end; None where they do not.
Between = tuple["float | Open | None", "float | Open | None"]


def inside(value: float, between: Between) -> bool:
    """Return True if a value is in the range."""
    least, most = between
    after = least is None or (value > least.end if isinstance(least, Open) else value >= least)
    return after and (most is None or (value < most.end if isinstance(most, Open) else value <= most))


def range_words(between: Between) -> str:
    """Return a range in words: `from 1 to 1,000`, `at least 1`, `above 0 and at most 1`."""
    least, most = between
    if isinstance(least, (int, float)) and isinstance(most, (int, float)):
        return f"from {least:,} to {most:,}"
    said = []
    for end, beyond, including in ((least, "above", "at least"), (most, "below", "at most")):
        if end is not None:
            said.append(f"{beyond} {end.end:,}" if isinstance(end, Open) else f"{including} {end:,}")
    return " and ".join(said)


class Except(frozenset[Any]):  # of values of any option
    """All values but these, as the `values` of `Needs`."""

    def __contains__(self, value: object) -> bool:
        return not super().__contains__(value)


#: All values by which something is asked for.
SET = Except((None, False, 0, "", ()))


class Needs(NamedTuple):
    """A condition on other options: if it does not hold, the option's value contradicts them, or nothing reads it.

    Fields:
        other: an option, or a property computed from several; of several names one is enough.
        values: the values of `other` with which the option has a meaning.
        says: the condition in words, if `other` and `values` do not express it.
        typed: True if only a typed option is refused: a `--config` file may serve several architectures.
    """

    other: str | tuple[str, ...]
    values: Collection[Any] = SET
    says: str = ""
    typed: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The options of which one is enough, as a tuple."""
        return (self.other,) if isinstance(self.other, str) else self.other

    def met(self, config: object) -> bool:
        """Return True if a configuration meets the condition."""
        return any(getattr(config, name) in self.values for name in self.names)

    def words(self) -> str:
        """Return the condition in words: `--by`, `--lr-scheduler cosine or plateau`."""
        if self.says:
            return self.says
        if self.values is SET:
            return " or ".join(map(flag, self.names))
        values = sorted(map(str, self.values)) if isinstance(self.values, Except) else list(self.values)
        if values in ([True], [False]):
            return with_value(self.names[0], values[0])
        *first, last = map(str, values)
        listed = f"{', '.join(first)} or {last}" if first else last
        return f"{flag(self.names[0])} {'other than ' * isinstance(self.values, Except)}{listed}"


#: As `option` takes it: a name alone is an option that must be given, a tuple of names options of which one must be.
SomeNeeds = str | tuple[str, ...] | Needs | list[Needs]


def as_needs(given: SomeNeeds) -> tuple[Needs, ...]:
    """Return the conditions that a short form stands for."""
    if isinstance(given, Needs):
        return (given,)
    if isinstance(given, list):
        return tuple(given)
    return (Needs(given),) if given else ()


def collected(config: type, name: str) -> list[Any]:
    """Return the entries of the tuple `name` in a class and in those that it extends, the most general first."""
    return [entry for part in reversed(config.__mro__) for entry in vars(part).get(name, ())]


def collected_needs(config: type) -> dict[str, tuple[Needs, ...]]:
    """Return the conditions in `also_needs` of a class and of those that it extends, by option."""
    found: dict[str, tuple[Needs, ...]] = {}
    for part in reversed(config.__mro__):
        for name, needs in vars(part).get("also_needs", {}).items():
            found[name] = found.get(name, ()) + as_needs(needs)
    return found


def flag(name: str) -> str:
    """Return the option of a field."""
    return "--" + name.replace("_", "-")


def with_value(name: str, value: object) -> str:
    """Return an option with a value as it is typed: `--merge mean`, `--no-gate`."""
    if isinstance(value, bool):
        return flag(name) if value else flag(f"no_{name}")
    return f"{flag(name)} {' '.join(map(str, value)) if isinstance(value, tuple) else value}"


# Fields of configuration dataclasses that are also command-line options.


Choices = Sequence[str] | Callable[[], Sequence[str]]


@dataclass(frozen=True)
class Option:
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
        allowed = [range_words(self.between)] if self.between else []
        needed = [f"needs {each.words()}" for each in self.needs]
        return allowed + needed + [f"not with {flag(name)}" for name in self.excludes]


def option(
    default: object,
    help: str,
    *,
    choices: Choices | None = None,
    metavar: str | None = None,
    positional: bool = False,
    aliases: Sequence[str] = (),
    basic: bool = False,
    between: Between | None = None,
    needs: SomeNeeds = (),
    excludes: tuple[str, ...] = (),
) -> Any:  # like dataclasses.field: a field of any type
    """Define a field of a configuration dataclass that is also a command-line option.

    Supported types: bool (`--flag/--no-flag`), int, float, str, Literal, `X | None`, `tuple[X, ...]` (several values).

    Args:
        default: its default value; `dataclasses.MISSING` makes the option required.
        choices: allowed values, or a function that returns them when needed (a registry's `names`).
        positional: True if it is given by place instead of by name.
        aliases: other spellings (`--batch-size` for `--max-sentences`), with the dashes.
        basic: True if `--help` shows it; others are shown by `--help-all` only. Required options are always shown, and
            so are all of a class without basic ones.
        between: the least and the largest number; None means no limit, `Open` a limit that is itself excluded.
        needs: a condition for every value but the default: an option that must be given, a tuple of options of which
            one must be given, or `Needs`.
        excludes: options that must keep their defaults if this one does not.
    """
    about = Option(help, choices, metavar, positional, aliases, basic, between, as_needs(needs), excludes)
    return field(default=default, metadata={"option": about})


@dataclass(frozen=True)
class NoOptions:
    """The configuration of a component without options."""


# Settings: fields of configuration classes, with their types analysed, and conversion of values from text.


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


# Check of a configuration: by the rules beside its options, and by its own method `problems`.


def contradictions(config: object, typed: Collection[str] = ()) -> list[str]:
    """Return a message for each error in a configuration; `problems` is called if every value is in its range.

    Args:
        typed: the options that stand on the command line.
    """
    every = settings(type(config))
    wrong = [problem for setting in every for problem in _range_problems(setting, getattr(config, setting.name))]
    unmet = [problem for setting in every for problem in _needs_problems(setting, config, typed)]
    changed = {setting.name for setting in every if getattr(config, setting.name) != setting.default}
    both = [
        f"{setting.flag} does not go with {flag(other)}; give one of them"
        for setting in every
        for other in setting.option.excludes
        if {setting.name, other} <= changed
    ]
    return wrong + unmet + both + ([] if wrong else own_problems(config, type(config)))


def own_problems(config: object, kind: type) -> list[str]:
    """Return the result of the method `problems` of a configuration, or of its base `kind`; [] if there is none.

    Raises:
        TypeError: the result is no list, for instance if a plug-in's method lacks `return`.
    """
    found = kind.problems(config) if hasattr(kind, "problems") else []
    if not isinstance(found, list):
        raise TypeError(f"{kind.__qualname__}.problems: expected a list of sentences, got {found!r}")
    return found


def _range_problems(setting: Setting, value: object) -> Iterator[str]:
    """Yield a message for each number that is infinite or out of its range."""
    for number in value if isinstance(value, tuple) else (value,):
        if isinstance(number, float) and math.isinf(number):
            yield f"{setting.flag}: expected a number, got '{number}'"
        elif setting.option.between and isinstance(number, (int, float)) and not inside(number, setting.option.between):
            yield f"{setting.flag}: must be {range_words(setting.option.between)}, got {number}"


def _needs_problems(setting: Setting, config: object, typed: Collection[str]) -> Iterator[str]:
    """Yield a message for the first condition that is not met."""
    value = getattr(config, setting.name)
    said = with_value(setting.name, value) if isinstance(value, bool) else setting.flag
    for needs in setting.option.needs:
        used = setting.name in typed if needs.typed else value != setting.default
        if used and not needs.met(config):
            yield f"{said} needs {needs.words()}"
            return


def same_path(one: str | None, other: str | None) -> bool:
    """Return True if both are given and name one file, whether it exists or not."""
    return one is not None and other is not None and Path(one).resolve() == Path(other).resolve()


def same_file(config: object, read: str, written: str) -> list[str]:
    """Return a message if the file to read is also the file to write."""
    path = getattr(config, written)
    same = same_path(getattr(config, read), path)
    return [f"{flag(written)} {path}: is the file that is read; give another name"] if same else []


# The sections of a command's configuration, resolved: default < architecture < `--config` file < typed option.


@dataclass(frozen=True)
class Section:
    """A part of a command's configuration: `values` are the architecture's, between the defaults and the file's.

    Attributes:
        use: what its required options are required for, where that is not all that the command does.
    """

    name: str
    config: type
    values: Mapping[str, Any] = field(default_factory=dict)
    use: str = ""

    @property
    def settings(self) -> tuple[Setting, ...]:
        """The settings of its class."""
        return settings(self.config)


def aliases(sections: Sequence[Section]) -> dict[str, str]:
    """Return a dictionary of other spellings to names, of every option that has any."""
    every = (setting for section in sections for setting in section.settings)
    return {underscored(alias): setting.name for setting in every for alias in setting.option.aliases}


def build(
    sections: Sequence[Section], file: Mapping[str, Any], typed: Mapping[str, Any], explain: Callable[[str], str]
) -> dict[str, Any]:
    """Resolve every section: default < architecture < file < typed.

    Args:
        file: the `--config` file's content, flat; unknown keys are problems.
        typed: command-line strings by field name.
        explain: returns a hint on an unknown name (did-you-mean, or which architecture has it).

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
    of_file = {name: file[key] for name, key in spelt.items()}
    values = {}
    for section in sections:
        sources = {"{}": typed, "--config: {}": of_file, "{} (set by the architecture)": section.values}
        values[section.name] = _values(section.settings, sources, problems)
    if not problems:
        resolved = {section.name: section.config(**values[section.name]) for section in sections}
        problems += [problem for config in resolved.values() for problem in contradictions(config, typed)]
    if problems:
        raise UsageError(problems)
    return resolved


def _values(wanted: Sequence[Setting], sources: Mapping[str, Mapping[str, Any]], problems: list[str]) -> dict[str, Any]:
    """Return each setting's value from the first source that has one; errors are added to `problems`.

    Args:
        sources: by the message format of their errors.
    """
    values: dict[str, Any] = {}
    for setting in wanted:
        form = next((form for form, source in sources.items() if setting.name in source), None)
        if form is not None:
            try:
                values[setting.name] = setting.convert(sources[form][setting.name])
            except ValueError as error:
                problems.append(form.format(error))
        elif setting.required:
            problems.append(f"{setting.flag} is required: {setting.option.help}")
    return values


# Conversion of configurations to and from JSON and YAML.


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


_VALUE: Any = Value  # mypy has no type for unions


def read_yaml(path: Path) -> dict[str, Any]:
    """Read a YAML file of options: `name: value` lines, whose values are scalars or lists of them.

    Raises:
        UsageError: the file is unreadable, not YAML, or has other values.
    """
    try:
        values = msgspec.yaml.decode(read_limited(path), type=dict[str, Any] | None) or {}
        return {key: checked(value, _VALUE, f"{path}: '{key}'") for key, value in values.items()}
    except UserError as error:
        raise UsageError(f"--config {error}") from None
    except Exception as error:  # PyYAML's constructors raise any error of a conversion like `!!bool x`
        raise UsageError(f"--config {path}: not valid YAML: {in_one_line(error)}") from None


# Options given by name in Python: errors for unknown ones, with the nearest known name.


P = ParamSpec("P")
R = TypeVar("R")


def unknown_options(wrong: Collection[str], there: Collection[str]) -> UsageError:
    """Return the error for options that do not exist: each with the nearest existing one, and a list of all."""
    listed = f"there are {', '.join(sorted(there))}"
    problems = []
    for each in sorted(wrong):
        meant = nearest(each, sorted(there))
        problems.append(f"unknown option '{each}'; {meant}{listed}")
    return UsageError(problems)


def named_options(function: Callable[P, R]) -> Callable[P, R]:
    """Wrap a function so that unknown options raise docnmt's error instead of Python's TypeError."""
    known = signature(function).parameters.keys() - {"self"}

    @wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function after checking the names."""
        if wrong := kwargs.keys() - known:
            raise unknown_options(wrong, known)
        return function(*args, **kwargs)

    return checked
