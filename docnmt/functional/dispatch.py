"""Attention to chosen sentences, organised by sentence: every (head, sentence) gathers the queries that chose it.

Each tile of the plan is a block of dense attention; the t partial results of a query are merged by their log-sum-exp.
Work and memory are proportional to Tq·t, whatever the number of sentences: O(n·t·m²) of paper 002's table 1.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from docnmt.functional.dispatch_plan import Batch, Plan, plan_dispatch, query_rows
from docnmt.functional.selection import Selection, less_the_largest
from docnmt.layout import Spans


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
    # softmax does not see the constant, but the precision of a log-sum-exp is that of what it sums
    near = Selection(selection.sentences, less_the_largest(selection.relevance))
    out: Tensor = _Dispatch.apply(q, k, v, sentence_q, sentence_k, near, sentences)  # type: ignore[no-untyped-call]
    return out


class _Dispatch(torch.autograd.Function):
    """Saves what the forward pass read, the output and each query's log-sum-exp; scores are computed again."""

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
        q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
        out = v.new_empty(*q.shape[:2], v.shape[-1])
        lse = q.new_empty(q.shape[1], len(q))
        plans = list(plan_dispatch(selection, sentences))
        for plan in plans:
            _forward(q, k, v, selection.relevance, plan, out, lse)
        ctx.save_for_backward(q, k, v, sentence_q, sentence_k, out, lse)
        ctx.selection, ctx.plans = selection, plans
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, sentence_q, sentence_k, out, lse = ctx.saved_tensors
        selection: Selection = ctx.selection
        grad = grad.contiguous()
        dq, dsentence_q, dsentence_k = torch.empty_like(q), torch.empty_like(q), torch.empty_like(sentence_k)
        dk, dv = torch.zeros_like(k), torch.zeros_like(v)
        with torch.autocast(q.device.type, enabled=False):
            for plan in ctx.plans:
                drelevance = _backward(q, k, v, selection.relevance, plan, grad, out, lse, dq, dk, dv)
                _relevance_backward(sentence_q, sentence_k, selection, plan, drelevance, dsentence_q, dsentence_k)
        return dq, dk, dv, dsentence_q, dsentence_k, None, None


def _forward(q: Tensor, k: Tensor, v: Tensor, relevance: Tensor, plan: Plan, out: Tensor, lse: Tensor) -> None:
    """Fills the heads of the plan in out (Tq, h, d_v) and lse (h, Tq), the log-sum-exp of all scores of a query."""
    flat_q, flat_k, flat_v = q.flatten(0, 1), k.flatten(0, 1), v.flatten(0, 1)
    rows, d_v = len(plan.slot), v.shape[-1]
    partial = v.new_empty(rows + 1, d_v)
    top, total = q.new_empty(rows + 1), q.new_ones(rows + 1)
    partial[rows], top[rows] = 0, -torch.inf  # what nothing chosen contributes
    for batch in plan.batches:
        keys = _key_rows(plan, batch, q.shape[1])
        tile_q = _gather(flat_q, plan.query_row[batch.rows].view(-1, batch.width))
        scores = _scores(tile_q, _gather(flat_k, keys), plan, batch)
        best = scores.amax(-2, keepdim=True)
        weights = scores.sub_(best).exp_()
        top[batch.rows] = best.flatten()
        total[batch.rows] = weights.sum(-2).flatten()
        torch.bmm(weights.mT, _gather(flat_v, keys), out=partial[batch.rows].view(-1, batch.width, d_v))
    # A sentence's relevance is the same for all its words, so it enters here.
    tops = _pick(top, plan.row) + relevance[plan.heads].flatten(0, 1)
    every = (tops + _pick(total, plan.row).log_()).logsumexp(-1)  # (heads·Tq,)
    merge = (tops - every.unsqueeze(-1)).exp_().masked_fill_(tops == -torch.inf, 0)
    merged = functional.embedding_bag(plan.row, partial, mode="sum", per_sample_weights=merge)
    out[:, plan.heads] = merged.view(-1, len(q), d_v).transpose(0, 1)
    lse[plan.heads] = every.view(-1, len(q))


