"""Attention by sentence: each (head, sentence) gathers the queries that keep it and reads its words once for all.

Work and memory are proportional to Tq·t: the O(n·t·m²) of table 1 in Trankova and Rykunov, "Hierarchical Encoding and
Conditional Attention in NMT". `Selection` → `by_sentence` → tiles of dense attention → a query's t parts merged by
their log-sum-exp. A selection is h·Tq·t *assignments* of a query to a sentence, numbered as in (h, Tq, t); those of
one head and sentence are a *group*, cut into *tiles* of at most `TILE` queries. With 2 heads, 4 queries, t = 1,
sentences of 5, 4 and 3 words, and tiles of 2::

    assignment   0 1 2 3  4 5 6 7          head 0 keeps the sentences 2 0 2 2, head 1 keeps 1 1 0 and, last, nothing
    group        2 0 2 2  4 4 3 –          head · 3 + sentence

    order        1   0 2 3   6   4 5   7   the assignments by group
    begin        0 1 1 4 5 7 7             where each group begins in `order`; the last entry: where no group does
                 3 words    4 w.   5 w.    tiles by length, then by size: two of 3 words, padded to one width, …
    slot         2 3  0 8 | 4 5 |  1  6    the assignment in each row of the tiles; 8: a row that only fills a tile
    row          2 6 0 1  4 5 7 8          the row of each assignment; 8: it keeps nothing
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from docnmt.functional.packed import FLASH, Calls, Sequences, VarlenOutput, takes_varlen
from docnmt.functional.selection import Keys, Queries, Selection, in_float32, subtract_largest
from docnmt.layout import Spans
from docnmt.runtime.device import to_device

#: Queries of a tile, at most.
TILE = 128
#: Words to which the sentences of a batch of tiles are padded: at most a quarter of it is padding.
TILE_LENGTHS = np.array([1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96, 128, *2 ** np.arange(8, 63)])
#: Queries of the largest tile of a batch, to which all are padded, over those of its smallest one, at most.
TILE_SPREAD = 16
#: Word scores computed at a time: 0.5 MB in float32, which stay in a CPU's cache.
TILE_BATCH = 1 << 17
#: Assignments planned at a time; their partial results take 16 MB at width 64.
TILE_ASSIGNMENTS = 1 << 16


def sorted_by_group(selection: Selection, sentences: int) -> tuple[Tensor, Tensor]:
    """`order` (A,) and `begin` (h · sentences + 1,) of the drawing above, without waiting for the device."""
    heads, groups = len(selection.sentences), len(selection.sentences) * sentences
    head = torch.arange(heads, device=selection.sentences.device).view(-1, 1, 1)
    group = (selection.sentences + head * sentences).masked_fill_(selection.relevance == -torch.inf, groups)
    kind = torch.int16 if groups < 1 << 15 else torch.int32  # sorted in fewer passes than int64
    group, order = group.flatten().to(kind).sort(stable=True)
    return order, torch.searchsorted(group, torch.arange(groups + 1, dtype=kind, device=group.device))


class _TileBatch(NamedTuple):
    """Tiles computed together, each padded to `width` queries and `longest` words."""

    rows: slice
    tiles: slice
    width: int
    longest: int
    ragged: bool  # some may have fewer words than `longest`


@dataclass(frozen=True)
class Plan:
    """The tiles of some heads: A assignments, G groups, R rows of all tiles with their padding, N tiles."""

    heads: slice
    batches: list[_TileBatch]  # in the order of the rows
    order: Tensor  # (A,)
    begin: Tensor  # (G + 1,)
    asking: Tensor  # (A,) in this order, the row of a (Tq·h, d) table of queries
    query_row: Tensor  # (R,) likewise, for each row of a tile
    slot: Tensor  # (R,) the entry of a (heads·Tq, t) table of assignments; heads·Tq·t for rows that only fill a tile
    row: Tensor  # (heads·Tq, t) the tile row of an assignment; R for an assignment that keeps nothing
    key_row: Tensor  # (N,) the row of a (Tk·h, d) table of keys where the words of a tile begin
    length: Tensor  # (N,) words of each tile


def by_sentence(selection: Selection, spans: Spans) -> Iterator[Plan]:
    """Plan the tiles of a selection among the sentences `spans`, for as many heads at a time as fit into memory."""
    all_heads, queries, t = selection.sentences.shape
    at_once = max(1, TILE_ASSIGNMENTS // max(1, queries * t))
    for begin_head in range(0, all_heads, at_once):
        heads = slice(begin_head, min(begin_head + at_once, all_heads))
        count = heads.stop - heads.start
        number, groups = count * queries * t, count * len(spans)
        group = selection.sentences[heads].cpu().numpy() + np.arange(0, groups, len(spans))[:, None, None]
        group[(selection.relevance[heads] == -torch.inf).cpu().numpy()] = groups  # on a card the host waits here
        group = group.ravel().astype(np.min_scalar_type(groups))  # NumPy sorts short integers by counting
        order = group.argsort(kind="stable")
        sizes = np.bincount(group, minlength=groups + 1)[:groups]
        begin = np.concatenate([[0], np.cumsum(sizes)])
        of_query = np.arange(queries)[:, None] * all_heads + np.arange(heads.start, heads.stop)[:, None, None]
        asking = np.broadcast_to(of_query, (count, queries, t)).ravel()[order]

        pieces = -(-sizes // TILE)
        tile_group = np.repeat(np.arange(groups), pieces)
        piece = np.arange(len(tile_group)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
        first = sizes[tile_group] * piece // pieces[tile_group]  # of the group's assignments
        size = sizes[tile_group] * (piece + 1) // pieces[tile_group] - first
        head, sentence = np.divmod(tile_group, len(spans))
        kind = np.searchsorted(TILE_LENGTHS, spans.lengths[sentence])
        tiles = np.lexsort((-size, kind))
        first, size, head, sentence = (begin[tile_group] + first)[tiles], size[tiles], head[tiles], sentence[tiles]
        length, kind = spans.lengths[sentence], kind[tiles]

        batches: list[_TileBatch] = []
        row = tile = 0
        for end in (np.flatnonzero(np.diff(kind, append=-1)) + 1).tolist():
            while tile < end:
                width = int(size[tile])
                stop = min(end, tile + max(1, TILE_BATCH // (width * int(TILE_LENGTHS[kind[tile]]))))
                stop = tile + int(np.searchsorted(-size[tile:stop], -width / TILE_SPREAD, side="right"))
                longest, shortest = int(length[tile:stop].max()), int(length[tile:stop].min())
                rows = slice(row, row + (stop - tile) * width)
                batches.append(_TileBatch(rows, slice(tile, stop), width, longest, shortest < longest))
                row, tile = rows.stop, stop

        widths = np.repeat([b.width for b in batches], [b.tiles.stop - b.tiles.start for b in batches]).astype(int)
        within = np.arange(row) - np.repeat(np.cumsum(widths) - widths, widths)
        real = within < np.repeat(size, widths)
        position = np.repeat(first, widths) + np.where(real, within, 0)  # in `order`
        slot = np.where(real, order[position], number)
        row_of = np.full(number + 1, row)
        row_of[slot] = np.arange(row)
        key_row = spans.host[sentence] * all_heads + head + heads.start
        arrays = [order, begin, asking, asking[position], slot, row_of[:-1].reshape(-1, t), key_row, length]
        yield Plan(heads, batches, *to_device(arrays, selection.sentences.device))


def dispatch_attention(queries: Queries, keys: Keys, selection: Selection) -> Tensor:
    """Return attention to the words of the kept sentences, (Tq, h, d_v)."""
    # subtracting a constant leaves the softmax unchanged and keeps the log-sum-exp small, hence precise
    shifted = Selection(selection.sentences, subtract_largest(selection.relevance))
    inputs = queries.words, keys.words, keys.values, queries.sentences, keys.sentences
    plans = list(by_sentence(shifted, keys.layout.sentences))
    return cast(Tensor, _BySentence.apply(*inputs, shifted, plans))  # type: ignore[no-untyped-call]


class _BySentence(torch.autograd.Function):
    """Saves inputs and output only: the backward pass computes the scores again."""

    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, sentence_q: Tensor, sentence_k: Tensor,
        selection: Selection, plans: list[Plan],
    ) -> Tensor:  # fmt: skip
        q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
        (queries, heads), d_v = q.shape[:2], v.shape[-1]
        flat_q, flat_k, flat_v = q.flatten(0, 1), k.flatten(0, 1), v.flatten(0, 1)
        out, lse = v.new_empty(queries, heads, d_v), q.new_empty(heads, queries)
        for plan in plans:
            rows = len(plan.slot)
            partial = v.new_empty(rows + 1, d_v)
            top, total = q.new_empty(rows + 1), q.new_ones(rows + 1)
            partial[rows], top[rows] = 0, -torch.inf  # what an assignment that keeps nothing adds
            for batch in plan.batches:
                words = _word_rows(plan, batch, heads)
                tile_q = _gather(flat_q, plan.query_row[batch.rows].view(-1, batch.width))
                scores = _scores(tile_q, _gather(flat_k, words), plan, batch)  # (tiles, words, width)
                largest = scores.amax(-2, keepdim=True)
                weights = scores.sub_(largest).exp_()
                top[batch.rows] = largest.flatten()
                total[batch.rows] = weights.sum(-2).flatten()
                torch.bmm(weights.mT, _gather(flat_v, words), out=partial[batch.rows].view(-1, batch.width, d_v))
            # a sentence's relevance is the same for all its words, so it enters here
            tops = _pick(top, plan.row) + selection.relevance[plan.heads].flatten(0, 1)  # (heads·Tq, t)
            level = (tops + _pick(total, plan.row).log_()).logsumexp(-1)  # (heads·Tq,)
            merge = (tops - level.unsqueeze(-1)).exp_().masked_fill_(tops == -torch.inf, 0)
            merged = functional.embedding_bag(plan.row, partial, mode="sum", per_sample_weights=merge)
            out[:, plan.heads] = merged.view(-1, queries, d_v).transpose(0, 1)
            lse[plan.heads] = level.view(-1, queries)
        ctx.save_for_backward(q, k, v, sentence_q, sentence_k, out, lse)
        ctx.selection, ctx.plans = selection, plans
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """With P = exp(score + relevance − lse): dV = Pᵀ dO, dS = P (dO·V − dO·O), d relevance = Σ dS of a sentence."""
        q, k, v, sentence_q, sentence_k, out, lse = ctx.saved_tensors
        selection, grad = ctx.selection, grad.contiguous()
        (queries, heads, d_k), t = q.shape, selection.sentences.shape[-1]
        dq, dk, dv, d_sentence_q = torch.empty_like(q), torch.zeros_like(k), torch.zeros_like(v), torch.empty_like(q)
        d_sentence_k = torch.empty_like(sentence_k)
        flat_q, flat_k, flat_v, flat_grad = (x.flatten(0, 1) for x in (q, k, v, grad))
        flat_dk, flat_dv = dk.flatten(0, 1), dv.flatten(0, 1)
        with torch.autocast(grad.device.type, enabled=False):
            for plan in ctx.plans:
                rows = len(plan.slot)
                offset = (lse[plan.heads].unsqueeze(-1) - selection.relevance[plan.heads]).flatten()
                offset = _pick(functional.pad(offset, (0, 1), value=torch.inf), plan.slot)  # P = 0 in what fills
                delta = (grad[:, plan.heads] * out[:, plan.heads]).sum(-1).T.unsqueeze(-1)  # (heads, Tq, 1)
                delta = _pick(functional.pad(delta.expand(-1, -1, t).flatten(), (0, 1)), plan.slot)
                partial, d_relevance = q.new_empty(rows + 1, d_k), q.new_empty(rows + 1)
                partial[rows], d_relevance[rows] = 0, 0
                for batch in plan.batches:
                    tiles = (-1, 1, batch.width)
                    words, asking = _word_rows(plan, batch, heads), plan.query_row[batch.rows].view(-1, batch.width)
                    tile_q, tile_grad = _gather(flat_q, asking), _gather(flat_grad, asking)
                    tile_k = _gather(flat_k, words)
                    weights = _scores(tile_q, tile_k, plan, batch).sub_(offset[batch.rows].view(tiles)).exp_()
                    flat_dv.index_add_(0, words.flatten(), (weights @ tile_grad).flatten(0, 1))
                    d_scores = _gather(flat_v, words) @ tile_grad.mT
                    d_scores.sub_(delta[batch.rows].view(tiles)).mul_(weights)
                    d_relevance[batch.rows] = d_scores.sum(-2).flatten()
                    d_scores.mul_(1 / math.sqrt(d_k))
                    flat_dk.index_add_(0, words.flatten(), (d_scores @ tile_q).flatten(0, 1))
                    torch.bmm(d_scores.mT, tile_k, out=partial[batch.rows].view(-1, batch.width, d_k))
                merged = functional.embedding_bag(plan.row, partial, mode="sum")
                dq[:, plan.heads] = merged.view(-1, queries, d_k).transpose(0, 1)

                alone = (plan.row < rows).sum(-1, keepdim=True) < 2  # a constant added to all scores has no effect
                d_relevance = _pick(d_relevance, plan.row).masked_fill_(alone, 0)  # (heads·Tq, t)
                d_sentence_q[:, plan.heads], d_sentence_k[:, plan.heads] = _sentence_gradients(
                    d_relevance, selection.sentences[plan.heads], sentence_q, sentence_k, plan, plan.heads.start
                )
        return dq, dk, dv, d_sentence_q, d_sentence_k, None, None


def _sentence_gradients(
    d_relevance: Tensor, sentences: Tensor, sentence_q: Tensor, sentence_k: Tensor, plan: Plan | _VarlenPlan,
    first_head: int = 0,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Through relevance = sentence_q·sentence_k/√d_k: (heads·Tq, t) → (Tq, heads, d_k) and (Sk, heads, d_k)."""
    (queries, heads, d_k), table = sentence_q.shape, sentence_k.reshape(-1, sentence_k.shape[-1])
    d_relevance = d_relevance / math.sqrt(d_k)
    head = torch.arange(first_head, first_head + len(sentences), device=sentences.device).view(-1, 1, 1)
    sentence_row = (sentences * heads + head).flatten(0, 1)  # (heads·Tq, t)
    of_query = functional.embedding_bag(sentence_row, table, mode="sum", per_sample_weights=d_relevance)
    by_group, table = _pick(d_relevance.flatten(), plan.order), sentence_q.reshape(-1, d_k)
    of_sentence = functional.embedding_bag(plan.asking, table, plan.begin, mode="sum", per_sample_weights=by_group)
    of_sentence = of_sentence[:-1]  # the last is of the assignments that keep nothing
    return of_query.view(-1, queries, d_k).transpose(0, 1), of_sentence.view(-1, len(sentence_k), d_k).transpose(0, 1)


