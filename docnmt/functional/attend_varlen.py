"""Conditional attention by flash attention of many lengths: a sequence for each (head, sentence), merged afterwards."""

from __future__ import annotations

import math
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional

from docnmt.functional.autograd import PassContext
from docnmt.functional.kernels import takes_kernels
from docnmt.functional.selection import Keys, Queries, Selection, in_float32, subtract_largest
from docnmt.functional.varlen import FLASH, Calls, VarlenOutput, takes_varlen
from docnmt.functional.varlen_plan import VarlenPlan, heads_at_once, plan_varlen


def suits_varlen(queries: Queries, keys: Keys, selection: Selection) -> bool:
    """Whether `varlen_attention` computes these: fitting words and values, and not more sequences than a call takes."""
    _, asked, t = selection.sentences.shape
    fits = takes_varlen(queries.words, keys.words, keys.values)
    return fits and heads_at_once(1, asked, t, keys.layout.num_sentences) == 1


def varlen_attention(queries: Queries, keys: Keys, selection: Selection, calls: Calls = FLASH) -> Tensor:
    """Attention to the words of the kept sentences → (Tq, h, d), by one sequence for each (head, sentence).

    Args:
        queries, keys: words and values of the type that `calls` compute in, what selects in float32 at least.
    """
    near = Selection(selection.sentences, subtract_largest(selection.relevance))
    spans, sentence_k = keys.layout.sentences, keys.sentences
    heads, asked, t = near.sentences.shape
    step = heads_at_once(heads, asked, t, len(spans))
    outputs = []
    for first in range(0, heads, step):
        of = slice(first, first + step)
        some = near.of(of)
        inputs = (x[:, of] for x in (queries.words, keys.words, keys.values, queries.sentences, sentence_k))
        outputs.append(_Varlen.apply(*inputs, some, plan_varlen(some, spans), calls))  # type: ignore[no-untyped-call]
    return torch.cat(outputs, 1) if len(outputs) > 1 else outputs[0]


class _VarlenContext(PassContext, Protocol):
    """What the passes of `_Varlen` share."""

    selection: Selection
    plan: VarlenPlan
    calls: Calls


class _Varlen(torch.autograd.Function):
    """The outputs of the sequences are merged by their log-sum-exp, to which the sentence's relevance is added.

    The gradient of a log-sum-exp, which the backward call does not know, is not needed: called with the *merged* output
    and LSE − relevance, it computes the weights that a word has among all that its query reads, exp(score + relevance
    − LSE), and from them the exact gradients.
    """

    @staticmethod
    def forward(
        ctx: _VarlenContext, q: Tensor, k: Tensor, v: Tensor, sentence_q: Tensor, sentence_k: Tensor,
        selection: Selection, plan: VarlenPlan, calls: Calls,
    ) -> Tensor:  # fmt: skip
        """The output (Tq, h, d)."""
        rows = (_rows(q, plan.query), _rows(k, plan.key), _rows(v, plan.key))
        read = calls.forward(*rows, plan.sequences, False)
        nothing = selection.relevance == -torch.inf
        scores = _pick(read.lse[0], plan.place).masked_fill(nothing, 0) + selection.relevance  # (h, Tq, t)
        lse = scores.logsumexp(-1)
        merge = (scores - lse.unsqueeze(-1)).exp().masked_fill(nothing, 0)
        out = _weighted(read.out, plan, merge, v.dtype)
        ctx.save_for_backward(q, k, v, sentence_q, sentence_k, out, lse, merge, read.out)
        ctx.selection, ctx.plan, ctx.calls = selection, plan, calls
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: _VarlenContext, grad: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients of the five tensors."""
        q, k, v, sentence_q, sentence_k, out, lse, merge, partial = ctx.saved_tensors
        plan, relevance = ctx.plan, ctx.selection.relevance
        with torch.autocast(grad.device.type, enabled=False):
            weighed_by = _pick((lse.unsqueeze(-1) - relevance).flatten(), plan.order).unsqueeze(0)
            rows = (_rows(q, plan.query), _rows(k, plan.key), _rows(v, plan.key))
            merged = VarlenOutput(_rows(out, plan.query), weighed_by)
            dq, dk, dv = ctx.calls.backward(_rows(grad, plan.query), *rows, merged, plan.sequences, False)
            of_relevance = _relevance_gradient(grad, out, partial, merge, ctx.selection, plan)
            return (
                _weighted(dq, plan, (relevance != -torch.inf).to(merge.dtype), q.dtype),
                _sum_over_tiles(dk, plan, k).to(k.dtype),
                _sum_over_tiles(dv, plan, v).to(v.dtype),
                *_sentence_gradients(of_relevance, sentence_q, sentence_k, ctx.selection, plan),
                None,
                None,
                None,
            )


def _relevance_gradient(
    grad: Tensor, out: Tensor, partial: Tensor, merge: Tensor, selection: Selection, plan: VarlenPlan
) -> Tensor:
    """(h, Tq, t): Σ over a sentence's words of P (dO·v − dO·O) = share of the sentence · (dO·its output − dO·O)."""
    grad, nothing = grad.to(merge.dtype), selection.relevance == -torch.inf
    all_read = (grad * out).sum(-1).T.unsqueeze(-1)  # (h, Tq, 1)
    if takes_kernels(partial):
        from docnmt.functional.kernels.gathered import gathered_dot

        reads = gathered_dot(partial.squeeze(1), plan.place, nothing, grad)
    else:
        each = [(grad * _kept(partial, plan, nothing, i)).sum(-1) for i in range(merge.shape[-1])]
        reads = torch.stack(each, -1).transpose(0, 1)
    alone = (~nothing).sum(-1, keepdim=True) < 2  # softmax does not see what is added to all of a query's scores
    return (merge * (reads - all_read)).masked_fill(alone, 0)


