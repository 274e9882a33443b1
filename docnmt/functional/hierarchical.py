"""Hierarchical conditional attention: the sentences to read are found by descending a tree (paper 002, section 3.3)."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from docnmt.functional.conditional import (
    attend_selected,
    check_shapes,
    choose_backend,
    dense_attention,
    in_float32,
    without,
)
from docnmt.functional.descent import descend
from docnmt.functional.selection import Selection, by_document
from docnmt.functional.top_t import check_t
from docnmt.functional.tree import SentenceTree, TreeIndex, cumulative_keys
from docnmt.layout import DocumentLayout


def hierarchical_conditional_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    sentence_q: Tensor,
    node_k: Tensor,
    tree: SentenceTree,
    *,
    query_layout: DocumentLayout,
    key_layout: DocumentLayout,
    top_t: int,
    select_on: str = "cumulative",
    backend: str = "auto",
) -> Tensor:
    """Softmax[q·k/√d_k + TraverseTree(sentence_q, node_k, t) M] v (paper 002, section 3.3.2), for every document.

    A node's relevance is sentence_q·node_k/√d_k, its cumulative relevance the sum over its path from the root, root and
    copied nodes included. At each level the top t nodes stay; the cumulative relevances of the leaves that are left are
    added to the scores of their words. Nodes with no word below them are never kept.

    Args:
        q, sentence_q: (Tq, h, d_k), following `query_layout`.
        k, v: (Tk, h, d_k), (Tk, h, d_v), following `key_layout`.
        node_k: (N, h, d_k), the keys of `tree.nodes`, row by row.
        tree: of the sentences of `key_layout`.
        top_t: how many nodes stay at each level.
        select_on: whether nodes stay by their "cumulative" relevance or by the "node"'s own.
        backend: "dense" (the plain equation), "dispatch" (exact, O(n·m·t·(log n + m))) or "auto" (the cheaper one).

    Returns:
        (Tq, h, d_v), in the type of `v`; half types compute in float32.

    Raises:
        ValueError: shapes, layouts or options do not fit.
    """
    check_t(top_t)
    check_shapes(q, k, v, sentence_q, query_layout, key_layout)
    check_tree(node_k, k, tree, key_layout)
    backend = choose_backend(backend, query_layout, key_layout, top_t)
    index = tree.index
    with torch.autocast(q.device.type, enabled=False):
        q_, k_, v_, sentence_q_, node_k_ = in_float32(q, k, v, sentence_q, node_k)
        if (key_layout.sentences.lengths == 0).any():
            node_k_ = without(~index.filled_nodes(key_layout), node_k_)
        cumulative = cumulative_keys(node_k_, index)
        own = choosing_keys(node_k_, select_on)
        selection = descend(sentence_q_, cumulative, own, index, query_layout, key_layout, top_t)
        if backend == "dense":
            out = _dense(q_, k_, v_, sentence_q_, node_k_, index, selection, query_layout, key_layout)
        else:  # the leaves' cumulative keys are sentence keys like any other
            leaf_k = cumulative.index_select(0, index.leaves)
            out = attend_selected(q_, k_, v_, sentence_q_, leaf_k, selection, query_layout, key_layout, backend)
    return out.to(v.dtype)


def choosing_keys(node_k: Tensor, select_on: str) -> Tensor | None:
    """The keys to descend by where they are not the cumulative ones."""
    if select_on not in ("cumulative", "node"):
        raise ValueError(f'select_on: expected "cumulative" or "node", got {select_on!r}')
    return node_k if select_on == "node" else None


def check_tree(node_k: Tensor, k: Tensor, tree: SentenceTree, key_layout: DocumentLayout) -> None:
    expected = (tree.index.num_nodes, *k.shape[1:])
    if tuple(node_k.shape) != expected:
        raise ValueError(f"node_k: expected (N, h, d_k) = {expected} from the tree, got {tuple(node_k.shape)}")
    sentences = tree.index.level_size[0]
    if list(sentences) != list(key_layout.document_sentences.lengths):
        raise ValueError(
            f"tree: expected the sentences of key_layout, document_offsets "
            f"{tuple(key_layout.document_offsets.shape)}, got a tree over {tuple(tree.index.document_offsets.shape)} "
            f"with other sentences in a document"
        )


def _dense(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    sentence_q: Tensor,
    node_k: Tensor,
    index: TreeIndex,
    selection: Selection,
    query_layout: DocumentLayout,
    key_layout: DocumentLayout,
) -> Tensor:
    """Level by level, as the paper walks: each node's relevance is added to its parent's."""
    outputs = []
    spans = by_document(query_layout, key_layout) or [(slice(0, 0),) * 3]
    for document, (queries, keys, sentences) in enumerate(spans):
        cumulative = sentence_q.new_zeros(q.shape[1], queries.stop - queries.start, 1)
        for nodes in index.document_levels(document)[::-1]:
            relevance = torch.einsum("qhd,nhd->hqn", sentence_q[queries], node_k[nodes]) / math.sqrt(q.shape[-1])
            parent = torch.arange(relevance.shape[-1], device=q.device) // 2
            cumulative = cumulative.index_select(-1, parent) + relevance
        of_token = key_layout.sentence_of_token[keys] - sentences.start
        choice = selection.of_document(queries, sentences)
        outputs.append(dense_attention(q[queries], k[keys], v[keys], cumulative, choice, of_token))
    return torch.cat(outputs)
