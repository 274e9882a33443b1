"""Conditional attention: learning through summaries and merges, what must change nothing, what is refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from attention_reference import Inputs, selective
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from docnmt.functional import conditional_attention, hierarchical_conditional_attention
from docnmt.functional.selection import SelectionPolicy
from docnmt.layout import DocumentLayout
from docnmt.modules.document_context import SummaryEncoder, build_merge
from docnmt.registry import MERGES

HEADS, WIDTH = 2, 3
DOCUMENTS = st.lists(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=0, max_size=11), min_size=1, max_size=4
)
BACKENDS = ["dense", "dispatch", "auto"]


def leaf(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


def layouts(documents: list[list[tuple[int, int]]]) -> tuple[DocumentLayout, DocumentLayout]:
    return (
        DocumentLayout.from_lengths([[a for a, _ in document] for document in documents]),
        DocumentLayout.from_lengths([[b for _, b in document] for document in documents]),
    )


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
    slow = selective(Inputs(q, k, v, sq, nk), ql, kl, SelectionPolicy(t), tree)
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
