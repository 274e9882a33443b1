"""The registry class for all components chosen by name: tasks, models, criteria, generators, positions, fusions …

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
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, cast

from docnmt.options import PLUGIN, NoOptions, nearest

if TYPE_CHECKING:  # the protocols need torch, which --help must not wait for
    from torch import nn

    from docnmt.core.tasks.task import Task
    from docnmt.core.training.criterions import Criterion
    from docnmt.modules.fusion import Fusion
    from docnmt.modules.positions import Position

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class Architecture:
    """A model with named settings: `overrides()` returns the configuration values that differ from the model's."""

    model: str
    overrides: Callable[[], Mapping[str, Any]]


@dataclass(frozen=True)
class MetricKind:
    """A metric of translations.

    Attributes:
        make: a function, or a reference to it, from the name of sacreBLEU's tokenizer and the references, each a list
            of lines, to a `docnmt.core.scoring.metrics.Metric` or a metric of sacreBLEU.
        of: what a line is.
    """

    make: Callable[[str, Sequence[Sequence[str]]], Any] | str
    lower_is_better: bool = False
    of: Literal["sentences", "documents"] = "sentences"

    def made(self, tokenize: str, references: Sequence[Sequence[str]]) -> Any:
        """Return the metric for these references."""
        return cast(Callable[..., Any], _load(self.make))(tokenize, references)


@dataclass(frozen=True)
class Entry(Generic[T]):
    """A registered component: the object or a reference to it, its configuration class likewise, one line of help."""

    target: T | str
    config: type | str | None
    help: str


class Registry(Generic[T]):
    """The registered names of one kind of component."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._entries: dict[str, Entry[T]] = {}

    def add(self, name: str, target: T | str, *, config: type | str | None = None, help: str = "") -> None:
        """Register `target` (an object or a `"module:object"` reference) under `name`.

        Args:
            config: its configuration dataclass or a reference to it; by default, its attribute `Config`, if any.
            help: one line of help; by default, the first line of its docstring.

        Raises:
            ValueError: `name` is taken by a different object; the message names both places. Registering the same
                object again, also after another import of its module, is allowed.
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
        """Return a decorator that calls `add`."""

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
        """Return the object registered under `name`, imported now if it was registered by reference."""
        return cast(T, _load(self._entry(name).target))

    def config(self, name: str) -> type:
        """Return the configuration dataclass of `name`, which may have no fields, without importing the component."""
        return cast(type, _load(self._entry(name).config) or NoOptions)

    def options(self, name: str, config: object) -> dict[str, Any]:
        """Return the values in `config` of the options of `name`'s own configuration class."""
        return {field.name: getattr(config, field.name) for field in dataclasses.fields(self.config(name))}

    def help(self, name: str) -> str:
        """Return one line of help on `name`."""
        return self._entry(name).help

    def names(self) -> list[str]:
        """Return all registered names, in the order of registration."""
        return list(self._entries)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._entries  # a file may give a list here


@contextlib.contextmanager
def forgotten_on_error() -> Iterator[None]:
    """Undo registrations made inside the context if it ends in an error, so that they can be repeated once fixed."""
    before = [(registry, dict(registry._entries)) for registry in ALL]
    try:
        yield
    except BaseException:
        for registry, entries in before:
            registry._entries = entries
        raise


def summary(target: object) -> str:
    """Return the first line of an object's docstring."""
    return (inspect.getdoc(target) or "").partition("\n")[0]


def _load(reference: object) -> object:
    """Return the object behind a `"module:object"` reference; return anything else unchanged."""
    if not isinstance(reference, str):
        return reference
    module, _, name = reference.partition(":")
    return getattr(importlib.import_module(module), name)


def _same(taken: object, target: object) -> bool:
    """Return True for the same object, or the same code executed again, but not for functions made inside others.

    Architectures are compared by model and function.
    """
    if isinstance(taken, MetricKind) and isinstance(target, MetricKind):
        return dataclasses.replace(taken, make=target.make) == target and _same(taken.make, target.make)
    if isinstance(taken, Architecture) and isinstance(target, Architecture):
        return taken.model == target.model and _same(taken.overrides, target.overrides)
    if taken is target or isinstance(taken, str):
        return taken == target
    place = _place(taken)
    alike = place == _place(taken, -1) == _place(target) == _place(target, -1)
    return alike and ".py, line " in place and "<locals>" not in place


