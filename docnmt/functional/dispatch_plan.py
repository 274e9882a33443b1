"""The plan of a dispatch: which queries are computed together with the words of which sentence.

A selection of t sentences for each query is h·Tq·t *assignments*. Sorted by (head, sentence) they fall into groups that
share their keys. A group is cut into *tiles* of at most `_TILE` queries; tiles of similar size and sentence length form
a *batch*, padded to its largest tile. Cutting bounds the padding, so that it costs nothing when all queries choose the
same sentences.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from docnmt.functional.selection import Selection
from docnmt.functional.tree import on_device
from docnmt.layout import Spans

_TILE = 128  # queries
_BATCH = 1 << 17  # word scores computed at a time: as many as stay in the cache
_LEAST = 1 << 13  # word scores that take as long as beginning a batch
_ASSIGNMENTS = 1 << 16  # assignments planned at a time: bounds the memory of their partial results
# Sentences of lengths up to the same bound may share a batch: at most a quarter of it is padding.
_LENGTHS = np.array([1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96, 128, *(2 ** np.arange(8, 63))])


@dataclass(frozen=True)
class TileBatch:
    """Tiles computed together, each padded to `width` queries and `longest` words.

    rows: their tile rows. tiles: which tiles. ragged: whether some have fewer words than `longest`.
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
        heads: which heads.
        query_row: (R,) the row of a (Tq·h, d) table of queries.
        slot: (R,) the entry of a (heads·Tq, t) table of assignments; heads·Tq·t for rows that only fill a tile.
        row: (heads·Tq, t) the tile row of an assignment; R where nothing was left to choose.
        key_row: (G,) the row of a (Tk·h, d) table of keys where the words of a tile begin.
        length: (G,) int64, words of each tile.
        in_order: (A,) assignments by (head, sentence), and begin: (heads·S,) where each begins; there may be empty
            assignments behind them, and where these begin.
        batches: in the order of the rows.
    """

    heads: slice
    query_row: Tensor
    slot: Tensor
    row: Tensor
    key_row: Tensor
    length: Tensor
    in_order: Tensor
    begin: Tensor
    batches: tuple[TileBatch, ...]


def plan_dispatch(selection: Selection, sentences: Spans) -> Iterator[DispatchPlan]:
    """One plan for as many heads as `_ASSIGNMENTS` allows, and at least one."""
    return (_plan(selection, sentences, heads) for heads in heads_at_a_time(selection, _ASSIGNMENTS))


def heads_at_a_time(selection: Selection, most: int) -> Iterator[slice]:
    """Heads that keep at most so many sentences together, for all queries; at least one."""
    heads, queries, t = selection.sentences.shape
    step = max(1, most // max(1, queries * t))
    return (slice(first, min(first + step, heads)) for first in range(0, heads, step))


def _plan(selection: Selection, sentences: Spans, heads: slice) -> DispatchPlan:
    kept, relevance = selection.sentences[heads], selection.relevance[heads]
    count, queries, t = kept.shape
    device, all_heads = kept.device, len(selection.sentences)
    groups = count * len(sentences)
    head = torch.arange(count, device=device).view(-1, 1, 1)
    group = (kept + head * len(sentences)).masked_fill_(relevance == -torch.inf, groups).flatten()
    order = _order(group, groups)
    sizes = torch.bincount(group, minlength=groups + 1)[:groups]
    host_sizes = sizes.cpu().numpy()
    begin = np.cumsum(host_sizes) - host_sizes
    tiles = _tiles(host_sizes, np.tile(sentences.lengths, count))
    tensor = partial(on_device, device=device)
    widths = np.concatenate(
        [np.full(b.tiles.stop - b.tiles.start, b.width) for b in tiles.batches] or [np.zeros(0, int)]
    )
    within = np.arange(widths.sum()) - np.repeat(np.cumsum(widths) - widths, widths)
    real = within < np.repeat(tiles.size, widths)
    position = np.repeat(begin[tiles.group] + tiles.first, widths) + np.where(real, within, 0)
    slot = order.index_select(0, tensor(position))
    query_row = query_rows(queries, t, heads, all_heads, device).index_select(0, slot)
    slot.masked_fill_(~tensor(real), count * queries * t)
    row = torch.full((count * queries * t + 1,), len(slot), device=device)
    row.scatter_(0, slot, torch.arange(len(slot), device=device))
    return DispatchPlan(
        heads=heads,
        query_row=query_row,
        slot=slot,
        row=row[:-1].view(-1, t),
        key_row=tensor(
            sentences.host[tiles.group % len(sentences)] * all_heads + tiles.group // len(sentences) + heads.start
        ),
        length=tensor(tiles.length),
        in_order=order[: host_sizes.sum()],
        begin=tensor(begin),
        batches=tiles.batches,
    )


def query_rows(queries: int, t: int, heads: slice, all_heads: int, device: torch.device) -> Tensor:
    """(heads·Tq·t,) the row of a (Tq·h, d) table of each assignment's query; much faster than dividing by t and Tq."""
    head = torch.arange(heads.start, heads.stop, device=device).view(-1, 1, 1)
    row = torch.arange(queries, device=device).view(-1, 1) * all_heads + head  # (heads, Tq, 1)
    return row.expand(-1, -1, t).flatten()


def _order(group: Tensor, groups: int) -> Tensor:
    """The stable order of groups numbered up to `groups`."""
    if group.device.type == "cpu" and groups < 1 << 16:  # NumPy counts short integers instead of comparing them
        return torch.from_numpy(group.numpy().astype(np.uint16).argsort(kind="stable"))
    return group.argsort(stable=True)


@dataclass(frozen=True)
class _Tiles:
    """Tiles in the order they are computed: `size` queries of `group` from its `first` on, `length` words."""

    group: np.ndarray
    first: np.ndarray
    size: np.ndarray
    length: np.ndarray
    batches: tuple[TileBatch, ...]


def _tiles(sizes: np.ndarray, lengths: np.ndarray) -> _Tiles:
    """Groups of so many queries and words → tiles, by length and then by size, in batches."""
    pieces = -(-sizes // _TILE)
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
            width, words = int(size[tile]), int(_LENGTHS[kind[tile]])
            stop = min(end, tile + max(1, _BATCH // (width * words)))
            work = np.cumsum(size[tile:stop]) * words
            padding = np.arange(1, stop - tile + 1) * width * words - work
            too_much = np.flatnonzero(padding > np.maximum(work, _LEAST))  # in decoding most tiles hold one query
            stop = tile + int(too_much[0]) if len(too_much) else stop
            longest, shortest = int(length[tile:stop].max()), int(length[tile:stop].min())
            rows = slice(row, row + (stop - tile) * width)
            batches.append(TileBatch(rows, slice(tile, stop), width, longest, shortest < longest))
            row, tile = rows.stop, stop
    return _Tiles(group, first, size, length, tuple(batches))


def _kinds(length: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Which tiles may share a batch: the place of their length in `_LENGTHS`, or of one up to four times as long where
    there is little to do."""
    kind = np.searchsorted(_LENGTHS, length)
    joined = np.arange(len(_LENGTHS))
    work = shortest = 0
    for at, more in enumerate(np.bincount(kind, length * size).tolist()[:-1]):
        shortest = shortest if work else int(_LENGTHS[at])
        work += more
        if work < _LEAST and _LENGTHS[at + 1] <= 4 * shortest:
            joined[at] = at + 1
        else:
            work = 0
    for at in reversed(range(len(joined))):
        joined[at] = joined[joined[at]]
    return joined[kind]
