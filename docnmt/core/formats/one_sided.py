"""Treatment of sentences without a partner on the other side."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from docnmt.core.corpus import Event, Facts, Sentence
from docnmt.runtime.errors import UserError

#: error: they are rejected. read: a source sentence without a translation is kept as context. skip: it is left out.
OneSided = Literal["error", "read", "skip"]


def with_partners(events: Iterator[Event], policy: OneSided, path: Path, facts: Facts) -> Iterator[Event]:
    """Apply the policy to sentences with an empty side; add a note with their number to `facts`.

    A target sentence without a source is left out in any case: translation never needs it, and no model could
    have written it.

    Raises:
        UserError: there is one, and the policy is `error`; the message names its place.
    """
    alone = {"source": 0, "target": 0}
    first = {"source": "", "target": ""}
    for event in events:
        if isinstance(event, Sentence) and not all(event.texts):
            side = "source" if event.texts[0] else "target"
            if policy == "error":
                raise UserError(
                    f"{event.place}: empty on one side; expected text on all sides, or --one-sided read (or skip) for "
                    "sentences without a partner"
                )
            alone[side] += 1
            first[side] = first[side] or event.place
            if side == "target" or policy == "skip":
                continue
        yield event
    done = "are read, but neither trained on nor scored" if policy == "read" else "are left out"
    for side, what, fate in (("source", "without a translation", done), ("target", "without a source", "are left out")):
        if alone[side]:
            facts.notes.append(f"{path}: {alone[side]:,} lines {what} {fate} (the first: {first[side]})")
