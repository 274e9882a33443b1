"""Flat selection: every word and head compares its query with the keys of all sentences of its document.

Trankova and Rykunov, "Hierarchical Encoding and Conditional Attention in NMT", equations 3 and 4.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from docnmt.functional import packed as costs
from docnmt.functional.kernels import takes_choice
from docnmt.functional.selection import Keys, Queries, Selection, SelectionPolicy
from docnmt.functional.top_t import padding, take_top_t
from docnmt.layout import DocumentLayout
from docnmt.runtime.transfer import to_device


def top_sentences(queries: Queries, keys: Keys, policy: SelectionPolicy) -> Selection:
    """Top t of the relevances q·sentence/√d_k among the visible non-empty sentences of the query's own document.

    Works in chunks of queries of one or a few documents, so that a query costs its own document's sentences. A key that
    is not finite counts as 0 here, so that it cannot disturb the order of the others.
    """
    if takes_choice(queries.sentences, keys.sentences, policy.top_t):
        from docnmt.functional.kernels.attention import choose_sentences

        layouts, earlier = (queries.layout, keys.layout), policy.visible == "earlier"
        return Selection(*choose_sentences(queries.sentences, keys.sentences, *layouts, policy.top_t, earlier=earlier))
    q = (queries.sentences / math.sqrt(queries.sentences.shape[-1])).permute(1, 2, 0)  # (h, d_k, Tq)
    k = keys.sentences.transpose(0, 1).nan_to_num(0, 0, 0)  # (h, Sk, d_k)
    selection = Selection.empty(queries.sentences, policy.top_t)
    chunk = at_once(q.device, costs.SELECT_CHUNK)
    seen = _visible_sentences(queries.layout, keys.layout, policy.visible)
    for tokens, documents in document_runs(queries.layout, keys.layout, heads=len(k)):
        sentences = slice(*keys.layout.document_sentences.host[[documents.start, documents.stop]].tolist())
        n = sentences.stop - sentences.start
        run_keys = functional.pad(k[:, sentences], (0, 0, 0, padding(n)))
        alone = len(documents) == 1
        some = max(1, min(len(k), chunk // (n * costs.SELECT_ROWS)))
        step = chunk_rows(chunk // (n * some))
        for start in range(tokens.start, tokens.stop, step):
            rows = slice(start, min(start + step, tokens.stop))
            n = int(seen.stop[rows].max()) - sentences.start
            if n == 0:
                continue
            hidden = seen.hidden(range(sentences.start, sentences.start + n), rows, q)
            for head in range(0, len(k), some):
                heads = slice(head, head + some)
                scores = run_keys[heads, : n + padding(n)] @ q[heads, :, rows]  # (heads, n and padding, rows)
                scores[:, n:] = -torch.inf
                if hidden is not None:
                    scores[:, :n] += hidden
                every = n <= policy.top_t and alone
                values, indices = _in_order(scores[:, :n]) if every else take_top_t(scores, min(policy.top_t, n))
                # a query that is not finite keeps anything, but in its own document
                inside = (indices + sentences.start).clamp_(min=seen.lowest[rows], max=seen.highest[rows])
                selection.write(heads, rows, inside, values)
    return selection


def _in_order(scores: Tensor) -> tuple[Tensor, Tensor]:
    """Return all n scores of (heads, n, rows) and their indices like `take_top_t`, but in order of index."""
    return scores, torch.arange(scores.shape[1], device=scores.device).unsqueeze(-1).expand_as(scores)


@dataclass(frozen=True)
class _Visible:
    """The key sentences that each query token may see.

    Attributes:
        first, stop: (Tq,) int64 on the host, the first of them and the one after the last.
        vacant: (Sk,) bool on the host, which key sentences have no word.
        lowest, highest: (Tq,) int64, the first and the last; an index that there is, where there is none of them.
        begin, end, empty: `first`, `stop` and `vacant` on the device.
    """

    first: np.ndarray
    stop: np.ndarray
    vacant: np.ndarray
    lowest: Tensor
    highest: Tensor
    begin: Tensor
    end: Tensor
    empty: Tensor

    def hidden(self, sentences: range, rows: slice, like: Tensor) -> Tensor | None:
        """(n, rows), -inf for a sentence that a query may not choose, else 0; None: there is no such."""
        begins, ends = self.first[rows].max() <= sentences.start, self.stop[rows].min() >= sentences.stop
        if begins and ends and not self.vacant[sentences.start : sentences.stop].any():
            return None
        index = torch.arange(sentences.start, sentences.stop, device=like.device)[:, None]
        unseen = (index < self.begin[rows]) | (index >= self.end[rows])
        unseen |= self.empty[sentences.start : sentences.stop, None]
        return like.new_zeros(unseen.shape).masked_fill_(unseen, -torch.inf)


def _visible_sentences(query_layout: DocumentLayout, key_layout: DocumentLayout, visible: str) -> _Visible:
    """Return the visible sentences of a pair of layouts; they are cached with the query layout."""
    key = (_visible_sentences, key_layout.sentences, key_layout.document_sentences, query_layout.documents, visible)
    return query_layout.sentences.derive(key, lambda: _make_visible(query_layout, key_layout, visible))


def _make_visible(query_layout: DocumentLayout, key_layout: DocumentLayout, visible: str) -> _Visible:
    documents = np.repeat(np.arange(query_layout.num_documents), query_layout.documents.lengths)
    bounds = key_layout.document_sentences.host
    first, stop = bounds[documents], bounds[documents + 1]
    if visible == "earlier":
        own = np.repeat(np.arange(query_layout.num_sentences), query_layout.sentences.lengths)
        stop = first + own - query_layout.document_sentences.host[documents]
    empty = key_layout.sentences.lengths == 0
    lowest, highest = (np.minimum(x, key_layout.num_sentences - 1) for x in (first, np.maximum(stop - 1, first)))
    arrays = to_device([lowest, highest, first, stop, empty], query_layout.sentence_offsets.device)
    return _Visible(first, stop, empty, *arrays)


def document_runs(
    query_layout: DocumentLayout, key_layout: DocumentLayout, *, heads: int
) -> Iterator[tuple[slice, range]]:
    """Yield (query tokens, documents): runs of one document, or of several small ones."""
    tokens, sentences = query_layout.documents.host.tolist(), key_layout.document_sentences.host.tolist()
    start, number = 0, query_layout.num_documents
    joint = at_once(query_layout.sentence_offsets.device, costs.SELECT_JOINT)
    while start < number:
        stop = start + 1
        while stop < number and (
            heads * (tokens[stop + 1] - tokens[start]) * (sentences[stop + 1] - sentences[start]) <= joint
        ):
            stop += 1
        if sentences[start] < sentences[stop]:
            yield slice(tokens[start], tokens[stop]), range(start, stop)
        start = stop


def at_once(device: torch.device, on_cpu: int) -> int:
    """Return the number of values to compute at a time: `on_cpu` on a CPU, `costs.CARD_CHUNK` on any other device."""
    return on_cpu if device.type == "cpu" else costs.CARD_CHUNK


def chunk_rows(rows: int) -> int:
    """Round to an odd multiple of a cache line: columns a power of two apart would share one cache set."""
    return max(1, rows // 32) * 32 - 16
