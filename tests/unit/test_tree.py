"""ConstructBT: levels, copies, and one call of merge a level for all documents."""

import math

import pytest
import torch
from attention_reference import links

from docnmt.functional import build_tree
from docnmt.functional.tree import TreeIndex, cumulative_keys
from docnmt.layout import DocumentLayout


def mean(left, right):
    return (left + right) / 2


def offsets(*sizes):
    return torch.tensor([0, *sizes]).cumsum(0)


def test_the_papers_example_of_eleven_sentences():
    """Figure 2: 11, 6, 3, 2 and 1 nodes."""
    index = build_tree(torch.randn(11, 2), offsets(11), mean).index
    assert [len(level) for level in index.levels] == [11, 6, 3, 2, 1]
    assert index.num_nodes == 23


@pytest.mark.parametrize("n", [1, 2, 3, 64, 65, 129])
def test_number_of_nodes(n):
    assert TreeIndex.from_offsets(offsets(n)).num_nodes <= 2 * n + math.ceil(math.log2(n))


def test_nodes_are_merged_or_copied():
    """Three documents of three, one and no sentences: ((a b) c') and d."""
    summaries = torch.randn(4, 3)
    a, b, c, d = summaries
    tree = build_tree(summaries, offsets(3, 1, 0), lambda left, right: 2 * left - right)
    ab = 2 * a - b
    expected = [a, b, c, d], [ab, c], [2 * ab - c]
    for level, nodes in zip(tree.index.levels, expected, strict=True):
        torch.testing.assert_close(tree.nodes[level], torch.stack(nodes))


def test_nothing_to_merge():
    def merge(left, right):
        raise AssertionError

    assert build_tree(torch.randn(3, 2), offsets(1, 1, 0, 1), merge).nodes.shape == (3, 2)
    assert build_tree(torch.randn(0, 2), offsets(), merge).nodes.shape == (0, 2)
    assert build_tree(torch.randn(0, 2), offsets(0, 0), merge).nodes.shape == (0, 2)


def test_trees_of_two_batches_are_joined_by_joining_nodes_and_offsets():
    first, second = torch.randn(6, 2), torch.randn(4, 2)
    whole = build_tree(torch.cat([first, second]), offsets(5, 1, 4), mean)
    parts = build_tree(first, offsets(5, 1), mean), build_tree(second, offsets(4), mean)
    torch.testing.assert_close(torch.cat([part.nodes for part in parts]), whole.nodes)


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


def test_wrong_arguments():
    with pytest.raises(ValueError, match=r"S = 3 .*\(4, 2\)"):
        build_tree(torch.randn(4, 2), offsets(3), mean)
    with pytest.raises(ValueError, match=r"\(1, 2\), got \(1, 4\)"):
        build_tree(torch.randn(2, 2), offsets(2), lambda left, right: torch.cat([left, right], 1))
