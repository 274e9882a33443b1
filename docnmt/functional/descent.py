"""TraverseTree: down the trees of all documents, keeping the top t nodes of each level (paper 002, section 3.3.2)."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from docnmt.functional.groups import document_groups
from docnmt.functional.selection import Selection, put_selection, row_chunks
from docnmt.functional.top_t import top_t
from docnmt.functional.tree import TreeIndex
from docnmt.layout import DocumentLayout

_NOWHERE = 1 << 30  # a node that no tree has


@torch.no_grad()
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
    heads = sentence_q.shape[1]
    queries = sentence_q.transpose(0, 1) / math.sqrt(sentence_q.shape[-1])  # (h, Tq, d_k)
    selected = torch.zeros(heads, queries.shape[1], t, dtype=torch.int64, device=queries.device)
    relevance = queries.new_full((heads, queries.shape[1], t), -torch.inf)
    kinds = (query_layout.documents, index.node_spans, key_layout.document_sentences)
    for rows, nodes, sentences in document_groups(*kinds):
        keys = cumulative_k[nodes.rows].permute(2, 0, 3, 1)  # (h, n, d_k, N)
        own_keys = keys if node_k is None else node_k[nodes.rows].permute(2, 0, 3, 1)
        first = sentences.rows[:, :1]
        sizes = index.sizes[:, index.document_of_node[nodes.rows[:, 0]]]  # (L, n)
        place = torch.arange(sentences.rows.shape[1] + 1, device=first.device)
        words = key_layout.sentence_offsets[first + place.minimum(sizes[0][:, None])]  # (n, S + 1)
        for part in row_chunks(rows, heads, nodes.rows.shape[1]):
            here = queries[:, part]  # (h, n, rows, d_k)
            leaves = _descend(here @ own_keys, sizes, words, t)
            last = sizes[0][:, None, None] - 1
            values = (here @ keys).gather(-1, leaves.clamp(max=nodes.rows.shape[1] - 1))
            values = values.masked_fill(leaves > last, -torch.inf)
            put_selection(selected, relevance, part, leaves.minimum(last) + first[..., None], values)
    return Selection(selected, relevance)


def _descend(scores: Tensor, sizes: Tensor, words: Tensor, t: int) -> Tensor:
    """All documents of a group, level by level.

    Args:
        scores: (h, n, rows, N), of all nodes of each document, leaves first.
        sizes: (L, n), nodes in each level, 0 above a root. words: (n, S+1), where each sentence's words begin.

    Returns:
        (h, n, rows, ≤ t) leaves; `_NOWHERE` for an empty place.
    """
    kept = torch.zeros_like(scores[..., :1], dtype=torch.int64)  # one place above the root, whose child 0 is the root
    starts = (sizes.cumsum(0) - sizes)[..., None, None]  # (L, n, 1, 1)
    for level in reversed(range(len(sizes))):
        size = sizes[level][:, None, None]
        # children in order, so that ties go to the lowest index
        candidates = torch.stack([2 * kept, 2 * kept + 1], -1).flatten(-2)
        node = candidates.minimum((size - 1).clamp(min=0))
        begin = node << level
        end = torch.minimum(begin + (1 << level), sizes[0][:, None, None])
        possible = (candidates < size) & _has_words(words, begin, end)
        index = (node + starts[level]).clamp(max=scores.shape[-1] - 1)
        values, places = top_t(scores.gather(-1, index).masked_fill_(~possible, -torch.inf), t)
        chosen = candidates.gather(-1, places).masked_fill(values == -torch.inf, _NOWHERE).sort(-1).values
        waiting = torch.nn.functional.pad(kept, (0, chosen.shape[-1] - kept.shape[-1]), value=_NOWHERE)
        kept = torch.where(size > 0, chosen, waiting)
    return kept


def _has_words(words: Tensor, begin: Tensor, end: Tensor) -> Tensor:
    """Whether the sentences [begin, end) of each document have a word between them; (h, n, rows, c) each."""
    starts = words[None, :, None].expand(*begin.shape[:3], -1)
    return starts.gather(-1, end) > starts.gather(-1, begin)
