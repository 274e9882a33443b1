"""Triton kernels of attention: inside short sentences, choice of sentences, attention to them."""

from __future__ import annotations

from typing import Any, cast

import torch
import triton
import triton.language as tl
from torch import Tensor

from docnmt.functional.dispatch import sorted_by_group
from docnmt.functional.selection import Selection
from docnmt.layout import DocumentLayout, Spans

# What the kernels share: blocks of rows of one head, and the softmax in one pass over blocks of keys.

#: Kernels compute exponentials to the base of 2: exp(x) = 2^(x · LOG2E).
LOG2E = tl.constexpr(1.4426950408889634)


def strides(*tensors: Tensor) -> list[int]:
    """Of rows and of heads, for each tensor (rows, h, d)."""
    return [stride for x in tensors for stride in x.stride()[:2]]


@triton.jit
def rows_of(x, rows, live, head, row_stride, head_stride, D: tl.constexpr):
    """(rows, D) of one head; 0 for rows that are not there."""
    at = x + rows.to(tl.int64)[:, None] * row_stride + head * head_stride + tl.arange(0, D)[None, :]
    return tl.load(at, mask=live[:, None], other=0.0)


@triton.jit
def _softmax_step(scores, seen, values, largest, total, mixed):
    """The softmax goes on by a block of keys (Dao 2023, FlashAttention-2, algorithm 1).

    scores, to the base of 2, and seen: (queries, keys). largest score so far, total of weights: (queries,). mixed:
    (queries, D), the sum of the values times weights.
    """
    scores = tl.where(seen, scores, -1e30)
    now = tl.maximum(largest, tl.max(scores, 1))
    weights = tl.where(seen, tl.exp2(scores - now[:, None]), 0.0)
    before = tl.exp2(largest - now)
    total = total * before + tl.sum(weights, 1)
    mixed = mixed * before[:, None] + tl.dot(weights.to(values.dtype), values, input_precision="ieee")
    return now, total, mixed


# Flat selection in one pass: every word and head scores its document's sentences and keeps the best t in registers.
#
# A program has a block of packed queries, whatever documents they belong to, and goes through the sentences from the
# first of its first document to the last of its last. Of a block of sentences it takes the best of each query while any
# is better than the worst that this query keeps, which is seldom after the first blocks.

#: Queries and sentences of a block, warps of a program: fastest on an H200, of ten. "tf32x3" keeps nearly all bits of
#: float32 and takes a fifth of the time of "ieee", which has no matrix units.
_CHOICE_TILE = {"QUERIES": 64, "SENTENCES": 32, "num_warps": 4, "PRECISION": "tf32x3"}


