"""Group the assignments of a selection by head and sentence, the first step of every attention plan.

A selection of t sentences for each query is h·Tq·t assignments of a query to a sentence. Those of one (head, sentence)
are a *group*: they read the same keys. Groups are cut into *tiles* of at most so many queries.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from docnmt.functional.selection import Selection


class Assignments(NamedTuple):
    """The assignments of a selection, sorted by group.

    There are A = h·Tq·t assignments, numbered as in (h, Tq, t), and G = h·S groups, numbered as in (h, S).

    Fields:
        order: (A,) assignment numbers sorted by group, stable within a group; assignments that keep nothing come last.
        begin: (G + 1,) the index in `order` where each group begins; the last entry is that of those that keep nothing.
    """

    order: Tensor
    begin: Tensor

    @classmethod
    def of(cls, selection: Selection, sentences: int) -> Assignments:
        """Return the assignments of a selection among `sentences` sentences, without waiting for the device."""
        group, groups = _groups(selection, sentences)
        group, order = group.sort(stable=True)
        return cls(order, torch.searchsorted(group, torch.arange(groups + 1, dtype=group.dtype, device=group.device)))

    @classmethod
    def on_cpu(cls, selection: Selection, sentences: int) -> Assignments:
        """Return the result of `of` for tensors on the CPU, faster: NumPy sorts short integers by counting."""
        group, groups = _groups(selection, sentences)
        if groups < 1 << 16:
            order = torch.from_numpy(group.numpy().astype(np.uint16).argsort(kind="stable"))
        else:
            order = group.argsort(stable=True)
        sizes = torch.bincount(group, minlength=groups + 1)[:groups]
        return cls(order, functional.pad(sizes.cumsum(0), (1, 0)))


def _groups(selection: Selection, sentences: int) -> tuple[Tensor, int]:
    """Return the group of each assignment (A,) and the number of groups, which also marks assignments without one."""
    kept = selection.sentences
    groups = len(kept) * sentences
    head = torch.arange(len(kept), device=kept.device).view(-1, 1, 1)
    short = torch.int16 if groups < 1 << 15 else torch.int32  # sorted in fewer passes than int64
    group = (kept + head * sentences).masked_fill_(selection.relevance == -torch.inf, groups)
    return group.flatten().to(short), groups


def tiles_of(sizes: Tensor, width: int, number: int) -> tuple[Tensor, Tensor]:
    """Cut groups into tiles of at most `width` assignments.

    Args:
        sizes: (G,) the number of assignments of each group.
        width: the largest number of assignments in a tile.
        number: how many tiles to return, at least as many as are needed.

    Returns:
        (number,) the group of each tile, G for unused tiles at the end; and (number,) how many assignments of that
        group are in earlier tiles.
    """
    end = ((sizes + width - 1) // width).cumsum(0)
    tile = torch.arange(number, device=sizes.device)
    group = torch.searchsorted(end, tile, right=True)
    return group, (tile - functional.pad(end, (1, 0)).index_select(0, group)) * width


def query_rows(queries: int, t: int, heads: slice, all_heads: int, device: torch.device) -> Tensor:
    """Return each assignment's query row in a (Tq·h, d) table: (heads·Tq·t,). Much faster than dividing by t and Tq."""
    head = torch.arange(heads.start, heads.stop, device=device).view(-1, 1, 1)
    row = torch.arange(queries, device=device).view(-1, 1) * all_heads + head  # (heads, Tq, 1)
    return row.expand(-1, -1, t).flatten()


def heads_at_a_time(selection: Selection, most: int) -> Iterator[slice]:
    """Yield slices of heads with at most `most` assignments each, but at least one head."""
    heads, queries, t = selection.sentences.shape
    step = max(1, most // max(1, queries * t))
    return (slice(first, min(first + step, heads)) for first in range(0, heads, step))
