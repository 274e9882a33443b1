"""Attention by sentence: queries are gathered at the sentences that they keep."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from docnmt.functional import packed as costs
from docnmt.functional.selection import Keys, Queries, Selection, subtract_largest
from docnmt.layout import DocumentLayout, Spans
from docnmt.runtime.device import to_device

# Group the assignments of a selection by head and sentence, the first step of every attention plan.
#
# A selection of t sentences for each query is h·Tq·t assignments of a query to a sentence. Those of one (head,
# sentence)
# are a *group*: they read the same keys. Groups are cut into *tiles* of at most so many queries.


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


# The plan of a dispatch: which queries are computed together with the words of which sentence.
#
# A group of assignments is cut into tiles; tiles of similar size and sentence length form a *batch*, padded to its
# largest tile. Cutting bounds the padding, so that it costs nothing when all queries choose the same sentences.


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


def plan_dispatch(selection: Selection, key_layout: DocumentLayout) -> Iterator[DispatchPlan]:
    """Yield plans for as many heads at a time as fit into memory, at least one."""
    for heads in heads_at_a_time(selection, costs.TILE_ASSIGNMENTS):
        yield _exact(selection, key_layout.sentences, heads)


def _exact(selection: Selection, sentences: Spans, heads: slice) -> DispatchPlan:
    device = selection.sentences.device
    chosen = Selection(selection.sentences[heads].cpu(), selection.relevance[heads].cpu())  # a card is waited for
    found = Assignments.on_cpu(chosen, len(sentences))
    begin = found.begin.numpy()
    tiles = _tiles(np.diff(begin), np.tile(sentences.lengths, heads.stop - heads.start))
    widths = np.concatenate(
        [np.full(b.tiles.stop - b.tiles.start, b.width) for b in tiles.batches] or [np.zeros(0, int)]
    )
    within = np.arange(widths.sum()) - np.repeat(np.cumsum(widths) - widths, widths)
    real = within < np.repeat(tiles.size, widths)
    position = np.repeat(begin[tiles.group] + tiles.first, widths) + np.where(real, within, 0)
    head, sentence = np.divmod(tiles.group, len(sentences))
    first_key = sentences.host[sentence] * len(selection.sentences) + head + heads.start
    rows = _rows(selection, heads, found, torch.from_numpy(position), torch.from_numpy(real))
    order, begin, *rest = to_device([*found, *rows, first_key, tiles.length], device)
    query_row, slot, row, key_row, length = rest
    return DispatchPlan(heads, Assignments(order, begin), query_row, slot, row, key_row, length, tiles.batches)


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


# Conditional attention computed sentence by sentence: each (head, sentence) gathers the queries that keep it.
#
# Each tile of the plan is a block of dense attention; the t partial results of a query are merged by their log-sum-
# exp.
# Work and memory are proportional to Tq·t, whatever the number of sentences: the O(n·t·m²) of table 1 in Trankova and
# Rykunov, "Hierarchical Encoding and Conditional Attention in NMT".


def dispatch_attention(queries: Queries, keys: Keys, selection: Selection) -> Tensor:
    """Return attention to the words of the kept sentences, (Tq, h, d_v)."""
    # Subtracting a constant leaves the softmax unchanged and keeps the log-sum-exp small, hence precise
    near = Selection(selection.sentences, subtract_largest(selection.relevance))
    inputs = _Inputs(queries.words, keys.words, keys.values, queries.sentences, keys.sentences)
    plans = list(plan_dispatch(near, keys.layout))
    out: Tensor = _Dispatch.apply(*inputs, near, plans)  # type: ignore[no-untyped-call]
    return out


class _Inputs(NamedTuple):
    """The differentiable inputs, or the gradients of them."""

    q: Tensor  # (Tq, h, d_k)
    k: Tensor  # (Tk, h, d_k)
    v: Tensor  # (Tk, h, d_v)
    sentence_q: Tensor  # (Tq, h, d_k)
    sentence_k: Tensor  # (Sk, h, d_k)


class _Output(NamedTuple):
    """The output (Tq, h, d_v) and the log-sum-exp of all scores of each query (h, Tq)."""

    out: Tensor
    lse: Tensor


class _Dispatch(torch.autograd.Function):
    """Autograd function that saves inputs and output of the forward pass; the backward pass recomputes the scores."""

    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, sentence_q: Tensor, sentence_k: Tensor,
        selection: Selection, plans: list[DispatchPlan],
    ) -> Tensor:  # fmt: skip
        """Return the attention's output (Tq, h, d_v), computed plan by plan."""
        x = _Inputs(q.contiguous(), k.contiguous(), v.contiguous(), sentence_q, sentence_k)
        result = _Output(v.new_empty(*q.shape[:2], v.shape[-1]), q.new_empty(q.shape[1], len(q)))
        for plan in plans:
            _forward(x, selection.relevance, plan, result)
        ctx.save_for_backward(*x, *result)
        ctx.selection, ctx.plans = selection, plans
        return result.out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients of the five input tensors, from recomputed scores."""
        *inputs, out, lse = ctx.saved_tensors
        x, result, grad = _Inputs(*inputs), _Output(out, lse), grad.contiguous()
        d = _Inputs(
            torch.empty_like(x.q),
            torch.zeros_like(x.k),
            torch.zeros_like(x.v),
            torch.empty_like(x.q),
            torch.empty_like(x.sentence_k),
        )
        with torch.autocast(grad.device.type, enabled=False):
            for plan in ctx.plans:
                d_relevance = _backward(x, ctx.selection.relevance, plan, result, grad, d)
                _relevance_backward(x, ctx.selection, plan, d_relevance, d)
        return (*d, None, None)


def _forward(x: _Inputs, relevance: Tensor, plan: DispatchPlan, result: _Output) -> None:
    """Write the output and the log-sum-exp of the plan's heads into `result`."""
    flat_q, flat_k, flat_v = x.q.flatten(0, 1), x.k.flatten(0, 1), x.v.flatten(0, 1)
    (queries, heads), d_v, rows = x.q.shape[:2], x.v.shape[-1], len(plan.slot)
    partial = x.v.new_empty(rows + 1, d_v)
    top, total = x.q.new_empty(rows + 1), x.q.new_ones(rows + 1)
    partial[rows], top[rows] = 0, -torch.inf  # the contribution of an assignment that keeps nothing
    for batch in plan.batches:
        words = _word_rows(plan, batch, heads)
        tile_q = _gather(flat_q, plan.query_row[batch.rows].view(-1, batch.width))
        scores = _scores(tile_q, _gather(flat_k, words), plan, batch)
        best = scores.amax(-2, keepdim=True)
        weights = scores.sub_(best).exp_()
        top[batch.rows] = best.flatten()
        total[batch.rows] = weights.sum(-2).flatten()
        torch.bmm(weights.mT, _gather(flat_v, words), out=partial[batch.rows].view(-1, batch.width, d_v))
    # A sentence's relevance is the same for all its words, so it enters here.
    tops = _pick(top, plan.row) + relevance[plan.heads].flatten(0, 1)
    every = (tops + _pick(total, plan.row).log_()).logsumexp(-1)  # (heads·Tq,)
    merge = (tops - every.unsqueeze(-1)).exp_().masked_fill_(tops == -torch.inf, 0)
    merged = functional.embedding_bag(plan.row, partial, mode="sum", per_sample_weights=merge)
    result.out[:, plan.heads] = merged.view(-1, queries, d_v).transpose(0, 1)
    result.lse[plan.heads] = every.view(-1, queries)


