"""Conditional attention over short documents: one padded batched product for documents of similar length.

It computes every score of a document, as the equation is written. Up to some hundred words this is faster than
computing the kept sentences alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from docnmt.functional import costs
from docnmt.functional.selection import Keys, Queries, Selection, subtract_largest
from docnmt.layout import Spans
from docnmt.runtime.transfer import to_device

#: Added to a score whose weight must be 0. Finite, so that its product with 0 is 0.
_MASKED = -1e30


@dataclass(frozen=True)
class Padded:
    """Row indices of a group's n documents, padded to the longest one, L.

    Attributes:
        rows: (n, L) int64, rows of the packed tensor; padding repeats the last row of its own span, so that nothing of
            another document can enter.
        real: (n, L) bool, False at padding.
        shown: (m,) int64, the positions in `rows.flatten()` that are not padding.
        own: (m,) int64, the packed rows at these positions.
    """

    rows: Tensor
    real: Tensor
    shown: Tensor
    own: Tensor

    def gather(self, x: Tensor) -> Tensor:
        """Return packed rows (T, h, d) in padded form, (n, h, L, d)."""
        return x.index_select(0, self.rows.flatten()).view(*self.rows.shape, *x.shape[1:]).transpose(1, 2)


def document_groups(first: Spans, *others: Spans) -> list[tuple[Padded, ...]]:
    """Group documents by length; return for each group the padded rows of every kind of span (tokens, sentences).

    Documents in which a kind of span is empty are left out. The result is cached with `first`.
    """
    return first.derive((document_groups, *others), lambda: _make_groups((first, *others)))


def _make_groups(kinds: tuple[Spans, ...]) -> list[tuple[Padded, ...]]:
    made = [[_pad(spans, members) for spans in kinds] for members in _members(kinds)]
    arrived = iter(to_device([x for group in made for arrays in group for x in arrays], kinds[0].offsets.device))
    return [tuple(Padded(*(next(arrived) for _ in arrays)) for arrays in group) for group in made]


def _members(kinds: tuple[Spans, ...]) -> list[np.ndarray]:
    """Return the document numbers of each group: sorted by length, with a new group where lengths differ too much."""
    lengths = np.stack([spans.lengths for spans in kinds])  # (kinds, D)
    live = np.flatnonzero(lengths.min(axis=0, initial=1) > 0)
    order = live[np.argsort(lengths[:2, live].sum(axis=0), kind="stable")]
    groups: list[list[int]] = []
    low = high = np.zeros(len(kinds))
    for document in order:
        new_low, new_high = np.minimum(low, lengths[:, document]), np.maximum(high, lengths[:, document])
        if groups and bool((new_high <= np.maximum(costs.PADDED_SPREAD * new_low, costs.PADDED_SHORT)).all()):
            groups[-1].append(int(document))
            low, high = new_low, new_high
        else:
            groups.append([int(document)])
            low = high = lengths[:, document]
    return [np.array(group) for group in groups]


def _pad(spans: Spans, members: np.ndarray) -> list[np.ndarray]:
    """Return the arrays of a `Padded`, in the order of its attributes, for the documents `members`."""
    lengths, starts = spans.lengths[members], spans.host[:-1][members]
    place = np.arange(int(lengths.max()))
    rows = starts[:, None] + np.minimum(place, lengths[:, None] - 1)
    real = place < lengths[:, None]
    return [rows, real, np.flatnonzero(real), rows[real]]


def padded_attention(queries: Queries, keys: Keys, selection: Selection) -> Tensor:
    """Return attention to the words of the kept sentences, (Tq, h, d_v)."""
    kinds = (queries.layout.documents, keys.layout.documents, keys.layout.document_sentences)
    outputs = [keys.values[:0].sum(0)[None]]  # row 0, for documents without keys: an empty sum with a gradient
    place = torch.zeros(len(queries.words), dtype=torch.int64, device=queries.words.device)
    sentence_k, scale, filled = keys.sentences, 1 / math.sqrt(queries.words.shape[-1]), 1
    for query, key, sentence in document_groups(*kinds):
        kept, nothing = _kept_relevance(
            query.gather(queries.sentences), sentence.gather(sentence_k), selection, query, sentence
        )
        member = _sentence_of_word(keys, key, sentence, kept)
        scores = torch.matmul(kept.flatten(1, 2), member)  # (n, h·Lq, Lk)
        q, k = query.gather(queries.words).flatten(0, 1), key.gather(keys.words).flatten(0, 1)  # (n·h, L, d_k)
        scores = torch.baddbmm(scores.view(*q.shape[:2], -1), q, k.mT, alpha=scale)
        weights = scores.softmax(-1).view(*kept.shape[:3], -1).masked_fill(nothing, 0)
        outputs.append(torch.matmul(weights, key.gather(keys.values)).transpose(1, 2).flatten(0, 1))
        place[query.own] = filled + query.shown
        filled += query.rows.numel()
    return torch.cat(outputs).index_select(0, place)


def _kept_relevance(
    q: Tensor, k: Tensor, selection: Selection, query: Padded, sentence: Padded
) -> tuple[Tensor, Tensor]:
    """Return KeepTopT(q·k/√d_k), for q (n, h, Lq, d_k), k (n, h, S, d_k), and which queries keep nothing.

    Returns:
        (n, h, Lq, S + 1) relevances, `_MASKED` for sentences that are not kept and in the last column, which is for
        padding; and (n, h, Lq, 1) bool, True for queries that keep nothing.
    """
    relevance = torch.matmul(q, k.mT) / math.sqrt(q.shape[-1])
    kept = selection.sentences[:, query.rows] - sentence.rows[:, :1, None]  # (h, n, Lq, t)
    none_left = selection.relevance[:, query.rows] == -torch.inf
    kept = kept.masked_fill(none_left, relevance.shape[-1]).transpose(0, 1)
    mask = torch.zeros(*relevance.shape[:-1], relevance.shape[-1] + 1, dtype=torch.bool, device=relevance.device)
    mask.scatter_(-1, kept, True)
    mask[..., -1] = False
    relevance = subtract_largest(torch.nn.functional.pad(relevance, (0, 1)).masked_fill(~mask, -torch.inf))
    return relevance.clamp(min=_MASKED), ~mask.any(-1, keepdim=True)


def _sentence_of_word(keys: Keys, key: Padded, sentence: Padded, like: Tensor) -> Tensor:
    """Return the matrix M of equation 6, (n, S + 1, Lk): 1 where a word is in a sentence; padding: last row."""
    number = keys.layout.sentence_of_token[key.rows] - sentence.rows[:, :1]  # (n, Lk), counted in the document
    number = number.masked_fill(~key.real, like.shape[-1] - 1)
    return torch.nn.functional.one_hot(number, like.shape[-1]).mT.to(like.dtype)
