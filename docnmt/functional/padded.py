"""Conditional attention over short documents: one padded product for all documents of about one length.

It computes every score of a document, as equation 7 is written, which is faster than choosing up to some hundred words.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from docnmt.functional.groups import Padded, document_groups
from docnmt.functional.selection import Selection, less_the_largest
from docnmt.layout import DocumentLayout

#: Added to a score that no weight shall follow from. Finite, so that its product with 0 is 0.
_NEVER = -1e30


def padded_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    sentence_q: Tensor,
    sentence_k: Tensor,
    selection: Selection,
    query_layout: DocumentLayout,
    key_layout: DocumentLayout,
) -> Tensor:
    """Equation 7 with the sentences chosen already; `sentence_k` (S, h, d_k) as for `dispatch_attention`.

    q, sentence_q (Tq, h, d_k), k (Tk, h, d_k), v (Tk, h, d_v) → (Tq, h, d_v).
    """
    kinds = (query_layout.documents, key_layout.documents, key_layout.document_sentences)
    outputs = [v[:0].sum(0)[None]]  # what a document without keys reads: 0 as an empty sum, which has a gradient
    place = torch.zeros(len(q), dtype=torch.int64, device=q.device)
    filled = 1
    for queries, keys, sentences in document_groups(*kinds):
        kept, nothing = _kept_relevance(sentence_q, sentence_k, selection, queries, sentences)
        scores = torch.matmul(kept.flatten(1, 2), _sentence_of_key(key_layout, keys, sentences, kept))  # n, h·Lq, Lk
        cut_q, cut_k = _cut(q, queries).flatten(0, 1), _cut(k, keys).flatten(0, 1)  # (n·h, L, d_k)
        scores = torch.baddbmm(scores.view(*cut_q.shape[:2], -1), cut_q, cut_k.mT, alpha=1 / math.sqrt(q.shape[-1]))
        weights = scores.softmax(-1).view(*kept.shape[:3], -1).masked_fill(nothing, 0)
        outputs.append(torch.matmul(weights, _cut(v, keys)).transpose(1, 2).flatten(0, 1))
        place[queries.rows[queries.real]] = filled + queries.real.flatten().nonzero().squeeze(-1)
        filled += queries.rows.numel()
    return torch.cat(outputs).index_select(0, place)


def _kept_relevance(
    sentence_q: Tensor, sentence_k: Tensor, selection: Selection, queries: Padded, sentences: Padded
) -> tuple[Tensor, Tensor]:
    """KeepTopT(relevance) (n, h, Lq, S + 1), `_NEVER` where not kept and for padding, the last column; and which
    queries keep nothing (n, h, Lq, 1)."""
    relevance = torch.matmul(_cut(sentence_q, queries), _cut(sentence_k, sentences).mT) / math.sqrt(
        sentence_q.shape[-1]
    )
    chosen = selection.sentences[:, queries.rows] - sentences.rows[:, :1, None]  # (h, n, Lq, t)
    there = selection.relevance[:, queries.rows] != -torch.inf
    mask = torch.zeros(*relevance.shape[:-1], relevance.shape[-1] + 1, dtype=torch.bool, device=relevance.device)
    chosen = chosen.masked_fill(~there, relevance.shape[-1]).transpose(0, 1)
    mask.scatter_(-1, chosen, True)
    mask[..., -1] = False
    kept = less_the_largest(torch.nn.functional.pad(relevance, (0, 1)).masked_fill(~mask, -torch.inf))
    return kept.clamp(min=_NEVER), ~mask.any(-1, keepdim=True)


def _sentence_of_key(key_layout: DocumentLayout, keys: Padded, sentences: Padded, like: Tensor) -> Tensor:
    """The paper's M (n, S + 1, Lk): 1 where a word belongs to a sentence, padding to the last row."""
    number = key_layout.sentence_of_token[keys.rows] - sentences.rows[:, :1]  # (n, Lk), counted in the document
    number = number.masked_fill(~keys.real, like.shape[-1] - 1)
    return torch.nn.functional.one_hot(number, like.shape[-1]).mT.to(like.dtype)


def _cut(x: Tensor, padded: Padded) -> Tensor:
    """Rows (T, h, d) as (n, h, L, d)."""
    return x.index_select(0, padded.rows.flatten()).view(*padded.rows.shape, *x.shape[1:]).transpose(1, 2)
