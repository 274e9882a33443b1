"""Conditional attention in which a word's own sentence is always among the sentences it keeps.

The same equations as `docnmt.functional.conditional_attention` and its form over a tree; only the choice differs: where
a word's own sentence is not among its top t, it takes the place of the least relevant of them.
"""

from __future__ import annotations

import torch
from torch import Tensor

from docnmt.functional.conditional import attend_selected, in_float32
from docnmt.functional.descent import descend
from docnmt.functional.hierarchical import choosing_keys
from docnmt.functional.selection import Selection, select_sentences
from docnmt.functional.step import rows_by_document
from docnmt.functional.tree import SentenceTree, cumulative_keys
from docnmt.layout import DocumentLayout


def own_sentence_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    sentence_q: Tensor,
    relevance_k: Tensor,
    tree: SentenceTree | None,
    *,
    query_layout: DocumentLayout,
    key_layout: DocumentLayout,
    top_t: int,
    select_on: str,
) -> Tensor:
    """All queries at once; the own sentence of a query is the one of the same number in `key_layout`.

    q, sentence_q (Tq, h, d), k, v (Tk, h, d), relevance_k (S, h, d), or of all nodes of the tree → (Tq, h, d).
    """
    own = query_layout.sentence_of_token
    with torch.autocast(q.device.type, enabled=False):
        q_, k_, v_, sentence_q_, relevance_k_ = in_float32(q, k, v, sentence_q, relevance_k)
        cumulative = None if tree is None else cumulative_keys(relevance_k_, tree.index)
        sentence_k = relevance_k_ if tree is None or cumulative is None else cumulative[tree.index.leaves]
        selection = _choose(
            sentence_q_, relevance_k_, cumulative, sentence_k, tree, own, query_layout, key_layout, top_t, select_on
        )
        mixed = attend_selected(q_, k_, v_, sentence_q_, sentence_k, selection, query_layout, key_layout)
    return mixed.to(v.dtype)


def own_sentence_step(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    sentence_q: Tensor,
    relevance_k: Tensor,
    cumulative: Tensor | None,
    tree: SentenceTree | None,
    *,
    key_layout: DocumentLayout,
    sentence_of_row: Tensor,
    top_t: int,
    select_on: str,
) -> Tensor:
    """The same numbers for one query a row; `sentence_of_row` (R,) is each row's own sentence; without gradient."""
    with torch.no_grad(), torch.autocast(q.device.type, enabled=False):
        q_, k_, v_, sentence_q_, relevance_k_ = in_float32(q, k, v, sentence_q, relevance_k)
        order, query_layout = rows_by_document(key_layout.document_of_sentence[sentence_of_row], key_layout)
        q_, sentence_q_ = q_[order], sentence_q_[order]
        sentence_k = relevance_k_ if tree is None or cumulative is None else cumulative[tree.index.leaves]
        selection = _choose(
            sentence_q_, relevance_k_, cumulative, sentence_k, tree, sentence_of_row[order],
            query_layout, key_layout, top_t, select_on,
        )  # fmt: skip
        mixed = attend_selected(q_, k_, v_, sentence_q_, sentence_k, selection, query_layout, key_layout)
    return mixed[order.argsort()].to(v.dtype)


def with_own(selection: Selection, own: Tensor, relevance: Tensor) -> Selection:
    """A selection whose least relevant sentence gives way to `own` (Tq,), of `relevance` (h, Tq), where it lacks it."""
    there = ((selection.sentences == own[:, None]) & (selection.relevance != -torch.inf)).any(-1, keepdim=True)
    choices = torch.arange(selection.relevance.shape[-1], device=own.device)
    place = (choices == selection.relevance.argmin(-1, keepdim=True)) & ~there  # (h, Tq, t)
    return Selection(
        torch.where(place, own[:, None], selection.sentences),
        torch.where(place, relevance[..., None], selection.relevance),
    )


def _choose(
    sentence_q: Tensor,
    relevance_k: Tensor,
    cumulative: Tensor | None,
    sentence_k: Tensor,
    tree: SentenceTree | None,
    own: Tensor,
    query_layout: DocumentLayout,
    key_layout: DocumentLayout,
    top_t: int,
    select_on: str,
) -> Selection:
    """The top t by relevance, flat or down the tree, the own sentence always among them."""
    with torch.no_grad():
        if tree is None or cumulative is None:
            selection = select_sentences(sentence_q, relevance_k, query_layout, key_layout, top_t, "document")
        else:
            by = choosing_keys(relevance_k, select_on)
            selection = descend(sentence_q, cumulative, by, tree.index, query_layout, key_layout, top_t)
        relevance = (sentence_q * sentence_k[own]).sum(-1) * sentence_q.shape[-1] ** -0.5  # (Tq, h)
        return with_own(selection, own, relevance.T)
