"""Matching of the documents of two tables by their names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from docnmt.runtime.errors import UserError

#: The names of documents; None for one without a name.
DocumentNames = Sequence[str | None]


def places_by_name(path: Path, names: DocumentNames, wanted_path: Path, wanted: DocumentNames) -> list[int]:
    """Return for each document of `wanted_path` its place in `path`, by the names that both give; if they have no name
    in common, in the order of the file.

    Raises:
        UserError: a file lacks documents of the other, or has two of one name in another order.
    """
    as_they_stand = list(range(len(names)))
    if list(names) == list(wanted) or None in names or None in wanted or not set(names) & set(wanted):
        return as_they_stand
    for one, there, other, here in ((path, names, wanted_path, wanted), (wanted_path, wanted, path, names)):
        if twice := [name for name, count in Counter(there).items() if count > 1]:
            raise UserError(
                f"{one}: document '{twice[0]}' stands in two places, and {other} has its documents in another order; "
                "put the rows of each document together"
            )
        known = set(here)
        if surplus := [name for name in there if name not in known]:
            raise UserError(
                f"{one}: document '{surplus[0]}' is not in {other} ({len(surplus):,} such documents); both must have "
                "the same documents, in any order; a missing translation is a row without text"
            )
    place = {name: number for number, name in enumerate(names)}
    return [place[name] for name in wanted]
