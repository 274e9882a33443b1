"""Attention to chosen sentences, organised by sentence: every (head, sentence) gathers the queries that chose it.

A choice of t sentences for each query is h·Tq·t *assignments*. Sorted by (head, sentence) and cut into *tiles* of
queries that share their keys, they become blocks of dense attention; the t partial results of a query are merged by
their log-sum-exp. Work and memory are proportional to h·Tq·t, whatever the number of sentences, and no tile is larger
than `_TILE` queries, so that it costs nothing when all queries choose the same sentences.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from docnmt.functional.selection import Selection
from docnmt.layout import Spans

_TILE = 128  # queries
_BATCH = 128 * 1024  # word scores computed at a time
_LENGTH_CLASSES = np.array([1, 2, 3, 4, 6, 8, 10, 12, 16, 20, 24, 28, 32, 40, 48, 56, 64, *(2 ** np.arange(7, 40))])


def dispatch_attention(
    q: Tensor, k: Tensor, v: Tensor, sentence_q: Tensor, sentence_k: Tensor, selection: Selection, sentences: Spans
) -> Tensor:
    """Equation 7 of paper 002 for a choice of sentences already made; differentiable in all five tensors.

    Args:
        q, sentence_q: (Tq, h, d_k).
        k, v: (Tk, h, d_k), (Tk, h, d_v).
        sentence_k: (Sk, h, d_k).
        selection: of sentence_q·sentence_k/√d_k.
        sentences: token spans of the Sk key sentences.

    Returns:
        (Tq, h, d_v).
    """
    out: Tensor = _Dispatch.apply(q, k, v, sentence_q, sentence_k, selection, sentences)
    return out


class _Dispatch(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        sentence_q: Tensor,
        sentence_k: Tensor,
        selection: Selection,
        sentences: Spans,
    ) -> Tensor:
        plan = _plan(selection, sentences)
        out, lse = _forward(_by_head(q), _by_head(k), _by_head(v), selection.relevance, plan)
        ctx.save_for_backward(q, k, v, sentence_q, sentence_k, selection.sentences, selection.relevance, out, lse)
        ctx.plan = plan
        return out.view(q.shape[1], len(q), -1).transpose(0, 1).contiguous()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, sentence_q, sentence_k, chosen, relevance, out, lse = ctx.saved_tensors
        plan: _Plan = ctx.plan
        with torch.autocast(q.device.type, enabled=False):
            dq, dk, dv, drel = _backward(
                _by_head(q), _by_head(k), _by_head(v), relevance, plan, _by_head(grad), out, lse
            )
            drel = drel / math.sqrt(q.shape[-1])  # (h·Tq, t)
            head = torch.arange(q.shape[1], device=q.device).view(-1, 1, 1) * len(sentence_k)
            dsentence_q = _bag((chosen + head).flatten(0, 1), _by_head(sentence_k).flatten(0, 1), drel)
            in_order = plan.order[: plan.num_valid]
            dsentence_k = functional.embedding_bag(
                in_order // chosen.shape[-1],
                _by_head(sentence_q).flatten(0, 1),
                plan.group_starts,
                mode="sum",
                per_sample_weights=drel.flatten()[in_order],
            )
        heads = q.shape[1]
        grads = (dq, dk, dv, dsentence_q, dsentence_k)
        return *(g.view(heads, len(g) // heads, -1).transpose(0, 1) for g in grads), None, None


def _by_head(x: Tensor) -> Tensor:
    """(T, h, d) → (h, T, d) in memory."""
    return x.transpose(0, 1).contiguous()


def _bag(rows: Tensor, table: Tensor, weights: Tensor | None = None) -> Tensor:
    """Σ_t weights[i, t] · table[rows[i, t]]."""
    return functional.embedding_bag(rows, table, mode="sum", per_sample_weights=weights)


@dataclass(frozen=True)
class _Plan:
    """Where every assignment is computed. A = h·Tq·t assignments, R rows of all tiles, padded ones included.

    order: (A,) assignments sorted by (head, sentence), the empty ones last; num_valid: how many are not empty.
    group_starts: (h·S,) where each (head, sentence) begins in `order`.
    row_of_assignment: (h·Tq, t) the tile row of an assignment; R for an empty one.
    assignment_of_row: (R,); padding: (R,) True for rows that only fill up a tile.
    tiles: (tiles, tile rows) batches: first row, tiles, rows of each, group of each.
    """

    order: Tensor
    num_valid: int
    group_starts: Tensor
    row_of_assignment: Tensor
    assignment_of_row: Tensor
    padding: Tensor
    batches: list[tuple[int, int, int, int]]
    groups: Tensor
    sentences: Spans

    def tiles(self, num_keys: int) -> Iterator[tuple[slice, int, Tensor, Tensor | None]]:
        """(rows, tiles, (tiles, M) key rows, (tiles, 1, M) mask of keys beyond a sentence's end) of each batch."""
        starts, lengths = self.sentences.offsets, self.sentences.offsets.diff()
        num_sentences = len(self.sentences)
        first_tile = 0
        for first, count, width, longest in self.batches:
            group = self.groups[first_tile : first_tile + count]
            first_tile += count
            head, sentence = group // num_sentences, group % num_sentences
            token = torch.arange(longest, device=group.device)
            length = lengths[sentence].unsqueeze(-1)
            keys = (head * num_keys + starts[sentence]).unsqueeze(-1) + torch.minimum(token, length - 1)
            beyond = (token >= length).unsqueeze(1)
            yield slice(first, first + count * width), count, keys, beyond


def _plan(selection: Selection, sentences: Spans) -> _Plan:
    heads, num_queries, t = selection.sentences.shape
    device = selection.sentences.device
    num_groups = heads * len(sentences)
    head = torch.arange(heads, device=device).view(-1, 1, 1) * len(sentences)
    group = (selection.sentences + head).masked_fill(selection.relevance == -torch.inf, num_groups).flatten()
    order = group.argsort(stable=True)
    counts = torch.bincount(group, minlength=num_groups + 1)[:num_groups]
    starts = counts.cumsum(0) - counts
    groups, first, size, batches = _cut(counts.cpu().numpy(), np.tile(sentences.lengths, heads))
    width = np.concatenate([np.full(b[1], b[2]) for b in batches]) if batches else np.zeros(0, np.int64)
    tensor = lambda x: torch.from_numpy(np.ascontiguousarray(x)).to(device)  # noqa: E731
    tile = torch.repeat_interleave(tensor(width))
    base = tensor(np.cumsum(width) - width)
    within = torch.arange(len(tile), device=device) - base[tile]
    size_of_row = tensor(size)[tile]
    position = (starts[tensor(groups)] + tensor(first))[tile] + torch.minimum(within, size_of_row - 1)
    padding = within >= size_of_row
    assignment = order[position]
    row = torch.full((heads * num_queries * t,), len(tile), device=device)
    row[assignment[~padding]] = torch.arange(len(tile), device=device)[~padding]
    return _Plan(
        order,
        int(counts.sum()),
        starts,
        row.view(-1, t),
        assignment,
        padding,
        batches,
        tensor(groups),
        sentences,
    )


def _cut(
    counts: np.ndarray, lengths: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[tuple[int, int, int, int]]]:
    """Tiles of at most `_TILE` queries, similar ones together: (group, first, size) of each and batches of them."""
    pieces = -(-counts // _TILE)
    group = np.repeat(np.arange(len(counts)), pieces)
    piece = np.arange(len(group)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    first = counts[group] * piece // pieces[group]
    size = counts[group] * (piece + 1) // pieces[group] - first
    length_class = np.searchsorted(_LENGTH_CLASSES, lengths[group])
    order = np.lexsort((-size, length_class))
    group, first, size, length_class = group[order], first[order], size[order], length_class[order]
    batches, row, at = [], 0, 0
    for end in np.flatnonzero(np.diff(length_class, append=-1)) + 1:
        while at < end:
            width, longest = int(size[at]), int(_LENGTH_CLASSES[length_class[at]])
            count = min(max(1, _BATCH // (width * longest)), int(end) - at)
            longest = int(lengths[group[at : at + count]].max())
            batches.append((row, count, width, longest))
            row, at = row + count * width, at + count
    return group, first, size, batches


def _forward(q: Tensor, k: Tensor, v: Tensor, relevance: Tensor, plan: _Plan) -> tuple[Tensor, Tensor]:
    """Output (h·Tq, d_v) and log-sum-exp of all scores (h·Tq,)."""
    t = relevance.shape[-1]
    scale = 1 / math.sqrt(q.shape[-1])
    rows = len(plan.assignment_of_row)
    query = plan.assignment_of_row // t
    added = relevance.flatten()[plan.assignment_of_row]
    flat_q, flat_k, flat_v = (x.flatten(0, 1) for x in (q, k, v))
    partial = q.new_zeros(rows + 1, v.shape[-1])
    top, total = q.new_full((rows + 1,), -torch.inf), q.new_zeros(rows + 1)
    for at, tiles, keys, beyond in plan.tiles(k.shape[1]):
        scores = _scores(flat_q, flat_k, query[at], added[at], tiles, keys, beyond, scale)
        top[at] = scores.amax(-1).flatten()
        weights = scores.sub_(top[at].view(tiles, -1, 1)).exp_()
        total[at] = weights.sum(-1).flatten()
        values = flat_v.index_select(0, keys.flatten()).view(tiles, -1, v.shape[-1])
        torch.bmm(weights, values, out=partial[at].view(tiles, -1, v.shape[-1]))
    of_query = plan.row_of_assignment
    tops = top[of_query]
    lse = (tops + total[of_query].log()).logsumexp(-1)
    merge = (tops - lse.unsqueeze(-1)).exp().masked_fill(tops == -torch.inf, 0)
    return _bag(of_query, partial, merge), lse


def _scores(
    q: Tensor,
    k: Tensor,
    query: Tensor,
    added: Tensor,
    tiles: int,
    keys: Tensor,
    beyond: Tensor | None,
    scale: float,
) -> Tensor:
    """(tiles, C, M)."""
    tile_q = q.index_select(0, query).view(tiles, -1, q.shape[-1])
    tile_k = k.index_select(0, keys.flatten()).view(tiles, -1, q.shape[-1])
    start = added.view(tiles, -1, 1).expand(-1, -1, keys.shape[1])
    scores = torch.baddbmm(start, tile_q, tile_k.mT, alpha=scale)
    if beyond is not None:
        scores.masked_fill_(beyond, -torch.inf)
    return scores


def _backward(
    q: Tensor, k: Tensor, v: Tensor, relevance: Tensor, plan: _Plan, grad: Tensor, out: Tensor, lse: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of q, k, v (h·T, d) and of the relevances (h·Tq, t)."""
    t = relevance.shape[-1]
    scale = 1 / math.sqrt(q.shape[-1])
    rows = len(plan.assignment_of_row)
    query = plan.assignment_of_row // t
    added = relevance.flatten()[plan.assignment_of_row]
    flat_q, flat_k, flat_v, flat_grad = (x.flatten(0, 1) for x in (q, k, v, grad))
    delta = (flat_grad * out).sum(-1)[query]
    row_lse = lse[query].masked_fill_(plan.padding, torch.inf)
    partial, drel = q.new_zeros(rows + 1, q.shape[-1]), q.new_zeros(rows + 1)
    dk, dv = torch.zeros_like(flat_k), torch.zeros_like(flat_v)
    for at, tiles, keys, beyond in plan.tiles(k.shape[1]):
        scores = _scores(flat_q, flat_k, query[at], added[at], tiles, keys, beyond, scale)
        p = scores.sub_(row_lse[at].view(tiles, -1, 1)).exp_()
        tile_grad = flat_grad.index_select(0, query[at]).view(tiles, -1, v.shape[-1])
        dv.index_add_(0, keys.flatten(), (p.mT @ tile_grad).flatten(0, 1))
        values = flat_v.index_select(0, keys.flatten()).view(tiles, -1, v.shape[-1])
        ds = (tile_grad @ values.mT).sub_(delta[at].view(tiles, -1, 1)).mul_(p)
        drel[at] = ds.sum(-1).flatten()
        tile_q = flat_q.index_select(0, query[at]).view(tiles, -1, q.shape[-1])
        dk.index_add_(0, keys.flatten(), (ds.mT @ tile_q).flatten(0, 1), alpha=scale)
        tile_k = flat_k.index_select(0, keys.flatten()).view(tiles, -1, q.shape[-1])
        torch.bmm(ds, tile_k, out=partial[at].view(tiles, -1, q.shape[-1]))
    dq = _bag(plan.row_of_assignment, partial).mul_(scale)
    return dq, dk, dv, drel[plan.row_of_assignment]
