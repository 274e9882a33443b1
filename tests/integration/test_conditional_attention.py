"""Conditional attention: what must not matter, in both backends; equation 7 itself: `test_selection`."""

from __future__ import annotations

import attention_reference as reference
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from docnmt.functional import conditional_attention, hierarchical_conditional_attention
from docnmt.functional.selection import SelectionPolicy
from docnmt.layout import DocumentLayout
from docnmt.modules.document_context import SummaryEncoder, build_merge
from docnmt.registry import MERGES

BACKENDS = ["dense", "dispatch"]
LENGTHS = [[5, 3, 0, 7, 2], [], [1], [0], [4, 4, 4]]


def attend(query_layout, key_layout, t, visible="document", backend="dispatch"):
    return lambda *inputs: conditional_attention(
        *inputs, query_layout=query_layout, key_layout=key_layout, top_t=t, visible=visible, backend=backend
    )


def self_attention_inputs(lengths=LENGTHS, seed=0, **shape):
    layout = DocumentLayout.from_lengths(lengths)
    return layout, reference.random_inputs(layout, layout, layout.num_sentences, seed, **shape)


@pytest.mark.parametrize("visible", ["document", "earlier"])
@pytest.mark.parametrize("shape", [{"h": 1, "d_k": 16}, {"h": 3, "d_k": 8}])
def test_backends_agree_at_the_size_of_a_document(visible, shape):
    """Groups of more queries than a tile, many sentence lengths, several plans."""
    generator = torch.Generator().manual_seed(5)
    lengths = [torch.randint(0, 40, (n,), generator=generator).tolist() for n in (90, 1, 17)]
    layout, inputs = self_attention_inputs(lengths, **shape)
    dense, dispatch = (
        reference.values_and_gradients(attend(layout, layout, 4, visible, backend), inputs) for backend in BACKENDS
    )
    reference.assert_same(dispatch, dense)


@pytest.mark.parametrize("backend", BACKENDS)
def test_equal_relevances_choose_the_same_sentences_in_every_batch(backend):
    layout, (q, k, v, sentence_q, _) = self_attention_inputs([[3, 4, 2, 3, 5], [2, 2, 2]])
    whole = attend(layout, layout, 2, backend=backend)(q, k, v, sentence_q, torch.zeros(8, *k.shape[1:]).double())
    first = DocumentLayout.from_lengths([[3, 4, 2, 3, 5]])
    rows = [x[:17] for x in (q, k, v, sentence_q)]
    alone = attend(first, first, 2, backend=backend)(*rows, torch.zeros(5, *k.shape[1:]).double())
    torch.testing.assert_close(whole[:17], alone, rtol=0, atol=1e-14)


@pytest.mark.parametrize("backend", [*BACKENDS, "auto"])
@pytest.mark.parametrize("name", ["q", "k", "v", "sentence_q", "sentence_k"])
def test_what_is_not_finite_stays_in_its_document(backend, name):
    layout, inputs = self_attention_inputs([[3, 2], [4, 2, 5]])
    expected = attend(layout, layout, 2, backend=backend)(*inputs)[5:]
    with torch.no_grad():
        getattr(inputs, name)[0] = float("nan")
    reference.assert_same([attend(layout, layout, 2, backend=backend)(*inputs)[5:]], [expected])


# Hierarchical conditional attention: figure 3 walked word by word; every policy and backend: `test_selection`.


SELECT_ON = ["cumulative", "node"]


def attend_of_tree(tree, query_layout, key_layout, t, backend="dispatch", **options):
    options |= {"query_layout": query_layout, "key_layout": key_layout, "top_t": t, "backend": backend}
    return lambda *inputs: hierarchical_conditional_attention(*inputs, tree, **options)


DOCUMENTS = st.lists(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 5)), max_size=11), min_size=1, max_size=4)


