"""TraverseTree: down the trees of all documents, keeping the top t nodes of each level (paper 002, section 3.3.2).

All words and heads of a run of documents descend together. A node is named by its *place* in its level. The upper
levels are one product; below them only the children of kept nodes are looked at: O(t·log n) relevances a word.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from docnmt.functional.selection import Selection, chunk_rows, runs
from docnmt.functional.top_t import padding, take_top_t
from docnmt.functional.tree import TreeIndex
from docnmt.layout import DocumentLayout

_WIDE = 256  # nodes of a level above which single keys are gathered
_CHUNK = 1 << 21  # relevances of the upper levels held at a time
_DOTS = 1 << 18  # floats of gathered keys at a time: as many as stay in the cache


def descend(
    sentence_q: Tensor,
    cumulative_k: Tensor,
    node_k: Tensor | None,
    index: TreeIndex,
    query_layout: DocumentLayout,
    key_layout: DocumentLayout,
    t: int,
) -> Selection:
    """The sentences that stay after the last level, with their cumulative relevance.

    A node without a word below it, like an empty sentence, is never kept.

    Args:
        sentence_q: (Tq, h, d_k).
        cumulative_k: (N, h, d_k), sums of the nodes' keys from the root.
        node_k: (N, h, d_k), to choose by a node's own relevance; None to choose by the cumulative one.
    """
    with torch.no_grad():
        queries = (sentence_q / math.sqrt(sentence_q.shape[-1])).transpose(0, 1).contiguous()  # (h, Tq, d_k)
        keys = cumulative_k if node_k is None else node_k
        selection = Selection.empty(sentence_q, t)
        for tokens, documents in runs(query_layout, key_layout, heads=len(queries)):
            levels = _Levels.of_run(index, documents, key_layout, t)
            upper = keys.index_select(0, levels.upper_nodes).transpose(0, 1)  # (h, rows, d_k)
            step = chunk_rows(_CHUNK // upper.shape[:2].numel())
            for start in range(tokens.start, tokens.stop, step):
                rows = slice(start, min(start + step, tokens.stop))
                document = query_layout.document_of_token[rows] - documents.start
                scores = torch.bmm(upper, queries[:, rows].mT)  # (h, upper nodes, rows)
                scores[:, levels.hidden_rows] = -torch.inf
                walk = _Walk(queries[:, rows], keys, scores, levels, document)
                leaves, values = walk.down(t)
                if node_k is not None:
                    total = _dots(queries[:, rows], cumulative_k, walk.nodes(0, leaves))
                    values = total.masked_fill_(values == -torch.inf, -torch.inf)
                selection.put(rows, walk.sentences(leaves).clamp_(max=key_layout.num_sentences - 1), values)
    return selection


@dataclass(frozen=True)
class _Levels:
    """The trees of a run of documents, levels from the leaves up. A root stands in all levels above its own, too.

    Attributes:
        size, node, row: for each level (documents,) int64: nodes, the first one, and its row among the upper nodes.
        first_sentence: (documents,) int64.
        top: the lowest level with no more than t nodes in any document; all of them are kept.
        low: the lowest of the upper levels.
        upper_nodes: the nodes of the levels from `low` to `top`, one more row after each level of each document.
        hidden_rows: those additional rows, and nodes without a word.
        filled: (N,) whether a node has words; None if all of this run have.
    """

    size: list[Tensor]
    node: list[Tensor]
    row: list[Tensor]
    first_sentence: Tensor
    top: int
    low: int
    upper_nodes: Tensor
    hidden_rows: Tensor
    filled: Tensor | None

    @classmethod
    def of_run(cls, index: TreeIndex, documents: range, key_layout: DocumentLayout, t: int) -> _Levels:
        part = slice(documents.start, documents.stop)
        exists = index.level_size[:, part]
        root = index.node_spans.host[documents.start + 1 : documents.stop + 1] - 1
        size = np.where(exists > 0, exists, np.minimum(exists[0], 1))
        node = np.where(exists > 0, index.level_start[:, part], np.maximum(root, 0))
        widest = size.max(1)
        top = int((widest > t).sum())  # sizes shrink upwards
        low = min(top, int((widest > _WIDE).sum()))
        upper = size[low : top + 1].ravel() + 1
        row = np.cumsum(upper) - upper
        place = np.arange(upper.sum()) - np.repeat(row, upper)
        beyond = place == np.repeat(upper - 1, upper)
        nodes = np.repeat(node[low : top + 1].ravel(), upper) + np.where(beyond, 0, place)
        filled = index.filled_nodes(key_layout)
        hidden = beyond | ~filled[nodes]
        span = index.node_spans.host[part.start], index.node_spans.host[part.stop]

        def tensor(array: np.ndarray) -> Tensor:
            return torch.from_numpy(array).to(index.document_offsets.device)

        return cls(
            size=list(tensor(size)),
            node=list(tensor(node)),
            row=list(tensor(np.concatenate([np.zeros_like(size[:low]), row.reshape(-1, len(documents))]))),
            first_sentence=index.document_offsets[part],
            top=top,
            low=low,
            upper_nodes=tensor(nodes),
            hidden_rows=tensor(hidden.nonzero()[0]),
            filled=None if filled[span[0] : span[1]].all() else tensor(filled),
        )


@dataclass(frozen=True)
class _Walk:
    """Queries (h, R, d_k) of documents (R,) of a run, the relevances of the upper nodes (h, rows, R), all keys."""

    queries: Tensor
    keys: Tensor
    scores: Tensor
    levels: _Levels
    document: Tensor

    def down(self, t: int) -> tuple[Tensor, Tensor]:
        """(h, ≤ t, R) places of the leaves that stay and their scores; a place beyond the last where none stays."""
        level = self.levels.top
        size = self.levels.size[level]
        kept = torch.arange(min(t, int(size.max())), device=size.device).unsqueeze(-1)
        kept = torch.minimum(kept, size[self.document]).expand(len(self.queries), -1, -1)
        values = self._scores(level, kept)
        while level > 0:
            level -= 1
            # children in ascending order, so that ties go to the lowest
            children = torch.stack([2 * kept, 2 * kept + 1], 2).flatten(1, 2)
            n = children.shape[1]
            scores = functional.pad(self._scores(level, children), (0, 0, 0, padding(n)), value=-torch.inf)
            values, chosen = take_top_t(scores, min(t, n))
            kept = children.gather(1, chosen.clamp_(max=n - 1))
            kept = torch.where(values == -torch.inf, self.levels.size[level][self.document], kept)
            if level > 0:
                kept = _ascending(kept)
        return kept, values

    def nodes(self, level: int, places: Tensor) -> Tensor:
        """The node at each place; for a place beyond the last, one of the same document."""
        last = (self.levels.size[level] - 1).clamp_(min=0)[self.document]
        return torch.minimum(places, last) + self.levels.node[level][self.document]

    def sentences(self, leaves: Tensor) -> Tensor:
        """The sentence of each leaf; for a place beyond the last, any near it."""
        last = (self.levels.size[0] - 1).clamp_(min=0)[self.document]
        return torch.minimum(leaves, last) + self.levels.first_sentence[self.document]

    def _scores(self, level: int, places: Tensor) -> Tensor:
        """Relevance of the nodes at places (h, c, R); -inf beyond the last and for nodes without a word."""
        size = self.levels.size[level][self.document]
        if level >= self.levels.low:
            return self.scores.gather(1, torch.minimum(places, size) + self.levels.row[level][self.document])
        nodes = self.nodes(level, places)
        scores = _dots(self.queries, self.keys, nodes)
        hidden = places >= size
        if self.levels.filled is not None:
            hidden |= ~self.levels.filled[nodes]
        return scores.masked_fill_(hidden, -torch.inf)


def _dots(queries: Tensor, keys: Tensor, nodes: Tensor) -> Tensor:
    """queries (h, R, d) · keys (N, h, d) at nodes (h, c, R) → (h, c, R), a cacheful at a time."""
    heads, rows, width = queries.shape
    head = torch.arange(heads, device=nodes.device).view(-1, 1, 1)
    index = (nodes.transpose(1, 2) * heads + head).flatten(0, 1)  # (h·R, c)
    flat_q, flat_k = queries.reshape(-1, 1, width), keys.reshape(-1, width)
    step = max(1, _DOTS // (index.shape[1] * width))
    dots = [
        flat_k.index_select(0, part.flatten()).view(*part.shape, width).mul_(q).sum(-1)
        for part, q in zip(torch.split(index, step), torch.split(flat_q, step), strict=True)
    ]
    return torch.cat(dots).view(heads, rows, -1).transpose(1, 2).contiguous()


def _ascending(places: Tensor) -> Tensor:
    """Sorts along the last axis but one, of which there are few: compare and exchange neighbours in turn."""
    rows = list(places.unbind(-2))
    for turn in range(len(rows)):
        for i in range(turn % 2, len(rows) - 1, 2):
            rows[i], rows[i + 1] = torch.minimum(rows[i], rows[i + 1]), torch.maximum(rows[i], rows[i + 1])
    return torch.stack(rows, -2)
