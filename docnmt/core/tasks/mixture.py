"""Several training corpora as one dataset, each with its weight."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from docnmt.core.batch import TranslationBatch, join_batches
from docnmt.core.tasks.task import Dataset


class Part(Dataset, Protocol):
    """The units of one corpus, in batches that can be joined."""

    def batch(self, units: np.ndarray) -> TranslationBatch:
        """The batch of these units."""


@dataclass(frozen=True, eq=False)
class Mixture:
    """Units of several datasets.

    Attributes:
        part, unit: (U,) int64, of which dataset each unit is and its number there.
    """

    parts: Sequence[Part]
    part: np.ndarray
    unit: np.ndarray

    @classmethod
    def draw(cls, parts: Sequence[Part], weights: Sequence[float], *, seed: int, epoch: int) -> Mixture:
        """One epoch: every unit of a dataset ⌊weight⌋ times, and so many more, drawn without repetition from (seed,
        epoch) alone, that there are weight · U of them, rounded, and at least one."""
        chosen = []
        for number, (part, weight) in enumerate(zip(parts, weights, strict=True)):
            count = len(part.sizes)
            whole, rest = divmod(max(1, round(weight * count)), count) if count else (0, 0)
            more = np.random.default_rng([seed, epoch, number]).permutation(count)[:rest]
            chosen.append(np.concatenate([np.tile(np.arange(count), whole), np.sort(more)]))
        part_of = np.repeat(np.arange(len(parts)), [len(units) for units in chosen])
        return cls(parts, part_of, np.concatenate(chosen).astype(np.int64))

    @cached_property
    def sizes(self) -> np.ndarray:
        """(U,) max(source, target) subwords."""
        sizes = np.zeros(len(self.unit), dtype=np.int64)
        for number, part in enumerate(self.parts):
            here = self.part == number
            sizes[here] = part.sizes[self.unit[here]]
        return sizes

    def batch(self, units: np.ndarray) -> TranslationBatch:
        """One batch of units of all datasets, those of the first in front."""
        return join_batches([part.batch(chosen) for part, chosen in self._by_part(units)])

    def describe(self, units: np.ndarray) -> str:
        """Which corpora, documents and sentences these are."""
        return "; ".join(part.describe(chosen) for part, chosen in self._by_part(units))

    def _by_part(self, units: np.ndarray) -> list[tuple[Part, np.ndarray]]:
        return [
            (part, self.unit[units[self.part[units] == number]])
            for number, part in enumerate(self.parts)
            if (self.part[units] == number).any()
        ]