def _place(target: object, which: Literal[0, -1] = 0) -> str:
    """Describe an object and its file and line; among several definitions of a class the first or the last."""
    if isinstance(target, MetricKind):
        return _place(target.make, which)
    if isinstance(target, Architecture):
        return f"{_place(target.overrides, which)} (a setting of {target.model})"
    name = target if isinstance(target, str) else getattr(target, "__qualname__", None)
    if name is None:
        return f"{type(target).__name__} at {id(target):#x}"  # unique
    if isinstance(target, types.FunctionType):
        return f"{name} in {target.__code__.co_filename}, line {target.__code__.co_firstlineno}"
    return f"{name} in {_definition(target, which)}" if isinstance(target, type) else name


def _definition(target: type, which: Literal[0, -1]) -> str:
    """Return file and line of a class: Python stores the line only from 3.13 on, but always that of methods."""
    try:
        file = inspect.getfile(target)
        tree = ast.parse(Path(file).read_text(encoding="utf-8"))
    except (OSError, TypeError, ValueError):
        return target.__module__
    methods = [f.__code__ for f in vars(target).values() if isinstance(f, types.FunctionType)]
    inside = [code.co_firstlineno for code in methods if code.co_filename == file]  # without those of dataclasses
    named = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == target.__name__]
    around = [node for node in named if all(node.lineno <= line <= (node.end_lineno or 0) for line in inside)]
    lines = [min([node.lineno, *(each.lineno for each in node.decorator_list)]) for node in around]
    return f"{file}, line {lines[which]}" if lines else target.__module__


TASKS: Registry[type[Task]] = Registry("task")
MODELS: Registry[Any] = Registry("model")  # a class that its task can build, in each task's own way
ARCHITECTURES: Registry[Architecture] = Registry("architecture")
CRITERIA: Registry[type[Criterion]] = Registry("criterion")
GENERATORS: Registry[Any] = Registry("generator")  # a class whose objects are built from its own configuration
POSITIONS: Registry[Callable[..., Position]] = Registry("position")
FUSIONS: Registry[Callable[..., Fusion]] = Registry("fusion")
MERGES: Registry[Callable[..., nn.Module]] = Registry("merge")
METRICS: Registry[MetricKind] = Registry("metric")

#: All registries, in the order in which `docnmt-train --list` prints them.
ALL: tuple[Registry[Any], ...] = (
    TASKS,
    MODELS,
    ARCHITECTURES,
    CRITERIA,
    GENERATORS,
    POSITIONS,
    FUSIONS,
    MERGES,
    METRICS,
)


def register_task(name: str) -> Callable[[T], T]:
    """Register a task class under `name` (`--task`); its `Config`, if any, has its options."""
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
    """Register a criterion class under `name` (`--criterion`); its `Config`, if any, has its options."""
    return CRITERIA.register(name)


def register_generator(name: str) -> Callable[[T], T]:
    """Register a generator (a search over target sequences) under `name` (`--generator`)."""
    return GENERATORS.register(name)


def register_position(name: str, *, config: type | None = None) -> Callable[[T], T]:
    """Register a position family under `name` (`--position`).

    It is called with `docnmt.modules.positions.PositionSettings` and, by name, with the values of the options of
    `config`, and returns a `Position`. `config` is a frozen dataclass of `docnmt.options` fields: they
    are on the command line, and stored with the model, if the family is chosen.
    """
    return POSITIONS.register(name, config=config)


def register_fusion(name: str, *, config: type | None = None) -> Callable[[T], T]:
    """Register a module that joins positions with embeddings under `name` (`--position-fusion`).

    It is called with the width and, by name, with the values of the options of `config` (see `register_position`), and
    returns a module: `fusion(embeddings, positions, offsets)`.
    """
    return FUSIONS.register(name, config=config)


def register_merge(name: str) -> Callable[[T], T]:
    """Register a module that merges two tree nodes into their parent under `name` (`--merge`)."""
    return MERGES.register(name)


def register_metric(
    name: str, lower_is_better: bool = False, of: Literal["sentences", "documents"] = "sentences"
) -> Callable[[T], T]:
    """Register a metric under `name` (`--metrics`).

    It is called with the name of sacreBLEU's tokenizer (`--sacrebleu-tokenize`) and a list of references, each a list
    of lines, and returns a `Metric`: `counts(lines)` returns additive counts (n, K) of the lines of a translation,
    `score(sums)` the score of summed counts (K,), and `signature` says what the number depends on.

    Args:
        of: what a line is: a sentence, or a document, its sentences joined as in d-BLEU.
    """

    def _decorate(make: T) -> T:
        kind = MetricKind(cast(Callable[..., Any], make), lower_is_better, of)
        METRICS.add(name, kind, help=summary(make))
        return make

    return _decorate
