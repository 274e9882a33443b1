"""Conditional attention: every word attends to the words of its t most relevant sentences (paper 002, eq. 3-7)."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from docnmt.functional.dispatch import dispatch_attention
from docnmt.functional.padded import padded_attention
from docnmt.functional.selection import Selection, by_document, less_the_largest, select_sentences
from docnmt.functional.top_t import check_t, chosen
from docnmt.layout import DocumentLayout

_HALF_TYPES = (torch.float16, torch.bfloat16)
_SHORT = 128  # words of a document up to which all scores are computed faster than some are chosen
# What sending a query to a sentence costs, and each word there, in scores of the form that computes them all.
_SENDING, _READING = 22.0, 1.7
_LARGE = 1 << 24  # pairs that are not held together to save time, 64 MB a head and tensor in float32
_FEW = 1 << 13  # pairs of a query and a word up to which planning a dispatch takes longer than computing all scores


def conditional_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    sentence_q: Tensor,
    sentence_k: Tensor,
    *,
    query_layout: DocumentLayout,
    key_layout: DocumentLayout,
    top_t: int,
    visible: str = "document",
    backend: str = "auto",
) -> Tensor:
    """Softmax[q·k/√d_k + KeepTopT(sentence_q·sentence_k/√d_k, t) M] v (paper 002, equation 7), for every document.

    Each word and head keeps its own t most relevant non-empty sentences of its document; a sentence's relevance is
    added to the scores of its words. With nothing to select, the output and all gradients are exactly 0. The gradients
    themselves can be differentiated with backend "dense" only.

    Args:
        q, sentence_q: (Tq, h, d_k), following `query_layout`.
        k, v: (Tk, h, d_k), (Tk, h, d_v), following `key_layout`.
        sentence_k: (Sk, h, d_k), one for each sentence of `key_layout`.
        top_t: how many sentences a word keeps.
        visible: "document", or "earlier": a query of sentence i of its document sees the key sentences before i only.
        backend: "dense" (the plain equation), "dispatch" (exact, O(n·t·m²)) or "auto" (the cheaper one).

    Returns:
        (Tq, h, d_v), in the type of `v`; half types compute in float32.

    Raises:
        ValueError: shapes, layouts or options do not fit.
    """
    if visible not in ("document", "earlier"):
        raise ValueError(f'visible: expected "document" or "earlier", got {visible!r}')
    check_t(top_t)
    check_shapes(q, k, v, sentence_q, query_layout, key_layout)
    expected = (key_layout.num_sentences, *k.shape[1:])
    if tuple(sentence_k.shape) != expected:
        raise ValueError(
            f"sentence_k: expected (Sk, h, d_k) = {expected} from key_layout, got {tuple(sentence_k.shape)}"
        )
    if visible == "earlier":
        check_same_sentences(query_layout, key_layout)
    backend = choose_backend(backend, query_layout, key_layout, top_t)
    with torch.autocast(q.device.type, enabled=False):
        q_, k_, v_, sentence_q_, sentence_k_ = in_float32(q, k, v, sentence_q, sentence_k)
        sentence_k_ = without(key_layout.sentences.lengths == 0, sentence_k_)
        selection = select_sentences(sentence_q_, sentence_k_, query_layout, key_layout, top_t, visible)
        arguments = (q_, k_, v_, sentence_q_, sentence_k_, selection, query_layout, key_layout)
        out = _dense(*arguments) if backend == "dense" else attend_selected(*arguments, backend)
    return out.to(v.dtype)


def attend_selected(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    sentence_q: Tensor,
    sentence_k: Tensor,
    selection: Selection,
    query_layout: DocumentLayout,
    key_layout: DocumentLayout,
    backend: str = "auto",
) -> Tensor:
    """Equation 7 with the sentences chosen already, by the backend that is cheaper unless one is named.

    q, sentence_q (Tq, h, d_k), k (Tk, h, d_k), v (Tk, h, d_v), sentence_k (Sk, h, d_k) → (Tq, h, d_v).
    """
    if choose_backend(backend, query_layout, key_layout, selection.sentences.shape[-1]) == "dispatch":
        return dispatch_attention(q, k, v, sentence_q, sentence_k, selection, key_layout.sentences)
    return padded_attention(q, k, v, sentence_q, sentence_k, selection, query_layout, key_layout)


def dense_attention(
    q: Tensor, k: Tensor, v: Tensor, relevance: Tensor, selection: Selection, of_token: Tensor
) -> Tensor:
    """Equation 7 as it stands, for one document and a choice of sentences already made.

    Args:
        relevance: (h, Tq, S), what is added to the scores of a sentence's words where the sentence was chosen.
        selection: sentences numbered from the document's first; (h, Tq, ≤ S) each.
        of_token: (Tk,) int64, the sentence of each key.
    """
    keep = chosen(selection.relevance.mT, selection.sentences.mT, relevance.mT).mT
    kept = less_the_largest(relevance.masked_fill(~keep, -torch.inf))  # KeepTopT(...), (h, Tq, S)
    scores = torch.einsum("qhd,khd->hqk", q, k) / math.sqrt(q.shape[-1]) + kept.index_select(-1, of_token)  # kept M
    nothing = (scores == -torch.inf).all(-1, keepdim=True)
    weights = scores.masked_fill(nothing, 0).softmax(-1).masked_fill(nothing, 0)
    return torch.einsum("hqk,khd->qhd", weights, v)


def _dense(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    sentence_q: Tensor,
    sentence_k: Tensor,
    selection: Selection,
    query_layout: DocumentLayout,
    key_layout: DocumentLayout,
) -> Tensor:
    outputs = []
    nothing = (slice(0, 0),) * 3
    for queries, keys, sentences in by_document(query_layout, key_layout) or [nothing]:
        relevance = torch.einsum("qhd,shd->hqs", sentence_q[queries], sentence_k[sentences]) / math.sqrt(q.shape[-1])
        of_token = key_layout.sentence_of_token[keys] - sentences.start
        choice = selection.of_document(queries, sentences)
        outputs.append(dense_attention(q[queries], k[keys], v[keys], relevance, choice, of_token))
    return torch.cat(outputs)


def check_shapes(
    q: Tensor, k: Tensor, v: Tensor, sentence_q: Tensor, query_layout: DocumentLayout, key_layout: DocumentLayout
) -> None:
    """What the flat and the hierarchical form ask of their common arguments."""
    for name, tensor, rows in (
        ("q", q, query_layout.num_tokens),
        ("sentence_q", sentence_q, query_layout.num_tokens),
        ("k", k, key_layout.num_tokens),
        ("v", v, key_layout.num_tokens),
    ):
        if tensor.dim() != 3 or len(tensor) != rows:
            raise ValueError(f"{name}: expected (tokens = {rows}, h, d) from its layout, got {tuple(tensor.shape)}")
    if not (q.shape[1:] == k.shape[1:] == sentence_q.shape[1:] and v.shape[1] == k.shape[1]):
        shapes = ", ".join(str(tuple(tensor.shape)) for tensor in (q, k, v, sentence_q))
        raise ValueError(f"q, k, v, sentence_q: expected the same heads and d_k, got {shapes}")
    if query_layout.num_documents != key_layout.num_documents:
        raise ValueError(
            f"query_layout and key_layout: expected the same number of documents, got document_offsets of shape "
            f"{tuple(query_layout.document_offsets.shape)} and {tuple(key_layout.document_offsets.shape)}"
        )


def check_same_sentences(query_layout: DocumentLayout, key_layout: DocumentLayout) -> None:
    ours, theirs = query_layout.document_sentences.lengths, key_layout.document_sentences.lengths
    different = (ours != theirs).nonzero()[0]
    if len(different):
        first = different[0]
        raise ValueError(
            f'visible="earlier": expected as many sentences in each document of query_layout and key_layout, got '
            f"{ours[first]} and {theirs[first]} in document {first} (sentence_offsets of shape "
            f"{tuple(query_layout.sentence_offsets.shape)} and {tuple(key_layout.sentence_offsets.shape)})"
        )


def choose_backend(backend: str, query_layout: DocumentLayout, key_layout: DocumentLayout, t: int) -> str:
    """`auto` computes every score of documents that are short or mostly read, else only the chosen sentences'."""
    if backend not in ("auto", "dense", "padded", "dispatch"):
        raise ValueError(f'backend: expected "auto", "dense", "padded" or "dispatch", got {backend!r}')
    queries, keys = query_layout.documents.lengths, key_layout.documents.lengths
    pairs = (queries * keys).sum()
    if pairs == 0:
        return "dense"  # products of nothing, whose gradients are 0
    if backend != "auto":
        return backend
    sentences = np.maximum(key_layout.document_sentences.lengths, 1)
    dispatching = (queries * np.minimum(t, sentences) * (_SENDING + _READING * keys / sentences)).sum()
    return "padded" if pairs <= max(_SHORT * queries.sum(), _FEW, min(dispatching, _LARGE)) else "dispatch"


def without(rows: np.ndarray, x: Tensor) -> Tensor:
    """x (n, h, d) with 0 in some rows (n,), whatever they held, as the keys of no words may be means of nothing."""
    return x.masked_fill(torch.from_numpy(rows).to(x.device).view(-1, 1, 1), 0) if rows.any() else x


def in_float32(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Half types compute in float32."""
    return tuple(tensor.float() if tensor.dtype in _HALF_TYPES else tensor for tensor in tensors)
