"""Which translations a sentence reads: those before it, or those that are given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from docnmt.core.search.hypothesis import Slot
from docnmt.core.units import Units


class GivenText:
    """What was given, for models that read nothing else of their document's translations.

    Args:
        units: of such a model; a sentence reads what is given in its unit, also behind it.
        written: what is given in the units that are encoded together, by sentence.
    """

    def __init__(self, units: Units, written: Mapping[int, list[object]]) -> None:
        self._units, self._written = units, written

    def earlier(self, sentence: int) -> list[list[object]]:
        """What is given in the sentence's unit, in order."""
        unit = int(np.searchsorted(self._units.first, sentence, side="right")) - 1
        numbers = range(int(self._units.source_first[unit]), int(self._units.source_last[unit]))
        return [self._written[number] for number in numbers if number in self._written]


class OwnText:
    """Which sentences must be written before which, and what was written, by `--target-context`.

    Args:
        units: of a model that reads its own text; a sentence reads those of its document that its source reads, too.
    """

    def __init__(self, units: Units) -> None:
        self._first = np.repeat(units.source_first, units.last - units.first)  # (S,)
        self._written: dict[int, list[object]] = {}

    def earlier(self, sentence: int) -> list[list[object]]:
        """What was kept of the sentences that this one reads, in order.

        Of a sentence that is written already, whose copies may still be at work, some may be forgotten.
        """
        numbers = range(int(self._first[sentence]), sentence)
        return [self._written[number] for number in numbers if number in self._written]

    def follows(self, sentence: int) -> bool:
        """It reads the one before it."""
        return bool(self._first[sentence] < sentence)

    def waits(self, sentence: int) -> bool:
        """A sentence that it reads is not written yet."""
        return any(number not in self._written for number in range(int(self._first[sentence]), sentence))

    def ready(self, slots: Sequence[Slot]) -> list[Slot]:
        """Those that can be written at once; what is followed by most sentences comes first."""
        if not slots:
            return []
        ready = sorted((slot for slot in slots if not self.waits(slot.number)), key=lambda slot: slot.number)
        ends = [slot.number for slot in ready[1:]] + [max(slot.number for slot in slots) + 1]
        chain = {slot.number: end - slot.number for slot, end in zip(ready, ends, strict=True)}
        return sorted(ready, key=lambda slot: -chain[slot.number])

    def keep(self, sentence: int, written: list[object]) -> None:
        """A sentence is written; what no later one reads is forgotten."""
        self._written[sentence] = written
        needed = int(self._first[sentence + 1]) if sentence + 1 < len(self._first) else sentence + 1
        for number in range(int(self._first[sentence]), needed):
            self._written.pop(number, None)
