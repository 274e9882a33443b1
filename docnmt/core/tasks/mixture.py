"""A mixture of several training corpora in one dataset, each with its weight."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from docnmt.core.batch import TranslationBatch, join_batches
from docnmt.core.tasks.task import Dataset


class CorpusShare(Dataset, Protocol):
    """A dataset of one corpus whose batches can be joined."""

    def batch(self, units: np.ndarray) -> TranslationBatch:
        """Return the batch of these units."""


@dataclass(frozen=True, eq=False)
class Mixture:
    """Units of several datasets as one dataset.

    Attributes:
        part, unit: (U,) int64, each unit's dataset and its number there.
    """

    parts: Sequence[CorpusShare]
    part: np.ndarray
    unit: np.ndarray

    @classmethod
    def draw(cls, parts: Sequence[CorpusShare], weights: Sequence[float], *, seed: int, epoch: int) -> Mixture:
        """Draw the units of an epoch: every unit of a dataset ⌊weight⌋ times, and further units, drawn without
        repetition from (seed, epoch) alone, up to weight · U in all, rounded, and at least one."""
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
        """The larger of source and target length (U,) of each unit, in subwords."""
        sizes = np.zeros(len(self.unit), dtype=np.int64)
        for number, part in enumerate(self.parts):
            here = self.part == number
            sizes[here] = part.sizes[self.unit[here]]
        return sizes

    def batch(self, units: np.ndarray) -> TranslationBatch:
        """Return one batch of units of all datasets, ordered by dataset."""
        return join_batches([part.batch(chosen) for part, chosen in self._by_part(units)])

    def describe(self, units: np.ndarray) -> str:
        """Describe the corpora, documents and sentences of these units."""
        return "; ".join(part.describe(chosen) for part, chosen in self._by_part(units))

    def _by_part(self, units: np.ndarray) -> list[tuple[CorpusShare, np.ndarray]]:
        return [
            (part, self.unit[units[self.part[units] == number]])
            for number, part in enumerate(self.parts)
            if (self.part[units] == number).any()
        ]