def _backward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    relevance: Tensor,
    plan: Plan,
    grad: Tensor,
    out: Tensor,
    lse: Tensor,
    dq: Tensor,
    dk: Tensor,
    dv: Tensor,
) -> Tensor:
    """Fills the heads of the plan in dq, adds to dk and dv; returns the relevances' gradient (heads·Tq, t).

    With P = exp(score + relevance - lse): dV = Pᵀ dO, dS = P (dO·V - dO·O), d relevance = Σ dS over the sentence.
    """
    flat_q, flat_k, flat_v, flat_grad = (x.flatten(0, 1) for x in (q, k, v, grad))
    flat_dk, flat_dv = dk.flatten(0, 1), dv.flatten(0, 1)
    rows, d_k = len(plan.slot), q.shape[-1]
    offset = (lse[plan.heads].unsqueeze(-1) - relevance[plan.heads]).flatten()
    offset = _pick(functional.pad(offset, (0, 1), value=torch.inf), plan.slot)  # P = 0 in rows that fill a tile
    delta = (grad[:, plan.heads] * out[:, plan.heads]).sum(-1).T.unsqueeze(-1).expand(-1, -1, relevance.shape[-1])
    delta = _pick(functional.pad(delta.flatten(), (0, 1)), plan.slot)
    partial, drelevance = q.new_empty(rows + 1, d_k), q.new_empty(rows + 1)
    partial[rows], drelevance[rows] = 0, 0
    for batch in plan.batches:
        at, row = batch.rows, (-1, 1, batch.width)
        keys, queries = _key_rows(plan, batch, q.shape[1]), plan.query_row[at].view(-1, batch.width)
        tile_q, tile_grad, tile_k = _gather(flat_q, queries), _gather(flat_grad, queries), _gather(flat_k, keys)
        weights = _scores(tile_q, tile_k, plan, batch).sub_(offset[at].view(row)).exp_()
        flat_dv.index_add_(0, keys.flatten(), (weights @ tile_grad).flatten(0, 1))
        dscores = (_gather(flat_v, keys) @ tile_grad.mT).sub_(delta[at].view(row)).mul_(weights)
        drelevance[at] = dscores.sum(-2).flatten()
        dscores.mul_(1 / math.sqrt(d_k))
        flat_dk.index_add_(0, keys.flatten(), (dscores @ tile_q).flatten(0, 1))
        torch.bmm(dscores.mT, tile_k, out=partial[at].view(-1, batch.width, d_k))
    merged = functional.embedding_bag(plan.row, partial, mode="sum")
    dq[:, plan.heads] = merged.view(-1, len(q), d_k).transpose(0, 1)
    alone = (plan.row < rows).sum(-1, keepdim=True) < 2  # softmax does not see what is added to all of a query's scores
    return _pick(drelevance, plan.row).masked_fill_(alone, 0)


def _relevance_backward(
    sentence_q: Tensor,
    sentence_k: Tensor,
    selection: Selection,
    plan: Plan,
    drelevance: Tensor,
    dsentence_q: Tensor,
    dsentence_k: Tensor,
) -> None:
    """Fills the heads of the plan in the gradients of sentence_q·sentence_k/√d_k."""
    (queries, heads, d_k), sentences = sentence_q.shape, len(sentence_k)
    drelevance = drelevance / math.sqrt(d_k)
    head = torch.arange(heads, device=sentence_q.device)[plan.heads].view(-1, 1, 1)
    chosen = (selection.sentences[plan.heads] * heads + head).flatten(0, 1)
    of_query = functional.embedding_bag(chosen, sentence_k.reshape(-1, d_k), mode="sum", per_sample_weights=drelevance)
    dsentence_q[:, plan.heads] = of_query.view(-1, queries, d_k).transpose(0, 1)
    rows = query_rows(queries, drelevance.shape[-1], plan.heads, heads, sentence_q.device)
    of_sentence = functional.embedding_bag(
        _pick(rows, plan.in_order),
        sentence_q.reshape(-1, d_k),
        plan.begin,
        mode="sum",
        per_sample_weights=_pick(drelevance.flatten(), plan.in_order),
    )
    dsentence_k[:, plan.heads] = of_sentence.view(-1, sentences, d_k).transpose(0, 1)


def _key_rows(plan: Plan, batch: Batch, heads: int) -> Tensor:
    """(tiles, M) rows of a (Tk·h, d) table: the words of each tile's sentence, its last again where it is shorter."""
    word = torch.arange(batch.longest, device=plan.key_row.device)
    if batch.ragged:
        word = torch.minimum(word, plan.length[batch.tiles].unsqueeze(-1) - 1)
    return plan.key_row[batch.tiles].unsqueeze(-1) + word * heads


def _gather(table: Tensor, rows: Tensor) -> Tensor:
    """(tiles, rows) of a table (N, d) → (tiles, rows, d). `index_select` is many times faster than indexing."""
    return table.index_select(0, rows.flatten()).view(*rows.shape, table.shape[-1])


def _pick(values: Tensor, index: Tensor) -> Tensor:
    """values[index] of a vector."""
    return values.index_select(0, index.flatten()).view(index.shape)


def _scores(tile_q: Tensor, tile_k: Tensor, plan: Plan, batch: Batch) -> Tensor:
    """k·q/√d_k of a batch of tiles, (tiles, M, width); -inf beyond a sentence's end.

    Queries stand side by side in memory, so that everything along a sentence's words is plain vector arithmetic.
    """
    scores = tile_q.new_empty(len(tile_q), batch.longest, batch.width)
    scores.baddbmm_(tile_k, tile_q.mT, beta=0, alpha=1 / math.sqrt(tile_q.shape[-1]))
    if batch.ragged:
        words = torch.arange(batch.longest, device=tile_q.device).unsqueeze(-1)
        beyond = words >= plan.length[batch.tiles].view(-1, 1, 1)
        scores += tile_q.new_zeros(beyond.shape).masked_fill_(beyond, -torch.inf)
    return scores
