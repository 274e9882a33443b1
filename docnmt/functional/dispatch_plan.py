"""The plan of a dispatch: which queries are computed together with the words of which sentence.

A group of assignments is cut into tiles; tiles of similar size and sentence length form a *batch*, padded to its
largest tile. Cutting bounds the padding, so that it costs nothing when all queries choose the same sentences.

The number of queries that keep a sentence is known on the device only, and reading it would make the host wait for the
GPU. But A assignments in G groups fill at most A / W + G tiles of W queries, and the number of queries in a document
bounds the tiles of its long sentences. So there are two plans: an exact one, for CPUs, and a *bounded* one with the
largest possible number of tiles, longest sentences first, in which surplus tiles are empty. The bounded plan costs up
to about twice the work, but no waiting.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from docnmt.functional import costs
from docnmt.functional.assignments import Assignments, heads_at_a_time, query_rows, tiles_of
from docnmt.functional.selection import Selection
from docnmt.layout import DocumentLayout, Spans
from docnmt.runtime.transfer import to_device


@dataclass(frozen=True)
class TileBatch:
    """Tiles computed together, each padded to `width` queries and `longest` words.

    rows: their tile rows. tiles: their indices. ragged: True if some may have fewer words than `longest`.
    """

    rows: slice
    tiles: slice
    width: int
    longest: int
    ragged: bool


@dataclass(frozen=True)
class DispatchPlan:
    """The tiles of some heads. A assignments, R rows of all tiles with their padding, G tiles.

    Attributes:
        heads: the heads of this plan.
        assignments: their assignments, sorted by (head, sentence).
        query_row: (R,) the row of a (Tq·h, d) table of queries.
        slot: (R,) the entry of a (heads·Tq, t) table of assignments; heads·Tq·t for rows that only fill a tile.
        row: (heads·Tq, t) the tile row of an assignment; R for an assignment that keeps nothing.
        key_row: (G,) the row of a (Tk·h, d) table of keys where the words of a tile begin.
        length: (G,) int64, words of each tile.
        batches: in the order of the rows.
    """

    heads: slice
    assignments: Assignments
    query_row: Tensor
    slot: Tensor
    row: Tensor
    key_row: Tensor
    length: Tensor
    batches: tuple[TileBatch, ...]


def plan_dispatch(
    selection: Selection, query_layout: DocumentLayout, key_layout: DocumentLayout
) -> Iterator[DispatchPlan]:
    """Yield plans for as many heads at a time as fit into memory, at least one: exact on a CPU, bounded elsewhere."""
    if selection.sentences.device.type == "cpu":
        for heads in heads_at_a_time(selection, costs.TILE_ASSIGNMENTS):
            yield _exact(selection, key_layout.sentences, heads)
    else:
        bounds = TileBounds.of(query_layout, key_layout, selection.sentences.shape[-1])
        for heads in heads_at_a_time(selection, costs.CARD_ASSIGNMENTS):
            yield _bounded(selection, bounds, heads)


def _exact(selection: Selection, sentences: Spans, heads: slice) -> DispatchPlan:
    found = Assignments.on_cpu(selection.of(heads), len(sentences))
    begin = found.begin.numpy()
    tiles = _tiles(np.diff(begin), np.tile(sentences.lengths, heads.stop - heads.start))
    widths = np.concatenate(
        [np.full(b.tiles.stop - b.tiles.start, b.width) for b in tiles.batches] or [np.zeros(0, int)]
    )
    within = np.arange(widths.sum()) - np.repeat(np.cumsum(widths) - widths, widths)
    real = within < np.repeat(tiles.size, widths)
    position = np.repeat(begin[tiles.group] + tiles.first, widths) + np.where(real, within, 0)
    head, sentence = np.divmod(tiles.group, len(sentences))
    key_row = sentences.host[sentence] * len(selection.sentences) + head + heads.start
    rows = _rows(selection, heads, found, torch.from_numpy(position), torch.from_numpy(real))
    return DispatchPlan(heads, found, *rows, torch.from_numpy(key_row), torch.from_numpy(tiles.length), tiles.batches)


def _bounded(selection: Selection, bounds: TileBounds, heads: slice) -> DispatchPlan:
    count, sentences, width = heads.stop - heads.start, len(bounds.words), bounds.width
    found = Assignments.of(selection.of(heads), sentences)
    batches = tuple(bounds.batches(count, width))
    by_length = (bounds.order.view(-1, 1) + torch.arange(count, device=bounds.order.device) * sentences).flatten()
    sizes = found.begin.diff().index_select(0, by_length)
    place, within = tiles_of(sizes, width, batches[-1].tiles.stop)
    exists = place < len(by_length)
    group = by_length.index_select(0, place.clamp(max=len(by_length) - 1))
    first = found.begin.index_select(0, group) + within
    position = first[:, None] + torch.arange(width, device=first.device)
    real = (position < found.begin.index_select(0, group + 1)[:, None]) & exists[:, None]
    position = position.clamp_(max=len(found.order) - 1).flatten()
    sentence, head = group % sentences, group // sentences
    key_row = bounds.begin.index_select(0, sentence) * len(selection.sentences) + head + heads.start
    length = bounds.words.index_select(0, sentence).masked_fill_(~exists, 1)
    rows = _rows(selection, heads, found, position, real.flatten())
    return DispatchPlan(heads, found, *rows, key_row.masked_fill_(~exists, 0), length, batches)


def _rows(
    selection: Selection, heads: slice, found: Assignments, position: Tensor, real: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return `query_row`, `slot` and `row` of a plan.

    Args:
        position: (R,) the index in `found.order` of each tile row.
        real: (R,) bool, False for rows that only fill a tile.
    """
    all_heads, queries, t = selection.sentences.shape
    slot = found.order.index_select(0, position)
    query_row = query_rows(queries, t, heads, all_heads, slot.device).index_select(0, slot)
    slot.masked_fill_(~real, len(found.order))
    row = torch.full((len(found.order) + 1,), len(slot), device=slot.device)
    row.scatter_(0, slot, torch.arange(len(slot), device=slot.device))
    return query_row, slot, row[:-1].view(-1, t)


