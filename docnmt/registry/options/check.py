"""Check of a configuration: by the rules beside its options, and by its own method `problems`."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from pathlib import Path

from docnmt.registry.options.rules import flag, inside, range_words, with_value
from docnmt.registry.options.setting import Setting, settings


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
