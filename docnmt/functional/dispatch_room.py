"""The plan of a dispatch on a GPU, whose sizes the host knows without seeing the selection.

How many queries keep a sentence is known on the device only, and asking would stop it. But A assignments in G groups
fill at most A / W + G tiles of W queries; and of tiles of long sentences there are no more than the queries of their
documents can keep. So tiles stand in the order of their sentences' lengths, and there is *room* for as many as there
can be; those that are too many hold nothing. It costs up to about twice the work of an exact plan, and no wait.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from docnmt.functional.dispatch_plan import DispatchPlan, TileBatch, heads_at_a_time, query_rows
from docnmt.functional.selection import Selection
from docnmt.layout import DocumentLayout
from docnmt.runtime.transfer import to_device

_WIDEST, _NARROWEST = 128, 16  # queries of a tile
_ASSIGNMENTS = 1 << 20  # planned at a time: bounds the memory of their partial results
_SCORES = 1 << 24  # word scores computed at a time
#: Words to which tiles are padded.
_LENGTHS = np.array([4, 6, *np.outer(2 ** np.arange(3, 60), [2, 3]).ravel() // 2])


@dataclass(frozen=True)
class Room:
    """What one head needs at most, from the lengths of sentences and documents alone.

    Attributes:
        lengths: bounds of sentences' lengths, the largest first; no sentence is longer than the first.
        assignments, groups: (len(lengths) + 1,) how many, at most, are of sentences longer than each bound, and than 0.
        order: (S,) int64, the sentences, longest first. begin, words: (S,) int64, their first words and lengths.
    """

    lengths: np.ndarray
    assignments: np.ndarray
    groups: np.ndarray
    order: Tensor
    begin: Tensor
    words: Tensor

    @classmethod
    def of(cls, query_layout: DocumentLayout, key_layout: DocumentLayout, t: int) -> Room:
        """Made once for a pair of layouts."""
        key = (Room, query_layout.documents, key_layout.sentences, key_layout.document_sentences, t)
        return query_layout.sentences.derive(key, lambda: cls._make(query_layout, key_layout, t))

    @classmethod
    def _make(cls, query_layout: DocumentLayout, key_layout: DocumentLayout, t: int) -> Room:
        words = key_layout.sentences.lengths
        lengths = _LENGTHS[: np.searchsorted(_LENGTHS, words.max(initial=1)) + 1][::-1]
        longer = words[:, None] > np.append(lengths, 0)  # (S, bounds)
        total = np.concatenate([np.zeros((1, longer.shape[1]), np.int64), np.cumsum(longer, 0)])
        in_document = np.diff(total[key_layout.document_sentences.host], axis=0)  # (D, bounds)
        kept = (query_layout.documents.lengths[:, None] * np.minimum(in_document, t)).sum(0)
        arrays = [np.argsort(-words, kind="stable"), key_layout.sentences.host[:-1], words]
        return cls(lengths, kept, longer.sum(0), *to_device(arrays, key_layout.sentence_offsets.device))

    @property
    def width(self) -> int:
        """Queries of a tile: about as many as keep a sentence."""
        mean = int(self.assignments[-1]) / max(1, int(self.groups[-1]))
        return min(max(1 << round(math.log2(max(1.0, mean))), _NARROWEST), _WIDEST)

    def batches(self, heads: int, width: int) -> Iterator[TileBatch]:
        """Tiles of `width` queries for so many heads, longest sentences first."""
        tiles = np.where(self.groups > 0, heads * (self.assignments // width + self.groups), 0)
        for longest, begin, end in zip(self.lengths.tolist(), tiles[:-1].tolist(), tiles[1:].tolist(), strict=True):
            step = max(1, _SCORES // (width * longest))
            for first in range(begin, end, step):
                last = min(first + step, end)
                yield TileBatch(slice(first * width, last * width), slice(first, last), width, longest, True)


def plan_in_room(selection: Selection, room: Room) -> Iterator[DispatchPlan]:
    """As `plan_dispatch`, but no size depends on what is selected."""
    return (_plan(selection, room, heads) for heads in heads_at_a_time(selection, _ASSIGNMENTS))


def _plan(selection: Selection, room: Room, heads: slice) -> DispatchPlan:
    kept, all_heads, sentences = selection.sentences[heads], len(selection.sentences), len(room.words)
    (count, queries, t), device = kept.shape, kept.device
    head = torch.arange(count, device=device)
    group = kept + head.view(-1, 1, 1) * sentences
    group = group.masked_fill_(selection.relevance[heads] == -torch.inf, count * sentences).flatten()
    group, order = group.sort(stable=True)
    begin = torch.searchsorted(group, torch.arange(count * sentences + 1, device=device))
    width = room.width
    batches = tuple(room.batches(count, width))
    by_length = (room.order.view(-1, 1) + head * sentences).flatten()
    of_tile, first, exists = _tiles(begin, by_length, width, batches[-1].tiles.stop)
    position = first[:, None] + torch.arange(width, device=device)
    real = (position < begin.index_select(0, of_tile + 1)[:, None]) & exists[:, None]
    slot = order.index_select(0, position.clamp_(max=len(order) - 1).flatten())
    query_row = query_rows(queries, t, heads, all_heads, device).index_select(0, slot)
    slot.masked_fill_(~real.flatten(), len(order))
    row = torch.full((len(order) + 1,), len(slot), device=device)
    row.scatter_(0, slot, torch.arange(len(slot), device=device))
    sentence, of_head = of_tile % sentences, of_tile // sentences
    key_row = room.begin.index_select(0, sentence) * all_heads + of_head + heads.start
    return DispatchPlan(
        heads=heads,
        query_row=query_row,
        slot=slot,
        row=row[:-1].view(-1, t),
        key_row=key_row.masked_fill_(~exists, 0),
        length=room.words.index_select(0, sentence).masked_fill_(~exists, 1),
        in_order=order,
        begin=begin,
        batches=batches,
    )


def _tiles(begin: Tensor, by_length: Tensor, width: int, number: int) -> tuple[Tensor, Tensor, Tensor]:
    """For each of so many tiles the group that it belongs to, its first assignment, and whether there is such a tile.

    begin: (G + 1,) where the assignments of each group begin. by_length: (G,) the groups, longest sentences first.
    """
    pieces = ((begin.diff() + width - 1) // width).index_select(0, by_length)
    ends = pieces.cumsum(0)
    tile = torch.arange(number, device=begin.device)
    place = torch.searchsorted(ends, tile, right=True)
    exists = place < len(by_length)
    place.clamp_(max=len(by_length) - 1)
    group = by_length.index_select(0, place)
    first = begin.index_select(0, group) + (tile - (ends - pieces).index_select(0, place)) * width
    return group, first, exists
