"""Every policy of sentence selection, flat and over a tree, all at once and in steps, against one plain reference."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from attention_reference import (
    Inputs,
    assert_same,
    documents,
    links,
    random_inputs,
    selective,
    tree_over,
    values_and_gradients,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from docnmt.functional import build_tree, conditional_attention, keep_top_t
from docnmt.functional.conditional import selective_attention, selective_attention_step
from docnmt.functional.selection import Keys, Queries, SelectionPolicy, descend
from docnmt.functional.tree import SentenceTree, TreeIndex, best_children, cumulative_keys, ranked_children
from docnmt.layout import DocumentLayout
from docnmt.modules.document_context import ConditionalAttention

BACKENDS = ["dense", "dispatch"]
POLICIES: list[tuple[bool, dict[str, Any]]] = [
    (False, {}),
    (False, {"visible": "earlier"}),
    (False, {"always_own": True}),
    (True, {}),
    (True, {"select_on": "node"}),
    (True, {"always_own": True}),
    (True, {"always_own": True, "select_on": "node"}),
]


def keys_of(x: Inputs, layout: DocumentLayout, tree: SentenceTree | None) -> Keys:
    return Keys(x.k, x.v, x.sentence_k, layout, None if tree is None else tree.index)


def earlier_keys(x: Inputs, layout: DocumentLayout) -> Keys:
    """For each sentence a document of the sentences before it, as decoding keeps them."""
    first = layout.document_offsets[layout.document_of_sentence].tolist()
    before = [list(range(begin, number)) for number, begin in enumerate(first)]
    lengths, begin = layout.sentences.lengths.tolist(), layout.sentence_offsets.tolist()
    sentences = list(itertools.chain(*before))
    words = [w for s in sentences for w in range(begin[s], begin[s + 1])]
    shown = DocumentLayout.from_lengths([[lengths[s] for s in document] for document in before])
    return Keys(x.k[words], x.v[words], x.sentence_k[sentences], shown)


@pytest.mark.parametrize(("over_tree", "options"), POLICIES)
@settings(max_examples=12)
@given(lengths=documents, t=st.integers(2, 4), seed=st.integers(0, 99), data=st.data())
def test_all_forms_are_one_equation(
    over_tree: bool, options: dict[str, Any], lengths: list[list[int]], t: int, seed: int, data: st.DataObject
) -> None:
    """Values and gradients; other sentence lengths on the query side, empty sentences and documents."""
    asked = [[data.draw(st.integers(0, 3)) for _ in document] for document in lengths]
    queries, keys = DocumentLayout.from_lengths(asked), DocumentLayout.from_lengths(lengths)
    tree, policy = tree_over(keys) if over_tree else None, SelectionPolicy(t, **options)
    x = random_inputs(queries, keys, keys.num_sentences if tree is None else len(tree.nodes), seed)
    expected = values_and_gradients(lambda *x: selective(Inputs(*x), queries, keys, policy, tree), x)

    def attend(*x: Tensor, backend: str) -> Tensor:
        inputs = Inputs(*x)
        asked = Queries(inputs.q, inputs.sentence_q, queries)
        return selective_attention(asked, keys_of(inputs, keys, tree), policy, backend)

    for backend in [*BACKENDS, "auto"]:
        assert_same(values_and_gradients(lambda *x, way=backend: attend(*x, backend=way), x), expected)

    x = Inputs(*(tensor.detach() for tensor in x))
    earlier, some = policy.visible == "earlier", torch.randperm(len(x.q))
    rows = selective_attention_step(
        x.q[some], x.sentence_q[some], earlier_keys(x, keys) if earlier else keys_of(x, keys, tree), policy,
        document_of_row=(queries.sentence_of_token if earlier else queries.document_of_token)[some],
        own=queries.sentence_of_token[some],
    )  # fmt: skip
    assert_same([rows], [expected[0][some]])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("over_tree", [False, True])
@pytest.mark.parametrize("always_own", [False, True])
def test_the_key_of_an_empty_sentence_may_hold_anything(always_own: bool, over_tree: bool, backend: str) -> None:
    layout = DocumentLayout.from_lengths([[3, 0, 2, 4], [2, 2]])
    queries = DocumentLayout.from_lengths([[2, 2, 1, 1], [1, 2]])  # two words whose own sentence is the empty one
    tree, policy = tree_over(layout) if over_tree else None, SelectionPolicy(2, always_own=always_own)
    x = random_inputs(queries, layout, layout.num_sentences if tree is None else len(tree.nodes), 0)
    number = 1 if tree is None else int(tree.index.leaves[1])
    passes, steps = [], []
    for value in (0.0, float("nan"), float("inf")):
        with torch.no_grad():
            x.sentence_k[number] = value

        def attend(*x: Tensor) -> Tensor:
            inputs = Inputs(*x)
            asked = Queries(inputs.q, inputs.sentence_q, queries)
            return selective_attention(asked, keys_of(inputs, layout, tree), policy, backend)

        passes.append(values_and_gradients(attend, x))
        for kept in [None] if tree is None else [None, cumulative_keys(x.sentence_k, tree.index)]:
            keys = Keys(x.k, x.v, x.sentence_k, layout, None if tree is None else tree.index, kept)
            own, document = queries.sentence_of_token, queries.document_of_token
            steps.append(selective_attention_step(x.q, x.sentence_q, keys, policy, document_of_row=document, own=own))
    for tensors in passes[1:]:
        assert all(bool(tensor.isfinite().all()) for tensor in tensors)
        assert_same(tensors, passes[0], 0)
    for rows in steps:
        assert_same([rows], [passes[0][0]])


@pytest.mark.parametrize("top_t", [0, -1])
def test_to_keep_no_sentence_is_refused_everywhere(top_t: int) -> None:
    layout = DocumentLayout.from_lengths([[2, 3]])
    x = random_inputs(layout, layout, 2, 0)
    for call in (
        lambda: conditional_attention(*x, query_layout=layout, key_layout=layout, top_t=top_t),
        lambda: keep_top_t(x.sentence_k, top_t),
        lambda: ConditionalAttention(d_model=4, heads=2, d_head=2, top_t=top_t, earlier=True),
    ):
        with pytest.raises(ValueError, match=f"at least 1, got {top_t}"):
            call()


# KeepTopT: exactly t stay, ties go to the lowest index, gradients to what stays.


INF = torch.inf


def test_mask_excludes_and_bounds_how_many_stay():
    mask = torch.tensor([False, True, False, True])
    assert keep_top_t(torch.tensor([9.0, 1.0, 8.0, 2.0]), 3, mask).tolist() == [-INF, 1, -INF, 2]
    assert keep_top_t(torch.ones(4), 2, torch.zeros(4, dtype=torch.bool)).tolist() == [-INF] * 4


def test_gradient_reaches_what_stays_and_nothing_else():
    scores = torch.tensor([3.0, 1.0, 2.0], requires_grad=True)
    keep_top_t(scores, 2).exp().sum().backward()
    torch.testing.assert_close(scores.grad, torch.tensor([3.0, 0.0, 2.0]).exp() * torch.tensor([1.0, 0, 1.0]))


@settings(max_examples=60)
@given(n=st.integers(1, 300), rows=st.integers(1, 5), t=st.integers(1, 6), seed=st.integers(0, 99), ties=st.booleans())
def test_same_choice_as_a_stable_sort(n, rows, t, seed, ties):
    """With and without equal and unselectable scores."""
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(2, rows, n, generator=generator)
    if ties:
        scores = (scores * 2).round()
        scores[torch.rand(scores.shape, generator=generator) < 0.2] = -INF
    ordered, order = scores.sort(descending=True, stable=True)
    expected = torch.full_like(scores, -INF).scatter_(-1, order[..., :t], ordered[..., :t])
    assert torch.equal(keep_top_t(scores, t), expected)


# The best children of kept nodes: a sorting network over packed integers against sorting one by one.


SCORES = [-torch.inf, -2.5, -1.0, -1e-38, -0.0, 0.0, 1e-38, 1.0, 1.0 + 2**-23, 2.5, torch.inf]


@settings(max_examples=60)
@given(width=st.sampled_from([1, 2, 4, 8, 16]), data=st.data())
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_best_children_are_those_of_a_sort(dtype, width, data):
    """Equal scores, both zeros and infinities; places as large as a tree of a thousand million leaves has."""
    t = data.draw(st.integers(1, width))
    some = st.sampled_from([0, 1, 2, 3, 500, 2**29]) | st.integers(4, 400)
    parents = data.draw(st.lists(some, min_size=width, max_size=width, unique=True))
    scores = data.draw(st.lists(st.sampled_from(SCORES), min_size=2 * width, max_size=2 * width))
    pairs = zip(scores, (2 * p + side for p in parents for side in (0, 1)), strict=True)
    expected = sorted(pairs, key=lambda pair: (-pair[0], pair[1]))[:t]
    inputs = torch.tensor(scores, dtype=dtype).view(width, 1, 2), torch.tensor(parents).view(width, 1)
    values, places = ranked_children(inputs[0].clone(), inputs[1], t)
    assert list(zip(values.flatten().tolist(), places.flatten().tolist(), strict=True)) == [
        (torch.tensor(score, dtype=dtype).item(), child) for score, child in expected
    ]
    assert set(best_children(*inputs, t).flatten().tolist()) == {child for _, child in expected}


@pytest.mark.parametrize("t", [1, 3, 4, 7])
@pytest.mark.parametrize("wide", [1, 16, 512])
def test_float32_chooses_what_float64_chooses(t, wide, monkeypatch):
    """Small whole numbers: sums are exact in both, and there are ties at every level."""
    monkeypatch.setattr("docnmt.functional.selection.TREE_WIDE", wide)
    random = torch.Generator().manual_seed(t)
    lengths = [torch.randint(0, 3, (n,), generator=random).tolist() for n in (1, 200, 9, 0, 33)]
    keys, queries = DocumentLayout.from_lengths(lengths), DocumentLayout.from_lengths([[5], [40], [9], [2], [3]])
    tree = tree_over(keys)
    node_k = torch.randint(-2, 3, (tree.index.num_nodes, 2, 4), generator=random).float()
    sentence_q = torch.randint(-2, 3, (queries.num_tokens, 2, 4), generator=random).float()

    def choice(own, dtype):
        q, k = sentence_q.to(dtype), node_k.to(dtype)
        sums = cumulative_keys(k, tree.index)
        rows, nodes = Queries(q, q, queries), Keys(q, q, k, keys, tree.index, sums)
        chosen = descend(rows, nodes, SelectionPolicy(t, select_on="node" if own else "cumulative"))
        return chosen.sentences.where(chosen.relevance > -torch.inf, -1), chosen.relevance.double()

    for own in (False, True):
        for got, expected in zip(choice(own, torch.float32), choice(own, torch.float64), strict=True):
            torch.testing.assert_close(got, expected, rtol=0, atol=0)


# ConstructBT: levels, copies, and one call of merge a level for all documents.


def mean(left, right):
    return (left + right) / 2


def offsets(*sizes):
    return torch.tensor([0, *sizes]).cumsum(0)


def test_the_papers_example_of_eleven_sentences():
    """Figure 2: 11, 6, 3, 2 and 1 nodes."""
    index = build_tree(torch.randn(11, 2), offsets(11), mean).index
    assert [len(level) for level in index.levels] == [11, 6, 3, 2, 1]
    assert index.num_nodes == 23


def test_nodes_are_merged_or_copied():
    """Three documents of three, one and no sentences: ((a b) c') and d."""
    summaries = torch.randn(4, 3)
    a, b, c, d = summaries
    tree = build_tree(summaries, offsets(3, 1, 0), lambda left, right: 2 * left - right)
    ab = 2 * a - b
    expected = [a, b, c, d], [ab, c], [2 * ab - c]
    for level, nodes in zip(tree.index.levels, expected, strict=True):
        torch.testing.assert_close(tree.nodes[level], torch.stack(nodes))


def test_cumulative_keys_are_sums_over_paths():
    index = TreeIndex.from_offsets(offsets(11, 0, 1, 6))
    keys = torch.randn(index.num_nodes, 2, 3, dtype=torch.float64, requires_grad=True)
    _, parents = links(index)

    def path(node):
        return keys[node] + (path(parents[node]) if parents[node] >= 0 else 0)

    sums = cumulative_keys(keys, index)
    torch.testing.assert_close(sums, torch.stack([path(node) for node in range(len(keys))]))
    assert torch.autograd.gradcheck(lambda x: cumulative_keys(x, index), (keys,))


def test_filled_nodes():
    layout = DocumentLayout.from_lengths([[0, 0, 2, 1, 0], [0]])
    index = TreeIndex.from_offsets(layout.document_offsets)
    filled = torch.from_numpy(index.filled_nodes(layout))
    expected = [False, False, True, True, False, False], [False, True, False], [True, False], [True]
    for level, flags in zip(index.levels, expected, strict=True):
        assert filled[level].tolist() == flags
