"""Selective attention: a word reads the words of a few sentences. All forms of it take the same steps.

`Queries` and `Keys` → `select`, by a `SelectionPolicy` → `Selection` → `attend`. The forms differ in their values only:
flat or over a tree by the keys, all of a document or earlier sentences only, with the own sentence or without, by the
policy; a step of decoding by the order of its queries.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from docnmt.functional import costs
from docnmt.functional.attend_dispatch import dispatch_attention
from docnmt.functional.attend_padded import padded_attention
from docnmt.functional.attend_varlen import suits_varlen, varlen_attention
from docnmt.functional.kernels import takes_chosen
from docnmt.functional.row_lists import attend_spans
from docnmt.functional.select_all import top_sentences
from docnmt.functional.select_blocks import find_sentences
from docnmt.functional.select_tree import descend
from docnmt.functional.selection import Keys, Queries, Selection, SelectionPolicy, subtract_largest
from docnmt.functional.top_t import kept_mask
from docnmt.layout import DocumentLayout
from docnmt.runtime.tuning import new_shapes


def selective_attention(queries: Queries, keys: Keys, policy: SelectionPolicy, backend: str = "auto") -> Tensor:
    """Softmax[q·k/√d_k + kept relevance of the word's sentence] v, over the words of the kept sentences.

    Returns:
        (Tq, h, d_v), in the type of the values; half types compute in float32, on a CUDA card by flash attention.

    Raises:
        ValueError: queries, keys and policy do not fit, or the backend is unknown.
    """
    _check_tensors(queries, keys)
    _check_layouts(queries, keys, policy)
    with torch.autocast(queries.words.device.type, enabled=False), new_shapes():
        queries, keys = queries.choosing(), keys.choosing()
        selection = select(queries, keys, policy)
        if backend == "auto" and suits_varlen(queries, keys, selection):  # half types on a CUDA card
            out = attend_on_card(queries, keys, selection)
        else:
            out = attend(queries.precise(), keys.precise(), selection, backend)
    return out.to(keys.values.dtype)


def attend_on_card(queries: Queries, keys: Keys, selection: Selection) -> Tensor:
    """Attention of half types, by a kernel of ours where these are switched on, or by flash attention → (Tq, h, d).

    Args:
        queries, keys: those of sentences in float32, as `choosing` returns them.
    """
    if not takes_chosen(queries.words, keys.words, keys.values):
        return varlen_attention(queries, keys, selection)
    from docnmt.functional.kernels.chosen_attention import chosen_attention

    words = queries.words, keys.words, keys.values
    return chosen_attention(*words, queries.sentences, keys.sentences, selection, keys.layout.sentences)


@torch.no_grad()
def selective_attention_step(
    q: Tensor, sentence_q: Tensor, keys: Keys, policy: SelectionPolicy, *,
    document_of_row: Tensor, own: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Return selective attention for one query in each row, q and sentence_q (R, h, d_k) in any order; no gradient.

    Args:
        keys: of all that a row may see, whatever `policy.visible` is.
        document_of_row: (R,) int64, the document of the keys that each row reads.
        own: (R,) int64, each row's own sentence of the keys, for `always_own`.

    Returns:
        (R, h, d_v).

    Raises:
        ValueError: as `selective_attention`, or `own` is missing.
    """
    if policy.always_own and own is None:
        raise ValueError("own: expected the own sentence of each row with always_own, got None")
    order = document_of_row.argsort(stable=True)  # rows of a document become neighbours
    rows = torch.bincount(document_of_row, minlength=keys.layout.num_documents)
    offsets = torch.cat([rows.new_zeros(1), rows.cumsum(0)])
    layout = DocumentLayout(offsets, torch.arange(len(offsets), device=offsets.device))
    queries = Queries(q[order], sentence_q[order], layout, None if own is None else own[order])
    policy = policy if policy.visible == "document" else replace(policy, visible="document")
    backend = "listed" if q.device.type == "cpu" else "auto"
    return selective_attention(queries, keys, policy, backend)[order.argsort()]


@torch.no_grad()
def select(queries: Queries, keys: Keys, policy: SelectionPolicy) -> Selection:
    """Return the sentences that each query and head keeps; empty sentences are never kept."""
    longest = keys.layout.document_sentences.max_length
    if policy.top_t >= longest:  # every sentence stays: nothing to search for, and no room for more
        policy = replace(policy, top_t=max(longest, 2 if policy.always_own else 1))
        selection = top_sentences(queries, keys, policy)
    elif keys.tree is not None:
        selection = descend(queries, keys, policy)
    else:
        selection = (find_sentences if policy.by_blocks else top_sentences)(queries, keys, policy)
    return _with_own(selection, queries, keys) if policy.always_own else selection


def _with_own(selection: Selection, queries: Queries, keys: Keys) -> Selection:
    """Replace the least relevant sentence by the query's own one where that is not kept and has a word."""
    own = queries.layout.sentence_of_token if queries.own is None else queries.own
    relevance = (queries.sentences * keys.sentences[own]).sum(-1) * queries.sentences.shape[-1] ** -0.5  # (Tq, h)
    kept = ((selection.sentences == own[:, None]) & (selection.relevance != -torch.inf)).any(-1, keepdim=True)
    missing = ~kept & (keys.layout.sentence_offsets.diff()[own] > 0)[:, None]  # (h, Tq, 1)
    places = torch.arange(selection.relevance.shape[-1], device=own.device)
    given = (places == selection.relevance.argmin(-1, keepdim=True)) & missing  # (h, Tq, t)
    return Selection(
        torch.where(given, own[:, None], selection.sentences),
        torch.where(given, relevance.T[..., None], selection.relevance),
    )


def attend(queries: Queries, keys: Keys, selection: Selection, backend: str = "auto") -> Tensor:
    """Attention to the words of the kept sentences → (Tq, h, d_v); differentiable, but for "listed"."""
    ways = {
        "dense": dense_attention,
        "padded": padded_attention,
        "dispatch": dispatch_attention,
        "listed": listed_attention,
    }
    way = choose_backend(backend, queries.layout, keys.layout, selection.sentences.shape[-1])
    return ways[way](queries, keys, selection)


def choose_backend(backend: str, query_layout: DocumentLayout, key_layout: DocumentLayout, t: int) -> str:
    """Return the backend to use; "auto" computes all scores of documents that are short or mostly read."""
    if backend not in ("auto", "dense", "padded", "dispatch", "listed"):
        raise ValueError(f'backend: expected "auto", "dense", "padded", "dispatch" or "listed", got {backend!r}')
    queries, keys = query_layout.documents.lengths, key_layout.documents.lengths
    pairs = (queries * keys).sum()
    if pairs == 0:
        return "dense"  # products of nothing, whose gradients are 0
    if backend != "auto":
        return backend
    sentences = np.maximum(key_layout.document_sentences.lengths, 1)
    each = costs.DISPATCH_QUERY + costs.DISPATCH_WORD * keys / sentences
    dispatching = (queries * np.minimum(t, sentences) * each).sum()
    most = max(costs.PADDED_WORDS * queries.sum(), costs.PADDED_FEW, min(dispatching, costs.PADDED_MOST))
    return "padded" if pairs <= most else "dispatch"


def dense_attention(queries: Queries, keys: Keys, selection: Selection) -> Tensor:
    """The equation as it stands, document after document; can be differentiated twice."""
    sentence_k, root = keys.sentences, math.sqrt(queries.words.shape[-1])
    outputs = []
    spans = (queries.layout.documents, keys.layout.documents, keys.layout.document_sentences)
    bounds = np.stack([of.host for of in spans]).T.tolist()  # (D + 1, 3)
    for begin, end in itertools.pairwise(bounds if len(bounds) > 1 else [(0, 0, 0)] * 2):
        q, k, s = (slice(*pair) for pair in zip(begin, end, strict=True))
        relevance = torch.einsum("qhd,shd->hqs", queries.sentences[q], sentence_k[s]) / root  # (h, Lq, S)
        most = relevance.shape[-1]  # choices beyond them are empty
        kept = (selection.sentences[:, q, :most] - s.start).clamp_(0, max(0, most - 1))
        keep = kept_mask(selection.relevance[:, q, :most].mT, kept.mT, relevance.mT).mT
        relevance = subtract_largest(relevance.masked_fill(~keep, -torch.inf))  # KeepTopT(...)
        of_word = keys.layout.sentence_of_token[k] - s.start  # the paper's M
        scores = torch.einsum("qhd,khd->hqk", queries.words[q], keys.words[k]) / root
        scores = scores + relevance.index_select(-1, of_word)  # (h, Lq, Lk)
        nothing = (scores == -torch.inf).all(-1, keepdim=True)
        weights = scores.masked_fill(nothing, 0).softmax(-1).masked_fill(nothing, 0)
        outputs.append(torch.einsum("hqk,khd->qhd", weights, keys.values[k]))
    return torch.cat(outputs)


def listed_attention(queries: Queries, keys: Keys, selection: Selection) -> Tensor:
    """Each query reads the words of its sentences where they are: fastest for the few queries of a step. No gradient.

    Raises:
        ValueError: a gradient is asked for.
    """
    if torch.is_grad_enabled() and any(x.requires_grad for x in (queries.words, keys.words, keys.values)):
        raise ValueError('backend: "listed" has no gradient; compute under torch.no_grad() or with another backend')
    sentences, relevance = (x.transpose(0, 1) for x in (selection.sentences, selection.relevance))  # (Tq, h, t)
    offsets = keys.layout.sentence_offsets
    begins, lengths = offsets[sentences], offsets.diff()[sentences]
    return attend_spans(queries.words, keys.words, keys.values, begins, lengths, relevance)


def _check_tensors(queries: Queries, keys: Keys) -> None:
    q, k, v, sentence_q, tree = queries.words, keys.words, keys.values, queries.sentences, keys.tree
    asked, read = queries.layout.num_tokens, keys.layout.num_tokens
    for name, x, rows in (("q", q, asked), ("sentence_q", sentence_q, asked), ("k", k, read), ("v", v, read)):
        if x.dim() != 3 or x.shape[0] != rows:
            raise ValueError(f"{name}: expected (tokens = {rows}, h, d) from its layout, got {tuple(x.shape)}")
    if not (q.shape[1:] == k.shape[1:] == sentence_q.shape[1:] and v.shape[1] == k.shape[1]):
        shapes = ", ".join(str(tuple(x.shape)) for x in (q, k, v, sentence_q))
        raise ValueError(f"q, k, v, sentence_q: expected the same heads and d_k, got {shapes}")
    expected = (keys.layout.num_sentences if tree is None else tree.num_nodes, *k.shape[1:])
    if keys.relevance.shape != expected:
        what = "sentence_k: expected (Sk, h, d_k)" if tree is None else "node_k: expected (N, h, d_k)"
        of = "key_layout" if tree is None else "the tree"
        raise ValueError(f"{what} = {expected} from {of}, got {tuple(keys.relevance.shape)}")


def _check_layouts(queries: Queries, keys: Keys, policy: SelectionPolicy) -> None:
    ours, theirs, tree = queries.layout, keys.layout, keys.tree
    if ours.num_documents != theirs.num_documents:
        raise ValueError(
            f"query_layout and key_layout: expected the same number of documents, got document_offsets of shape "
            f"{tuple(ours.document_offsets.shape)} and {tuple(theirs.document_offsets.shape)}"
        )
    if tree is not None and not np.array_equal(tree.level_size[0], theirs.document_sentences.lengths):
        raise ValueError(
            f"tree: expected the sentences of key_layout, document_offsets {tuple(theirs.document_offsets.shape)}, "
            f"got a tree over {tuple(tree.document_offsets.shape)} with other sentences in a document"
        )
    earlier = policy.visible == "earlier"
    if earlier and tree is not None:
        raise ValueError('visible="earlier": expected no tree, as its inner nodes hold later sentences')
    if not earlier and (queries.own is not None or not policy.always_own):
        return
    asked, read = ours.document_sentences.lengths, theirs.document_sentences.lengths
    if (asked != read).any():
        document = int((asked != read).argmax())
        raise ValueError(
            f"{policy}: expected as many sentences in each document of query_layout and key_layout, got "
            f"{asked[document]} and {read[document]} in document {document} (sentence_offsets of shape "
            f"{tuple(ours.sentence_offsets.shape)} and {tuple(theirs.sentence_offsets.shape)})"
        )
