"""What begins and what ends it, where neither need have a partner."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

#: Beginnings inside of each other; those that are deeper have no end.
DEEPEST = 100


def matched(steps: Iterable[tuple[int, Hashable]]) -> dict[int, int]:
    """For beginnings (1, name), by number, the ends (-1, name) that close them; no pair crosses another.

    An end closes the last beginning of its name, and those since then have none. Other steps are (0, …).
    """
    ends: dict[int, int] = {}
    waiting: list[tuple[int, Hashable]] = []
    for number, (step, name) in enumerate(steps):
        if step > 0 and len(waiting) < DEEPEST:
            waiting.append((number, name))
        elif step < 0:
            place = next((k for k in range(len(waiting) - 1, -1, -1) if waiting[k][1] == name), None)
            if place is not None:
                ends[waiting[place][0]] = number
                del waiting[place:]
    return ends
