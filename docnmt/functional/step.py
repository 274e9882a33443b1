"""Conditional attention for decoding: one query a row, the rows in any order."""

from __future__ import annotations

import torch
from torch import Tensor

from docnmt.functional.conditional import attend_selected, in_float32
from docnmt.functional.descent import descend
from docnmt.functional.hierarchical import choosing_keys
from docnmt.functional.selection import select_sentences
from docnmt.functional.tree import SentenceTree, cumulative_keys
from docnmt.layout import DocumentLayout


def conditional_attention_step(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    sentence_q: Tensor,
    sentence_k: Tensor,
    *,
    key_layout: DocumentLayout,
    document_of_row: Tensor,
    top_t: int,
    tree: SentenceTree | None = None,
    cumulative_k: Tensor | None = None,
    select_on: str = "cumulative",
) -> Tensor:
    """The same numbers as the parallel forms, for one query a row; without gradient.

    Args:
        q, sentence_q: (R, h, d_k), rows in any order.
        k, v: (Tk, h, d_k), (Tk, h, d_v), following `key_layout`.
        sentence_k: (Sk, h, d_k) without a tree; the node keys (N, h, d_k) with one.
        document_of_row: (R,) int64, the document of `key_layout` each row reads.
        top_t: how many sentences a row keeps.
        tree: choose as `hierarchical_conditional_attention` does.
        cumulative_k: (N, h, d_k), `cumulative_keys(sentence_k, tree.index)`, if the caller keeps it between steps.
        select_on: as in `hierarchical_conditional_attention`.

    Returns:
        (R, h, d_v).
    """
    with torch.no_grad(), torch.autocast(q.device.type, enabled=False):
        q_, k_, v_, sentence_q_, sentence_k_ = in_float32(q, k, v, sentence_q, sentence_k)
        order, query_layout = rows_by_document(document_of_row, key_layout)
        q_, sentence_q_ = q_[order], sentence_q_[order]
        if tree is None:
            selection = select_sentences(sentence_q_, sentence_k_, query_layout, key_layout, top_t, "document")
        else:
            if cumulative_k is None:
                cumulative_k = cumulative_keys(sentence_k_, tree.index)
            own = choosing_keys(sentence_k_, select_on)
            selection = descend(sentence_q_, cumulative_k, own, tree.index, query_layout, key_layout, top_t)
            sentence_k_ = cumulative_k.index_select(0, tree.index.leaves)
        out = attend_selected(q_, k_, v_, sentence_q_, sentence_k_, selection, query_layout, key_layout)
    return out[order.argsort()].to(v.dtype)


def rows_by_document(document_of_row: Tensor, key_layout: DocumentLayout) -> tuple[Tensor, DocumentLayout]:
    """The order (R,) in which the rows of each document stand together, and their layout in that order."""
    order = document_of_row.argsort(stable=True)
    rows = torch.bincount(document_of_row, minlength=key_layout.num_documents)
    offsets = torch.cat([rows.new_zeros(1), rows.cumsum(0)])
    return order, DocumentLayout(offsets, torch.arange(len(offsets), device=offsets.device))
