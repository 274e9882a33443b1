"""What generators have in common: slots at work over `LiveRows`, and what each has finished."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import torch
from torch import Tensor

from docnmt.core.search.config import SearchConfig
from docnmt.core.search.hypothesis import Hypothesis, Slot
from docnmt.core.search.rows import LiveRows


class SearchOverRows:
    """What generators over `LiveRows` have in common: rows and slots, and what each slot has finished.

    Attributes:
        parts: equal parts of a slot's rows, each with what it has finished; `part`: rows of one.
    """

    def __init__(self, width: int, config: SearchConfig, device: torch.device | str, *, parts: int = 1) -> None:
        self.width, self.parts, self.part = width, parts, width // parts
        self._rows = LiveRows(width, config, device)
        self._finished: list[list[Hypothesis]] = []

    @property
    def slots(self) -> Sequence[Slot]:
        """The slots at work, in the order of their rows."""
        return self._rows.slots

    @property
    def tokens(self) -> Tensor:
        """(R,) the last token of each row."""
        return self._rows.rows.last

    def _admit(self, slots: Sequence[Slot], total: Sequence[float]) -> None:
        """New slots, as `LiveRows.admit`, which have finished nothing."""
        self._rows.admit(slots, total)
        self._finished += [[] for _ in range(self.parts * len(slots))]

    def _finish(self, parents: Tensor, log_probs: Tensor, total: Tensor) -> None:
        """Rows `parents` (F,) end, with these log-probabilities of `</s>` and sums."""
        if len(parents):
            found = self._rows.hypotheses(parents, log_probs, total)
            for row, hypothesis in zip(parents.tolist(), found, strict=True):
                self._finished[row // self.part].append(hypothesis)

    def _best(self, n: int) -> list[Hypothesis]:
        """What slot n has finished, best first; of equal scores the one found first is better."""
        found = chain.from_iterable(self._finished[part] for part in self._parts(n))
        return sorted(found, key=lambda hypothesis: -hypothesis.score)

    def _parts(self, n: int) -> range:
        """The parts of slot n."""
        return range(n * self.parts, (n + 1) * self.parts)

    def leave(self, slots: Sequence[int]) -> Tensor:
        """Remove slots. Returns (R',) the rows that stay, by the numbers they had."""
        stay = sorted(set(range(len(self.slots))) - set(slots))
        self._finished = [self._finished[part] for n in stay for part in self._parts(n)]
        return self._rows.keep(stay)
