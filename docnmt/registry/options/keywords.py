"""Options that a caller of the library names: unknown ones are told apart from those that are meant."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import wraps
from inspect import signature
from typing import ParamSpec, TypeVar

from docnmt.registry.options.setting import nearest
from docnmt.runtime.errors import UsageError

P = ParamSpec("P")
R = TypeVar("R")


def unknown_options(wrong: Collection[str], there: Collection[str]) -> UsageError:
    """The error for options that do not exist: each with the nearest one there is, and all there are."""
    listed = f"there are {', '.join(sorted(there))}"
    problems = []
    for each in sorted(wrong):
        meant = nearest(each, sorted(there))
        problems.append(f"unknown option '{each}'; {meant}{listed}")
    return UsageError(problems)


def named_options(function: Callable[P, R]) -> Callable[P, R]:
    """A function that refuses unknown options as all of docnmt does, where Python has a TypeError."""
    known = signature(function).parameters.keys() - {"self"}

    @wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        """As the function."""
        if wrong := kwargs.keys() - known:
            raise unknown_options(wrong, known)
        return function(*args, **kwargs)

    return checked
