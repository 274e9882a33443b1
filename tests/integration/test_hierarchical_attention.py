"""Hierarchical conditional attention: figure 3 walked word by word; every policy and backend: `test_selection`."""

import attention_reference as reference
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from docnmt.functional import build_tree, hierarchical_conditional_attention
from docnmt.functional.selection import SelectionPolicy
from docnmt.functional.tree import SentenceTree
from docnmt.layout import DocumentLayout
from docnmt.modules.document_context import SummaryEncoder, build_merge
from docnmt.registry import MERGES

BACKENDS = ["dense", "dispatch"]
SELECT_ON = ["cumulative", "node"]
LENGTHS = [[5, 3, 0, 7, 2], [], [1], [0], [4, 0, 0, 0, 4, 2]]


def attend(tree, query_layout, key_layout, t, select_on="cumulative", backend="dispatch", count_copies=True):
    return lambda *inputs: hierarchical_conditional_attention(
        *inputs,
        tree,
        query_layout=query_layout,
        key_layout=key_layout,
        top_t=t,
        select_on=select_on,
        count_copies=count_copies,
        backend=backend,
    )


def tree_over(layout) -> SentenceTree:
    vectors = torch.zeros(layout.num_sentences, 2, device=layout.document_offsets.device)
    return build_tree(vectors, layout.document_offsets, lambda left, right: left)


def self_attention_inputs(lengths=LENGTHS, seed=0, **shape):
    layout = DocumentLayout.from_lengths(lengths)
    tree = tree_over(layout)
    return layout, tree, reference.random_inputs(layout, layout, tree.index.num_nodes, seed, **shape)


DOCUMENTS = st.lists(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 5)), max_size=11), min_size=1, max_size=4)


@settings(max_examples=20)
@given(DOCUMENTS, st.integers(1, 4), st.sampled_from(MERGES.names()), st.sampled_from([*BACKENDS, "auto"]))
def test_parameters_of_summaries_and_merges_get_the_gradients_of_the_walk(documents, t, merge, backend):
    """Words of a query's and of a key's side; a summary needs a word."""
    torch.manual_seed(len(documents) + t)
    ql, kl = (DocumentLayout.from_lengths([[pair[side] for pair in each] for each in documents]) for side in (0, 1))
    summaries = SummaryEncoder(d_model=8, heads=2, merge=build_merge(merge, d_model=8, heads=2)).double()
    relevance = nn.ModuleList(nn.Linear(8, 6, bias=False) for _ in range(2)).double()
    queries, words = (torch.randn(of.num_tokens, 8, dtype=torch.float64, requires_grad=True) for of in (ql, kl))
    tree = summaries(words, kl).tree
    sentence_q, node_k = (f(x).view(-1, 2, 3) for f, x in zip(relevance, (queries, tree.nodes), strict=True))
    q, k, v = queries.view(-1, 2, 4)[..., :3], words.view(-1, 2, 4)[..., :3], words.view(-1, 2, 4)
    inputs = reference.Inputs(q, k, v, sentence_q, node_k)
    slow = reference.selective(inputs, ql, kl, SelectionPolicy(t), tree)
    fast = attend(tree, ql, kl, t, backend=backend)(*inputs)
    torch.testing.assert_close(fast, slow, rtol=0, atol=1e-10)
    if slow.requires_grad:
        leaves, weight = [queries, words, *summaries.parameters(), *relevance.parameters()], torch.randn_like(slow)
        both = [
            torch.autograd.grad((x * weight).sum(), leaves, allow_unused=True, retain_graph=True) for x in (fast, slow)
        ]
        for leaf, one, other in zip(leaves, *both, strict=True):
            one, other = (torch.zeros_like(leaf) if g is None else g for g in (one, other))
            torch.testing.assert_close(one, other, rtol=0, atol=1e-10)


