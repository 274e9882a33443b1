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
        of_key = key_layout.sentence_of_token[keys.rows] - sentences.rows[:, :1]  # (n, Lk), counted in the document
        of_key = of_key.masked_fill(~keys.real, sentences.rows.shape[1])
        kept = _kept_relevance(sentence_q, sentence_k, selection, queries, sentences)
        scores = torch.matmul(_cut(q, queries), _cut(k, keys).mT) / math.sqrt(q.shape[-1])  # (n, h, Lq, Lk)
        scores = scores + kept.gather(-1, of_key[:, None, None].expand(scores.shape))
        nothing = (kept == -torch.inf).all(-1, keepdim=True)
        weights = scores.masked_fill(nothing, 0).softmax(-1).masked_fill(nothing, 0)
        outputs.append(torch.matmul(weights, _cut(v, keys)).transpose(1, 2).flatten(0, 1))
        place[queries.rows[queries.real]] = filled + queries.real.flatten().nonzero().squeeze(-1)
        filled += queries.rows.numel()
    return torch.cat(outputs).index_select(0, place)


def _kept_relevance(
    sentence_q: Tensor, sentence_k: Tensor, selection: Selection, queries: Padded, sentences: Padded
) -> Tensor:
    """KeepTopT(relevance) (n, h, Lq, S + 1); the last column is -inf for what is padding."""
    relevance = torch.matmul(_cut(sentence_q, queries), _cut(sentence_k, sentences).mT) / math.sqrt(
        sentence_q.shape[-1]
    )
    chosen = selection.sentences[:, queries.rows] - sentences.rows[:, :1, None]  # (h, n, Lq, t)
    there = selection.relevance[:, queries.rows] != -torch.inf
    mask = torch.zeros(*relevance.shape[:-1], relevance.shape[-1] + 1, dtype=torch.bool, device=relevance.device)
    chosen = chosen.masked_fill(~there, relevance.shape[-1]).transpose(0, 1)
    mask.scatter_(-1, chosen, True)
    mask[..., -1] = False
    return less_the_largest(torch.nn.functional.pad(relevance, (0, 1)).masked_fill(~mask, -torch.inf))


def _cut(x: Tensor, padded: Padded) -> Tensor:
    """Rows (T, h, d) as (n, h, L, d)."""
    return x.index_select(0, padded.rows.flatten()).view(*padded.rows.shape, *x.shape[1:]).transpose(1, 2)
