"""Options given by name in Python: errors for unknown ones, with the nearest known name."""

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
