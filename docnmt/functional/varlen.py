"""Conditional attention on a card in half types, by PyTorch's variable-length flash attention.

`Selection` → `plan_varlen`: the assignments of a (head, sentence) are the queries of a sequence, its words the keys →
one call → a query's t parts merged by their log-sum-exp and relevance. A sentence that very many queries keep has
several sequences, so that all shapes follow from sizes that the host knows: nothing here waits for the device.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from docnmt.functional.dispatch import sorted_by_group
from docnmt.functional.packed import FLASH, Calls, Sequences, VarlenOutput, takes_varlen
from docnmt.functional.selection import Keys, Queries, Selection, in_float32, subtract_largest
from docnmt.layout import Spans

#: Queries of a sequence, at most.
FLASH_TILE = 512
#: Sequences of a call, at most: they are the second dimension of a grid of CUDA blocks.
SEQUENCES = 65535


@dataclass(frozen=True, eq=False)
class _VarlenPlan:
    """The rows that the sequences read: A = h·Tq·t assignments, and R rows of keys, some after the last sequence."""

    order: Tensor  # (A,) the assignments, numbered in (h, Tq, t), by (head, sentence), those without one at the end
    place: Tensor  # (h, Tq, t) the index of each assignment in this order
    query: Tensor  # (A,) in this order, the row of a (Tq·h, d) table of queries
    sentence: Tensor  # (A,) in this order, the row of a (Sk·h, d) table of sentences
    key: Tensor  # (R,) the row of a (Tk·h, d) table of keys
    unread: Tensor  # (R, 1) bool, True for rows of keys after the last sequence
    sequences: Sequences


def _heads_at_once(heads: int, queries: int, t: int, sentences: int) -> int:
    """The number of heads for which a plan has at most `SEQUENCES` sequences; 0 if one head has more."""
    return min(heads, SEQUENCES // (1 + sentences + queries * t // FLASH_TILE))


def plan_varlen(selection: Selection, sentences: Spans) -> _VarlenPlan:
    """The plan of a selection among the sentences of `sentences`, spans of the key words."""
    kept_sentences = selection.sentences
    heads, queries, t = kept_sentences.shape
    groups, number = heads * len(sentences), kept_sentences.numel()
    order, begin = sorted_by_group(selection, len(sentences))
    place = torch.empty_like(order).scatter_(0, order, torch.arange(number, device=order.device))
    most = min(groups, number) + number // FLASH_TILE  # as many tiles as there can be
    end = ((begin.diff() + FLASH_TILE - 1) // FLASH_TILE).cumsum(0)  # (groups,) tiles up to each group's last
    tile = torch.arange(most, device=kept_sentences.device)
    tile_group = torch.searchsorted(end, tile, right=True)  # `groups` for tiles that there are not
    within = (tile - functional.pad(end, (1, 0)).index_select(0, tile_group)) * FLASH_TILE
    first = torch.minimum(begin.index_select(0, tile_group) + within, begin[-1])
    q = torch.cat([first, begin[-1:]]).int()
    # the words of the tiles' sentences, one behind the other
    sentence = tile_group % len(sentences)
    lengths = sentences.offsets.diff().index_select(0, sentence).masked_fill(tile_group == groups, 0)
    k = functional.pad(lengths.cumsum(0), (1, 0))
    rows = heads * sentences.num_tokens + number // FLASH_TILE * sentences.max_length  # as many as there can be
    row = torch.arange(rows, device=kept_sentences.device)
    of_row = torch.searchsorted(k[1:], row, right=True).clamp(max=most - 1)  # the tile of each row
    unread = row >= k[-1]
    word = sentences.offsets.index_select(0, sentence.index_select(0, of_row)) + row - k.index_select(0, of_row)
    word = word.masked_fill(unread, 0)
    of_head = tile_group.index_select(0, of_row).clamp(max=groups - 1) // len(sentences)
    asked = order // t  # (A,) numbered in (h, Tq)
    asking = asked // queries
    return _VarlenPlan(
        order=order,
        place=place.view(kept_sentences.shape),
        query=asked % queries * heads + asking,
        sentence=kept_sentences.flatten().index_select(0, order) * heads + asking,
        key=word * heads + of_head,
        unread=unread.unsqueeze(-1),
        sequences=Sequences(q, k.int(), min(FLASH_TILE, queries), max(1, sentences.max_length)),
    )


def suits_varlen(queries: Queries, keys: Keys, selection: Selection) -> bool:
    """Whether `varlen_attention` can compute these: supported tensors, and few enough sequences for a call."""
    _, asked, t = selection.sentences.shape
    fits = takes_varlen(queries.words, keys.words, keys.values)
    return fits and _heads_at_once(1, asked, t, keys.layout.num_sentences) == 1


def varlen_attention(queries: Queries, keys: Keys, selection: Selection, calls: Calls = FLASH) -> Tensor:
    """Return attention to the words of the kept sentences, (Tq, h, d), by one sequence for each (head, sentence).

    Args:
        queries, keys: words and values in the type that `calls` compute in; sentence queries and keys in float32 at
            least.
    """
    shifted = Selection(selection.sentences, subtract_largest(selection.relevance))
    spans, sentence_k = keys.layout.sentences, keys.sentences
    heads, asked, t = shifted.sentences.shape
    step = _heads_at_once(heads, asked, t, len(spans))
    outputs = []
    for first in range(0, heads, step):
        part = slice(first, first + step)
        selected = Selection(shifted.sentences[part], shifted.relevance[part])
        inputs = (x[:, part] for x in (queries.words, keys.words, keys.values, queries.sentences, sentence_k))
        plan = plan_varlen(selected, spans)
        outputs.append(_Varlen.apply(*inputs, selected, plan, calls))  # type: ignore[no-untyped-call]
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
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
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
    grad: Tensor, out: Tensor, partial: Tensor, merge: Tensor, selection: Selection, plan: _VarlenPlan
) -> Tensor:
    """The gradient of the relevances, (h, Tq, t): share of the sentence · (dO·its output − dO·O)."""
    grad, nothing = grad.to(merge.dtype), selection.relevance == -torch.inf
    all_read = (grad * out).sum(-1).T.unsqueeze(-1)  # (h, Tq, 1)
    reads = torch.stack([(grad * _kept(partial, plan, nothing, i)).sum(-1) for i in range(merge.shape[-1])], -1)
    reads = reads.transpose(0, 1)
    alone = (~nothing).sum(-1, keepdim=True) < 2  # adding a constant to all scores of a query has no effect
    return (merge * (reads - all_read)).masked_fill(alone, 0)


def _sentence_gradients(
    of_relevance: Tensor, sentence_q: Tensor, sentence_k: Tensor, selection: Selection, plan: _VarlenPlan
) -> tuple[Tensor, Tensor]:
    """The gradients of sentence_q and sentence_k, from that of the kept relevances (h, Tq, t)."""
    of_relevance = (of_relevance / math.sqrt(sentence_q.shape[-1])).to(sentence_q.dtype)
    heads, _, t = of_relevance.shape
    head = torch.arange(heads, device=of_relevance.device).view(-1, 1, 1)
    sentence_row = (selection.sentences * heads + head).transpose(0, 1)  # (Tq, h, t)
    of_query = functional.embedding_bag(
        sentence_row.reshape(-1, t),
        sentence_k.reshape(-1, sentence_k.shape[-1]),
        mode="sum",
        per_sample_weights=of_relevance.transpose(0, 1).reshape(-1, t),
    )
    weighted = _rows(sentence_q, plan.query).squeeze(1) * _pick(of_relevance.flatten(), plan.order).unsqueeze(-1)
    of_sentence = torch.zeros_like(sentence_k, memory_format=torch.contiguous_format)
    of_sentence.view(-1, sentence_k.shape[-1]).index_add_(0, plan.sentence, weighted)
    return of_query.view_as(sentence_q), of_sentence


def _weighted(rows: Tensor, plan: _VarlenPlan, weights: Tensor, kind: torch.dtype) -> Tensor:
    """Sum the rows of assignments (A, 1, d) over t with weights (h, Tq, t); return (Tq, h, d) of type `kind`."""
    total = torch.zeros(*weights.shape[1::-1], rows.shape[-1], dtype=weights.dtype, device=rows.device)
    for i in range(weights.shape[-1]):  # one after the other: all together would be t times the output
        total.addcmul_(_kept(rows, plan, weights == 0, i).to(total.dtype), _of_query(weights, i))
    return total.to(kind)


def _sum_over_tiles(rows: Tensor, plan: _VarlenPlan, keys: Tensor) -> Tensor:
    """Sum the rows (R, 1, d) of each key; return (Tk, h, d). Several sequences may have read one sentence."""
    total = in_float32(torch.zeros_like(keys, memory_format=torch.contiguous_format))
    read = rows.squeeze(1).masked_fill(plan.unread, 0).to(total.dtype)
    total.view(-1, keys.shape[-1]).index_add_(0, plan.key, read)
    return total


def _kept(rows: Tensor, plan: _VarlenPlan, nothing: Tensor, i: int) -> Tensor:
    """The row, out of (A, 1, d), of each query's i-th kept sentence, (Tq, h, d); 0 if there is none."""
    position = plan.place[..., i].T
    return rows.index_select(0, position.flatten()).view(*position.shape, -1).masked_fill(_of_query(nothing, i), 0)


def _of_query(x: Tensor, i: int) -> Tensor:
    return x[..., i].T.unsqueeze(-1)  # (h, Tq, t) → (Tq, h, 1)


def _rows(x: Tensor, index: Tensor) -> Tensor:
    """Return the rows `index` of x (n, h, d), seen as a table (n·h, d), as (rows, 1, d): one head for each sequence."""
    return x.reshape(-1, 1, x.shape[-1]).index_select(0, index)


def _pick(values: Tensor, index: Tensor) -> Tensor:
    return values.index_select(0, index.flatten()).view(index.shape)
