"""Conditional attention (Trankova and Rykunov, equation 7) to sentences that have been chosen, where their words are.

Queries that keep the same sentence, for one head, are neighbours in a sorted order. A program has one sentence: it goes
through these queries in blocks, each against the sentence's words, and nothing is copied before. Its outputs and
log-sum-exps, one for each query and sentence, are merged by the sentences' relevance. The backward pass goes the same
way: the program of a sentence has all gradients of its keys, its values and its summary, so it adds up nothing that
another program writes, and the result does not depend on their order.
"""

from __future__ import annotations

from typing import Protocol

import torch
import triton
import triton.language as tl
from torch import Tensor

from docnmt.functional.autograd import PassContext
from docnmt.functional.dispatch import Assignments
from docnmt.functional.kernels.blocks import LOG2E, rows_of, softmax_step, strides
from docnmt.functional.selection import Selection
from docnmt.layout import Spans

#: Of the forward and of the backward pass: queries and words of a block (tl.dot takes 16 at least), warps of a program.
#: Fastest on an H200, of seven.
_CHOSEN_TILE = {"QUERIES": 64, "WORDS": 32, "num_warps": 4, "num_stages": 1}
_CHOSEN_TILE_BACK = {"QUERIES": 64, "WORDS": 32, "num_warps": 4, "num_stages": 1}
#: Queries of a program that merges what they have read, or adds up their gradients.
_MERGED = 32


def chosen_attention(
    q: Tensor, k: Tensor, v: Tensor, sentence_q: Tensor, sentence_k: Tensor, selection: Selection, sentences: Spans
) -> Tensor:
    """Softmax[q·k/√d + relevance of the word's sentence] v over the words of a query's sentences; 0 where it has none.

    Args:
        q: (Tq, h, d). k, v: (Tk, h, d), of one type, d a power of two from 16 to 128.
        sentence_q: (Tq, h, d), sentence_k: (Sk, h, d), in float32; the relevance was computed of these.
        selection: of the Sk sentences, whose words `sentences` says.

    Returns:
        (Tq, h, d), in the type of `v`; sums are in float32.
    """
    out: Tensor = _Chosen.apply(q, k, v, sentence_q, sentence_k, selection, sentences)  # type: ignore[no-untyped-call]
    return out


class _ChosenContext(PassContext, Protocol):
    """What the passes of `_Chosen` share."""

    plan: tuple[Tensor, ...]


