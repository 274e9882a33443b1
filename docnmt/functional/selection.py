"""Which sentences a word and head attends to: the top t of its document by relevance (paper 002, equations 3 and 4)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from docnmt.functional.top_t import padding, take_top_t
from docnmt.layout import DocumentLayout

_CHUNK = 1 << 20  # relevances held at a time, 4 MB in float32
_ROWS = 480  # queries side by side, at least: fewer heads at a time rather than shorter rows
_JOINT = 1 << 18  # documents are taken together up to as many relevances, of other documents' sentences included


@dataclass(frozen=True)
class Selection:
    """The chosen sentences of every query and head, at most t, without gradient.

    Attributes:
        sentences: (h, Tq, t) int64, indices of key sentences; any valid index where nothing was left to choose.
        relevance: (h, Tq, t), the score each was chosen with; -inf where nothing was left to choose.
    """

    sentences: Tensor
    relevance: Tensor

    @classmethod
    def empty(cls, queries: Tensor, t: int) -> Selection:
        """Nothing chosen for queries (Tq, h, d_k)."""
        shape = queries.shape[1], len(queries), t
        return cls(torch.zeros(shape, dtype=torch.int64, device=queries.device), queries.new_full(shape, -torch.inf))

    def of_document(self, queries: slice, sentences: slice) -> Selection:
        """The part of one document, its sentences numbered from 0: (h, queries, ≤ sentences)."""
        most = sentences.stop - sentences.start  # choices beyond them are empty
        numbers = (self.sentences[:, queries, :most] - sentences.start).clamp_(0, max(0, most - 1))
        return Selection(numbers, self.relevance[:, queries, :most])

    def put(self, heads: slice, rows: slice, sentences: Tensor, relevance: Tensor) -> None:
        """Sets the choices of some queries, (heads, ≤ t, rows) each."""
        self.sentences[heads, rows, : sentences.shape[1]] = sentences.transpose(1, 2)
        self.relevance[heads, rows, : sentences.shape[1]] = relevance.transpose(1, 2)


def select_sentences(
    sentence_q: Tensor,
    sentence_k: Tensor,
    query_layout: DocumentLayout,
    key_layout: DocumentLayout,
    t: int,
    visible: str,
) -> Selection:
    """Top t of the relevances sentence_q·sentence_k/√d_k among the non-empty sentences of the query's own document.

    Works in chunks of queries of one or a few documents, so that a query costs its own document's sentences. A key that
    is not finite counts as 0 here: what nobody may choose, such as the mean of no words, can then disturb no choice.

    Args:
        sentence_q: (Tq, h, d_k).
        sentence_k: (Sk, h, d_k).
        visible: "document", or "earlier" for sentences before the query's own only.
    """
    with torch.no_grad():
        queries = (sentence_q / math.sqrt(sentence_q.shape[-1])).permute(1, 2, 0)  # (h, d_k, Tq)
        keys = sentence_k.transpose(0, 1).nan_to_num(0, 0, 0)  # (h, Sk, d_k)
        selection = Selection.empty(sentence_q, t)
        first, stop = _visible_sentences(query_layout, key_layout, visible)
        last = len(sentence_k) - 1
        lowest, highest = (
            torch.from_numpy(np.minimum(bound, last)).to(queries.device)
            for bound in (first, np.maximum(stop - 1, first))
        )
        empty = key_layout.sentences.lengths == 0
        for tokens, documents in runs(query_layout, key_layout, heads=len(keys)):
            sentences = slice(*key_layout.document_sentences.host[[documents.start, documents.stop]].tolist())
            n = sentences.stop - sentences.start
            run_keys = functional.pad(keys[:, sentences], (0, 0, 0, padding(n)))
            alone = len(documents) == 1
            some = max(1, min(len(keys), _CHUNK // (n * _ROWS)))
            step = chunk_rows(_CHUNK // (n * some))
            for start in range(tokens.start, tokens.stop, step):
                rows = slice(start, min(start + step, tokens.stop))
                n = int(stop[rows].max()) - sentences.start
                if n == 0:
                    continue
                unseen = _unseen(range(sentences.start, sentences.start + n), first[rows], stop[rows], empty)
                hidden = None if unseen is None else torch.from_numpy(np.where(unseen, -np.inf, 0)).to(queries)
                for head in range(0, len(keys), some):
                    heads = slice(head, head + some)
                    scores = run_keys[heads, : n + padding(n)] @ queries[heads, :, rows]  # (heads, n and padding, rows)
                    scores[:, n:] = -torch.inf
                    if hidden is not None:
                        scores[:, :n] += hidden
                    values, indices = _all(scores[:, :n]) if n <= t and alone else take_top_t(scores, min(t, n))
                    # a query that is not finite chooses anything, but in its own document
                    inside = (indices + sentences.start).clamp_(min=lowest[rows], max=highest[rows])
                    selection.put(heads, rows, inside, values)
    return selection


def _all(scores: Tensor) -> tuple[Tensor, Tensor]:
    """What `take_top_t` would give for all n of (heads, n, rows), in their order instead of the largest first."""
    return scores, torch.arange(scores.shape[1], device=scores.device).unsqueeze(-1).expand_as(scores)


def _unseen(sentences: range, first: np.ndarray, stop: np.ndarray, empty: np.ndarray) -> np.ndarray | None:
    """(n, rows) bool: which sentences a query may not choose, that may choose from `first` to `stop`; None: no such."""
    index = np.arange(sentences.start, sentences.stop)[:, None]
    if first.max() <= sentences.start and stop.min() >= sentences.stop and not empty[index].any():
        return None
    unseen: np.ndarray = (index < first) | (index >= stop) | empty[index]
    return unseen


def _visible_sentences(
    query_layout: DocumentLayout, key_layout: DocumentLayout, visible: str
) -> tuple[np.ndarray, np.ndarray]:
    """First key sentence that each query token may see, and the one after the last: (Tq,) int64 each."""
    documents = np.repeat(np.arange(query_layout.num_documents), query_layout.documents.lengths)
    bounds = key_layout.document_sentences.host
    first, stop = bounds[documents], bounds[documents + 1]
    if visible == "earlier":
        own = np.repeat(np.arange(query_layout.num_sentences), query_layout.sentences.lengths)
        stop = first + own - query_layout.document_sentences.host[documents]
    return first, stop


def less_the_largest(kept: Tensor) -> Tensor:
    """kept (..., S) minus its largest, -inf where a sentence is not kept.

    Softmax does not see a constant. But a sentence that is kept alone then gets no gradient at all, not even rounding.
    """
    largest = functional.pad(kept, (0, 1), value=-torch.inf).amax(-1, keepdim=True)
    return kept - largest.clamp(min=torch.finfo(kept.dtype).min)


def by_document(query_layout: DocumentLayout, key_layout: DocumentLayout) -> list[tuple[slice, slice, slice]]:
    """(query tokens, key tokens, key sentences) of each document."""
    bounds = (query_layout.documents.host, key_layout.documents.host, key_layout.document_sentences.host)
    return [
        (slice(q[0], q[1]), slice(k[0], k[1]), slice(s[0], s[1]))
        for q, k, s in zip(*(np.stack([b[:-1], b[1:]], 1).tolist() for b in bounds), strict=True)
    ]


def runs(query_layout: DocumentLayout, key_layout: DocumentLayout, heads: int) -> Iterator[tuple[slice, range]]:
    """(query tokens, documents): documents one by one, or several together that are small."""
    tokens, sentences = query_layout.documents.host.tolist(), key_layout.document_sentences.host.tolist()
    start, number = 0, query_layout.num_documents
    while start < number:
        stop = start + 1
        while stop < number and (
            heads * (tokens[stop + 1] - tokens[start]) * (sentences[stop + 1] - sentences[start]) <= _JOINT
        ):
            stop += 1
        if sentences[start] < sentences[stop]:
            yield slice(tokens[start], tokens[stop]), range(start, stop)
        start = stop


def chunk_rows(rows: int) -> int:
    """About as many, but an odd multiple of a cache line: columns a power of two apart would share one cache set."""
    return max(1, rows // 32) * 32 - 16
