"""What attention reads, kept for those who ask; where nobody does, nothing is kept and nothing computed."""

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
    """One use of an attention.

    Attributes:
        module: whose it is.
        read: it, for any values.
        values: those that it read, (keys, h, d).
        sentences: a key is a sentence; otherwise a word.
        tree: sentences are found down a tree.
        share: (queries,) how much of what follows is read so, where that is not all.
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
    """Inside, in this thread, every attention that can tell what it reads adds a note to the list."""
    notes: list[Note] = []
    before = _NOTES.set(notes)
    try:
        yield notes
    finally:
        _NOTES.reset(before)


def taking_notes() -> list[Note] | None:
    """Where notes go, if somebody asks."""
    return _NOTES.get()


def attended(
    module: nn.Module, read: ReadFunction, values: Tensor, *, sentences: bool = False, tree: bool = False
) -> Tensor:
    """`read(values)`; the other arguments are for the `Note` of it."""
    notes = taking_notes()
    if notes is not None:
        notes.append(Note(module, read, values, sentences, tree))
    return read(values)
