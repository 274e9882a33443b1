"""The best children of kept nodes: a sorting network over packed integers against sorting one by one."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from docnmt.functional import build_tree
from docnmt.functional.selection import Keys, Queries, SelectionPolicy, descend
from docnmt.functional.tree import best_children, cumulative_keys, ranked_children
from docnmt.layout import DocumentLayout

SCORES = [-torch.inf, -2.5, -1.0, -1e-38, -0.0, 0.0, 1e-38, 1.0, 1.0 + 2**-23, 2.5, torch.inf]


def one_by_one(scores, parents, t):
    """Of one query: scores (T, 2), places (T,) → the t best (score, place)."""
    places = [2 * p + side for p in parents for side in (0, 1)]
    return sorted(zip(scores, places, strict=True), key=lambda pair: (-pair[0], pair[1]))[:t]


@settings(max_examples=60)
@given(width=st.sampled_from([1, 2, 4, 8, 16]), data=st.data())
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_best_children_are_those_of_a_sort(dtype, width, data):
    """Equal scores, both zeros and infinities; places as large as a tree of a thousand million leaves has."""
    t = data.draw(st.integers(1, width))
    some = st.sampled_from([0, 1, 2, 3, 500, 2**29]) | st.integers(4, 400)
    parents = data.draw(st.lists(some, min_size=width, max_size=width, unique=True))
    scores = data.draw(st.lists(st.sampled_from(SCORES), min_size=2 * width, max_size=2 * width))
    expected = one_by_one(scores, parents, t)
    inputs = torch.tensor(scores, dtype=dtype).view(width, 1, 2), torch.tensor(parents).view(width, 1)
    values, places = ranked_children(inputs[0].clone(), inputs[1], t)
    assert list(zip(values.flatten().tolist(), places.flatten().tolist(), strict=True)) == [
        (torch.tensor(score, dtype=dtype).item(), place) for score, place in expected
    ]
    assert set(best_children(*inputs, t).flatten().tolist()) == {place for _, place in expected}


@pytest.mark.parametrize("t", [1, 3, 4, 7])
@pytest.mark.parametrize("wide", [1, 16, 512])
def test_float32_chooses_what_float64_chooses(t, wide, monkeypatch):
    """Small whole numbers: sums are exact in both, and there are ties at every level."""
    monkeypatch.setattr("docnmt.functional.selection.TREE_WIDE", wide)
    random = torch.Generator().manual_seed(t)
    lengths = [torch.randint(0, 3, (n,), generator=random).tolist() for n in (1, 200, 9, 0, 33)]
    keys, queries = DocumentLayout.from_lengths(lengths), DocumentLayout.from_lengths([[5], [40], [9], [2], [3]])
    tree = build_tree(torch.zeros(keys.num_sentences, 1), keys.document_offsets, lambda left, right: left)
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
