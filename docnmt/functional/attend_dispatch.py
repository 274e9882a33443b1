"""Conditional attention computed sentence by sentence: each (head, sentence) gathers the queries that keep it.

Each tile of the plan is a block of dense attention; the t partial results of a query are merged by their log-sum-exp.
Work and memory are proportional to Tq·t, whatever the number of sentences: the O(n·t·m²) of table 1 in Trankova and
Rykunov, "Hierarchical Encoding and Conditional Attention in NMT".
"""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol

import torch
from torch import Tensor
from torch.nn import functional

from docnmt.functional.assignments import query_rows
from docnmt.functional.autograd import PassContext
from docnmt.functional.dispatch_plan import DispatchPlan, TileBatch, plan_dispatch
from docnmt.functional.selection import Keys, Queries, Selection, subtract_largest


def dispatch_attention(queries: Queries, keys: Keys, selection: Selection) -> Tensor:
    """Return attention to the words of the kept sentences, (Tq, h, d_v)."""
    # Subtracting a constant leaves the softmax unchanged and keeps the log-sum-exp small, hence precise
    near = Selection(selection.sentences, subtract_largest(selection.relevance))
    inputs = _Inputs(queries.words, keys.words, keys.values, queries.sentences, keys.sentences)
    plans = list(plan_dispatch(near, queries.layout, keys.layout))
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


class _Context(PassContext, Protocol):
    """The context that the forward and backward pass of `_Dispatch` share."""

    selection: Selection
    plans: list[DispatchPlan]


class _Dispatch(torch.autograd.Function):
    """Autograd function that saves inputs and output of the forward pass; the backward pass recomputes the scores."""

    @staticmethod
    def forward(
        ctx: _Context, q: Tensor, k: Tensor, v: Tensor, sentence_q: Tensor, sentence_k: Tensor,
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
    def backward(ctx: _Context, grad: Tensor) -> tuple[Tensor | None, ...]:
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