def _backward(x: _Inputs, relevance: Tensor, plan: DispatchPlan, result: _Output, grad: Tensor, d: _Inputs) -> Tensor:
    """Write the plan's heads into d.q, add to d.k and d.v, and return the gradient of the relevances (heads·Tq, t).

    With P = exp(score + relevance - lse): dV = Pᵀ dO, dS = P (dO·V - dO·O), d relevance = Σ dS over the sentence.
    """
    flat_q, flat_k, flat_v, flat_grad = (tensor.flatten(0, 1) for tensor in (x.q, x.k, x.v, grad))
    flat_dk, flat_dv = d.k.flatten(0, 1), d.v.flatten(0, 1)
    (queries, heads, d_k), rows = x.q.shape, len(plan.slot)
    offset = (result.lse[plan.heads].unsqueeze(-1) - relevance[plan.heads]).flatten()
    offset = _pick(functional.pad(offset, (0, 1), value=torch.inf), plan.slot)  # P = 0 in rows that fill a tile
    delta = (grad[:, plan.heads] * result.out[:, plan.heads]).sum(-1).T.unsqueeze(-1)
    delta = delta.expand(-1, -1, relevance.shape[-1]).flatten()
    delta = _pick(functional.pad(delta, (0, 1)), plan.slot)
    partial, d_relevance = x.q.new_empty(rows + 1, d_k), x.q.new_empty(rows + 1)
    partial[rows], d_relevance[rows] = 0, 0
    for batch in plan.batches:
        at, row = batch.rows, (-1, 1, batch.width)
        words, queries_at = _word_rows(plan, batch, heads), plan.query_row[at].view(-1, batch.width)
        tile_q, tile_grad = _gather(flat_q, queries_at), _gather(flat_grad, queries_at)
        tile_k = _gather(flat_k, words)
        weights = _scores(tile_q, tile_k, plan, batch).sub_(offset[at].view(row)).exp_()
        flat_dv.index_add_(0, words.flatten(), (weights @ tile_grad).flatten(0, 1))
        d_scores = (_gather(flat_v, words) @ tile_grad.mT).sub_(delta[at].view(row)).mul_(weights)
        d_relevance[at] = d_scores.sum(-2).flatten()
        d_scores.mul_(1 / math.sqrt(d_k))
        flat_dk.index_add_(0, words.flatten(), (d_scores @ tile_q).flatten(0, 1))
        torch.bmm(d_scores.mT, tile_k, out=partial[at].view(-1, batch.width, d_k))
    merged = functional.embedding_bag(plan.row, partial, mode="sum")
    d.q[:, plan.heads] = merged.view(-1, queries, d_k).transpose(0, 1)
    alone = (plan.row < rows).sum(-1, keepdim=True) < 2  # adding a constant to all scores of a query has no effect
    return _pick(d_relevance, plan.row).masked_fill_(alone, 0)


