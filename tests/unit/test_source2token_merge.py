"""Merges are applied to their own results, level by level: but for the paper's own, none grows with the depth."""

from __future__ import annotations

import pytest
import torch

from docnmt.functional import build_tree, source2token
from docnmt.modules.document_context import build_merge
from docnmt.registry import MERGES


@pytest.mark.parametrize("name", [name for name in MERGES.names() if name != "plain_source2token"])
def test_a_stretching_merge_does_not_blow_up_deep_trees(name: str) -> None:
    torch.manual_seed(0)
    merge = build_merge(name, d_model=16, heads=2)
    with torch.no_grad():
        for parameter in merge.parameters():
            if parameter.dim() == 2:
                parameter.mul_(5)
    summaries = torch.randn(1000, 16, requires_grad=True)
    tree = build_tree(summaries, torch.tensor([0, 1000]), merge)
    assert float(tree.nodes.detach().abs().max()) < 10
    tree.nodes.sum().backward()
    assert torch.isfinite(summaries.grad).all()  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["plain_source2token", "source2token"])
def test_source2token_merges_are_equation_2_of_two_words(name: str) -> None:
    torch.manual_seed(0)
    merge = build_merge(name, d_model=6, heads=2).double()
    left, right = torch.randn(2, 3, 6, dtype=torch.float64)
    block, words = merge.summarise, torch.stack([left, right], 1).flatten(0, 1)
    keys, values = (part(words).view(6, 2, 3) for part in (block.key, block.value))
    expected = block.output(source2token(block.query, keys, values, torch.tensor([0, 2, 4, 6])).flatten(1))
    if name == "source2token":
        centred = expected - expected.mean(1, keepdim=True)
        expected = centred / (centred.square().mean(1, keepdim=True) + 1e-5).sqrt()
    torch.testing.assert_close(merge(left, right), expected, rtol=0, atol=1e-12)
