"""Target history: the translations that a sentence reads, which are earlier ones or given ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from docnmt.core.search.rows import Slot
from docnmt.core.units import Units


class GivenText:
    """Given translations, for models that read no other translations of their document.

    Args:
        units: those of such a model; a sentence reads the given translations of its unit, later ones included.
        written: the given translations in the units that are encoded together, by sentence.
    """

    def __init__(self, units: Units, written: Mapping[int, list[object]]) -> None:
        self._units, self._written = units, written

    def earlier(self, sentence: int) -> list[list[object]]:
        """Return the given translations of the sentence's unit, in order."""
        unit = int(np.searchsorted(self._units.first, sentence, side="right")) - 1
        numbers = range(int(self._units.source_first[unit]), int(self._units.source_last[unit]))
        return [self._written[number] for number in numbers if number in self._written]


class OwnText:
    """Written translations, and which sentences must be written before others, for `--target-context`.

    Args:
        units: those of a model that reads its own text; a sentence reads the earlier ones of its unit's source context.
    """

    def __init__(self, units: Units) -> None:
        self._first = np.repeat(units.source_first, units.last - units.first)  # (S,)
        self._written: dict[int, list[object]] = {}

    def earlier(self, sentence: int) -> list[list[object]]:
        """Return the kept translations that a sentence reads, in order.

        Some may be forgotten if the sentence is already written and only its copies are still decoded.
        """
        numbers = range(int(self._first[sentence]), sentence)
        return [self._written[number] for number in numbers if number in self._written]

    def follows(self, sentence: int) -> bool:
        """Return True if the sentence reads the one before it."""
        return bool(self._first[sentence] < sentence)

    def waits(self, sentence: int) -> bool:
        """Return True if a sentence that it reads is not written yet."""
        return any(number not in self._written for number in range(int(self._first[sentence]), sentence))

    def ready(self, slots: Sequence[Slot]) -> list[Slot]:
        """Return the slots that can be written now; those that the most sentences follow come first."""
        if not slots:
            return []
        ready = sorted((slot for slot in slots if not self.waits(slot.number)), key=lambda slot: slot.number)
        ends = [slot.number for slot in ready[1:]] + [max(slot.number for slot in slots) + 1]
        chain = {slot.number: end - slot.number for slot, end in zip(ready, ends, strict=True)}
        return sorted(ready, key=lambda slot: -chain[slot.number])

    def keep(self, sentence: int, written: list[object]) -> None:
        """Keep a written sentence and forget those that no later one reads."""
        self._written[sentence] = written
        needed = int(self._first[sentence + 1]) if sentence + 1 < len(self._first) else sentence + 1
        for number in range(int(self._first[sentence]), needed):
            self._written.pop(number, None)
