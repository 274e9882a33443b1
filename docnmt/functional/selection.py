"""Which sentences a word and head attends to: the top t of its document by relevance (paper 002, equations 3 and 4)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from docnmt.functional.groups import Padded, document_groups
from docnmt.functional.top_t import top_t
from docnmt.layout import DocumentLayout

_CHUNK_SCORES = 1 << 22  # relevances held at a time: 16 MB in float32


@dataclass(frozen=True)
class Selection:
    """The chosen sentences of every query and head, at most t, without gradient.

    Attributes:
        sentences: (h, Tq, t) int64, indices of key sentences; anything where nothing was left to choose.
        relevance: (h, Tq, t), the score each was chosen with; -inf where nothing was left to choose.
    """

    sentences: Tensor
    relevance: Tensor

    def of_document(self, queries: slice, sentences: slice) -> Selection:
        """The part of one document, its sentences numbered from 0: (h, queries, ≤ sentences)."""
        most = sentences.stop - sentences.start  # choices beyond them are empty
        return Selection(self.sentences[:, queries, :most] - sentences.start, self.relevance[:, queries, :most])


@torch.no_grad()
def select_sentences(
    sentence_q: Tensor,
    sentence_k: Tensor,
    query_layout: DocumentLayout,
    key_layout: DocumentLayout,
    t: int,
    visible: str,
) -> Selection:
    """Top t of the relevances sentence_q·sentence_k/√d_k among the non-empty sentences of the query's own document.

    Works document by document in chunks of queries: the cost is a query's own document's sentences.

    Args:
        sentence_q: (Tq, h, d_k).
        sentence_k: (Sk, h, d_k).
        visible: "document", or "earlier" for sentences before the query's own only.
    """
    heads = sentence_q.shape[1]
    queries = sentence_q.transpose(0, 1) / math.sqrt(sentence_q.shape[-1])  # (h, Tq, d_k)
    keys = sentence_k.transpose(0, 1)  # (h, Sk, d_k)
    selected = torch.zeros(heads, queries.shape[1], t, dtype=torch.int64, device=queries.device)
    relevance = queries.new_full((heads, queries.shape[1], t), -torch.inf)
    filled = key_layout.sentence_offsets.diff() > 0
    own = sentence_of_query(query_layout, key_layout) if visible == "earlier" else None
    for rows, sentences in document_groups(query_layout.documents, key_layout.document_sentences):
        group_keys = keys[:, sentences.rows].mT  # (h, n, d_k, S)
        allowed = (filled[sentences.rows] & sentences.real)[:, None]  # (n, 1, S)
        for part in row_chunks(rows, heads, sentences.rows.shape[1]):
            scores = queries[:, part] @ group_keys  # (h, n, rows, S)
            may = allowed if own is None else allowed & (sentences.rows[:, None] < own[part][..., None])
            values, indices = top_t(scores.masked_fill_(~may, -torch.inf), t)
            chosen = sentences.rows[:, None].expand_as(scores).gather(-1, indices)
            put_selection(selected, relevance, part, chosen, values)
    return Selection(selected, relevance)


def sentence_of_query(query_layout: DocumentLayout, key_layout: DocumentLayout) -> Tensor:
    """(Tq,) int64: the key sentence that corresponds to each query token's own sentence."""
    shift = (key_layout.document_offsets - query_layout.document_offsets)[:-1]
    return query_layout.sentence_of_token + shift[query_layout.document_of_token]


def documents(query_layout: DocumentLayout, key_layout: DocumentLayout) -> list[tuple[slice, slice, slice]]:
    """(query tokens, key tokens, key sentences) of each document."""
    bounds = (query_layout.documents.host, key_layout.documents.host, key_layout.document_sentences.host)
    return [
        (slice(q[0], q[1]), slice(k[0], k[1]), slice(s[0], s[1]))
        for q, k, s in zip(*(np.stack([b[:-1], b[1:]], 1).tolist() for b in bounds), strict=True)
    ]


def row_chunks(rows: Padded, heads: int, width: int) -> Iterator[Tensor]:
    """The padded query rows (n, ≤ L) a few columns at a time, so that at most `_CHUNK_SCORES` relevances exist."""
    documents, length = rows.rows.shape
    step = max(1, _CHUNK_SCORES // (heads * documents * max(1, width)))
    return (rows.rows[:, start : start + step] for start in range(0, length, step))


def put_selection(selected: Tensor, relevance: Tensor, rows: Tensor, chosen: Tensor, values: Tensor) -> None:
    """Write the choices (h, n, rows, ≤ t) of some queries to the selection's tensors (h, Tq, t).

    Padding repeats a row with the same choice. Where nothing was chosen any valid sentence stands.
    """
    kept = chosen.shape[-1]
    selected[:, rows] = chosen[..., :1]
    selected[:, rows, :kept] = chosen
    relevance[:, rows, :kept] = values
