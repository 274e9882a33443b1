"""One registry class for everything that is chosen by name: tasks, models, criteria, generators, positions, fusions …

Built-in components are added by a `"module:object"` reference and imported when first used, so that `--help` and
option parsing never pay for importing torch. Plug-ins use the decorators at the end of this module.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")


def _load(reference: Any) -> Any:
    """The object behind a `"module:object"` reference; anything that is not a string is returned as it is."""
    if not isinstance(reference, str):
        return reference
    module, _, name = reference.partition(":")
    return getattr(importlib.import_module(module), name)


def _place(target: Any) -> str:
    """What is registered, and in which line of which file: the same again when a module is imported again."""
    what = target.overrides if isinstance(target, Architecture) else target
    unnamed = f"{type(what).__name__} at {id(what):#x}"  # no two are the same
    name = target if isinstance(target, str) else getattr(what, "__qualname__", unnamed)
    if isinstance(target, Architecture):
        name += f" (a setting of {target.model})"
    frame = sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__") == __name__:
        frame = frame.f_back
    return f"{name} in {frame.f_code.co_filename}, line {frame.f_lineno}"


def _summary(target: Any) -> str:
    """The first line of an object's docstring."""
    return (inspect.getdoc(target) or "").partition("\n")[0]


@dataclass(frozen=True)
class Entry:
    """A registered name: the object or a reference to it, its configuration class likewise, one line of help, and the
    place of the registration."""

    target: Any
    config: Any
    help: str
    place: str


class Registry:
    """Names of one kind of component."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._entries: dict[str, Entry] = {}

    def add(self, name: str, target: Any, *, config: Any = None, help: str = "") -> None:
        """Register `target` (an object or a `"module:object"` reference) under `name`.

        Raises:
            ValueError: `name` is taken by a different object; the message names both places. The same object, also
                when its module was imported again, is fine.
        """
        taken, place = self._entries.get(name), _place(target)
        if taken is not None and taken.target is not target:
            reimported = taken.place == place and ".py, " in place and "<locals>" not in place
            if not reimported:
                raise ValueError(
                    f"{self.kind} '{name}' is registered twice: first {taken.place}, now {place}; rename one of them"
                )
        if not help and not isinstance(target, str):
            help = _summary(target)
        config = config if config is not None else getattr(target, "Config", None)
        self._entries[name] = Entry(target, config, help, place)

    def register(self, name: str) -> Callable[[T], T]:
        """Decorator form of `add`."""

        def decorator(target: T) -> T:
            self.add(name, target)
            return target

        return decorator

    def _entry(self, name: str) -> Entry:
        if name not in self._entries:
            close = difflib.get_close_matches(name, self._entries, n=1)
            hint = f"did you mean '{close[0]}'? " if close else ""
            raise ValueError(f"no {self.kind} named '{name}'; {hint}there are: {', '.join(self.names())}")
        return self._entries[name]

    def get(self, name: str) -> Any:
        """The object registered under `name`, imported now if it was registered by reference."""
        return _load(self._entry(name).target)

    def config(self, name: str) -> Any:
        """The configuration dataclass of `name`, or None; never imports the component itself."""
        return _load(self._entry(name).config)

    def help(self, name: str) -> str:
        """One line on what `name` is."""
        return self._entry(name).help

    def names(self) -> list[str]:
        """All registered names, in the order of registration."""
        return list(self._entries)

    def __contains__(self, name: object) -> bool:
        return name in self._entries


@dataclass(frozen=True)
class Architecture:
    """A model with named settings: `overrides()` gives the configuration values that differ from the model's."""

    model: str
    overrides: Callable[[], Mapping[str, Any]]


TASKS = Registry("task")
MODELS = Registry("model")
ARCHITECTURES = Registry("architecture")
CRITERIA = Registry("criterion")
GENERATORS = Registry("generator")
POSITIONS = Registry("position")
FUSIONS = Registry("fusion")
MERGES = Registry("merge")
CONTEXTS = Registry("context attention")

#: What `docnmt-train --list` prints, in this order.
ALL: tuple[Registry, ...] = (
    TASKS, MODELS, ARCHITECTURES, CRITERIA, GENERATORS, POSITIONS, FUSIONS, MERGES, CONTEXTS,
)  # fmt: skip


def register_task(name: str) -> Callable[[T], T]:
    """Register a task class under `name` (`--task`)."""
    return TASKS.register(name)


def register_model(name: str) -> Callable[[T], T]:
    """Register a model class; it is also an architecture of its own with the defaults of its `Config`."""

    def decorator(model: T) -> T:
        there = name in ARCHITECTURES and ARCHITECTURES.get(name).model == name
        if not there:
            ARCHITECTURES.add(name, Architecture(name, dict), help=_summary(model))
        MODELS.add(name, model)
        return model

    return decorator


def register_architecture(model: str, name: str) -> Callable[[Callable[[], Mapping[str, Any]]], Any]:
    """Register a function without arguments that returns the settings by which `--arch name` differs from `model`."""

    def decorator(overrides: Callable[[], Mapping[str, Any]]) -> Callable[[], Mapping[str, Any]]:
        taken = ARCHITECTURES._entries.get(name)
        same = taken is not None and taken.target.overrides is overrides and taken.target.model == model
        if not same:
            help = _summary(overrides) or f"a setting of {model}"
            ARCHITECTURES.add(name, Architecture(model, overrides), help=help)
        return overrides

    return decorator


def register_criterion(name: str) -> Callable[[T], T]:
    """Register a criterion class under `name` (`--criterion`)."""
    return CRITERIA.register(name)


def register_generator(name: str) -> Callable[[T], T]:
    """Register a generator (a search over target sequences) under `name` (`--generator`)."""
    return GENERATORS.register(name)