@pytest.mark.parametrize("select_on", SELECT_ON)
@pytest.mark.parametrize("wide", [1, 8, 256])
def test_backends_agree_at_the_size_of_a_document(select_on, wide, monkeypatch):
    """Upper levels as one product down to levels of `wide` nodes, single keys gathered below."""
    monkeypatch.setattr("docnmt.functional.selection.TREE_WIDE", wide)
    generator = torch.Generator().manual_seed(3)
    lengths = [torch.randint(0, 6, (n,), generator=generator).tolist() for n in (150, 1, 17)]
    layout, tree, inputs = self_attention_inputs(lengths)
    dense, dispatch = (
        reference.values_and_gradients(attend(tree, layout, layout, 3, select_on, backend), inputs)
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
    tree = tree_over(key_layout)
    inputs = reference.random_inputs(query_layout, key_layout, tree.index.num_nodes, 1)
    policy = SelectionPolicy(3, select_on=select_on)
    walk = attend(tree, query_layout, key_layout, 3, select_on, count_copies=count_copies)
    got = reference.values_and_gradients(walk, inputs)
    expected = reference.values_and_gradients(
        lambda *x: reference.selective(reference.Inputs(*x), query_layout, key_layout, policy, tree, count_copies),
        inputs,
    )
    reference.assert_same(got, expected, 1e-12)


@pytest.mark.parametrize("backend", BACKENDS)
def test_small_tree_by_hand(backend):
    """Sentences a, b, c of one word; relevances: root 1, (a b) 2, copy of c 5, a 10, b 3, c 1; word scores 0.

    Cumulative: (a b) 3, c' 6, a 13, b 6, c 7, or 6 where copies do not count again. Of the leaves, the cumulative
    relevance keeps a and c, the own a and b.
    """
    layout = DocumentLayout.from_lengths([[1, 1, 1]])
    tree = tree_over(layout)
    levels = tree.index.levels
    node_k = torch.zeros(6, 1, 1)
    node_k[levels[0], 0, 0] = torch.tensor([10.0, 3.0, 1.0])
    node_k[levels[1], 0, 0] = torch.tensor([2.0, 5.0])
    node_k[levels[2]] = 1
    zero, one = torch.zeros(3, 1, 1), torch.ones(3, 1, 1)
    v = torch.tensor([1.0, 10.0, 100.0]).view(3, 1, 1)
    for t, select_on, count_copies, weights in (
        (1, "cumulative", True, [0, 0, 7.0]),  # c' hides a
        (2, "cumulative", True, [13.0, 0, 7.0]),
        (2, "node", True, [13.0, 6.0, 0]),
        (3, "node", True, [13.0, 6.0, 7.0]),
        (3, "cumulative", False, [13.0, 6.0, 6.0]),
    ):
        weights = torch.tensor([w or -torch.inf for w in weights]).softmax(0)
        out = attend(tree, layout, layout, t, select_on, backend, count_copies)(zero, zero, v, one, node_k)
        torch.testing.assert_close(out, (weights @ v.view(3)).expand(3, 1, 1))


@pytest.mark.parametrize("backend", [*BACKENDS, "auto"])
def test_the_keys_of_nodes_without_words_may_hold_anything(backend):
    layout, tree, inputs = self_attention_inputs([[3, 0, 0, 0, 2], [2, 2]])
    expected = reference.values_and_gradients(attend(tree, layout, layout, 2, backend=backend), inputs)
    with torch.no_grad():
        inputs.sentence_k[torch.from_numpy(~tree.index.filled_nodes(layout))] = float("nan")
    got = reference.values_and_gradients(attend(tree, layout, layout, 2, backend=backend), inputs)
    reference.assert_same(got, expected)


def test_wrong_arguments():
    layout, tree, inputs = self_attention_inputs([[2, 3], [1]])
    with pytest.raises(ValueError, match="node_k:"):
        attend(tree, layout, layout, 2)(*inputs[:4], inputs.sentence_k[1:])
    with pytest.raises(ValueError, match="select_on"):
        attend(tree, layout, layout, 2, "leaf")(*inputs)
    other = DocumentLayout.from_lengths([[2], [3, 1]])
    with pytest.raises(ValueError, match="tree"):
        attend(tree, other, other, 2)(*inputs)
    with pytest.raises(ValueError, match=r"\b0\b"):
        attend(tree, layout, layout, 0)(*inputs)


@pytest.mark.gpu
@pytest.mark.parametrize("select_on", SELECT_ON)
def test_cuda_gives_the_same(select_on):
    layout, tree, inputs = self_attention_inputs()
    moved = reference.Inputs(*(x.detach().cuda().requires_grad_() for x in inputs))
    there = layout.to("cuda")
    got = reference.values_and_gradients(attend(tree_over(there), there, there, 2, select_on), moved)
    expected = reference.values_and_gradients(attend(tree, layout, layout, 2, select_on, "dense"), inputs)
    reference.assert_same([x.cpu() for x in got], expected)
