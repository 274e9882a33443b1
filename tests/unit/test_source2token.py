"""Source2token: attention of one query over each sentence."""

import math

import pytest
import torch

from docnmt.functional import source2token
from docnmt.layout import Spans
from docnmt.modules.document_context import Source2Token

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


def test_large_scores_do_not_overflow():
    query, keys, values = inputs()
    out = source2token(query * 1e4, keys, values, OFFSETS)
    assert out.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_types_compute_in_float32(dtype):
    query, keys, values = inputs(dtype)
    out = source2token(query, keys, values, OFFSETS)
    exact = source2token(query.float(), keys.float(), values.float(), OFFSETS)
    assert out.dtype == dtype
    torch.testing.assert_close(out, exact.to(dtype), rtol=0, atol=0)


def test_sentence_without_tokens():
    query, keys, values = inputs()
    with pytest.raises(ValueError, match=" 1 "):
        source2token(query, keys, values, torch.tensor([0, 3, 3, 9]))


def test_shapes_that_do_not_fit():
    query, keys, values = inputs()
    with pytest.raises(ValueError, match="T = 8"):
        source2token(query, keys, values, torch.tensor([0, 3, 8]))
    with pytest.raises(ValueError, match=r"\(1, 3\)"):
        source2token(query[:1], keys, values, OFFSETS)


def plain_equation_2(module, words, offsets):
    keys, values = (layer(words).unflatten(-1, (module.heads, -1)) for layer in (module.key, module.value))
    return module.output(source2token(module.query, keys, values, offsets).flatten(1))


def test_the_module_is_equation_2_although_it_never_makes_keys_nor_values():
    torch.manual_seed(0)
    module = Source2Token(d_model=12, heads=3).double()
    words, offsets = torch.randn(9, 12, dtype=torch.float64, requires_grad=True), torch.tensor([0, 4, 5, 9])
    results = module(words, Spans(offsets)), plain_equation_2(module, words, offsets)
    torch.testing.assert_close(*results)
    inputs, given = [words, *module.parameters()], torch.randn_like(results[0])
    for ours, plain in zip(*(torch.autograd.grad(result, inputs, given) for result in results), strict=True):
        torch.testing.assert_close(ours, plain)


def test_pairs_are_sentences_of_two():
    torch.manual_seed(0)
    module = Source2Token(d_model=12, heads=3).double()
    words = torch.randn(10, 12, dtype=torch.float64)
    torch.testing.assert_close(module.of_pairs(words[::2], words[1::2]), module(words, Spans(torch.arange(0, 11, 2))))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_the_module_in_half_types(dtype):
    torch.manual_seed(0)
    module = Source2Token(d_model=12, heads=3).to(dtype)
    words, offsets = torch.randn(9, 12).to(dtype), torch.tensor([0, 4, 5, 9])
    summaries = module(words, Spans(offsets))
    assert summaries.dtype == dtype
    torch.testing.assert_close(summaries.float(), module.float()(words.float(), Spans(offsets)), atol=0.05, rtol=0.05)


def test_the_module_without_sentences():
    assert Source2Token(d_model=12, heads=3)(torch.zeros(0, 12), Spans(torch.tensor([0]))).shape == (0, 12)
