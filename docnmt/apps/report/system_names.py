"""Names of systems, derived from their files."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from docnmt.runtime.errors import UsageError

#: Endings like `.txt` and `.de`; `model-2.1` has none.
_ENDING = re.compile(r"(?<=.)\.[^\W\d]\w*$")


def names_of(files: Sequence[str], option: str, given: Sequence[str] = ()) -> list[str]:
    """Return a name for each file: the given one, or the part of its path that differs from the others.

    `runs/a/test/hypotheses.txt` and `runs/b/test/hypotheses.txt` become `a` and `b`; a single file has its own name,
    without its ending.

    Raises:
        UsageError: two files have the same name.
    """
    if not given and (twice := _twice([os.path.abspath(file) for file in files])):
        raise UsageError(f"{option}: {twice} is given twice; give every file once")
    names = [_printable(name) for name in given or _parts_that_differ([Path(os.path.abspath(file)) for file in files])]
    if twice := _twice(names):
        how = "give each its own with --names" if option == "--sys" else "rename one of them"
        raise UsageError(f"{option}: two files have the name '{twice}'; {how}")
    return names


def _parts_that_differ(paths: Sequence[Path]) -> list[str]:
    if len(paths) == 1:
        return [_ENDING.sub("", paths[0].name)]
    parts = [[*path.parts[:-1], _ENDING.sub("", path.name)] for path in paths]
    if len({tuple(each) for each in parts}) < len(parts):
        parts = [list(path.parts) for path in paths]  # only the endings differ
    for end in (0, -1):
        while all(len(each) > 1 for each in parts) and len({each[end] for each in parts}) == 1:
            for each in parts:
                del each[end]
    return ["/".join(each) for each in parts]


def _twice(values: Sequence[str]) -> str | None:
    return next((value for value, count in Counter(values).items() if count > 1), None)


def _printable(name: str) -> str:
    """Replace characters of file names that no text has: bytes that are not UTF-8, line breaks."""
    return " ".join(name.encode("utf-8", "replace").decode().split()) or "?"
