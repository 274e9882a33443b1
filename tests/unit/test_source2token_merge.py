"""Merges are applied to their own results, level by level: none of them may grow with the depth of the tree."""

from __future__ import annotations

import pytest
import torch

from docnmt.functional import build_tree
from docnmt.modules.source2token import build_merge
from docnmt.registry import MERGES


@pytest.mark.parametrize("name", MERGES.names())
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
