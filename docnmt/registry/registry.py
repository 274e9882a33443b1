"""One registry class for everything that is chosen by name: tasks, models, criteria, generators, positions, fusions …

Built-in components are added by a `"module:object"` reference and imported when first used, so that `--help` and
option parsing never pay for importing torch. Plug-ins use the decorators at the end of this module.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import importlib
import inspect
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, cast

from docnmt.registry.options import PLUGIN, NoOptions, nearest

if TYPE_CHECKING:  # the protocols need torch, which --help must not wait for
    from torch import nn

    from docnmt.core.criterions.criterion import Criterion
    from docnmt.core.tasks.task import Task
    from docnmt.modules.fusion import Fusion
    from docnmt.modules.positions import Position

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class Architecture:
    """A model with named settings: `overrides()` gives the configuration values that differ from the model's."""

    model: str
    overrides: Callable[[], Mapping[str, Any]]


@dataclass(frozen=True)
class Entry(Generic[T]):
    """A registered name: the object or a reference to it, its configuration class likewise, one line of help."""

    target: T | str
    config: type | str | None
    help: str


class Registry(Generic[T]):
    """Names of one kind of component."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._entries: dict[str, Entry[T]] = {}

    def add(self, name: str, target: T | str, *, config: type | str | None = None, help: str = "") -> None:
        """Register `target` (an object or a `"module:object"` reference) under `name`.

        Args:
            config: its configuration dataclass or a reference to it; without one, its attribute `Config`, if any.
            help: one line on it; without one, the first line of its docstring.

        Raises:
            ValueError: `name` is taken by a different object; the message names both places. The same object, also
                when its module was imported again, is fine.
            TypeError: the configuration is no dataclass.
        """
        if name in self._entries and not _same(taken := self._entries[name].target, target):
            first, now = _place(taken), _place(target, -1)
            raise ValueError(f"{self.kind} '{name}' is registered twice: first {first}, now {now}; rename one of them")
        if not help and not isinstance(target, str):
            help = summary(target)
        config = config if config is not None else getattr(target, "Config", None)
        if isinstance(config, type) and not dataclasses.is_dataclass(config):
            missing = f"{config.__qualname__} is no dataclass; @dataclass(frozen=True) is missing"
            raise TypeError(f"{self.kind} '{name}': {missing}")
        self._entries[name] = Entry(target, config, help)

    def register(self, name: str, *, config: type | None = None) -> Callable[[R], R]:
        """Decorator form of `add`."""

        def _decorate(target: R) -> R:
            self.add(name, cast(T, target), config=config)
            return target

        return _decorate

    def _entry(self, name: str) -> Entry[T]:
        if name not in self._entries:
            meant = nearest(name, self._entries)
            raise ValueError(f"no {self.kind} named '{name}'; {meant}there are: {', '.join(self.names())}; {PLUGIN}")
        return self._entries[name]

    def get(self, name: str) -> T:
        """The object registered under `name`, imported now if it was registered by reference."""
        return cast(T, _load(self._entry(name).target))

    def config(self, name: str) -> type:
        """The configuration dataclass of `name`, which may have no fields; never imports the component itself."""
        return cast(type, _load(self._entry(name).config) or NoOptions)

    def options(self, name: str, config: object) -> dict[str, Any]:
        """The values that `config` has for the options of `name`'s own configuration class."""
        return {field.name: getattr(config, field.name) for field in dataclasses.fields(self.config(name))}

    def help(self, name: str) -> str:
        """One line on what `name` is."""
        return self._entry(name).help

    def names(self) -> list[str]:
        """All registered names, in the order of registration."""
        return list(self._entries)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._entries  # files may name a list


@contextlib.contextmanager
def forgotten_on_error() -> Iterator[None]:
    """What is registered inside is forgotten where it ends in an error: mended, it can be registered again."""
    before = [(registry, dict(registry._entries)) for registry in ALL]
    try:
        yield
    except BaseException:
        for registry, entries in before:
            registry._entries = entries
        raise


def summary(target: object) -> str:
    """The first line of an object's docstring."""
    return (inspect.getdoc(target) or "").partition("\n")[0]


def _load(reference: object) -> object:
    """The object behind a `"module:object"` reference; anything that is not a string is returned as it is."""
    if not isinstance(reference, str):
        return reference
    module, _, name = reference.partition(":")
    return getattr(importlib.import_module(module), name)


def _same(taken: object, target: object) -> bool:
    """One object, or one piece of code that was executed again; functions made inside others may differ all the same.

    An architecture is as much the same as its function.
    """
    if isinstance(taken, Architecture) and isinstance(target, Architecture):
        return taken.model == target.model and _same(taken.overrides, target.overrides)
    if taken is target or isinstance(taken, str):
        return taken == target
    place = _place(taken)
    alike = place == _place(taken, -1) == _place(target) == _place(target, -1)
    return alike and ".py, line " in place and "<locals>" not in place


