"""Flat selection in one pass: every word and head scores its document's sentences and keeps the best t in registers.

No (words × sentences) matrix exists. A program has a block of packed queries, whatever documents they belong to, and
goes through the sentences from the first of its first document to the last of its last. Of a block of sentences it
takes the best of each query while any is better than the worst that this query keeps, which is seldom after the first
blocks.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from docnmt.layout import DocumentLayout

#: Queries and sentences of a block, warps of a program: fastest on an H200, of ten. "tf32x3" keeps nearly all bits of
#: float32 and takes a fifth of the time of "ieee", which has no matrix units.
_CHOICE_TILE = {"QUERIES": 64, "SENTENCES": 32, "num_warps": 4, "PRECISION": "tf32x3"}


def choose_sentences(
    queries: Tensor, sentences: Tensor, query_layout: DocumentLayout, key_layout: DocumentLayout, t: int, *,
    earlier: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The t best of q·s/√d among the sentences with words of a query's document; equal ones by lowest number.

    A sentence's key counts as 0 where it is not finite. A query that is NaN keeps nothing.

    Args:
        queries: (Tq, h, d) float32. sentences: (Sk, h, d) float32, d a power of two from 16 to 128.
        t: at most `MOST_KEPT` of the package.
        earlier: a query of sentence i of its document sees the sentences before i only.

    Returns:
        sentences (h, Tq, t) int64 and scores (h, Tq, t), largest first; where nothing was left to keep, -inf and a
        sentence of the query's document.
    """
    rows, heads, d = queries.shape
    kept = torch.empty(heads, rows, t, dtype=torch.int64, device=queries.device)
    scores = queries.new_empty(heads, rows, t)
    queries, sentences = queries.contiguous(), sentences.contiguous()
    _choose[triton.cdiv(rows, _CHOICE_TILE["QUERIES"]), heads](
        queries,
        sentences,
        kept,
        scores,
        query_layout.document_of_token,
        query_layout.sentence_of_token,
        query_layout.document_offsets,
        key_layout.document_offsets,
        key_layout.sentence_offsets,
        rows,
        len(sentences),
        d**-0.5,
        EARLIER=earlier,
        T=t,
        ROOM=triton.next_power_of_2(max(2, t)),
        D=d,
        **_CHOICE_TILE,
    )
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
    own = tl.load(document + row, mask=live, other=0)
    begin = tl.load(of_keys + own, mask=live, other=0).to(tl.int32)
    end = tl.load(of_keys + own + 1, mask=live, other=0).to(tl.int32)
    lowest = tl.minimum(begin, total - 1)
    if EARLIER:
        place = tl.load(sentence + row, mask=live, other=0) - tl.load(of_queries + own, mask=live, other=0)
        end = tl.minimum(end, begin + place.to(tl.int32))
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
        found = tl.where(seen, tl.dot(q, tl.trans(k), input_precision=PRECISION), float("-inf"))
        found = tl.where(found == found, found, float("-inf"))
        worst = tl.min(best, 1)
        top = tl.max(found, 1)
        while tl.max(tl.where(top > worst, 1, 0)) > 0:
            which = tl.min(tl.where(found == top[:, None], number[None, :], total), 1)
            # of the worst that are kept, the last to come gives way: equal scores stay in the order of their numbers
            level = best == worst[:, None]
            latest = tl.max(tl.where(level, chosen * ROOM + room[None, :], -1), 1)
            replaced = (level & (chosen * ROOM + room[None, :] == latest[:, None])) & (top > worst)[:, None]
            best = tl.where(replaced, top[:, None], best)
            chosen = tl.where(replaced, which[:, None], chosen)
            found = tl.where(number[None, :] == which[:, None], float("-inf"), found)
            worst = tl.min(best, 1)
            top = tl.max(found, 1)
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
