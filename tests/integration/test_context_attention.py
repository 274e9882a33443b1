"""Conditional and hierarchical conditional attention: every backend against equation 7 written out word by word."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from docnmt.functional import (
    build_tree,
    conditional_attention,
    conditional_attention_step,
    hierarchical_conditional_attention,
)
from docnmt.layout import DocumentLayout
from docnmt.modules.context import SummaryEncoder
from docnmt.modules.source2token import build_merge
from docnmt.registry import MERGES

HEADS, WIDTH = 2, 3
DOCUMENTS = st.lists(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=0, max_size=11), min_size=1, max_size=4
)
BACKENDS = ["dense", "padded", "dispatch", "auto"]


def leaf(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


def layouts(documents: list[list[tuple[int, int]]]) -> tuple[DocumentLayout, DocumentLayout]:
    return (
        DocumentLayout.from_lengths([[a for a, _ in document] for document in documents]),
        DocumentLayout.from_lengths([[b for _, b in document] for document in documents]),
    )


def separated(scores: list[Tensor], t: int) -> bool:
    """The t-th and the next score differ."""
    if len(scores) <= t:
        return True
    ordered = sorted((float(s.detach()) for s in scores), reverse=True)
    return ordered[t - 1] - ordered[t] > 1e-9


def attend_word(q: Tensor, k: Tensor, v: Tensor, kept: dict[int, Tensor], offsets: list[int]) -> Tensor:
    """softmax over the words of the kept sentences of (q·k/√d + relevance of the sentence), for one word and head."""
    words = [(w, score) for s, score in kept.items() for w in range(offsets[s], offsets[s + 1])]
    if not words:
        return torch.zeros(v.shape[-1], dtype=v.dtype)
    scores = torch.stack([q @ k[w] / math.sqrt(len(q)) + score for w, score in words])
    return scores.softmax(0) @ torch.stack([v[w] for w, _ in words])


def flat_reference(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    sq: Tensor,
    sk: Tensor,
    ql: DocumentLayout,
    kl: DocumentLayout,
    t: int,
    visible: str,
) -> Tensor:
    out = torch.zeros(len(q), HEADS, v.shape[-1], dtype=q.dtype)
    offsets = kl.sentence_offsets.tolist()
    for i, h in itertools.product(range(len(q)), range(HEADS)):
        document = int(ql.document_of_token[i])
        begin, end = kl.document_offsets[document : document + 2].tolist()
        if visible == "earlier":
            end = begin + int(ql.sentence_of_token[i]) - int(ql.document_offsets[document])
        scores = {s: sq[i, h] @ sk[s, h] / math.sqrt(WIDTH) for s in range(begin, end) if offsets[s + 1] > offsets[s]}
        assume(separated(list(scores.values()), t))
        best = sorted(scores, key=lambda s: -float(scores[s].detach()))[:t]
        out[i, h] = attend_word(q[i, h], k[:, h], v[:, h], {s: scores[s] for s in best}, offsets)
    return out


def tree_reference(
    q: Tensor, k: Tensor, v: Tensor, sq: Tensor, nk: Tensor, tree: Any, ql: DocumentLayout, kl: DocumentLayout, t: int,
    select_on: str,
) -> Tensor:  # fmt: skip
    """TraverseTree by recursion over (level, place), one word and head at a time."""
    out = torch.zeros(len(q), HEADS, v.shape[-1], dtype=q.dtype)
    offsets, index = kl.sentence_offsets.tolist(), tree.index
    for i, h in itertools.product(range(len(q)), range(HEADS)):
        document = int(ql.document_of_token[i])
        begin, end = kl.document_offsets[document : document + 2].tolist()
        if begin == end:
            continue

        def own(level: int, place: int) -> Tensor:
            node = int(index.level_start[level, document]) + place  # noqa: B023
            return sq[i, h] @ nk[node, h] / math.sqrt(WIDTH)  # noqa: B023

        def filled(level: int, place: int) -> bool:
            first, last = begin + (place << level), min(begin + ((place + 1) << level), end)  # noqa: B023
            return offsets[last] > offsets[first]

        top = max(level for level in range(index.num_levels) if index.level_size[level, document])
        scores = {0: own(top, 0)} if filled(top, 0) else {}
        for level in reversed(range(top)):
            size = int(index.level_size[level, document])
            below = {
                c: scores[p] + own(level, c)
                for p in scores
                for c in (2 * p, 2 * p + 1)
                if c < size and filled(level, c)
            }
            by = below if select_on == "cumulative" else {c: own(level, c) for c in below}
            assume(separated(list(by.values()), t))
            scores = {c: below[c] for c in sorted(by, key=lambda c: -float(by[c].detach()))[:t]}
        kept = {begin + place: score for place, score in scores.items()}
        out[i, h] = attend_word(q[i, h], k[:, h], v[:, h], kept, offsets)
    return out


def assert_same(fast: Tensor, slow: Tensor, inputs: list[Tensor]) -> None:
    assert torch.allclose(fast, slow, rtol=0, atol=1e-10)
    if not slow.requires_grad:
        return
    weight = torch.randn_like(slow)
    grads = [
        torch.autograd.grad((x * weight).sum(), inputs, allow_unused=True, retain_graph=True) for x in (fast, slow)
    ]
    for one, other in zip(*grads, strict=True):
        zero = torch.zeros(1, dtype=torch.float64)
        assert torch.allclose(zero if one is None else one, zero if other is None else other, rtol=0, atol=1e-10)


@settings(max_examples=40, deadline=None)
@given(DOCUMENTS, st.integers(1, 6), st.sampled_from(["document", "earlier"]), st.sampled_from(BACKENDS))
def test_flat_equals_the_equation(documents: list[list[tuple[int, int]]], t: int, visible: str, backend: str) -> None:
    torch.manual_seed(len(documents) + t)
    ql, kl = layouts(documents)
    q, k, v = leaf(ql.num_tokens, HEADS, WIDTH), leaf(kl.num_tokens, HEADS, WIDTH), leaf(kl.num_tokens, HEADS, 4)
    sq, sk = leaf(ql.num_tokens, HEADS, WIDTH), leaf(kl.num_sentences, HEADS, WIDTH)
    slow = flat_reference(q, k, v, sq, sk, ql, kl, t, visible)
    fast = conditional_attention(
        q, k, v, sq, sk, query_layout=ql, key_layout=kl, top_t=t, visible=visible, backend=backend
    )
    assert_same(fast, slow, [q, k, v, sq, sk])
    if visible == "document":
        rows = conditional_attention_step(q, k, v, sq, sk, key_layout=kl, document_of_row=ql.document_of_token, top_t=t)
        assert torch.allclose(rows, slow, atol=1e-10)


@settings(max_examples=40, deadline=None)
@given(DOCUMENTS, st.integers(1, 6), st.sampled_from(["cumulative", "node"]), st.sampled_from(BACKENDS))
def test_tree_equals_the_walk(documents: list[list[tuple[int, int]]], t: int, select_on: str, backend: str) -> None:
    torch.manual_seed(len(documents) + t)
    ql, kl = layouts(documents)
    tree = build_tree(torch.randn(kl.num_sentences, 2), kl.document_offsets, lambda left, right: left + right)
    q, k, v = leaf(ql.num_tokens, HEADS, WIDTH), leaf(kl.num_tokens, HEADS, WIDTH), leaf(kl.num_tokens, HEADS, 4)
    sq, nk = leaf(ql.num_tokens, HEADS, WIDTH), leaf(tree.index.num_nodes, HEADS, WIDTH)
    slow = tree_reference(q, k, v, sq, nk, tree, ql, kl, t, select_on)
    fast = hierarchical_conditional_attention(
        q, k, v, sq, nk, tree, query_layout=ql, key_layout=kl, top_t=t, select_on=select_on, backend=backend
    )
    assert_same(fast, slow, [q, k, v, sq, nk])
    rows = conditional_attention_step(
        q, k, v, sq, nk, key_layout=kl, document_of_row=ql.document_of_token, top_t=t, tree=tree, select_on=select_on
    )
    assert torch.allclose(rows, slow, atol=1e-10)


@settings(max_examples=20, deadline=None)
@given(DOCUMENTS, st.integers(1, 4), st.sampled_from(MERGES.names()), st.sampled_from(BACKENDS))
def test_parameters_of_summaries_and_merges_get_the_gradients_of_the_walk(
    documents: list[list[tuple[int, int]]], t: int, merge: str, backend: str
) -> None:
    torch.manual_seed(len(documents) + t)
    ql, kl = layouts([[(a, max(b, 1)) for a, b in document] for document in documents])  # a summary needs a word
    summaries = SummaryEncoder(d_model=8, heads=2, merge=build_merge(merge, d_model=8, heads=2)).double()
    relevance = nn.ModuleList(nn.Linear(8, HEADS * WIDTH, bias=False) for _ in range(2)).double()
    queries, words = leaf(ql.num_tokens, 8), leaf(kl.num_tokens, 8)
    tree = summaries(words, kl).tree
    sq, nk = (f(x).view(-1, HEADS, WIDTH) for f, x in zip(relevance, (queries, tree.nodes), strict=True))
    q, k = queries.view(-1, HEADS, 4)[..., :WIDTH], words.view(-1, HEADS, 4)[..., :WIDTH]
    v = words.view(-1, HEADS, 4)
    slow = tree_reference(q, k, v, sq, nk, tree, ql, kl, t, "cumulative")
    fast = hierarchical_conditional_attention(
        q, k, v, sq, nk, tree, query_layout=ql, key_layout=kl, top_t=t, backend=backend
    )
    assert_same(fast, slow, [queries, words, *summaries.parameters(), *relevance.parameters()])


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_first_sentence_without_earlier_ones_reads_exactly_nothing(backend: str) -> None:
    layout = DocumentLayout.from_lengths([[2, 3], [1]])
    q, k, v = (leaf(6, HEADS, WIDTH) for _ in range(3))
    sq, sk = leaf(6, HEADS, WIDTH), leaf(3, HEADS, WIDTH)
    out = conditional_attention(
        q, k, v, sq, sk, query_layout=layout, key_layout=layout, top_t=2, visible="earlier", backend=backend
    )
    assert not out[[0, 1, 5]].any()
    for gradient in torch.autograd.grad(out[[0, 1, 5]].sum(), [q, k, v, sq, sk]):
        assert torch.equal(gradient, torch.zeros_like(gradient))


@pytest.mark.parametrize("backend", BACKENDS)
def test_t_of_one_gives_no_gradient_to_relevance(backend: str) -> None:
    layout = DocumentLayout.from_lengths([[2, 3, 4]])
    q, k, v, sq = (leaf(9, HEADS, WIDTH) for _ in range(4))
    sk = leaf(3, HEADS, WIDTH)
    out = conditional_attention(q, k, v, sq, sk, query_layout=layout, key_layout=layout, top_t=1, backend=backend)
    for gradient in torch.autograd.grad(out.square().sum(), [sq, sk]):
        assert gradient.abs().max() < 1e-13


def test_words_of_unselected_sentences_change_nothing() -> None:
    layout = DocumentLayout.from_lengths([[3, 3, 3, 3]])
    q, k, v, sq = (leaf(12, HEADS, WIDTH) for _ in range(4))
    sk = torch.zeros(4, HEADS, WIDTH, dtype=torch.float64)
    sk[:2] = 1.0
    sq = sq.detach().abs()  # sentences 0 and 1 are always the best two
    arguments: dict[str, Any] = {"query_layout": layout, "key_layout": layout, "top_t": 2}
    before = conditional_attention(q, k, v, sq, sk, **arguments)
    other_k, other_v = k.detach().clone(), v.detach().clone()
    other_k[6:], other_v[6:] = 7.0, -7.0
    assert torch.equal(before, conditional_attention(q, other_k, other_v, sq, sk, **arguments))


def test_layouts_that_do_not_belong_together_are_refused() -> None:
    one, two = DocumentLayout.from_lengths([[2]]), DocumentLayout.from_lengths([[1], [1]])
    x, s = leaf(2, HEADS, WIDTH), leaf(2, HEADS, WIDTH)
    with pytest.raises(ValueError, match="same number of documents"):
        conditional_attention(x, x, x, x, s, query_layout=one, key_layout=two, top_t=1)
