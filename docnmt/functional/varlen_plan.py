"""The plan of conditional attention as sequences of many lengths: one for each (head, sentence), or several.

The assignments of a selection, sorted by (head, sentence), are the queries; the words of the sentence are the keys of
the sequence. A sentence that very many queries keep is read by several sequences of at most `costs.FLASH_TILE`
queries. So the longest sequence and all shapes follow from sizes that the host knows, whatever has been selected:
nothing here waits for the device.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from docnmt.functional import packed as costs
from docnmt.functional.dispatch import Assignments, tiles_of
from docnmt.functional.packed import Sequences
from docnmt.functional.selection import Selection
from docnmt.layout import Spans

#: Sequences of a call, at most: they are the second dimension of a grid of CUDA blocks.
SEQUENCES = 65535


@dataclass(frozen=True, eq=False)
class VarlenPlan:
    """The rows that the sequences read: A = h·Tq·t assignments, and R rows of keys, some after the last sequence.

    Attributes:
        order: (A,) the assignments, numbered in (h, Tq, t), by (head, sentence), those without a sentence at the end.
        place: (h, Tq, t) the index of each assignment in this order.
        query: (A,) the row of a (Tq·h, d) table of queries, in this order.
        sentence: (A,) the row of a (Sk·h, d) table of sentences, in this order.
        key: (R,) the row of a (Tk·h, d) table of keys.
        unread: (R, 1) bool, True for rows of keys after the last sequence.
        sequences: the offsets of the sequences of these queries and keys.
    """

    order: Tensor
    place: Tensor
    query: Tensor
    sentence: Tensor
    key: Tensor
    unread: Tensor
    sequences: Sequences


def heads_at_once(heads: int, queries: int, t: int, sentences: int) -> int:
    """Return the number of heads for which a plan has at most `SEQUENCES` sequences; 0 if one head has more."""
    return min(heads, SEQUENCES // (1 + sentences + queries * t // costs.FLASH_TILE))


def plan_varlen(selection: Selection, sentences: Spans) -> VarlenPlan:
    """The plan of a selection among the sentences of `sentences`, spans of the key words."""
    kept = selection.sentences
    heads, queries, t = kept.shape
    groups, number = heads * len(sentences), kept.numel()
    order, begin = Assignments.of(selection, len(sentences))
    place = torch.empty_like(order).scatter_(0, order, torch.arange(number, device=order.device))
    most = min(groups, number) + number // costs.FLASH_TILE  # as many tiles as there can be
    tile_group, within = tiles_of(begin.diff(), costs.FLASH_TILE, most)
    first = torch.minimum(begin.index_select(0, tile_group) + within, begin[-1])
    q = torch.cat([first, begin[-1:]]).int()
    unused = tile_group == groups
    word, tile, unread, k = _words(tile_group % len(sentences), unused, sentences, heads, number)
    of_head = tile_group.index_select(0, tile).clamp(max=groups - 1) // len(sentences)
    asked = order // t  # (A,) numbered in (h, Tq)
    asking = asked // queries
    return VarlenPlan(
        order=order,
        place=place.view(kept.shape),
        query=asked % queries * heads + asking,
        sentence=kept.flatten().index_select(0, order) * heads + asking,
        key=word * heads + of_head,
        unread=unread.unsqueeze(-1),
        sequences=Sequences(q, k, min(costs.FLASH_TILE, queries), max(1, sentences.max_length)),
    )


def _words(
    sentence: Tensor, unused: Tensor, sentences: Spans, heads: int, number: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Concatenate the words of the sentences of N tiles.

    Returns:
        (R,) each word; (R,) its tile; (R,) bool, True after the last tile; (N+1,) int32, the offsets of the tiles.
    """
    lengths = sentences.offsets.diff().index_select(0, sentence).masked_fill(unused, 0)
    offsets = functional.pad(lengths.cumsum(0), (1, 0))
    rows = heads * sentences.num_tokens + number // costs.FLASH_TILE * sentences.max_length  # as many as there can be
    row = torch.arange(rows, device=sentence.device)
    tile = torch.searchsorted(offsets[1:], row, right=True).clamp(max=len(sentence) - 1)
    unread = row >= offsets[-1]
    word = sentences.offsets.index_select(0, sentence.index_select(0, tile)) + row - offsets.index_select(0, tile)
    return word.masked_fill(unread, 0), tile, unread, offsets.int()
