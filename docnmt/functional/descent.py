"""TraverseTree: down the trees of all documents, keeping the top t nodes of each level (paper 002, section 3.3.2)."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from docnmt.functional.selection import Selection, documents
from docnmt.functional.top_t import top_t
from docnmt.functional.tree import TreeIndex
from docnmt.layout import DocumentLayout

_CHUNK_SCORES = 1 << 22  # relevances held at a time: 16 MB in float32


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
    nodes = index.node_spans.host
    for document, (rows, _, sentences) in enumerate(documents(query_layout, key_layout)):
        span = slice(int(nodes[document]), int(nodes[document + 1]))
        if span.start == span.stop:
            continue
        size = [int(n) for n in index.level_size[:, document] if n]
        bounds = key_layout.sentence_offsets[sentences.start : sentences.stop + 1]
        keys = cumulative_k[span].permute(1, 2, 0)
        own_keys = keys if node_k is None else node_k[span].permute(1, 2, 0)
        step = max(1, _CHUNK_SCORES // (heads * keys.shape[-1]))
        for start in range(rows.start, rows.stop, step):
            part = slice(start, min(start + step, rows.stop))
            leaves = _descend_document(queries[:, part] @ own_keys, size, bounds, t)
            values = (queries[:, part] @ keys[..., : size[0]]).gather(-1, leaves.clamp(max=size[0] - 1))
            kept = leaves.shape[-1]
            relevance[:, part, :kept] = values.masked_fill(leaves == size[0], -torch.inf)
            selected[:, part] = sentences.start
            selected[:, part, :kept] += leaves.clamp(max=size[0] - 1)
    return Selection(selected, relevance)


def _descend_document(scores: Tensor, size: list[int], bounds: Tensor, t: int) -> Tensor:
    """scores (h, rows, nodes) of all nodes, leaves first → (h, rows, ≤ t) leaves; n for an empty place."""
    kept = torch.zeros_like(scores[..., :1], dtype=torch.int64)
    first = scores.shape[-1]
    for level in reversed(range(len(size))):
        n = size[level]
        first -= n
        # children in order, so that ties go to the lowest index
        candidates = kept if level == len(size) - 1 else torch.stack([2 * kept, 2 * kept + 1], -1).flatten(-2)
        node = candidates.clamp(max=n - 1)
        begin, end = node << level, ((node + 1) << level).clamp(max=size[0])
        possible = (candidates < n) & (bounds[end] > bounds[begin])
        values, places = top_t(scores.gather(-1, node + first).masked_fill_(~possible, -torch.inf), t)
        kept = candidates.gather(-1, places).masked_fill(values == -torch.inf, n).sort(-1).values
    return kept[..., : min(t, size[0])]