def _relevance_backward(x: _Inputs, selection: Selection, plan: DispatchPlan, d_relevance: Tensor, d: _Inputs) -> None:
    """Write the plan's heads into d.sentence_q and d.sentence_k: the gradients through sentence_q·sentence_k/√d_k."""
    (queries, heads, d_k), sentences = x.sentence_q.shape, len(x.sentence_k)
    d_relevance = d_relevance / math.sqrt(d_k)
    head = torch.arange(heads, device=x.q.device)[plan.heads].view(-1, 1, 1)
    kept = (selection.sentences[plan.heads] * heads + head).flatten(0, 1)
    of_query = functional.embedding_bag(kept, x.sentence_k.reshape(-1, d_k), mode="sum", per_sample_weights=d_relevance)
    d.sentence_q[:, plan.heads] = of_query.view(-1, queries, d_k).transpose(0, 1)
    rows = query_rows(queries, d_relevance.shape[-1], plan.heads, heads, x.q.device)
    of_sentence = functional.embedding_bag(
        _pick(rows, plan.assignments.order),
        x.sentence_q.reshape(-1, d_k),
        plan.assignments.begin,
        mode="sum",
        per_sample_weights=_pick(d_relevance.flatten(), plan.assignments.order),
    )
    of_sentence = of_sentence[: len(d_relevance) // queries * sentences]  # the rest keeps nothing
    d.sentence_k[:, plan.heads] = of_sentence.view(-1, sentences, d_k).transpose(0, 1)


def _word_rows(plan: DispatchPlan, batch: TileBatch, heads: int) -> Tensor:
    """Return the rows of each tile's words in a (Tk·h, d) table, (tiles, M); short sentences repeat their last word."""
    word = torch.arange(batch.longest, device=plan.key_row.device)
    if batch.ragged:
        word = torch.minimum(word, plan.length[batch.tiles].unsqueeze(-1) - 1)
    return plan.key_row[batch.tiles].unsqueeze(-1) + word * heads


def _gather(table: Tensor, rows: Tensor) -> Tensor:
    """Return rows (tiles, n) of a table (N, d) as (tiles, n, d). `index_select` is many times faster than indexing."""
    return table.index_select(0, rows.flatten()).view(*rows.shape, table.shape[-1])


def _pick(values: Tensor, index: Tensor) -> Tensor:
    """Return values[index] for a vector `values`."""
    return values.index_select(0, index.flatten()).view(index.shape)


def _scores(tile_q: Tensor, tile_k: Tensor, plan: DispatchPlan, batch: TileBatch) -> Tensor:
    """Return the scores k·q/√d_k of a batch of tiles, (tiles, M, width); -inf beyond a sentence's end.

    Queries are the last dimension, so that operations along a sentence's words are plain vector arithmetic.
    """
    scores = tile_q.new_empty(len(tile_q), batch.longest, batch.width)
    scores.baddbmm_(tile_k, tile_q.mT, beta=0, alpha=1 / math.sqrt(tile_q.shape[-1]))
    if batch.ragged:
        words = torch.arange(batch.longest, device=tile_q.device).unsqueeze(-1)
        beyond = words >= plan.length[batch.tiles].view(-1, 1, 1)
        scores += tile_q.new_zeros(beyond.shape).masked_fill_(beyond, -torch.inf)
    return scores