def _place(target: object, which: Literal[0, -1] = 0) -> str:
    """What is registered, and in which line of which file; of several definitions of a class the first or the last."""
    if isinstance(target, Architecture):
        return f"{_place(target.overrides, which)} (a setting of {target.model})"
    name = target if isinstance(target, str) else getattr(target, "__qualname__", None)
    if name is None:
        return f"{type(target).__name__} at {id(target):#x}"  # no two are the same
    if isinstance(target, types.FunctionType):
        return f"{name} in {target.__code__.co_filename}, line {target.__code__.co_firstlineno}"
    return f"{name} in {_definition(target, which)}" if isinstance(target, type) else name


def _definition(target: type, which: Literal[0, -1]) -> str:
    """File and line of a class: Python keeps the line only from 3.13 on, and that of methods always."""
    try:
        file = inspect.getfile(target)
        tree = ast.parse(Path(file).read_text(encoding="utf-8"))
    except (OSError, TypeError, ValueError):
        return target.__module__
    methods = [f.__code__ for f in vars(target).values() if isinstance(f, types.FunctionType)]
    inside = [code.co_firstlineno for code in methods if code.co_filename == file]  # not those that dataclasses write
    named = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == target.__name__]
    around = [node for node in named if all(node.lineno <= line <= (node.end_lineno or 0) for line in inside)]
    lines = [min([node.lineno, *(each.lineno for each in node.decorator_list)]) for node in around]
    return f"{file}, line {lines[which]}" if lines else target.__module__


TASKS: Registry[type[Task]] = Registry("task")
MODELS: Registry[Any] = Registry("model")  # a class that its task can build: of a module, in each task's own way
ARCHITECTURES: Registry[Architecture] = Registry("architecture")
CRITERIA: Registry[type[Criterion]] = Registry("criterion")
GENERATORS: Registry[Any] = Registry("generator")  # a class: its objects are made of its own configuration
POSITIONS: Registry[Callable[..., Position]] = Registry("position")
FUSIONS: Registry[Callable[..., Fusion]] = Registry("fusion")
MERGES: Registry[Callable[..., nn.Module]] = Registry("merge")

#: What `docnmt-train --list` prints, in this order.
ALL: tuple[Registry[Any], ...] = (TASKS, MODELS, ARCHITECTURES, CRITERIA, GENERATORS, POSITIONS, FUSIONS, MERGES)


def register_task(name: str) -> Callable[[T], T]:
    """Register a task class under `name` (`--task`); its `Config`, if any, holds its options."""
    return TASKS.register(name)


def register_model(name: str) -> Callable[[T], T]:
    """Register a model class; it is also an architecture of its own with the defaults of its `Config`."""

    def _decorate(model: T) -> T:
        if name not in ARCHITECTURES or ARCHITECTURES.get(name).model != name:
            ARCHITECTURES.add(name, Architecture(name, dict), help=summary(model))
        MODELS.add(name, model)
        return model

    return _decorate


def register_architecture(model: str, name: str) -> Callable[[T], T]:
    """Register a function without arguments that returns the settings by which `--arch name` differs from `model`."""

    def _decorate(overrides: T) -> T:
        function = cast(Callable[[], Mapping[str, Any]], overrides)
        ARCHITECTURES.add(name, Architecture(model, function), help=summary(overrides) or f"a setting of {model}")
        return overrides

    return _decorate


def register_criterion(name: str) -> Callable[[T], T]:
    """Register a criterion class under `name` (`--criterion`); its `Config`, if any, holds its options."""
    return CRITERIA.register(name)


def register_generator(name: str) -> Callable[[T], T]:
    """Register a generator (a search over target sequences) under `name` (`--generator`)."""
    return GENERATORS.register(name)


def register_position(name: str, *, config: type | None = None) -> Callable[[T], T]:
    """Register a position family under `name` (`--position`).

    It is called with `docnmt.modules.positions.PositionSettings` and, by name, with the values of the options of
    `config`, and returns a `Position`. `config` is a frozen dataclass of `docnmt.registry.options.option` fields: they
    are on the command line, and stored with the model, where the family is chosen.
    """
    return POSITIONS.register(name, config=config)


def register_fusion(name: str, *, config: type | None = None) -> Callable[[T], T]:
    """Register how positions join embeddings under `name` (`--position-fusion`).

    It is called with the width and, by name, with the values of the options of `config` (see `register_position`), and
    returns a module: `fusion(embeddings, positions, offsets)`.
    """
    return FUSIONS.register(name, config=config)


def register_merge(name: str) -> Callable[[T], T]:
    """Register how two tree nodes become their parent under `name` (`--merge`)."""
    return MERGES.register(name)
