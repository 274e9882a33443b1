"""Every policy of sentence selection, flat and over a tree, all at once and in steps, against one plain reference."""

from __future__ import annotations

import itertools
from functools import partial
from typing import Any

import pytest
import torch
from attention_reference import Inputs, assert_same, documents, random_inputs, selective, values_and_gradients
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from docnmt.functional import build_tree, conditional_attention, hierarchical_conditional_attention, keep_top_t
from docnmt.functional.conditional import select, selective_attention, selective_attention_step
from docnmt.functional.selection import Keys, Queries, SelectionPolicy
from docnmt.functional.tree import SentenceTree, cumulative_keys
from docnmt.layout import DocumentLayout
from docnmt.modules.document_context import ConditionalAttention, Source2Token
from docnmt.modules.positions import WordDropout

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


def tree_over(layout: DocumentLayout) -> SentenceTree:
    return build_tree(torch.zeros(layout.num_sentences, 1), layout.document_offsets, lambda left, right: left)


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
def test_with_the_own_sentence_the_key_of_an_empty_one_may_hold_anything(over_tree: bool, backend: str) -> None:
    layout = DocumentLayout.from_lengths([[3, 0, 2, 4], [2, 2]])
    queries = DocumentLayout.from_lengths([[2, 2, 1, 1], [1, 2]])  # two words whose own sentence is the empty one
    tree, policy = tree_over(layout) if over_tree else None, SelectionPolicy(2, always_own=True)
    x = random_inputs(queries, layout, layout.num_sentences if tree is None else len(tree.nodes), 0)
    number = 1 if tree is None else int(tree.index.leaves[1])
    found, steps = [], []
    for value in (0.0, float("nan")):
        with torch.no_grad():
            x.sentence_k[number] = value

        def attend(*x: Tensor) -> Tensor:
            inputs = Inputs(*x)
            asked = Queries(inputs.q, inputs.sentence_q, queries)
            return selective_attention(asked, keys_of(inputs, layout, tree), policy, backend)

        found.append(values_and_gradients(attend, x))
        for kept in [None] if tree is None else [None, cumulative_keys(x.sentence_k, tree.index)]:
            keys = Keys(x.k, x.v, x.sentence_k, layout, None if tree is None else tree.index, kept)
            own, document = queries.sentence_of_token, queries.document_of_token
            steps.append(selective_attention_step(x.q, x.sentence_q, keys, policy, document_of_row=document, own=own))
    assert all(bool(tensor.isfinite().all()) for tensor in found[1])
    assert_same(found[1], found[0], 0)
    for rows in steps:
        assert_same([rows], [found[0][0]])


@pytest.mark.parametrize("top_t", [0, -1])
def test_to_keep_no_sentence_is_refused_everywhere(top_t: int) -> None:
    layout = DocumentLayout.from_lengths([[2, 3]])
    tree = tree_over(layout)
    *x, sentence_k = random_inputs(layout, layout, 2, 0)
    node_k = random_inputs(layout, layout, len(tree.nodes), 0).sentence_k
    both: dict[str, Any] = {"query_layout": layout, "key_layout": layout, "top_t": top_t}
    sizes = {"d_model": 4, "heads": 2, "d_head": 2}
    calls = [
        lambda: conditional_attention(*x, sentence_k, **both),
        lambda: hierarchical_conditional_attention(*x, node_k, tree, **both),
        lambda: keep_top_t(sentence_k, top_t),
        lambda: SelectionPolicy(top_t, always_own=True),
        lambda: ConditionalAttention(**sizes, top_t=top_t),
        lambda: ConditionalAttention(**sizes, top_t=top_t, always_own=True),
        lambda: ConditionalAttention(**sizes, top_t=top_t, earlier=True),
    ]
    for call in calls:
        with pytest.raises(ValueError, match=f"at least 1, got {top_t}"):
            call()


def test_values_that_do_not_go_together_are_refused() -> None:
    layout, other = DocumentLayout.from_lengths([[2, 3]]), DocumentLayout.from_lengths([[5]])
    x, tree = random_inputs(layout, layout, 3, 0), tree_over(layout)
    keys = keys_of(x, layout, tree)
    with pytest.raises(ValueError, match="no tree"):
        selective_attention(Queries(x.q, x.sentence_q, layout), keys, SelectionPolicy(2, "earlier"))
    with pytest.raises(ValueError, match=r"always_own=True.*document 0"):
        selective_attention(Queries(x.q, x.sentence_q, other), keys, SelectionPolicy(2, always_own=True))
    rows = layout.document_of_token
    with pytest.raises(ValueError, match="own:"):
        selective_attention_step(x.q, x.sentence_q, keys, SelectionPolicy(2, always_own=True), document_of_row=rows)
    with pytest.raises(ValueError, match="earlier"):
        SelectionPolicy(2, "earlier", always_own=True)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"select_on": "leaf"}, "'leaf'"),
        ({"always_own": True, "top_t": 1}, "always_own:"),
    ],
)
def test_modules_check_their_arguments(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ConditionalAttention(**{"d_model": 4, "heads": 2, "d_head": 2, "top_t": 2, **wrong})


def test_other_modules_check_their_arguments() -> None:
    with pytest.raises(ValueError, match="heads"):
        Source2Token(d_model=4, heads=3)
    with pytest.raises(ValueError, match="p:"):
        WordDropout(1.5)


@pytest.mark.parametrize(("over_tree", "policy"), POLICIES)
def test_more_than_all_sentences_take_no_more_room(over_tree: bool, policy: dict[str, Any]) -> None:
    """t = 1000 holds no more numbers than t = 10 of ten sentences, and gives the same, all at once and in steps."""
    layout = DocumentLayout.from_lengths([[2, 1] * 5, [3], [1, 2, 2]])
    tree = tree_over(layout) if over_tree else None
    x = random_inputs(layout, layout, layout.num_sentences if tree is None else tree.index.num_nodes, 0)
    few, many = (SelectionPolicy(t, **policy) for t in (10, 1000))
    keys, queries = keys_of(x, layout, tree).choosing(), Queries(x.q, x.sentence_q, layout)
    chosen = [select(queries, keys, each) for each in (few, many)]
    assert [each.sentences.shape for each in chosen] == [(2, layout.num_tokens, 10)] * 2
    assert chosen[0].sentences.equal(chosen[1].sentences)

    def whole(*inputs: Tensor, policy: SelectionPolicy) -> Tensor:
        given = Inputs(*inputs)
        asked = Queries(given.q, given.sentence_q, layout)
        return selective_attention(asked, keys_of(given, layout, tree), policy)

    assert_same(*(values_and_gradients(partial(whole, policy=each), x) for each in (few, many)), tolerance=0)
    documents_of = layout.document_of_token
    own = layout.sentence_of_token if few.always_own else None
    steps = [
        selective_attention_step(x.q, x.sentence_q, keys, each, document_of_row=documents_of, own=own)
        for each in (few, many)
    ]
    assert steps[0].equal(steps[1])