@dataclass(frozen=True)
class _Tiles:
    """Tiles in the order of computation: `size` queries of `group` from its query `first` on, and `length` words."""

    group: np.ndarray
    first: np.ndarray
    size: np.ndarray
    length: np.ndarray
    batches: tuple[TileBatch, ...]


def _tiles(sizes: np.ndarray, lengths: np.ndarray) -> _Tiles:
    """Cut groups with `sizes` queries and `lengths` words into tiles, sorted by length and size, and batch these."""
    pieces = -(-sizes // costs.TILE)
    group = np.repeat(np.arange(len(sizes)), pieces)
    piece = np.arange(len(group)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    first = sizes[group] * piece // pieces[group]
    size = sizes[group] * (piece + 1) // pieces[group] - first
    kind = _kinds(lengths[group], size)
    order = np.lexsort((-size, kind))
    group, first, size, kind = group[order], first[order], size[order], kind[order]
    length = lengths[group]
    batches: list[TileBatch] = []
    row = tile = 0
    for end in (np.flatnonzero(np.diff(kind, append=-1)) + 1).tolist():
        while tile < end:
            width, words = int(size[tile]), int(costs.TILE_LENGTHS[kind[tile]])
            stop = min(end, tile + max(1, costs.TILE_BATCH // (width * words)))
            work = np.cumsum(size[tile:stop]) * words
            padding = np.arange(1, stop - tile + 1) * width * words - work
            # In decoding most tiles hold one query
            too_much = np.flatnonzero(padding > np.maximum(work, costs.TILE_BATCH_BEGIN))
            stop = tile + int(too_much[0]) if len(too_much) else stop
            longest, shortest = int(length[tile:stop].max()), int(length[tile:stop].min())
            rows = slice(row, row + (stop - tile) * width)
            batches.append(TileBatch(rows, slice(tile, stop), width, longest, shortest < longest))
            row, tile = rows.stop, stop
    return _Tiles(group, first, size, length, tuple(batches))


def _kinds(length: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Return a number for each tile; tiles with equal numbers may share a batch.

    It is the index in `costs.TILE_LENGTHS` of the tile's length, or of one up to four times as long where there is
    little work.
    """
    kind = np.searchsorted(costs.TILE_LENGTHS, length)
    joined = np.arange(len(costs.TILE_LENGTHS))
    work = shortest = 0
    for at, more in enumerate(np.bincount(kind, length * size).tolist()[:-1]):
        shortest = shortest if work else int(costs.TILE_LENGTHS[at])
        work += more
        if work < costs.TILE_BATCH_BEGIN and costs.TILE_LENGTHS[at + 1] <= 4 * shortest:
            joined[at] = at + 1
        else:
            work = 0
    for at in reversed(range(len(joined))):
        joined[at] = joined[joined[at]]
    return joined[kind]


@dataclass(frozen=True)
class TileBounds:
    """Upper bounds of the tiles that one head needs, from the lengths of sentences and documents alone.

    Attributes:
        lengths: bounds of sentences' lengths, the largest first; no sentence is longer than the first.
        assignments, groups: (len(lengths) + 1,) the largest number of assignments and groups of sentences longer than
            each bound, and than 0.
        order: (S,) int64, the sentences, longest first. begin, words: (S,) int64, their first words and lengths.
    """

    lengths: np.ndarray
    assignments: np.ndarray
    groups: np.ndarray
    order: Tensor
    begin: Tensor
    words: Tensor

    @classmethod
    def of(cls, query_layout: DocumentLayout, key_layout: DocumentLayout, t: int) -> TileBounds:
        """Return the bounds of a pair of layouts; they are cached with the query layout."""
        key = (TileBounds, query_layout.documents, key_layout.sentences, key_layout.document_sentences, t)
        return query_layout.sentences.derive(key, lambda: cls._make(query_layout, key_layout, t))

    @classmethod
    def _make(cls, query_layout: DocumentLayout, key_layout: DocumentLayout, t: int) -> TileBounds:
        words = key_layout.sentences.lengths
        lengths = costs.CARD_LENGTHS[: np.searchsorted(costs.CARD_LENGTHS, words.max(initial=1)) + 1][::-1]
        longer = words[:, None] > np.append(lengths, 0)  # (S, bounds)
        total = np.concatenate([np.zeros((1, longer.shape[1]), np.int64), np.cumsum(longer, 0)])
        in_document = np.diff(total[key_layout.document_sentences.host], axis=0)  # (D, bounds)
        kept = (query_layout.documents.lengths[:, None] * np.minimum(in_document, t)).sum(0)
        arrays = [np.argsort(-words, kind="stable"), key_layout.sentences.host[:-1], words]
        return cls(lengths, kept, longer.sum(0), *to_device(arrays, key_layout.sentence_offsets.device))

    @property
    def width(self) -> int:
        """The number of queries in a tile, a power of two near the mean number of queries that keep a sentence."""
        mean = int(self.assignments[-1]) / max(1, int(self.groups[-1]))
        return min(max(1 << round(math.log2(max(1.0, mean))), costs.CARD_TILE_LEAST), costs.CARD_TILE_MOST)

    def batches(self, heads: int, width: int) -> Iterator[TileBatch]:
        """Yield batches of tiles of `width` queries for `heads` heads, longest sentences first."""
        tiles = np.where(self.groups > 0, heads * (self.assignments // width + self.groups), 0)
        for longest, begin, end in zip(self.lengths.tolist(), tiles[:-1].tolist(), tiles[1:].tolist(), strict=True):
            step = max(1, costs.CARD_TILE_BATCH // (width * longest))
            for first in range(begin, end, step):
                last = min(first + step, end)
                yield TileBatch(slice(first * width, last * width), slice(first, last), width, longest, True)
