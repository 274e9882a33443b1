"""The protocol of generators, and the loop that drives one: rows in, one token each, finished slots out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from docnmt.models.protocol import StateT
from docnmt.search.hypothesis import Hypothesis, Slot


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
        step: tokens (R,) and the model's state → logits or log-probabilities (R, V) of each row's next token.
        begin: the model's state for slots that enter.
        least_rows: the model never sees fewer rows: where too few slots are left, copies of one work beside them.
            Small products take other kernels, whose sums differ in the last bit.
        following: given a slot that ended and what it gave, the slots that had to wait for it; they come first.
    """
    waiting = list(reversed(slots))
    least = -(-least_rows // search.width)
    state: StateT | None = None
    while waiting or any(slot.wanted for slot in search.slots):
        entering: list[Slot] = []
        room = capacity - len(search.slots)
        if waiting and (room >= -(-capacity // REFILL) or not search.slots):
            entering = [waiting.pop() for _ in range(min(max(room, 1), len(waiting)))]
        missing = least - len(search.slots) - len(entering)
        entering += [replace((entering or search.slots)[0], wanted=False)] * missing
        if entering:
            fresh = begin(entering)
            if state is None or not search.slots:
                state = fresh
            else:
                state.append(fresh)
            search.admit(entering)
        assert state is not None  # the first slots have entered
        advance = search.advance(step(search.tokens, state))
        if advance.rows is not None:
            state.reorder(advance.rows)
        finished = [(slot, found) for slot, found in advance.finished if slot.wanted]
        if following is not None:
            waiting += [after for slot, found in finished for after in following(slot, found)]
        yield from finished


#: Slots are refilled when 1/REFILL of them are free: each refill copies the state, and young rows among old ones are
#: padded. `tools/bench/generation.py` measures it.
REFILL = 4


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