def choose_sentences(
    queries: Tensor, sentences: Tensor, query_layout: DocumentLayout, key_layout: DocumentLayout, t: int, *,
    earlier: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The t best of q·s/√d among the sentences with words of a query's document; equal ones by lowest number.

    queries (Tq, h, d), sentences (Sk, h, d), float32, d a power of two from 16 to 128; a key counts as 0 where it is
    not finite, and a query that is NaN keeps nothing. `earlier`: a query of sentence i sees those before i only →
    sentences (h, Tq, t) int64 and scores, largest first; -inf and any sentence of the document where nothing was left.
    """
    rows, heads, d = queries.shape
    kept = torch.empty(heads, rows, t, dtype=torch.int64, device=queries.device)
    scores = queries.new_empty(heads, rows, t)
    queries, sentences = queries.contiguous(), sentences.contiguous()
    _choose[triton.cdiv(rows, _CHOICE_TILE["QUERIES"]), heads](
        queries, sentences, kept, scores, query_layout.document_of_token, query_layout.sentence_of_token,
        query_layout.document_offsets, key_layout.document_offsets, key_layout.sentence_offsets, rows, len(sentences),
        d**-0.5, EARLIER=earlier, T=t, ROOM=triton.next_power_of_2(max(2, t)), D=d, **_CHOICE_TILE,
    )  # fmt: skip
    return kept, scores


@triton.jit(do_not_specialize=["rows", "total"])  # which differ from batch to batch: no compiling for each
def _choose(
    queries, sentences, kept, scores, document, sentence, of_queries, of_keys, words, rows, total, scale,
    EARLIER: tl.constexpr, T: tl.constexpr, ROOM: tl.constexpr, D: tl.constexpr, QUERIES: tl.constexpr,
    SENTENCES: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    head, heads = tl.program_id(1), tl.num_programs(1)
    row = tl.program_id(0) * QUERIES + tl.arange(0, QUERIES)
    live = row < rows
    columns = tl.arange(0, D)
    of_row = tl.load(document + row, mask=live, other=0)
    begin = tl.load(of_keys + of_row, mask=live, other=0).to(tl.int32)
    end = tl.load(of_keys + of_row + 1, mask=live, other=0).to(tl.int32)
    lowest = tl.minimum(begin, total - 1)
    if EARLIER:
        in_document = tl.load(sentence + row, mask=live, other=0) - tl.load(of_queries + of_row, mask=live, other=0)
        end = tl.minimum(end, begin + in_document.to(tl.int32))
    at = (row.to(tl.int64)[:, None] * heads + head) * D + columns[None, :]
    q = tl.load(queries + at, mask=live[:, None], other=0.0) * scale
    room = tl.arange(0, ROOM)
    best = tl.where(room[None, :] < T, float("-inf"), float("inf")) + tl.zeros([QUERIES, ROOM], tl.float32)
    chosen = tl.zeros([QUERIES, ROOM], tl.int32) + lowest[:, None]
    first = tl.min(tl.where(live & (end > begin), begin, total))
    last = tl.max(tl.where(live, end, 0))
    for start in range(first, last, SENTENCES):
        number = start + tl.arange(0, SENTENCES)
        there = number < last
        from_key = (number.to(tl.int64)[:, None] * heads + head) * D + columns[None, :]
        k = tl.load(sentences + from_key, mask=there[:, None], other=0.0)
        k = tl.where(tl.abs(k) < float("inf"), k, 0.0)  # and NaN is below nothing
        filled = tl.load(words + number + 1, mask=there, other=0) > tl.load(words + number, mask=there, other=0)
        seen = (number[None, :] >= begin[:, None]) & (number[None, :] < end[:, None]) & filled[None, :]
        products = tl.where(seen, tl.dot(q, tl.trans(k), input_precision=PRECISION), float("-inf"))
        products = tl.where(products == products, products, float("-inf"))
        worst = tl.min(best, 1)
        top = tl.max(products, 1)
        while tl.max(tl.where(top > worst, 1, 0)) > 0:
            which = tl.min(tl.where(products == top[:, None], number[None, :], total), 1)
            # of the worst that are kept, the last to come gives way: equal scores stay in the order of their numbers
            level = best == worst[:, None]
            latest = tl.max(tl.where(level, chosen * ROOM + room[None, :], -1), 1)
            replaced = (level & (chosen * ROOM + room[None, :] == latest[:, None])) & (top > worst)[:, None]
            best = tl.where(replaced, top[:, None], best)
            chosen = tl.where(replaced, which[:, None], chosen)
            products = tl.where(number[None, :] == which[:, None], float("-inf"), products)
            worst = tl.min(best, 1)
            top = tl.max(products, 1)
    best = tl.where(room[None, :] < T, best, float("-inf"))
    rank = tl.where(room[None, :] < T, chosen, total + 1)
    for i in range(T):
        top = tl.max(best, 1)
        which = tl.min(tl.where(best == top[:, None], rank, total + 2), 1)
        to = (head.to(tl.int64) * rows + row) * T + i
        tl.store(scores + to, top, mask=live)
        tl.store(kept + to, tl.minimum(which, total - 1).to(tl.int64), mask=live)
        gone = (best == top[:, None]) & (rank == which[:, None])
        # what had nothing to keep stays in the running with -inf, as do the others that are left
        best = tl.where(gone, float("-inf"), best)
        rank = tl.where(gone & (top > float("-inf"))[:, None], total + 1, rank)


# Conditional attention (equation 7) to sentences that have been chosen, where their words are.
#
# A program has one sentence of one head: it goes through the queries that keep it in blocks, each against the
# sentence's words. Its outputs and log-sum-exps, one for each query and sentence, are merged by the sentences'
# relevance. In the backward pass, too, it alone writes the gradients of its keys, values and summary: the result has no
# order to depend on.

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

    q (Tq, h, d), k, v (Tk, h, d), of one type, d a power of two from 16 to 128; sentence_q (Tq, h, d), sentence_k
    (Sk, h, d) in float32, of which the selection's relevance was computed → (Tq, h, d), with sums in float32.
    """
    return cast(Tensor, _Chosen.apply(q, k, v, sentence_q, sentence_k, selection, sentences))  # type: ignore[no-untyped-call]


class _Chosen(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, sentence_q: Tensor, sentence_k: Tensor,
        selection: Selection, sentences: Spans,
    ) -> Tensor:  # fmt: skip
        q, k, v = (x if x.stride(2) == 1 else x.contiguous() for x in (q, k, v))
        heads, queries, t = selection.sentences.shape
        width, count = q.shape[-1], len(sentences)
        order, begin = sorted_by_group(selection, count)
        read = q.new_empty(heads, queries, t, width)
        lse, shifts = (torch.empty(heads, queries, t, dtype=torch.float32, device=q.device) for _ in range(2))
        level = lse.new_empty(heads, queries)
        alone = torch.empty(heads, queries, dtype=torch.int8, device=q.device)
        out = v.new_empty(queries, heads, width)
        _read[count, heads](
            q, k, v, order, begin, sentences.offsets, read, lse, queries, *strides(q, k, v),
            width**-0.5 * LOG2E.value, T=t, D=width, **_CHOSEN_TILE,
        )  # fmt: skip
        relevance = selection.relevance.contiguous()
        _merge[triton.cdiv(queries, _MERGED), heads](
            read, lse, relevance, out, shifts, level, alone, queries, T=t, D=width, QUERIES=_MERGED
        )
        ctx.save_for_backward(q, k, v, sentence_q.contiguous(), sentence_k.contiguous(), out, shifts, level, alone)
        ctx.plan = order, begin, sentences.offsets, selection.sentences
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, sentence_q, sentence_k, out, shifts, level, alone = ctx.saved_tensors
        order, begin, offsets, kept = ctx.plan
        heads, queries, t = shifts.shape
        width, grad = q.shape[-1], grad.contiguous()
        dq, dk, dv, d_sentence_q, d_sentence_k = (x.new_empty(x.shape) for x in (q, k, v, sentence_q, sentence_k))
        of_read, of_relevance = q.new_empty(heads, queries, t, width), torch.empty_like(shifts)
        _read_back[len(sentence_k), heads](
            q, k, v, sentence_q, out, grad, order, begin, offsets, shifts, level, alone, of_read, dk, dv, d_sentence_k,
            of_relevance, queries, *strides(q, k, v), width**-0.5, T=t, D=width, **_CHOSEN_TILE_BACK,
        )  # fmt: skip
        _sum_back[triton.cdiv(queries, _MERGED), heads](
            of_read, of_relevance, shifts, kept.contiguous(), sentence_k, dq, d_sentence_q, queries, width**-0.5,
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
        slot = start + tl.arange(0, QUERIES)
        live = slot < last
        assignment = tl.load(order + slot, mask=live, other=0)  # numbered as in (h, Tq, t)
        asked = rows_of(q, (assignment.to(tl.int32) // T) % queries, live, head, q_row, q_head, D)
        largest = tl.full([QUERIES], -1e30, tl.float32)
        total = tl.zeros([QUERIES], tl.float32)
        mixed = tl.zeros([QUERIES, D], tl.float32)
        for first_word in range(word, end, WORDS):
            row = first_word + tl.arange(0, WORDS)
            there = row < end
            keys = rows_of(k, row, there, head, k_row, k_head, D)
            values = rows_of(v, row, there, head, v_row, v_head, D)
            scores = tl.dot(asked, tl.trans(keys), input_precision="ieee") * scale
            largest, total, mixed = _softmax_step(scores, there[None, :], values, largest, total, mixed)
        mixed = mixed / total[:, None]
        to = assignment[:, None] * D + tl.arange(0, D)[None, :]
        tl.store(read + to, mixed.to(read.dtype.element_ty), mask=live[:, None])
        tl.store(lse + assignment, largest + tl.log2(total), mask=live)


@triton.jit(do_not_specialize=["queries"])
def _merge(
    read, lse, relevance, out, shifts, level, alone, queries, T: tl.constexpr, D: tl.constexpr, QUERIES: tl.constexpr
):  # fmt: skip
    head = tl.program_id(1)
    query = tl.program_id(0) * QUERIES + tl.arange(0, QUERIES)
    live = query < queries
    of_query = head.to(tl.int64) * queries + query
    most = tl.full([QUERIES], float("-inf"), tl.float32)
    kept = tl.zeros([QUERIES], tl.int32)
    for i in range(T):
        relevant = tl.load(relevance + of_query * T + i, mask=live, other=float("-inf")).to(tl.float32)
        most = tl.maximum(most, relevant)
        kept += (relevant > float("-inf")).to(tl.int32)
    largest = tl.full([QUERIES], -1e30, tl.float32)
    total = tl.zeros([QUERIES], tl.float32)
    mixed = tl.zeros([QUERIES, D], tl.float32)
    for i in range(T):
        at = of_query * T + i
        relevant = tl.load(relevance + at, mask=live, other=float("-inf")).to(tl.float32)
        used = live & (relevant > float("-inf"))
        shift = tl.where(used, relevant - most, float("-inf")) * LOG2E
        tl.store(shifts + at, shift, mask=live)
        score = tl.where(used, tl.load(lse + at, mask=used, other=0.0) + shift, -1e30)
        now = tl.maximum(largest, score)
        before, weight = tl.exp2(largest - now), tl.where(used, tl.exp2(score - now), 0.0)
        part = tl.load(read + at[:, None] * D + tl.arange(0, D)[None, :], mask=used[:, None], other=0.0)
        mixed = mixed * before[:, None] + part.to(tl.float32) * weight[:, None]
        total = total * before + weight
        largest = now
    total = tl.where(total > 0, total, 1.0)
    mixed = mixed / total[:, None]
    to = (query.to(tl.int64)[:, None] * tl.num_programs(1) + head) * D + tl.arange(0, D)[None, :]
    tl.store(out + to, mixed.to(out.dtype.element_ty), mask=live[:, None])
    tl.store(level + of_query, largest + tl.log2(total), mask=live)
    tl.store(alone + of_query, (kept < 2).to(tl.int8), mask=live)


@triton.jit(do_not_specialize=["queries"])
def _read_back(
    q, k, v, sentence_q, out, grad, order, begin, words, shifts, level, alone, of_read, dk, dv, d_sentence_k,
    of_relevance, queries, q_row, q_head, k_row, k_head, v_row, v_head, scale,
    T: tl.constexpr, D: tl.constexpr, QUERIES: tl.constexpr, WORDS: tl.constexpr,
):  # fmt: skip
    sentence, head, heads = tl.program_id(0), tl.program_id(1), tl.num_programs(1)
    group = head * tl.num_programs(0) + sentence
    row_stride, columns = heads * D, tl.arange(0, D)  # of what is contiguous
    first, last = tl.load(begin + group).to(tl.int32), tl.load(begin + group + 1).to(tl.int32)
    word, end = tl.load(words + sentence).to(tl.int32), tl.load(words + sentence + 1).to(tl.int32)
    of_sentence = tl.zeros([D], tl.float32)
    for first_word in range(word, end, WORDS):
        row = first_word + tl.arange(0, WORDS)
        there = row < end
        keys = rows_of(k, row, there, head, k_row, k_head, D)
        values = rows_of(v, row, there, head, v_row, v_head, D)
        of_keys = tl.zeros([WORDS, D], tl.float32)
        of_values = tl.zeros([WORDS, D], tl.float32)
        for start in range(first, last, QUERIES):
            slot = start + tl.arange(0, QUERIES)
            live = slot < last
            assignment = tl.load(order + slot, mask=live, other=0)
            query = (assignment.to(tl.int32) // T) % queries
            of_query = head.to(tl.int64) * queries + query
            asked = rows_of(q, query, live, head, q_row, q_head, D)
            grads = rows_of(grad, query, live, head, row_stride, D, D)
            outs = rows_of(out, query, live, head, row_stride, D, D)
            delta = tl.sum(grads.to(tl.float32) * outs.to(tl.float32), 1)
            shift = tl.load(shifts + assignment, mask=live, other=0.0) - tl.load(level + of_query, mask=live, other=0.0)
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
            if first_word > word:  # a sentence of several blocks: what the earlier ones have written
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
    of_read, of_relevance, shifts, kept, sentence_k, dq, d_sentence_q, queries, scale,
    T: tl.constexpr, D: tl.constexpr, QUERIES: tl.constexpr,
):  # fmt: skip
    head, heads = tl.program_id(1), tl.num_programs(1)
    query = tl.program_id(0) * QUERIES + tl.arange(0, QUERIES)
    live, columns = query < queries, tl.arange(0, D)
    of_words = tl.zeros([QUERIES, D], tl.float32)
    of_sentences = tl.zeros([QUERIES, D], tl.float32)
    for i in range(T):
        at = (head.to(tl.int64) * queries + query) * T + i
        used = live & (tl.load(shifts + at, mask=live, other=float("-inf")) > float("-inf"))
        part = tl.load(of_read + at[:, None] * D + columns[None, :], mask=used[:, None], other=0.0)
        of_words += part.to(tl.float32)
        sentence = tl.load(kept + at, mask=used, other=0)
        key_at = (sentence[:, None] * heads + head) * D + columns[None, :]
        key = tl.load(sentence_k + key_at, mask=used[:, None], other=0.0)
        of_sentences += key.to(tl.float32) * tl.load(of_relevance + at, mask=used, other=0.0)[:, None]
    to = (query.to(tl.int64)[:, None] * heads + head) * D + columns[None, :]
    tl.store(dq + to, of_words.to(dq.dtype.element_ty), mask=live[:, None])
    tl.store(d_sentence_q + to, (of_sentences * scale).to(d_sentence_q.dtype.element_ty), mask=live[:, None])


# Attention inside short sentences: several of them share a tile, in which a word sees the words of its own sentence.
#
# A program has a block of packed queries and goes through the keys from the first key of its first sentence to the last
# key of its last: for sentences of 16 words and blocks of 64, about 80; flash attention over sequences of many lengths
# begins a block of 64 or 128 rows for each sentence. The softmax takes one pass over the blocks of keys (Dao 2023,
# FlashAttention-2). In the backward pass some programs have a block of queries, the others a block of keys.

#: Of the forward and of the backward pass: queries and keys of a block (tl.dot takes 16 at least), warps of a program.
#: Fastest on an H200, of seven and of nine (recipes/studies/gpu).
_SHORT_TILE = {"BLOCK_Q": 64, "BLOCK_K": 32, "num_warps": 4, "num_stages": 1}
_SHORT_TILE_BACK = {"BLOCK_Q": 32, "BLOCK_K": 32, "num_warps": 2, "num_stages": 1}


def short_attention(q: Tensor, k: Tensor, v: Tensor, q_spans: Spans, k_spans: Spans, *, causal: bool = False) -> Tensor:
    """Softmax attention in which query span i reads key span i only; 0 where that is empty.

    q (Tq, h, d), k, v (Tk, h, d), of one type, d a power of two from 16 to 128 → (Tq, h, d), with sums in float32. A
    value that is not finite spoils the rows of its block, not only those of its own span.
    """
    return cast(Tensor, _Short.apply(q, k, v, q_spans, k_spans, causal))  # type: ignore[no-untyped-call]


class _Short(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, q_spans: Spans, k_spans: Spans, causal: bool) -> Tensor:
        q, k, v = (x if x.stride(2) == 1 else x.contiguous() for x in (q, k, v))
        rows, heads, width = q.shape
        out = q.new_empty(q.shape)
        lse = q.new_empty(heads, rows, dtype=torch.float32)
        places = q_spans.span_of_token, q_spans.offsets, k_spans.span_of_token, k_spans.offsets
        _attend_short[triton.cdiv(rows, _SHORT_TILE["BLOCK_Q"]), heads](
            q, k, v, out, lse, *places, rows, *strides(q, k, v), width**-0.5 * LOG2E.value,
            CAUSAL=causal, D=width, **_SHORT_TILE,
        )  # fmt: skip
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.spans, ctx.causal = (q_spans, k_spans), causal
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, out, lse = ctx.saved_tensors
        q_spans, k_spans = ctx.spans
        rows, heads, width = q.shape
        grad = grad.contiguous()
        dq, dk, dv = (x.new_empty(x.shape) for x in (q, k, v))
        places = q_spans.span_of_token, q_spans.offsets, k_spans.span_of_token, k_spans.offsets
        of_queries = triton.cdiv(rows, _SHORT_TILE_BACK["BLOCK_Q"])
        _attend_back[of_queries + triton.cdiv(len(k), _SHORT_TILE_BACK["BLOCK_Q"]), heads](
            q, k, v, out, grad, lse, dq, dk, dv, *places, rows, len(k), of_queries, *strides(q, k, v), width**-0.5,
            CAUSAL=ctx.causal, D=width, **_SHORT_TILE_BACK,
        )  # fmt: skip
        return dq, dk, dv, None, None, None


@triton.jit
def _range(of_row, offsets, first, last):
    """From the first row of the span of row `first` to the last of that of row `last`, on the other side."""
    return tl.load(offsets + tl.load(of_row + first)).to(tl.int32), tl.load(offsets + tl.load(of_row + last) + 1).to(
        tl.int32
    )


@triton.jit
def _visible(
    q_rows, q_live, q_of, q_offsets, k_rows, k_live, k_of, k_offsets, CAUSAL: tl.constexpr
):  # (queries, keys) bool
    q_span = tl.load(q_of + q_rows, mask=q_live, other=-1)
    k_span = tl.load(k_of + k_rows, mask=k_live, other=-2)
    seen = q_span[:, None] == k_span[None, :]
    if CAUSAL:
        q_place = q_rows - tl.load(q_offsets + q_span, mask=q_live, other=0)
        k_place = k_rows - tl.load(k_offsets + k_span, mask=k_live, other=0)
        seen = seen & (k_place[None, :] <= q_place[:, None])
    return seen


@triton.jit(do_not_specialize=["total_q"])  # which differs from batch to batch: no compiling for each
def _attend_short(
    q, k, v, out, lse, q_of, q_offsets, k_of, k_offsets, total_q,
    q_row, q_head, k_row, k_head, v_row, v_head, scale,
    CAUSAL: tl.constexpr, D: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(1)
    q_rows = tl.program_id(0) * BLOCK_Q + tl.arange(0, BLOCK_Q)
    q_live = q_rows < total_q
    begin, end = _range(
        q_of, k_offsets, tl.program_id(0) * BLOCK_Q, tl.minimum(tl.program_id(0) * BLOCK_Q + BLOCK_Q, total_q) - 1
    )
    queries = rows_of(q, q_rows, q_live, head, q_row, q_head, D)
    largest = tl.full([BLOCK_Q], -1e30, tl.float32)
    total = tl.zeros([BLOCK_Q], tl.float32)
    mixed = tl.zeros([BLOCK_Q, D], tl.float32)
    for first in range(begin, end, BLOCK_K):
        k_rows = first + tl.arange(0, BLOCK_K)
        k_live = k_rows < end
        keys = rows_of(k, k_rows, k_live, head, k_row, k_head, D)
        values = rows_of(v, k_rows, k_live, head, v_row, v_head, D)
        seen = _visible(q_rows, q_live, q_of, q_offsets, k_rows, k_live, k_of, k_offsets, CAUSAL)
        scores = tl.dot(queries, tl.trans(keys), input_precision="ieee") * scale
        largest, total, mixed = _softmax_step(scores, seen, values, largest, total, mixed)
    some = total > 0
    mixed = mixed / tl.where(some, total, 1.0)[:, None]
    at = q_rows.to(tl.int64)[:, None] * (tl.num_programs(1) * D) + head * D + tl.arange(0, D)[None, :]
    tl.store(out + at, mixed.to(out.dtype.element_ty), mask=q_live[:, None])
    tl.store(lse + head * total_q + q_rows, largest + tl.log2(tl.where(some, total, 1.0)), mask=q_live)


@triton.jit(do_not_specialize=["total_q", "total_k", "of_queries"])
def _attend_back(
    q, k, v, out, grad, lse, dq, dk, dv, q_of, q_offsets, k_of, k_offsets, total_q, total_k, of_queries,
    q_row, q_head, k_row, k_head, v_row, v_head, scale,
    CAUSAL: tl.constexpr, D: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(1)
    row = tl.num_programs(1) * D  # of what is contiguous
    columns = tl.arange(0, D)
    if tl.program_id(0) < of_queries:
        first_row = tl.program_id(0) * BLOCK_Q
        q_rows = first_row + tl.arange(0, BLOCK_Q)
        q_live = q_rows < total_q
        begin, end = _range(q_of, k_offsets, first_row, tl.minimum(first_row + BLOCK_Q, total_q) - 1)
        queries = rows_of(q, q_rows, q_live, head, q_row, q_head, D)
        grads = rows_of(grad, q_rows, q_live, head, row, D, D)
        outs = rows_of(out, q_rows, q_live, head, row, D, D)
        level = tl.load(lse + head * total_q + q_rows, mask=q_live, other=0.0)
        read = tl.sum(grads.to(tl.float32) * outs.to(tl.float32), 1)
        sums = tl.zeros([BLOCK_Q, D], tl.float32)
        for first in range(begin, end, BLOCK_K):
            k_rows = first + tl.arange(0, BLOCK_K)
            k_live = k_rows < end
            keys = rows_of(k, k_rows, k_live, head, k_row, k_head, D)
            values = rows_of(v, k_rows, k_live, head, v_row, v_head, D)
            seen = _visible(q_rows, q_live, q_of, q_offsets, k_rows, k_live, k_of, k_offsets, CAUSAL)
            scores = tl.dot(queries, tl.trans(keys), input_precision="ieee") * (scale * LOG2E)
            weights = tl.where(seen, tl.exp2(tl.where(seen, scores, 0.0) - level[:, None]), 0.0)
            of_scores = weights * (tl.dot(grads, tl.trans(values), input_precision="ieee") - read[:, None])
            sums += tl.dot(of_scores.to(keys.dtype), keys, input_precision="ieee")
        at = q_rows.to(tl.int64)[:, None] * row + head * D + columns[None, :]
        tl.store(dq + at, (sums * scale).to(dq.dtype.element_ty), mask=q_live[:, None])
    else:
        first_row = (tl.program_id(0) - of_queries) * BLOCK_Q
        k_rows = first_row + tl.arange(0, BLOCK_Q)
        k_live = k_rows < total_k
        begin, end = _range(k_of, q_offsets, first_row, tl.minimum(first_row + BLOCK_Q, total_k) - 1)
        keys = rows_of(k, k_rows, k_live, head, k_row, k_head, D)
        values = rows_of(v, k_rows, k_live, head, v_row, v_head, D)
        of_keys = tl.zeros([BLOCK_Q, D], tl.float32)
        of_values = tl.zeros([BLOCK_Q, D], tl.float32)
        for first in range(begin, end, BLOCK_K):
            q_rows = first + tl.arange(0, BLOCK_K)
            q_live = q_rows < end
            queries = rows_of(q, q_rows, q_live, head, q_row, q_head, D)
            grads = rows_of(grad, q_rows, q_live, head, row, D, D)
            outs = rows_of(out, q_rows, q_live, head, row, D, D)
            level = tl.load(lse + head * total_q + q_rows, mask=q_live, other=0.0)
            read = tl.sum(grads.to(tl.float32) * outs.to(tl.float32), 1)
            seen = _visible(q_rows, q_live, q_of, q_offsets, k_rows, k_live, k_of, k_offsets, CAUSAL)
            scores = tl.dot(queries, tl.trans(keys), input_precision="ieee") * (scale * LOG2E)
            weights = tl.where(seen, tl.exp2(tl.where(seen, scores, 0.0) - level[:, None]), 0.0)
            of_values += tl.dot(tl.trans(weights).to(grads.dtype), grads, input_precision="ieee")
            of_scores = weights * (tl.dot(grads, tl.trans(values), input_precision="ieee") - read[:, None])
            of_keys += tl.dot(tl.trans(of_scores).to(queries.dtype), queries, input_precision="ieee")
        at = k_rows.to(tl.int64)[:, None] * row + head * D + columns[None, :]
        tl.store(dk + at, (of_keys * scale).to(dk.dtype.element_ty), mask=k_live[:, None])
        tl.store(dv + at, of_values.to(dv.dtype.element_ty), mask=k_live[:, None])