def _word_rows(plan: Plan, batch: _TileBatch, heads: int) -> Tensor:
    """The rows of each tile's words in a (Tk·h, d) table, (tiles, M); short sentences repeat their last word."""
    word = torch.arange(batch.longest, device=plan.key_row.device)
    if batch.ragged:
        word = torch.minimum(word, plan.length[batch.tiles].unsqueeze(-1) - 1)
    return plan.key_row[batch.tiles].unsqueeze(-1) + word * heads


def _gather(table: Tensor, rows: Tensor) -> Tensor:
    """Rows (tiles, n) of a table (N, d) → (tiles, n, d). `index_select` is many times faster than indexing."""
    return table.index_select(0, rows.flatten()).view(*rows.shape, table.shape[-1])


def _pick(values: Tensor, index: Tensor) -> Tensor:
    return values.index_select(0, index.flatten()).view(index.shape)


def _scores(tile_q: Tensor, tile_k: Tensor, plan: Plan, batch: _TileBatch) -> Tensor:
    """The scores k·q/√d_k of tiles, (tiles, M, width), queries last; -inf beyond a sentence's end."""
    scores = tile_q.new_empty(len(tile_q), batch.longest, batch.width)
    scores.baddbmm_(tile_k, tile_q.mT, beta=0, alpha=1 / math.sqrt(tile_q.shape[-1]))
    if batch.ragged:
        words = torch.arange(batch.longest, device=tile_q.device).unsqueeze(-1)
        beyond = words >= plan.length[batch.tiles].view(-1, 1, 1)
        scores += tile_q.new_zeros(beyond.shape).masked_fill_(beyond, -torch.inf)
    return scores


