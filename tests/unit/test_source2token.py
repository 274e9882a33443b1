"""Source2token: attention of one query over each sentence."""

from __future__ import annotations

import math

import pytest
import torch
from attention_reference import assert_same_passes

from docnmt.functional import build_tree, source2token
from docnmt.layout import Spans
from docnmt.modules.document_context import (
    Source2Token,
    build_merge,
)
from docnmt.registry import MERGES

OFFSETS = torch.tensor([0, 3, 4, 9])


def inputs(dtype=torch.float64):
    generator = torch.Generator().manual_seed(1)
    shapes = (2, 3), (9, 2, 3), (9, 2, 4)
    return [torch.randn(s, generator=generator, dtype=torch.float64).to(dtype).requires_grad_() for s in shapes]


def test_is_attention_over_each_sentence():
    query, keys, values = inputs()
    out = source2token(query, keys, values, OFFSETS)
    for sentence, (begin, end) in enumerate([(0, 3), (3, 4), (4, 9)]):
        for head in range(2):
            scores = keys[begin:end, head] @ query[head] / math.sqrt(3)
            torch.testing.assert_close(out[sentence, head], scores.softmax(0) @ values[begin:end, head])


def test_gradients():
    query, keys, values = inputs()
    assert torch.autograd.gradcheck(lambda *x: source2token(*x, OFFSETS), (query, keys, values))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_types_compute_in_float32(dtype):
    query, keys, values = inputs(dtype)
    out = source2token(query, keys, values, OFFSETS)
    exact = source2token(query.float(), keys.float(), values.float(), OFFSETS)
    assert out.dtype == dtype
    torch.testing.assert_close(out, exact.to(dtype), rtol=0, atol=0)


def test_the_module_is_equation_2_although_it_never_makes_keys_nor_values():
    torch.manual_seed(0)
    module = Source2Token(d_model=12, heads=3).double()
    words, offsets = torch.randn(9, 12, dtype=torch.float64, requires_grad=True), torch.tensor([0, 4, 5, 9])
    keys, values = (layer(words).unflatten(-1, (module.heads, -1)) for layer in (module.key, module.value))
    plain = module.output(source2token(module.query, keys, values, offsets).flatten(1))
    assert_same_passes(module(words, Spans(offsets)), plain, [words, *module.parameters()])


# Merges are applied to their own results, level by level: but for the paper's own, none grows with the depth.


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
