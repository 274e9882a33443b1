"""The protocol of generators, and the loop that drives one: rows in, one token each, finished slots out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Generic, Protocol

import torch
from torch import Tensor

from docnmt.core.models.translation_model import StateT
from docnmt.core.search.hypothesis import Hypothesis, Slot


@dataclass(frozen=True, eq=False)
class Advance:
    """What one step changed.

    Attributes:
        rows: (R',) the rows that live on, by the numbers they had; None where all stay in their order.
        finished: the slots that ended, each with its hypotheses, best first.
    """

    rows: Tensor | None
    finished: list[tuple[Slot, list[Hypothesis]]]


class Search(Protocol):
    """A running generator. It works on log-probabilities and rows and has no model."""

    width: int

    @property
    def slots(self) -> Sequence[Slot]:
        """The slots at work, in the order of their rows."""

    @property
    def tokens(self) -> Tensor:
        """(R,) what the model reads next; `width` rows a slot."""

    def admit(self, slots: Sequence[Slot]) -> None:
        """New slots, behind the others."""

    def advance(self, logits: Tensor) -> Advance:
        """One token for every row, chosen by the model's logits (R, V)."""

    def leave(self, slots: Sequence[int]) -> Tensor:
        """Slots, by their places, go without a result. Returns (R',) the rows that stay, by the numbers they had."""


class Decoding(Generic[StateT]):
    """A search at work: slots enter, write, and end.

    Args:
        step: tokens (R,) and the model's state → logits or log-probabilities (R, V) of each row's next token.
        begin: the model's state for slots that enter.
        least_rows: the model never sees fewer rows: where too few slots are left, copies of one work beside them.
            Small products take other kernels, whose sums differ in the last bit.
    """

    def __init__(
        self,
        step: Callable[[Tensor, StateT], Tensor],
        begin: Callable[[Sequence[Slot]], StateT],
        search: Search,
        *,
        least_rows: int = 1,
    ) -> None:
        self._step, self._begin, self.search = step, begin, search
        self._least = -(-least_rows // search.width)
        self.state: StateT | None = None

    @property
    def busy(self) -> bool:
        """Something is left to write."""
        return any(slot.wanted for slot in self.search.slots)

    def advance(self, entering: Sequence[Slot]) -> list[tuple[Slot, list[Hypothesis]]]:
        """New slots, and one token more for all. Returns the slots that ended, with their hypotheses, best first."""
        search, new = self.search, list(entering)
        missing = self._least - len(search.slots) - len(new)
        new += [replace((new or search.slots)[0], wanted=False)] * missing
        if new:
            fresh = self._begin(new)
            if self.state is None or not search.slots:
                self.state = fresh
            else:
                self.state.append(fresh)
            search.admit(new)
        assert self.state is not None  # the first slots have entered
        advance = search.advance(self._step(search.tokens, self.state))
        if advance.rows is not None:
            self.state.reorder(advance.rows)
        return [(slot, found) for slot, found in advance.finished if slot.wanted]

    def leave(self, gone: Callable[[Slot], bool]) -> None:
        """Slots that are `gone` end without a result."""
        places = [place for place, slot in enumerate(self.search.slots) if gone(slot)]
        if places and self.state is not None:
            self.state.reorder(self.search.leave(places))
        if not self.search.slots:
            self.state = None  # it holds the encoding of whole documents


def decode(
    step: Callable[[Tensor, StateT], Tensor],
    begin: Callable[[Sequence[Slot]], StateT],
    search: Search,
    slots: Sequence[Slot],
    *,
    capacity: int,
    least_rows: int = 1,
    following: Callable[[Slot, list[Hypothesis]], Sequence[Slot]] | None = None,
) -> Iterator[tuple[Slot, list[Hypothesis]]]:
    """Write all `slots`, at most `capacity` at once; a slot that ends makes room for the next in line.

    Results come as they are ready, not in order.

    Args:
        step, begin, least_rows: as of `Decoding`.
        following: given a slot that ended and what it gave, the slots that had to wait for it; they come first.
    """
    waiting, decoding = list(reversed(slots)), Decoding(step, begin, search, least_rows=least_rows)
    while waiting or decoding.busy:
        entering: list[Slot] = []
        room = capacity - len(search.slots)
        if waiting and (room >= refill(capacity) or not search.slots):
            entering = [waiting.pop() for _ in range(min(max(room, 1), len(waiting)))]
        finished = decoding.advance(entering)
        if following is not None:
            waiting += [after for slot, found in finished for after in following(slot, found)]
        yield from finished


def refill(capacity: int) -> int:
    """How many slots must be free before new ones enter: each refill copies the state, and young rows among old ones
    are padded. `tools/bench/generation.py` measures it."""
    return -(-capacity // 4)


def run(
    step: Callable[[Tensor, StateT], Tensor], state: StateT, search: Search, slots: Sequence[Slot]
) -> list[list[Hypothesis]]:
    """All `slots` at once, over a state that has them; their hypotheses in the order of the slots."""
    place = {slot.number: index for index, slot in enumerate(slots)}
    results: list[list[Hypothesis]] = [[] for _ in slots]
    with torch.inference_mode():
        for slot, found in decode(step, lambda _: state, search, slots, capacity=max(len(slots), 1)):
            results[place[slot.number]] = found
    return results