def _sentence_gradients(
    of_relevance: Tensor, sentence_q: Tensor, sentence_k: Tensor, selection: Selection, plan: VarlenPlan
) -> tuple[Tensor, Tensor]:
    """Those of sentence_q·sentence_k/√d, for the gradient (h, Tq, t) of the kept ones."""
    of_relevance = (of_relevance / math.sqrt(sentence_q.shape[-1])).to(sentence_q.dtype)
    heads, _, t = of_relevance.shape
    head = torch.arange(heads, device=of_relevance.device).view(-1, 1, 1)
    kept = (selection.sentences * heads + head).transpose(0, 1)  # (Tq, h, t)
    of_query = functional.embedding_bag(
        kept.reshape(-1, t),
        sentence_k.reshape(-1, sentence_k.shape[-1]),
        mode="sum",
        per_sample_weights=of_relevance.transpose(0, 1).reshape(-1, t),
    )
    weighted = _rows(sentence_q, plan.query).squeeze(1) * _pick(of_relevance.flatten(), plan.order).unsqueeze(-1)
    of_sentence = torch.zeros_like(sentence_k, memory_format=torch.contiguous_format)
    of_sentence.view(-1, sentence_k.shape[-1]).index_add_(0, plan.sentence, weighted)
    return of_query.view_as(sentence_q), of_sentence


def _weighted(rows: Tensor, plan: VarlenPlan, weights: Tensor, kind: torch.dtype) -> Tensor:
    """Rows of assignments (A, 1, d) → their sums over t with these weights (h, Tq, t): (Tq, h, d) of type `kind`."""
    if takes_kernels(rows):
        from docnmt.functional.kernels.gathered import gathered_sum

        return gathered_sum(rows.squeeze(1), plan.place, weights, kind)
    total = torch.zeros(*weights.shape[1::-1], rows.shape[-1], dtype=weights.dtype, device=rows.device)
    for i in range(weights.shape[-1]):  # one after the other: all together would be t times the output
        total.addcmul_(_kept(rows, plan, weights == 0, i).to(total.dtype), _of_query(weights, i))
    return total.to(kind)


def _sum_over_tiles(rows: Tensor, plan: VarlenPlan, keys: Tensor) -> Tensor:
    """Rows of keys (R, 1, d) → their sums (Tk, h, d): a sentence may have been read by several sequences."""
    total = in_float32(torch.zeros_like(keys, memory_format=torch.contiguous_format))
    found = rows.squeeze(1).masked_fill(plan.unread, 0).to(total.dtype)
    total.view(-1, keys.shape[-1]).index_add_(0, plan.key, found)
    return total


def _kept(rows: Tensor, plan: VarlenPlan, nothing: Tensor, i: int) -> Tensor:
    """Of rows of assignments (A, 1, d), what each query has of its i-th sentence, 0 for none: (Tq, h, d)."""
    place = plan.place[..., i].T
    return rows.index_select(0, place.flatten()).view(*place.shape, -1).masked_fill(_of_query(nothing, i), 0)


def _of_query(x: Tensor, i: int) -> Tensor:
    """Of (h, Tq, t), the i-th of each query: (Tq, h, 1)."""
    return x[..., i].T.unsqueeze(-1)


def _rows(x: Tensor, index: Tensor) -> Tensor:
    """Rows of a table (n·h, d), each a sequence's element of one head: x (n, h, d) → (rows, 1, d)."""
    return x.reshape(-1, 1, x.shape[-1]).index_select(0, index)


def _pick(values: Tensor, index: Tensor) -> Tensor:
    """values[index] of a vector."""
    return values.index_select(0, index.flatten()).view(index.shape)
