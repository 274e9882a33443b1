"""Conditional attention (eq. 7): each word reads the words of the sentences that it keeps.

`Queries` and `Keys` → `select`, by a `SelectionPolicy` → `Selection` → `attend`. The forms differ in their values only:
flat or over a tree by the keys; a document or its earlier sentences, with the own one or without, by the policy. Two
exact ways, all scores of padded documents or by sentence (`dispatch`), and the rule that chooses between them.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from docnmt.functional.decoding import attend_spans
from docnmt.functional.dispatch import dispatch_attention, suits_varlen, varlen_attention
from docnmt.functional.kernels import takes_chosen
from docnmt.functional.selection import (
    Keys,
    Queries,
    Selection,
    SelectionPolicy,
    descend,
    find_sentences,
    in_float32,
    subtract_largest,
    top_sentences,
)
from docnmt.functional.tree import SentenceTree, cumulative_keys
from docnmt.layout import DocumentLayout, Spans
from docnmt.runtime.device import new_shapes, to_device

#: Words of a document up to which all scores are computed faster than some are chosen.
PADDED_WORDS = 128
#: Pairs of a query and a word up to which planning a dispatch takes longer than all scores.
PADDED_FEW = 1 << 13
#: Pairs of a query and a word that are held in memory at once, at most: 64 MB a head and tensor in float32.
PADDED_MOST = 1 << 24
#: Cost of a (query, kept sentence) and of a (query, word of a kept sentence) in a dispatch, in scores of all.
DISPATCH_QUERY, DISPATCH_WORD = 22.0, 1.7
#: Longest document of a padded group over its shortest, at most, ones of up to `PADDED_SHORT` words aside.
PADDED_SPREAD, PADDED_SHORT = 1.5, 48
#: Added to a score whose weight must be 0. Finite, so that its product with 0 is 0.
_MASKED = -1e30


# All scores: one padded batched product for documents of similar length.


@dataclass(frozen=True)
class _Padded:
    """Rows of a group's n documents, padded to the longest one, L, by the last row of each document's own span."""

    rows: Tensor  # (n, L) rows of the packed tensor
    real: Tensor  # (n, L) bool, False at padding
    shown: Tensor  # (m,) the positions in `rows.flatten()` that are not padding
    own: Tensor  # (m,) the packed rows at these positions

    def gather(self, x: Tensor) -> Tensor:
        """Packed rows (T, h, d) → padded (n, h, L, d)."""
        return x.index_select(0, self.rows.flatten()).view(*self.rows.shape, *x.shape[1:]).transpose(1, 2)


def document_groups(first: Spans, *others: Spans) -> list[tuple[_Padded, ...]]:
    """Documents in groups of like length: of each group the padded rows of every kind of span (tokens, sentences).

    Documents in which a kind of span is empty are left out. The result is kept with `first`.
    """
    return first.derive((document_groups, *others), partial(_make_groups, (first, *others)))


def _make_groups(kinds: tuple[Spans, ...]) -> list[tuple[_Padded, ...]]:
    lengths = np.stack([spans.lengths for spans in kinds])  # (kinds, D)
    live = np.flatnonzero(lengths.min(axis=0, initial=1) > 0)
    groups: list[list[int]] = []
    low = high = np.zeros(len(kinds))
    for document in live[np.argsort(lengths[:2, live].sum(axis=0), kind="stable")]:
        new_low, new_high = np.minimum(low, lengths[:, document]), np.maximum(high, lengths[:, document])
        if groups and bool((new_high <= np.maximum(PADDED_SPREAD * new_low, PADDED_SHORT)).all()):
            groups[-1].append(int(document))
            low, high = new_low, new_high
        else:
            groups.append([int(document)])
            low = high = lengths[:, document]
    arrays = []
    for members, spans in itertools.product(groups, kinds):
        sizes, starts = spans.lengths[members], spans.host[:-1][members]
        position = np.arange(int(sizes.max()))
        rows = starts[:, None] + np.minimum(position, sizes[:, None] - 1)
        real = position < sizes[:, None]
        arrays += [rows, real, np.flatnonzero(real), rows[real]]
    arrived = iter(to_device(arrays, kinds[0].offsets.device))
    return [tuple(_Padded(*itertools.islice(arrived, 4)) for _ in kinds) for _ in groups]


def _padded_attention(queries: Queries, keys: Keys, selection: Selection) -> Tensor:
    groups = document_groups(queries.layout.documents, keys.layout.documents, keys.layout.document_sentences)
    sentence_k, root = keys.sentences, math.sqrt(queries.words.shape[-1])
    outputs = [keys.values[:0].sum(0)[None]]  # row 0, for documents without keys: an empty sum with a gradient
    if not groups:  # all inputs have gradients of 0
        outputs[0] = outputs[0] + sum(x[:0].sum() for x in (queries.words, keys.words, queries.sentences, sentence_k))
    output_row = torch.zeros(len(queries.words), dtype=torch.int64, device=queries.words.device)
    filled = 1
    for query, key, sentence in groups:
        relevance = torch.matmul(query.gather(queries.sentences), sentence.gather(sentence_k).mT) / root
        most = relevance.shape[-1]  # (n, h, Lq, S)
        kept_index = selection.sentences[:, query.rows] - sentence.rows[:, :1, None]  # (h, n, Lq, t)
        kept_index = kept_index.masked_fill(selection.relevance[:, query.rows] == -torch.inf, most).transpose(0, 1)
        keep = torch.zeros(*relevance.shape[:-1], most + 1, dtype=torch.bool, device=relevance.device)
        keep.scatter_(-1, kept_index, True)
        keep[..., -1] = False  # a column for padding
        relevance = functional.pad(relevance, (0, 1)).masked_fill(~keep, -torch.inf)
        relevance = subtract_largest(relevance).clamp(min=_MASKED)  # (n, h, Lq, S + 1)

        number = keys.layout.sentence_of_token[key.rows] - sentence.rows[:, :1]  # (n, Lk), counted in the document
        number = number.masked_fill(~key.real, most)
        member = functional.one_hot(number, most + 1).mT.to(relevance.dtype)  # (n, S + 1, Lk), equation 6's M
        scores = torch.matmul(relevance.flatten(1, 2), member)  # (n, h·Lq, Lk)
        q, k = query.gather(queries.words).flatten(0, 1), key.gather(keys.words).flatten(0, 1)  # (n·h, L, d_k)
        scores = torch.baddbmm(scores.view(*q.shape[:2], -1), q, k.mT, alpha=1 / root)
        weights = scores.softmax(-1).view(*relevance.shape[:3], -1).masked_fill(~keep.any(-1, keepdim=True), 0)
        outputs.append(torch.matmul(weights, key.gather(keys.values)).transpose(1, 2).flatten(0, 1))
        output_row[query.own] = filled + query.shown
        filled += query.rows.numel()
    return torch.cat(outputs).index_select(0, output_row)


# Every form: choose, then read.


def selective_attention(queries: Queries, keys: Keys, policy: SelectionPolicy, backend: str = "auto") -> Tensor:
    """Softmax[q·k/√d_k + kept relevance of the word's sentence] v, over the words of the kept sentences.

    Returns:
        (Tq, h, d_v), in the type of the values; half types compute in float32, on a CUDA card by flash attention.
    """
    _check(queries, keys, policy)
    with torch.autocast(queries.words.device.type, enabled=False), new_shapes():
        queries, keys, kind = queries.choosing(), keys.choosing(), keys.values.dtype
        selection = select(queries, keys, policy)
        if backend == "auto" and keys.words.is_cuda:
            words = queries.words, keys.words, keys.values
            if takes_chosen(*words):
                from docnmt.functional.kernels.attention import chosen_attention

                return chosen_attention(*words, queries.sentences, keys.sentences, selection, keys.layout.sentences)
            if suits_varlen(queries, keys, selection):  # half types
                return varlen_attention(queries, keys, selection)
        queries = replace(queries, words=in_float32(queries.words))
        keys = replace(keys, words=in_float32(keys.words), values=in_float32(keys.values))
        return attend(queries, keys, selection, backend).to(kind)


@torch.no_grad()
def selective_attention_step(
    q: Tensor, sentence_q: Tensor, keys: Keys, policy: SelectionPolicy, *,
    document_of_row: Tensor, own: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Selective attention of one query a row, q and sentence_q (R, h, d_k) in any order → (R, h, d_v); no gradient.

    Args:
        keys: of all that a row may see, whatever `policy.visible` is; their words are read where they are.
        document_of_row: (R,) int64, the document of the keys that each row reads.
        own: (R,) int64, each row's own sentence of the keys, for `always_own`.
    """
    if policy.always_own and own is None:
        raise ValueError("own: expected the own sentence of each row with always_own, got None")
    if not keys.layout.num_tokens:
        return keys.values.new_zeros(*q.shape[:2], keys.values.shape[-1])
    order = document_of_row.argsort(stable=True)  # rows of a document become neighbours
    counts = torch.bincount(document_of_row, minlength=keys.layout.num_documents)
    offsets = functional.pad(counts.cumsum(0), (1, 0))
    layout = DocumentLayout(offsets, torch.arange(len(offsets), device=offsets.device))
    queries = Queries(q[order], sentence_q[order], layout, None if own is None else own[order])
    policy, bounds = replace(policy, visible="document"), keys.layout.sentence_offsets
    _check(queries, keys, policy)
    with torch.autocast(q.device.type, enabled=False), new_shapes():
        selection = select(queries.choosing(), keys.choosing(), policy)
        sentences, relevance = selection.sentences.transpose(0, 1), selection.relevance.transpose(0, 1)  # (R, h, t)
        words = in_float32(queries.words), in_float32(keys.words), in_float32(keys.values)
        mixed = attend_spans(*words, bounds[sentences], bounds.diff()[sentences], relevance)
        return mixed.to(keys.values.dtype)[order.argsort()]


@torch.no_grad()
def select(queries: Queries, keys: Keys, policy: SelectionPolicy) -> Selection:
    """The sentences that each query and head keeps; empty sentences are never kept."""
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
    own_sentence = queries.layout.sentence_of_token if queries.own is None else queries.own
    width, own = queries.sentences.shape[-1], own_sentence[:, None]
    relevance = (queries.sentences * keys.sentences[own_sentence]).sum(-1) * width**-0.5  # (Tq, h)
    is_kept = ((selection.sentences == own) & (selection.relevance != -torch.inf)).any(-1, keepdim=True)
    missing = ~is_kept & (keys.layout.sentence_offsets.diff()[own] > 0)  # (h, Tq, 1)
    places = torch.arange(selection.relevance.shape[-1], device=own.device)
    replaced = (places == selection.relevance.argmin(-1, keepdim=True)) & missing  # (h, Tq, t)
    sentences = torch.where(replaced, own, selection.sentences)
    return Selection(sentences, torch.where(replaced, relevance.T[..., None], selection.relevance))


def attend(queries: Queries, keys: Keys, selection: Selection, backend: str = "auto") -> Tensor:
    """Attention to the words of the kept sentences → (Tq, h, d_v)."""
    way = choose_backend(backend, queries.layout, keys.layout, selection.sentences.shape[-1])
    return (_padded_attention if way == "dense" else dispatch_attention)(queries, keys, selection)


def choose_backend(backend: str, query_layout: DocumentLayout, key_layout: DocumentLayout, t: int) -> str:
    """The backend to use; "auto" computes all scores of documents that are short or mostly read."""
    if backend not in ("auto", "dense", "dispatch"):
        raise ValueError(f'backend: expected "auto", "dense" or "dispatch", got {backend!r}')
    queries, keys = query_layout.documents.lengths, key_layout.documents.lengths
    pairs = (queries * keys).sum()
    if pairs == 0:
        return "dense"  # a dispatch has no plan of nothing
    if backend != "auto":
        return backend
    sentences = np.maximum(key_layout.document_sentences.lengths, 1)
    cost = DISPATCH_QUERY + DISPATCH_WORD * keys / sentences  # of a query and a sentence that it keeps
    dispatching = (queries * np.minimum(t, sentences) * cost).sum()
    most = max(PADDED_WORDS * queries.sum(), PADDED_FEW, min(dispatching, PADDED_MOST))
    return "dense" if pairs <= most else "dispatch"


def _check(queries: Queries, keys: Keys, policy: SelectionPolicy) -> None:
    q, v, tree, ours, theirs = queries.words, keys.values, keys.tree, queries.layout, keys.layout
    if q.dim() != 3 or v.dim() != 3:
        raise ValueError(f"q, v: expected (tokens, h, d), got {tuple(q.shape)} and {tuple(v.shape)}")
    heads, width = q.shape[1:]
    of_query, of_key = (ours.num_tokens, heads, width), (theirs.num_tokens, heads, width)
    sentences = theirs.num_sentences if tree is None else tree.num_nodes
    for name, x, shape in (
        ("q", q, of_query),
        ("sentence_q", queries.sentences, of_query),
        ("k", keys.words, of_key),
        ("v", v, (*of_key[:2], v.shape[2])),
        ("sentence_k" if tree is None else "node_k", keys.relevance, (sentences, heads, width)),
    ):
        if x.shape != shape:
            raise ValueError(f"{name}: expected {shape} from its layout and the heads of q, got {tuple(x.shape)}")
    if ours.num_documents != theirs.num_documents:
        raise ValueError(
            f"query_layout and key_layout: expected the same number of documents, got document_offsets of shape "
            f"{tuple(ours.document_offsets.shape)} and {tuple(theirs.document_offsets.shape)}"
        )
    if tree is not None and not np.array_equal(tree.level_size[0], theirs.document_sentences.lengths):
        raise ValueError("tree: expected the sentences of key_layout, got a tree with other sentences in a document")
    earlier = policy.visible == "earlier"
    if earlier and tree is not None:
        raise ValueError('visible="earlier": expected no tree, as its inner nodes hold later sentences')
    if earlier or (policy.always_own and queries.own is None):
        lengths = ours.document_sentences.lengths, theirs.document_sentences.lengths
        for document in np.flatnonzero(lengths[0] != lengths[1]):
            raise ValueError(
                f"{policy}: expected as many sentences in each document of query_layout and key_layout, got "
                f"{lengths[0][document]} and {lengths[1][document]} in document {document}"
            )


# The papers' forms: each names the values of one.


def conditional_attention(
    q: Tensor, k: Tensor, v: Tensor, sentence_q: Tensor, sentence_k: Tensor, *,
    query_layout: DocumentLayout, key_layout: DocumentLayout,
    top_t: int, visible: str = "document", backend: str = "auto",
) -> Tensor:  # fmt: skip
    """Softmax[q·k/√d_k + KeepTopT(sentence_q·sentence_k/√d_k, t) M] v (equation 7), for every document.

    Each word and head keeps its own t most relevant non-empty sentences of its document; a sentence's relevance is
    added to the scores of its words. With nothing to select, the output and all gradients are exactly 0.

    Args:
        q, sentence_q: (Tq, h, d_k), following `query_layout`.
        k, v: (Tk, h, d_k), (Tk, h, d_v), following `key_layout`; sentence_k: (Sk, h, d_k), of its sentences.
        top_t, visible: see `SelectionPolicy`.
        backend: "dense" (the equation as it stands: all scores), "dispatch" (the kept sentences' scores alone,
            O(n·t·m²) behind the choice) or "auto" (the cheaper one; in half types on a CUDA card flash attention to
            the kept sentences).

    Returns:
        (Tq, h, d_v), in the type of `v`; half types compute in float32, but for the products of flash attention.
    """
    queries, keys = Queries(q, sentence_q, query_layout), Keys(k, v, sentence_k, key_layout)
    return selective_attention(queries, keys, SelectionPolicy(top_t, visible), backend)


def hierarchical_conditional_attention(
    q: Tensor, k: Tensor, v: Tensor, sentence_q: Tensor, node_k: Tensor, tree: SentenceTree, *,
    query_layout: DocumentLayout, key_layout: DocumentLayout,
    top_t: int, select_on: str = "cumulative", count_copies: bool = True, backend: str = "auto",
) -> Tensor:  # fmt: skip
    """Softmax[q·k/√d_k + TraverseTree(sentence_q, node_k, t) M] v (section 3.3.2), for every document.

    A node's relevance is sentence_q·node_k/√d_k, its cumulative relevance the sum over its path from the root, root
    and copied nodes included (`count_copies`). At each level the top t nodes stay; the cumulative relevances of the
    leaves that are left are added to the scores of their words. Nodes with no word below them are never kept.

    Others are those of `conditional_attention`.

    Args:
        node_k: (N, h, d_k), the keys of `tree.nodes`, a tree of the sentences of `key_layout`.
        top_t: how many nodes stay at each level, by their "cumulative" relevance or by the "node"'s own (`select_on`).
            A query takes all products with the nodes of levels of up to 128 nodes, at most 255, and 2t for each level
            below (t rounded up to a power of two).
        count_copies: whether a node without a sibling counts in the sum beside its parent, which is a copy of it (as in
            figure 3), or not.
    """
    cumulative = None if count_copies else cumulative_keys(in_float32(node_k), tree.index, count_copies=False)
    queries, keys = Queries(q, sentence_q, query_layout), Keys(k, v, node_k, key_layout, tree.index, cumulative)
    return selective_attention(queries, keys, SelectionPolicy(top_t, select_on=select_on), backend)
