"""A selection as *assignments* in groups: what every plan of attention to kept sentences begins with.

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
    """Assignments by group. A = h·Tq·t assignments, numbered as in (h, Tq, t); G = h·S groups, numbered as in (h, S).

    Fields:
        order: (A,) the assignments by group, in their order inside one; those that keep nothing are behind all groups.
        begin: (G + 1,) where each group begins in `order`; the last entry: where those that keep nothing begin.
    """

    order: Tensor
    begin: Tensor

    @classmethod
    def of(cls, selection: Selection, sentences: int) -> Assignments:
        """Those of a selection among so many sentences. The host does not wait for the device."""
        group, groups = _groups(selection, sentences)
        group, order = group.sort(stable=True)
        return cls(order, torch.searchsorted(group, torch.arange(groups + 1, device=group.device)))

    @classmethod
    def on_cpu(cls, selection: Selection, sentences: int) -> Assignments:
        """The same in less time: NumPy counts short integers instead of comparing them."""
        group, groups = _groups(selection, sentences)
        if groups < 1 << 16:
            order = torch.from_numpy(group.numpy().astype(np.uint16).argsort(kind="stable"))
        else:
            order = group.argsort(stable=True)
        sizes = torch.bincount(group, minlength=groups + 1)[:groups]
        return cls(order, functional.pad(sizes.cumsum(0), (1, 0)))


def _groups(selection: Selection, sentences: int) -> tuple[Tensor, int]:
    """(A,) the group of each assignment, their number where it keeps nothing; and their number."""
    kept = selection.sentences
    groups = len(kept) * sentences
    head = torch.arange(len(kept), device=kept.device).view(-1, 1, 1)
    return (kept + head * sentences).masked_fill_(selection.relevance == -torch.inf, groups).flatten(), groups


def tiles_of(sizes: Tensor, width: int, number: int) -> tuple[Tensor, Tensor]:
    """Groups of so many assignments (G,), cut into tiles of `width` → for each of `number` tiles, which are enough.

    Returns:
        (number,) the group of each tile, G behind the last one, and how many assignments of it earlier tiles hold.
    """
    end = ((sizes + width - 1) // width).cumsum(0)
    tile = torch.arange(number, device=sizes.device)
    group = torch.searchsorted(end, tile, right=True)
    return group, (tile - functional.pad(end, (1, 0)).index_select(0, group)) * width


def query_rows(queries: int, t: int, heads: slice, all_heads: int, device: torch.device) -> Tensor:
    """(heads·Tq·t,) the row of a (Tq·h, d) table of each assignment's query; much faster than dividing by t and Tq."""
    head = torch.arange(heads.start, heads.stop, device=device).view(-1, 1, 1)
    row = torch.arange(queries, device=device).view(-1, 1) * all_heads + head  # (heads, Tq, 1)
    return row.expand(-1, -1, t).flatten()


def heads_at_a_time(selection: Selection, most: int) -> Iterator[slice]:
    """Heads that keep at most so many sentences together, for all queries; at least one."""
    heads, queries, t = selection.sentences.shape
    step = max(1, most // max(1, queries * t))
    return (slice(first, min(first + step, heads)) for first in range(0, heads, step))
