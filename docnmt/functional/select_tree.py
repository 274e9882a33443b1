"""TraverseTree: down the trees of all documents, keeping the top t nodes of each level.

Trankova and Rykunov, "Hierarchical Encoding and Conditional Attention in NMT", section 3.3.2.

All words and heads of a run of documents descend together. A node is named by its *place* in its level; the children of
place p have the places 2p and 2p + 1, and their relevances stand side by side. Those of the upper levels are one
product, of up to 128 nodes each; below them only the children of kept nodes are looked at, 2t a level, t rounded up to
a power of two.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from docnmt.functional import packed as costs
from docnmt.functional.ranking import best_children, ranked_children
from docnmt.functional.select_all import at_once, chunk_rows, document_runs
from docnmt.functional.selection import Keys, Queries, Selection, SelectionPolicy
from docnmt.functional.tree import TreeIndex
from docnmt.layout import DocumentLayout
from docnmt.runtime.transfer import to_device


def descend(queries: Queries, keys: Keys, policy: SelectionPolicy) -> Selection:
    """The sentences that stay after the last level, with their cumulative relevance.

    A node without a word below it, like an empty sentence, is never kept.
    """
    assert keys.tree is not None
    assert keys.cumulative is not None
    by_node, t = policy.select_on == "node", policy.top_t
    node_k = keys.relevance if by_node else keys.cumulative  # what nodes are kept by
    q = (queries.sentences / math.sqrt(queries.sentences.shape[-1])).transpose(0, 1).contiguous()  # (h, Tq, d_k)
    selection = Selection.empty(queries.sentences, t)
    for tokens, documents in document_runs(queries.layout, keys.layout, heads=len(q)):
        levels = _levels(keys.tree, documents, keys.layout, t)
        upper = node_k.index_select(0, levels.upper_nodes).transpose(0, 1).contiguous()  # (h, 2·pairs, d_k)
        hidden = q.new_zeros(len(levels.upper_nodes)).masked_fill_(levels.hidden, -torch.inf)
        step = chunk_rows(at_once(q.device, costs.TREE_CHUNK) // max(1, upper.shape[:2].numel()))
        for start in range(tokens.start, tokens.stop, step):
            rows = slice(start, min(start + step, tokens.stop))
            scores = torch.baddbmm(hidden, q[:, rows], upper.mT)  # (h, rows, 2·pairs)
            document = queries.layout.document_of_token[rows] - documents.start
            descent = _Descent(q[:, rows], node_k, scores.unflatten(2, (-1, 2)), levels, document)
            values, leaves = descent.down(t)
            if by_node:
                total = _dots(q[:, rows], keys.cumulative, descent.nodes(0, leaves))
                values = total.masked_fill_(values == -torch.inf, -torch.inf)
            sentences = descent.sentences(leaves).clamp_(max=keys.layout.num_sentences - 1)
            selection.write(slice(None), rows, sentences.transpose(0, 1), values.transpose(0, 1))
    return selection


@dataclass(frozen=True)
class _Levels:
    """The trees of a run of documents, levels from the leaves up. A root stands in all levels above its own, too.

    Attributes:
        size, node, pair: (levels, documents) int64: nodes, the first one, and its pair among the upper ones.
        first_sentence: (documents,) int64.
        first: the level to begin at: all nodes of the next one are kept, being no more than t in any document.
        low: the lowest of the upper levels.
        widest: nodes of the widest level.
        upper_nodes: the nodes of the levels from `low` to `first`, in pairs; one more pair after each level of each
            document, and a last node without a sibling has some other beside it.
        hidden: bool, which of them are not nodes of the level, or without a word.
        filled: (N,) whether a node has words; None if all of this run have.
    """

    size: Tensor
    node: Tensor
    pair: Tensor
    first_sentence: Tensor
    first: int
    low: int
    widest: int
    upper_nodes: Tensor
    hidden: Tensor
    filled: Tensor | None

    @classmethod
    def of_run(cls, index: TreeIndex, documents: range, key_layout: DocumentLayout, t: int) -> _Levels:
        """The levels of the trees of some documents."""
        part = slice(documents.start, documents.stop)
        exists = index.level_size[:, part]
        root = index.node_spans.host[documents.start + 1 : documents.stop + 1] - 1
        size = np.where(exists > 0, exists, np.minimum(exists[0], 1))
        node = np.where(exists > 0, index.level_start[:, part], np.maximum(root, 0))
        widest = size.max(1)  # shrinks upwards
        first = max(0, int((widest > t).sum()) - 1)
        low = min(first + 1, int((widest > costs.TREE_WIDE).sum()))
        pairs = (size[low : first + 1].ravel() + 1) // 2 + 1
        pair = np.cumsum(pairs) - pairs
        place = np.arange(2 * pairs.sum()) - np.repeat(2 * pair, 2 * pairs)
        beyond = place >= np.repeat(size[low : first + 1].ravel(), 2 * pairs)
        nodes = np.repeat(node[low : first + 1].ravel(), 2 * pairs) + np.where(beyond, 0, place)
        filled = index.filled_nodes(key_layout)
        span = index.node_spans.host[part.start], index.node_spans.host[part.stop]
        pair = np.concatenate([np.zeros_like(size[:low]), pair.reshape(-1, len(documents))])
        arrays = [size, node, pair, nodes, beyond | ~filled[nodes]]
        arrays += [] if filled[span[0] : span[1]].all() else [filled]
        moved = to_device(arrays, index.document_offsets.device)
        return cls(
            size=moved[0],
            node=moved[1],
            pair=moved[2],
            first_sentence=index.document_offsets[part],
            first=first,
            low=low,
            widest=int(widest[0]),
            upper_nodes=moved[3],
            hidden=moved[4],
            filled=moved[5] if len(moved) > 5 else None,
        )


def _levels(index: TreeIndex, documents: range, key_layout: DocumentLayout, t: int) -> _Levels:
    """Made once for a layout: all layers of a model share them."""
    key = (_levels, key_layout.document_sentences, documents, t)
    return key_layout.sentences.derive(key, lambda: _Levels.of_run(index, documents, key_layout, t))


class _Descent:
    """Queries (h, R, d_k) of documents (R,) of a run, the relevances of the upper pairs (h, R, pairs, 2), all keys."""

    def __init__(self, queries: Tensor, keys: Tensor, scores: Tensor, levels: _Levels, document: Tensor) -> None:
        self.queries, self.keys, self.levels = queries, keys, levels
        self.table = torch.view_as_complex(scores.flatten(0, 2))  # both numbers of a pair at once
        self.size, self.node = levels.size[:, document], levels.node[:, document]  # (levels, R)
        heads, rows, pairs = scores.shape[:3]
        own = torch.arange(heads * rows, device=document.device).view(heads, rows) * pairs
        self.pair = levels.pair[:, None, document] + own  # (levels, h, R), in the table
        self.first_sentence = levels.first_sentence[document]

    def down(self, t: int) -> tuple[Tensor, Tensor]:
        """(≤ t, h, R) scores of the leaves that stay, and their places; a place beyond the last where none stays."""
        shape, stay = self.queries.shape[:2], min(t, self.levels.widest)
        width = 1 << (stay - 1).bit_length()
        kept, pairs = torch.arange(width, device=self.queries.device).view(-1, 1, 1), (self.size + 1) // 2
        for level in range(self.levels.first, -1, -1):
            kept = torch.minimum(kept, pairs[level]).expand(-1, *shape)  # the pair after the last is hidden
            scores = self._scores(level, kept)
            if level == 0:
                values, kept = ranked_children(scores, kept.flatten(1), stay)
            else:
                kept = best_children(scores, kept.flatten(1), stay)
                if stay < width:
                    kept = functional.pad(kept, (0, 0, 0, width - stay), value=self.levels.widest)
            kept = kept.view(-1, *shape)
        return values.view(-1, *shape), kept

    def nodes(self, level: int, places: Tensor) -> Tensor:
        """The node at each place; for a place beyond the last, one of the same document."""
        return torch.minimum(places, (self.size[level] - 1).clamp_(min=0)) + self.node[level]

    def sentences(self, leaves: Tensor) -> Tensor:
        """The sentence of each leaf; for a place beyond the last, any near it."""
        return torch.minimum(leaves, (self.size[0] - 1).clamp_(min=0)) + self.first_sentence

    def _scores(self, level: int, parents: Tensor) -> Tensor:
        """(T, h·R, 2): relevance of the children of places (T, h, R), -inf where there is none or it has no word."""
        if level >= self.levels.low:
            pairs = self.table.index_select(0, (parents + self.pair[level]).flatten())
            return torch.view_as_real(pairs).view(len(parents), -1, 2)
        children = torch.stack([2 * parents, 2 * parents + 1], 1)  # (T, 2, h, R)
        nodes = self.nodes(level, children)
        scores = _dots(self.queries, self.keys, nodes.flatten(0, 1)).view_as(children)
        hidden = children >= self.size[level]
        if self.levels.filled is not None:
            hidden |= ~self.levels.filled[nodes]
        return scores.masked_fill_(hidden, -torch.inf).flatten(2).mT.contiguous()


def _dots(queries: Tensor, keys: Tensor, nodes: Tensor) -> Tensor:
    """queries (h, R, d) · keys (N, h, d) at nodes (c, h, R) → (c, h, R), a piece at a time."""
    heads, width = len(queries), queries.shape[-1]
    head = torch.arange(heads, device=nodes.device).view(-1, 1)
    index = (nodes * heads + head).flatten(1).T.contiguous()  # (h·R, c)
    flat_q, flat_k = queries.reshape(-1, 1, width), keys.reshape(-1, width)
    step = max(1, at_once(nodes.device, costs.TREE_DOTS) // (index.shape[1] * width))
    dots = [
        flat_k.index_select(0, part.flatten()).view(*part.shape, width).mul_(q).sum(-1)
        for part, q in zip(torch.split(index, step), torch.split(flat_q, step), strict=True)
    ]
    return torch.cat(dots).T.reshape(nodes.shape)