class _Chosen(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: _ChosenContext, q: Tensor, k: Tensor, v: Tensor, sentence_q: Tensor, sentence_k: Tensor,
        selection: Selection, sentences: Spans,
    ) -> Tensor:  # fmt: skip
        """The output (Tq, h, d)."""
        q, k, v = (x if x.stride(2) == 1 else x.contiguous() for x in (q, k, v))
        heads, queries, t = selection.sentences.shape
        width, count = q.shape[-1], len(sentences)
        order, begin = Assignments.of(selection, count)
        read = q.new_empty(heads, queries, t, width)
        lse, near = (torch.empty(heads, queries, t, dtype=torch.float32, device=q.device) for _ in range(2))
        level = lse.new_empty(heads, queries)
        alone = torch.empty(heads, queries, dtype=torch.int8, device=q.device)
        out = v.new_empty(queries, heads, width)
        _read[count, heads](
            q, k, v, order, begin, sentences.offsets, read, lse, queries, *strides(q, k, v),
            width**-0.5 * LOG2E.value, T=t, D=width, **_CHOSEN_TILE,
        )  # fmt: skip
        relevance = selection.relevance.contiguous()
        _merge[triton.cdiv(queries, _MERGED), heads](
            read, lse, relevance, out, near, level, alone, queries, T=t, D=width, QUERIES=_MERGED
        )
        ctx.save_for_backward(q, k, v, sentence_q.contiguous(), sentence_k.contiguous(), out, near, level, alone)
        ctx.plan = order, begin, sentences.offsets, selection.sentences
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: _ChosenContext, grad: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients of q, k, v, sentence_q and sentence_k."""
        q, k, v, sentence_q, sentence_k, out, near, level, alone = ctx.saved_tensors
        order, begin, offsets, kept = ctx.plan
        heads, queries, t = near.shape
        width, grad = q.shape[-1], grad.contiguous()
        dq, dk, dv, d_sentence_q, d_sentence_k = (x.new_empty(x.shape) for x in (q, k, v, sentence_q, sentence_k))
        of_read, of_relevance = q.new_empty(heads, queries, t, width), torch.empty_like(near)
        _read_back[len(sentence_k), heads](
            q, k, v, sentence_q, out, grad, order, begin, offsets, near, level, alone, of_read, dk, dv, d_sentence_k,
            of_relevance, queries, *strides(q, k, v), width**-0.5, T=t, D=width, **_CHOSEN_TILE_BACK,
        )  # fmt: skip
        _sum_back[triton.cdiv(queries, _MERGED), heads](
            of_read, of_relevance, near, kept.contiguous(), sentence_k, dq, d_sentence_q, queries, width**-0.5,
            T=t, D=width, QUERIES=_MERGED,
        )  # fmt: skip
        return dq, dk, dv, d_sentence_q, d_sentence_k, None, None


@triton.jit(do_not_specialize=["queries"])  # which differ from batch to batch: no compiling for each
def _read(
    q, k, v, order, begin, words, read, lse, queries, q_row, q_head, k_row, k_head, v_row, v_head, scale,
    T: tl.constexpr, D: tl.constexpr, QUERIES: tl.constexpr, WORDS: tl.constexpr,
):  # fmt: skip
    sentence, head = tl.program_id(0), tl.program_id(1)
    group = head * tl.num_programs(0) + sentence
    first, last = tl.load(begin + group).to(tl.int32), tl.load(begin + group + 1).to(tl.int32)
    word, end = tl.load(words + sentence).to(tl.int32), tl.load(words + sentence + 1).to(tl.int32)
    for start in range(first, last, QUERIES):
        place = start + tl.arange(0, QUERIES)
        live = place < last
        assignment = tl.load(order + place, mask=live, other=0)  # numbered as in (h, Tq, t)
        asked = rows_of(q, (assignment.to(tl.int32) // T) % queries, live, head, q_row, q_head, D)
        largest = tl.full([QUERIES], -1e30, tl.float32)
        total = tl.zeros([QUERIES], tl.float32)
        mixed = tl.zeros([QUERIES, D], tl.float32)
        for some in range(word, end, WORDS):
            row = some + tl.arange(0, WORDS)
            there = row < end
            keys = rows_of(k, row, there, head, k_row, k_head, D)
            values = rows_of(v, row, there, head, v_row, v_head, D)
            scores = tl.dot(asked, tl.trans(keys), input_precision="ieee") * scale
            largest, total, mixed = softmax_step(scores, there[None, :], values, largest, total, mixed)
        mixed = mixed / total[:, None]
        to = assignment[:, None] * D + tl.arange(0, D)[None, :]
        tl.store(read + to, mixed.to(read.dtype.element_ty), mask=live[:, None])
        tl.store(lse + assignment, largest + tl.log2(total), mask=live)


@triton.jit(do_not_specialize=["queries"])
def _merge(
    read, lse, relevance, out, near, level, alone, queries, T: tl.constexpr, D: tl.constexpr, QUERIES: tl.constexpr
):  # fmt: skip
    head = tl.program_id(1)
    query = tl.program_id(0) * QUERIES + tl.arange(0, QUERIES)
    live = query < queries
    of_query = head.to(tl.int64) * queries + query
    most = tl.full([QUERIES], float("-inf"), tl.float32)
    kept = tl.zeros([QUERIES], tl.int32)
    for i in range(T):
        each = tl.load(relevance + of_query * T + i, mask=live, other=float("-inf")).to(tl.float32)
        most = tl.maximum(most, each)
        kept += (each > float("-inf")).to(tl.int32)
    largest = tl.full([QUERIES], -1e30, tl.float32)
    total = tl.zeros([QUERIES], tl.float32)
    mixed = tl.zeros([QUERIES, D], tl.float32)
    for i in range(T):
        at = of_query * T + i
        each = tl.load(relevance + at, mask=live, other=float("-inf")).to(tl.float32)
        used = live & (each > float("-inf"))
        shift = tl.where(used, each - most, float("-inf")) * LOG2E
        tl.store(near + at, shift, mask=live)
        score = tl.where(used, tl.load(lse + at, mask=used, other=0.0) + shift, -1e30)
        now = tl.maximum(largest, score)
        before, weight = tl.exp2(largest - now), tl.where(used, tl.exp2(score - now), 0.0)
        part = tl.load(read + at[:, None] * D + tl.arange(0, D)[None, :], mask=used[:, None], other=0.0)
        mixed = mixed * before[:, None] + part.to(tl.float32) * weight[:, None]
        total = total * before + weight
        largest = now
    some = tl.where(total > 0, total, 1.0)
    mixed = mixed / some[:, None]
    to = (query.to(tl.int64)[:, None] * tl.num_programs(1) + head) * D + tl.arange(0, D)[None, :]
    tl.store(out + to, mixed.to(out.dtype.element_ty), mask=live[:, None])
    tl.store(level + of_query, largest + tl.log2(some), mask=live)
    tl.store(alone + of_query, (kept < 2).to(tl.int8), mask=live)


@triton.jit(do_not_specialize=["queries"])
def _read_back(
    q, k, v, sentence_q, out, grad, order, begin, words, near, level, alone, of_read, dk, dv, d_sentence_k,
    of_relevance, queries, q_row, q_head, k_row, k_head, v_row, v_head, scale,
    T: tl.constexpr, D: tl.constexpr, QUERIES: tl.constexpr, WORDS: tl.constexpr,
):  # fmt: skip
    sentence, head, heads = tl.program_id(0), tl.program_id(1), tl.num_programs(1)
    group = head * tl.num_programs(0) + sentence
    row_stride, columns = heads * D, tl.arange(0, D)  # of what is contiguous
    first, last = tl.load(begin + group).to(tl.int32), tl.load(begin + group + 1).to(tl.int32)
    word, end = tl.load(words + sentence).to(tl.int32), tl.load(words + sentence + 1).to(tl.int32)
    of_sentence = tl.zeros([D], tl.float32)
    for some in range(word, end, WORDS):
        row = some + tl.arange(0, WORDS)
        there = row < end
        keys = rows_of(k, row, there, head, k_row, k_head, D)
        values = rows_of(v, row, there, head, v_row, v_head, D)
        of_keys = tl.zeros([WORDS, D], tl.float32)
        of_values = tl.zeros([WORDS, D], tl.float32)
        for start in range(first, last, QUERIES):
            place = start + tl.arange(0, QUERIES)
            live = place < last
            assignment = tl.load(order + place, mask=live, other=0)
            query = (assignment.to(tl.int32) // T) % queries
            of_query = head.to(tl.int64) * queries + query
            asked = rows_of(q, query, live, head, q_row, q_head, D)
            grads = rows_of(grad, query, live, head, row_stride, D, D)
            outs = rows_of(out, query, live, head, row_stride, D, D)
            delta = tl.sum(grads.to(tl.float32) * outs.to(tl.float32), 1)
            shift = tl.load(near + assignment, mask=live, other=0.0) - tl.load(level + of_query, mask=live, other=0.0)
            scores = tl.dot(asked, tl.trans(keys), input_precision="ieee") * (scale * LOG2E)
            seen = live[:, None] & there[None, :]
            weights = tl.where(seen, tl.exp2(tl.where(seen, scores + shift[:, None], 0.0)), 0.0)
            of_scores = weights * (tl.dot(grads, tl.trans(values), input_precision="ieee") - delta[:, None])
            of_values += tl.dot(tl.trans(weights).to(grads.dtype), grads, input_precision="ieee")
            of_keys += tl.dot(tl.trans(of_scores).to(asked.dtype), asked, input_precision="ieee")
            of_asked = tl.dot(of_scores.to(keys.dtype), keys, input_precision="ieee") * scale
            single = tl.load(alone + of_query, mask=live, other=1) != 0  # a constant added to all scores has no effect
            of_shift = tl.where(single, 0.0, tl.sum(of_scores, 1))
            summed = rows_of(sentence_q, query, live, head, row_stride, D, D)
            of_sentence += tl.sum(summed.to(tl.float32) * of_shift[:, None], 0)
            to = of_read + assignment[:, None] * D + columns[None, :]
            if some > word:  # a sentence of several blocks: what the earlier ones have written
                of_asked += tl.load(to, mask=live[:, None], other=0.0).to(tl.float32)
                of_shift += tl.load(of_relevance + assignment, mask=live, other=0.0)
            tl.store(to, of_asked.to(of_read.dtype.element_ty), mask=live[:, None])
            tl.store(of_relevance + assignment, of_shift, mask=live)
        at = row.to(tl.int64)[:, None] * row_stride + head * D + columns[None, :]
        tl.store(dk + at, (of_keys * scale).to(dk.dtype.element_ty), mask=there[:, None])
        tl.store(dv + at, of_values.to(dv.dtype.element_ty), mask=there[:, None])
        tl.debug_barrier()
    tl.store(d_sentence_k + (sentence.to(tl.int64) * heads + head) * D + columns, of_sentence * scale)


@triton.jit(do_not_specialize=["queries"])
def _sum_back(
    of_read, of_relevance, near, kept, sentence_k, dq, d_sentence_q, queries, scale,
    T: tl.constexpr, D: tl.constexpr, QUERIES: tl.constexpr,
):  # fmt: skip
    head, heads = tl.program_id(1), tl.num_programs(1)
    query = tl.program_id(0) * QUERIES + tl.arange(0, QUERIES)
    live, columns = query < queries, tl.arange(0, D)
    of_words = tl.zeros([QUERIES, D], tl.float32)
    of_sentences = tl.zeros([QUERIES, D], tl.float32)
    for i in range(T):
        at = (head.to(tl.int64) * queries + query) * T + i
        used = live & (tl.load(near + at, mask=live, other=float("-inf")) > float("-inf"))
        part = tl.load(of_read + at[:, None] * D + columns[None, :], mask=used[:, None], other=0.0)
        of_words += part.to(tl.float32)
        sentence = tl.load(kept + at, mask=used, other=0)
        key_at = (sentence[:, None] * heads + head) * D + columns[None, :]
        key = tl.load(sentence_k + key_at, mask=used[:, None], other=0.0)
        of_sentences += key.to(tl.float32) * tl.load(of_relevance + at, mask=used, other=0.0)[:, None]
    to = (query.to(tl.int64)[:, None] * heads + head) * D + columns[None, :]
    tl.store(dq + to, of_words.to(dq.dtype.element_ty), mask=live[:, None])
    tl.store(d_sentence_q + to, (of_sentences * scale).to(d_sentence_q.dtype.element_ty), mask=live[:, None])
