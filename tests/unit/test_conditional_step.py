"""One query a row: the numbers of the parallel forms, whatever the order of the rows and their neighbours."""

import pytest
import torch
from attention_reference import random_inputs

from docnmt.functional import build_tree, conditional_attention, hierarchical_conditional_attention
from docnmt.functional.conditional import selective_attention_step
from docnmt.functional.selection import Keys, SelectionPolicy
from docnmt.functional.tree import cumulative_keys
from docnmt.layout import DocumentLayout

QUERIES = DocumentLayout.from_lengths([[4, 2], [3], [1], [2]])
KEYS = DocumentLayout.from_lengths([[5, 3, 0, 7, 2, 1, 1], [], [4], [2] * 9])
LONG = DocumentLayout.from_lengths([[50, 30, 0, 70, 20, 1, 1], [], [150], [20] * 9])  # organised by sentence


def step(
    q, k, v, sentence_q, sentence_k, *, key_layout, document_of_row, top_t, tree=None, cumulative_k=None,
    select_on="cumulative",
):  # fmt: skip
    keys = Keys(k, v, sentence_k, key_layout, None if tree is None else tree.index, cumulative_k)
    policy = SelectionPolicy(top_t, select_on=select_on)
    return selective_attention_step(q, sentence_q, keys, policy, document_of_row=document_of_row)


def rows(seed=0):
    return torch.randperm(QUERIES.num_tokens, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("t", [1, 2, 20])
@pytest.mark.parametrize("keys", [KEYS, LONG])
def test_flat(t, keys):
    q, k, v, sentence_q, sentence_k = (x.detach() for x in random_inputs(QUERIES, keys, keys.num_sentences, 0))
    parallel = conditional_attention(
        q, k, v, sentence_q, sentence_k, query_layout=QUERIES, key_layout=keys, top_t=t, backend="dense"
    )
    some = rows()[:8]
    out = step(
        q[some],
        k,
        v,
        sentence_q[some],
        sentence_k,
        key_layout=keys,
        document_of_row=QUERIES.document_of_token[some],
        top_t=t,
    )
    torch.testing.assert_close(out, parallel[some], rtol=0, atol=1e-13)


@pytest.mark.parametrize("t", [1, 2, 20])
@pytest.mark.parametrize("select_on", ["cumulative", "node"])
@pytest.mark.parametrize("keys", [KEYS, LONG])
def test_tree(t, select_on, keys):
    tree = build_tree(torch.randn(keys.num_sentences, 2), keys.document_offsets, lambda left, right: left + right)
    q, k, v, sentence_q, node_k = (x.detach() for x in random_inputs(QUERIES, keys, len(tree.nodes), 0))
    parallel = hierarchical_conditional_attention(
        q, k, v, sentence_q, node_k, tree,
        query_layout=QUERIES, key_layout=keys, top_t=t, select_on=select_on, backend="dense",
    )  # fmt: skip
    some = rows()[:8]
    for kept in (None, cumulative_keys(node_k, tree.index)):
        out = step(
            q[some],
            k,
            v,
            sentence_q[some],
            node_k,
            key_layout=keys,
            document_of_row=QUERIES.document_of_token[some],
            top_t=t,
            tree=tree,
            cumulative_k=kept,
            select_on=select_on,
        )
        torch.testing.assert_close(out, parallel[some], rtol=0, atol=1e-13)


def test_no_rows():
    q, k, v, sentence_q, sentence_k = (x.detach() for x in random_inputs(QUERIES, KEYS, KEYS.num_sentences, 0))
    none = torch.zeros(0, dtype=torch.int64)
    out = step(q[:0], k, v, sentence_q[:0], sentence_k, key_layout=KEYS, document_of_row=none, top_t=2)
    assert out.shape == (0, 2, 4)


def test_nothing_to_read_yet():
    empty = DocumentLayout.from_lengths([[], []])
    q, k, v, sentence_q, sentence_k = (x.detach() for x in random_inputs(QUERIES, empty, 0, 0))
    out = step(q, k, v, sentence_q, sentence_k, key_layout=empty, document_of_row=torch.arange(12) % 2, top_t=2)
    assert (out == 0).all()
