"""A generator driven by any function that gives the next token's scores, without a scheduler and its models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from docnmt.core.search.config import BeamSearchConfig
from docnmt.core.search.generators import BeamSearch, Generator, Hypothesis, Slot
from docnmt.core.tokenizer import BOS


@torch.inference_mode()
def run(
    step: Callable[[Tensor, Any], Tensor],
    begin: Callable[[Sequence[Slot]], Any],
    generator: Generator,
    slots: Sequence[Slot],
    capacity: int | None = None,
) -> list[list[Hypothesis]]:
    """The hypotheses of all `slots`, in their order; at most `capacity` are at work at once."""
    waiting, finished, state = list(slots), {}, None
    while waiting or generator.slots:
        room = (capacity or max(len(slots), 1)) - len(generator.slots)
        entering, waiting = waiting[:room], waiting[room:]
        if entering:
            fresh = begin(entering)
            if state is None or not generator.slots:
                state = fresh
            else:
                state.append(fresh)
            generator.admit(entering)
        advance = generator.advance(step(generator.tokens, state))
        if advance.rows is not None:
            state.reorder(advance.rows)
        finished.update({slot.number: hypotheses for slot, hypotheses in advance.finished})
    return [finished[slot.number] for slot in slots]


A, B, VOCABULARY = 5, 6, 7


#: (slot's number, tokens so far) → log-probabilities (VOCABULARY,)
Distribution = Callable[[int, tuple[int, ...]], Tensor]


class PrefixState:
    """Remembers what every row has read, as a decoder's cache would."""

    def __init__(self, slots: Sequence[Slot], width: int) -> None:
        self.width = width
        self.rows: list[tuple[int, tuple[int, ...]]] = [(s.number, ()) for s in slots for _ in range(width)]

    def reorder(self, rows: Tensor) -> None:
        self.rows = [self.rows[row] for row in rows.tolist()]
        numbers = [number for number, _ in self.rows]
        assert all(len(set(numbers[i : i + self.width])) == 1 for i in range(0, len(numbers), self.width))

    def append(self, other: PrefixState) -> None:
        self.rows += other.rows


def stepper(distribution: Distribution) -> Callable[[Tensor, PrefixState], Tensor]:
    def step(tokens: Tensor, state: PrefixState) -> Tensor:
        assert len(tokens) == len(state.rows)
        state.rows = [
            (number, (*read, token)) for (number, read), token in zip(state.rows, tokens.tolist(), strict=True)
        ]
        assert all(read[0] == BOS for _, read in state.rows)
        return torch.stack([distribution(number, read[1:]) for number, read in state.rows])

    return step


def random_model(number: int, prefix: tuple[int, ...]) -> Tensor:
    """Random but reproducible, different in every slot; specials included, so that constraints have work to do."""
    noise = np.random.default_rng([number, len(prefix), *prefix]).normal(size=VOCABULARY)
    return torch.log_softmax(torch.from_numpy(noise).float(), dim=0)


def search(
    distribution: Distribution, how: BeamSearchConfig | Generator, slots: Sequence[Slot], capacity: int | None = None
) -> list[list[Hypothesis]]:
    """What a generator, or a beam search with these options, finds."""
    generator = BeamSearch(how) if isinstance(how, BeamSearchConfig) else how
    return run(stepper(distribution), lambda new: PrefixState(new, generator.width), generator, slots, capacity)
