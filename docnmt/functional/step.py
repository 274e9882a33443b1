"""Conditional attention for decoding: one query a row, the chosen sentences of its document gathered."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from docnmt.functional.conditional import in_float32
from docnmt.functional.descent import descend
from docnmt.functional.hierarchical import choosing_keys
from docnmt.functional.selection import Selection, select_sentences
from docnmt.functional.tree import SentenceTree, cumulative_keys
from docnmt.layout import DocumentLayout, Spans


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
        order = document_of_row.argsort(stable=True)
        rows = torch.bincount(document_of_row, minlength=key_layout.num_documents)
        offsets = torch.cat([rows.new_zeros(1), rows.cumsum(0)])
        query_layout = DocumentLayout(offsets, torch.arange(len(offsets), device=offsets.device))
        if tree is None:
            selection = select_sentences(sentence_q_[order], sentence_k_, query_layout, key_layout, top_t, "document")
        else:
            if cumulative_k is None:
                cumulative_k = cumulative_keys(sentence_k_, tree.index)
            own = choosing_keys(sentence_k_, select_on)
            selection = descend(sentence_q_[order], cumulative_k, own, tree.index, query_layout, key_layout, top_t)
        out = torch.empty(len(q), *v.shape[1:], dtype=v_.dtype, device=v.device)
        out[order] = _gathered_attention(q_[order], k_, v_, selection, key_layout.sentences)
    return out.to(v.dtype)


def _gathered_attention(q: Tensor, k: Tensor, v: Tensor, selection: Selection, sentences: Spans) -> Tensor:
    rows, heads, width = q.shape
    if rows == 0 or len(k) == 0:
        return v.new_zeros(rows, *v.shape[1:])
    chosen = selection.sentences.transpose(0, 1)  # (R, h, t)
    valid = (selection.relevance != -torch.inf).transpose(0, 1)
    lengths = sentences.offsets.diff()[chosen].masked_fill_(~valid, 0).unsqueeze(-1)
    within = torch.arange(sentences.max_length, device=q.device)
    token = sentences.offsets[chosen].unsqueeze(-1) + torch.minimum(within, lengths - 1)  # (R, h, t, M)
    head = torch.arange(heads, device=q.device).view(-1, 1, 1)
    index = (token.clamp(0, len(k) - 1) * heads + head).flatten()
    gathered_k = k.reshape(-1, width).index_select(0, index).view(rows * heads, -1, width)
    gathered_v = v.reshape(-1, v.shape[-1]).index_select(0, index).view(rows * heads, -1, v.shape[-1])
    scores = gathered_k @ q.reshape(rows * heads, width, 1) / math.sqrt(width)  # (R·h, t·M, 1)
    scores = scores.view(rows, heads, -1, len(within)) + selection.relevance.transpose(0, 1).unsqueeze(-1)
    scores = scores.masked_fill(within >= lengths, -torch.inf).flatten(2)
    nothing = ~valid.any(-1, keepdim=True)
    weights = scores.masked_fill(nothing, 0).softmax(-1).masked_fill(nothing, 0)
    return (weights.view(rows * heads, 1, -1) @ gathered_v).view(rows, heads, -1)