# On a card in half types, by PyTorch's variable-length flash attention: the assignments of a group are the queries of a
# sequence, its words the keys; one call. A sentence that very many queries keep has several sequences, so that all
# shapes follow from sizes that the host knows: nothing here waits for the device.

#: Queries of a sequence, at most.
FLASH_TILE = 512
#: Sequences of a call, at most: they are the second dimension of a grid of CUDA blocks.
SEQUENCES = 65535


@dataclass(frozen=True, eq=False)
class _VarlenPlan:
    """The rows that the sequences of all heads read: A = h·Tq·t assignments, and R rows of keys."""

    order: Tensor  # (A,) and
    begin: Tensor  # (G + 1,) of the drawing above
    position: Tensor  # (h, Tq, t) the index of each assignment in `order`
    asking: Tensor  # (A,) in this order, the row of a (Tq·h, d) table of queries
    key: Tensor  # (R,) the row of a (Tk·h, d) table of keys
    unread: Tensor  # (R, 1) bool, True for rows of keys after the last sequence
    sequences: Sequences


def _heads_at_once(heads: int, queries: int, t: int, sentences: int) -> int:
    """The number of heads for which a plan has at most `SEQUENCES` sequences; 0 if one head has more."""
    return min(heads, SEQUENCES // (1 + sentences + queries * t // FLASH_TILE))


def _plan_varlen(selection: Selection, sentences: Spans) -> _VarlenPlan:
    heads, queries, t = selection.sentences.shape
    groups, number = heads * len(sentences), heads * queries * t
    order, begin = sorted_by_group(selection, len(sentences))
    position = torch.empty_like(order).scatter_(0, order, torch.arange(number, device=order.device))
    most = min(groups, number) + number // FLASH_TILE  # as many tiles as there can be
    end = ((begin.diff() + FLASH_TILE - 1) // FLASH_TILE).cumsum(0)  # (groups,) tiles up to each group's last
    tile = torch.arange(most, device=order.device)
    tile_group = torch.searchsorted(end, tile, right=True)  # `groups` for tiles that there are not
    within = (tile - functional.pad(end, (1, 0)).index_select(0, tile_group)) * FLASH_TILE
    first = torch.minimum(begin.index_select(0, tile_group) + within, begin[-1])
    q_offsets = torch.cat([first, begin[-1:]]).int()
    # the words of the tiles' sentences, one behind the other
    sentence = tile_group % len(sentences)
    lengths = sentences.offsets.diff().index_select(0, sentence).masked_fill(tile_group == groups, 0)
    k_offsets = functional.pad(lengths.cumsum(0), (1, 0))
    rows = heads * sentences.num_tokens + number // FLASH_TILE * sentences.max_length  # as many as there can be
    row = torch.arange(rows, device=order.device)
    row_tile = torch.searchsorted(k_offsets[1:], row, right=True).clamp(max=most - 1)
    unread = row >= k_offsets[-1]
    begin_of_words = sentences.offsets.index_select(0, sentence.index_select(0, row_tile))
    word = (begin_of_words + row - k_offsets.index_select(0, row_tile)).masked_fill(unread, 0)
    key_head = tile_group.index_select(0, row_tile).clamp(max=groups - 1) // len(sentences)
    head, query = (order // t) // queries, (order // t) % queries
    sequences = Sequences(q_offsets, k_offsets.int(), min(FLASH_TILE, queries), max(1, sentences.max_length))
    return _VarlenPlan(
        order, begin, position.view(selection.sentences.shape), query * heads + head, word * heads + key_head,
        unread.unsqueeze(-1), sequences,
    )  # fmt: skip


def suits_varlen(queries: Queries, keys: Keys, selection: Selection) -> bool:
    """Whether `varlen_attention` can compute these: supported tensors, and few enough sequences for a call."""
    _, rows, t = selection.sentences.shape
    fits = takes_varlen(queries.words, keys.words, keys.values)
    return fits and _heads_at_once(1, rows, t, keys.layout.num_sentences) == 1


def varlen_attention(queries: Queries, keys: Keys, selection: Selection, calls: Calls = FLASH) -> Tensor:
    """Return attention to the words of the kept sentences, (Tq, h, d), by one sequence for each (head, sentence).

    Words and values are in the type that `calls` compute in; sentence queries and keys in float32 at least.
    """
    spans, relevance = keys.layout.sentences, subtract_largest(selection.relevance)
    heads, rows, t = relevance.shape
    inputs = queries.words, keys.words, keys.values, queries.sentences, keys.sentences
    outputs = []
    for head in range(0, heads, step := _heads_at_once(heads, rows, t, len(spans))):
        part = slice(head, head + step)
        selected = Selection(selection.sentences[part], relevance[part])
        of_heads, plan = (x[:, part] for x in inputs), _plan_varlen(selected, spans)
        outputs.append(_Varlen.apply(*of_heads, selected, plan, calls))  # type: ignore[no-untyped-call]
    return torch.cat(outputs, 1) if len(outputs) > 1 else outputs[0]


class _Varlen(torch.autograd.Function):
    """Merges the sequences' outputs by their log-sum-exp plus the sentence's relevance."""

    # The backward call of flash attention takes no gradient of a log-sum-exp, and needs none: called with the *merged*
    # output and LSE − relevance, it computes each word's weight among all words that its query reads.

    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, sentence_q: Tensor, sentence_k: Tensor,
        selection: Selection, plan: _VarlenPlan, calls: Calls,
    ) -> Tensor:  # fmt: skip
        partial, lse = calls.forward(*_one_head(plan, q, k, v), plan.sequences, False)  # (A, 1, d), (1, A)
        nothing = selection.relevance == -torch.inf
        scores = _pick(lse[0], plan.position).masked_fill(nothing, 0) + selection.relevance  # (h, Tq, t)
        level = scores.logsumexp(-1, keepdim=True)
        merge = (scores - level).exp().masked_fill(nothing, 0)
        out = _weighted(partial, plan, merge).to(v.dtype)
        ctx.save_for_backward(q, k, v, sentence_q, sentence_k, out, level, merge, partial)
        ctx.selection, ctx.plan, ctx.calls = selection, plan, calls
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, sentence_q, sentence_k, out, level, merge, partial = ctx.saved_tensors
        plan, selection = ctx.plan, ctx.selection
        live = selection.relevance != -torch.inf
        with torch.autocast(grad.device.type, enabled=False):
            read = VarlenOutput(
                _rows(out, plan.asking), _pick((level - selection.relevance).flatten(), plan.order).unsqueeze(0)
            )
            inputs = _rows(grad, plan.asking), *_one_head(plan, q, k, v), read
            d_queries, *d_words = ctx.calls.backward(*inputs, plan.sequences, False)  # (A, 1, d), (R, 1, d) twice
            dq = _weighted(d_queries, plan, live.to(merge.dtype)).to(q.dtype)
            sums = []
            for rows, keys in zip(d_words, (k, v), strict=True):  # several sequences may have read one sentence
                total = in_float32(torch.zeros_like(keys, memory_format=torch.contiguous_format))
                rows = rows.squeeze(1).masked_fill(plan.unread, 0).to(total.dtype)
                total.view(-1, keys.shape[-1]).index_add_(0, plan.key, rows)
                sums.append(total.to(keys.dtype))
            # the gradient of a relevance: share of the sentence · (dO·its output − dO·O)
            grad = grad.to(merge.dtype)
            parts = [(grad * part).sum(-1) for part in _parts(partial, plan, live)]  # (Tq, h) each
            reads = torch.stack(parts, -1).transpose(0, 1) - (grad * out).sum(-1).T.unsqueeze(-1)  # (h, Tq, t)
            alone = live.sum(-1, keepdim=True) < 2  # a constant added to all scores has no effect
            d_relevance = (merge * reads).masked_fill(alone, 0).to(sentence_q.dtype).flatten(0, 1)
            of_sentences = _sentence_gradients(d_relevance, selection.sentences, sentence_q, sentence_k, plan)
        return dq, *sums, *of_sentences, None, None, None


def _parts(rows: Tensor, plan: _VarlenPlan, live: Tensor) -> Iterator[Tensor]:
    """Rows of assignments (A, 1, d) → (Tq, h, d), 0 for nothing, for each of t in turn: all were t times as large."""
    for row, real in zip(plan.position.unbind(-1), live.unbind(-1), strict=True):
        yield rows.index_select(0, row.T.flatten()).view(*row.T.shape, -1).masked_fill(~real.T.unsqueeze(-1), 0)


def _weighted(rows: Tensor, plan: _VarlenPlan, weights: Tensor) -> Tensor:
    """Sum the rows of assignments (A, 1, d) over t with weights (h, Tq, t) → (Tq, h, d)."""
    total = torch.zeros(*weights.shape[1::-1], rows.shape[-1], dtype=weights.dtype, device=rows.device)
    for part, weight in zip(_parts(rows, plan, weights != 0), weights.unbind(-1), strict=True):
        total.addcmul_(part.to(total.dtype), weight.T.unsqueeze(-1))
    return total


def _rows(x: Tensor, index: Tensor) -> Tensor:
    """Rows `index` of x (n, h, d), seen as a table (n·h, d), as (rows, 1, d): one head for each sequence."""
    return x.reshape(-1, 1, x.shape[-1]).index_select(0, index)


def _one_head(plan: _VarlenPlan, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return _rows(q, plan.asking), _rows(k, plan.key), _rows(v, plan.key)