@settings(max_examples=20)
@given(DOCUMENTS, st.integers(1, 4), st.sampled_from(MERGES.names()), st.sampled_from([*BACKENDS, "auto"]))
def test_parameters_of_summaries_and_merges_get_the_gradients_of_the_walk(documents, t, merge, backend):
    """Words of a query's and of a key's side; a summary needs a word."""
    torch.manual_seed(len(documents) + t)
    ql, kl = (DocumentLayout.from_lengths([[pair[side] for pair in pairs] for pairs in documents]) for side in (0, 1))
    summaries = SummaryEncoder(d_model=8, heads=2, merge=build_merge(merge, d_model=8, heads=2)).double()
    relevance = nn.ModuleList(nn.Linear(8, 6, bias=False) for _ in range(2)).double()
    queries, words = (torch.randn(of.num_tokens, 8, dtype=torch.float64, requires_grad=True) for of in (ql, kl))
    tree = summaries(words, kl).tree
    sentence_q, node_k = (f(x).view(-1, 2, 3) for f, x in zip(relevance, (queries, tree.nodes), strict=True))
    q, k, v = queries.view(-1, 2, 4)[..., :3], words.view(-1, 2, 4)[..., :3], words.view(-1, 2, 4)
    inputs = reference.Inputs(q, k, v, sentence_q, node_k)
    slow = reference.selective(inputs, ql, kl, SelectionPolicy(t), tree)
    fast = attend_of_tree(tree, ql, kl, t, backend=backend)(*inputs)
    leaves = [queries, words, *summaries.parameters(), *relevance.parameters()]
    reference.assert_same_passes(fast, slow, leaves)


@pytest.mark.parametrize("select_on", SELECT_ON)
@pytest.mark.parametrize("wide", [1, 8, 256])
def test_backends_agree_at_the_size_of_a_document_of_tree(select_on, wide, monkeypatch):
    """Upper levels as one product down to levels of `wide` nodes, single keys gathered below."""
    monkeypatch.setattr("docnmt.functional.selection.TREE_WIDE", wide)
    generator = torch.Generator().manual_seed(3)
    lengths = [torch.randint(0, 6, (n,), generator=generator).tolist() for n in (150, 1, 17)]
    layout = DocumentLayout.from_lengths(lengths)
    tree = reference.tree_over(layout)
    inputs = reference.random_inputs(layout, layout, tree.index.num_nodes, 0)
    dense, dispatch = (
        reference.values_and_gradients(attend_of_tree(tree, layout, layout, 3, backend, select_on=select_on), inputs)
        for backend in BACKENDS
    )
    reference.assert_same(dispatch, dense)


@pytest.mark.parametrize("wide", [1, 256])
@pytest.mark.parametrize("count_copies", [True, False])
@pytest.mark.parametrize("select_on", SELECT_ON)
def test_the_walk_is_the_papers_at_depth(select_on, count_copies, wide, monkeypatch):
    """A few words over 70 sentences, some without words, against the word by word walk."""
    monkeypatch.setattr("docnmt.functional.selection.TREE_WIDE", wide)
    key_layout = DocumentLayout.from_lengths([[1, 2, 0, 1, 1, 0, 0] * 10, [2] * 33])
    query_layout = DocumentLayout.from_lengths([[3], [2]])
    tree = reference.tree_over(key_layout)
    inputs = reference.random_inputs(query_layout, key_layout, tree.index.num_nodes, 1)
    policy = SelectionPolicy(3, select_on=select_on)
    walk = attend_of_tree(tree, query_layout, key_layout, 3, select_on=select_on, count_copies=count_copies)
    got = reference.values_and_gradients(walk, inputs)
    expected = reference.values_and_gradients(
        lambda *x: reference.selective(reference.Inputs(*x), query_layout, key_layout, policy, tree, count_copies),
        inputs,
    )
    reference.assert_same(got, expected, 1e-12)


@pytest.mark.parametrize("backend", BACKENDS)
def test_large_relevances_cost_no_precision(backend):
    """Weights of float32 sum to 1 whatever is added to all scores of a query."""
    layout, inputs = self_attention_inputs([[5] * 8], h=4, d_k=16)
    inputs = [x.detach().float() for x in inputs]
    inputs[2], inputs[4] = torch.ones_like(inputs[2]), inputs[4] * 1e4
    out = attend(layout, layout, 3, backend=backend)(*inputs)
    torch.testing.assert_close(out, torch.ones_like(out), rtol=0, atol=1e-5)
