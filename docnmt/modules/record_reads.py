"""Records of attention weights, for analysis. Outside `recording` nothing is stored or computed for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from torch import Tensor, nn

#: Attention as a function of its values alone, in which it is linear: (keys, h, d) → (queries, h, d). The weight of a
#: key, or the sum of those of some keys, is what it gives where their values are 1 and all others 0.
ReadFunction = Callable[[Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class Note:
    """The record of one call of an attention.

    Attributes:
        module: the attention module.
        read: the attention as a function of its values.
        values: the values of this call, (keys, h, d).
        sentences: True if a key is a sentence; False if it is a word.
        tree: True if sentences were selected through a tree.
        share: (queries,) the share of this attention in the output, if it is not all of it, such as a pointer's λ.
    """

    module: nn.Module
    read: ReadFunction
    values: Tensor
    sentences: bool = False
    tree: bool = False
    share: Tensor | None = None


_NOTES: ContextVar[list[Note] | None] = ContextVar("notes", default=None)


@contextmanager
def recording() -> Iterator[list[Note]]:
    """Yield a list to which every attention that supports it adds a note, in this context."""
    notes: list[Note] = []
    before = _NOTES.set(notes)
    try:
        yield notes
    finally:
        _NOTES.reset(before)


def taking_notes() -> list[Note] | None:
    """Return the list of the current `recording`; None outside of one."""
    return _NOTES.get()


def attended(
    module: nn.Module, read: ReadFunction, values: Tensor, *, sentences: bool = False, tree: bool = False
) -> Tensor:
    """Return `read(values)`, and record a `Note` with the other arguments inside `recording`."""
    notes = taking_notes()
    if notes is not None:
        notes.append(Note(module, read, values, sentences, tree))
    return read(values)
