"""A generator driven by any function that gives the next token's scores, without a scheduler and its models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from docnmt.core.search.rows import Generator, Hypothesis, Slot


@torch.inference_mode()
def run(
    step: Callable[[Tensor, Any], Tensor],
    begin: Callable[[Sequence[Slot]], Any],
    generator: Generator,
    slots: Sequence[Slot],
    capacity: int | None = None,
) -> list[list[Hypothesis]]:
    """The hypotheses of all `slots`, in their order; at most `capacity` are at work at once."""
    waiting, found, state = list(slots), {}, None
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
        found.update({slot.number: hypotheses for slot, hypotheses in advance.finished})
    return [found[slot.number] for slot in slots]
