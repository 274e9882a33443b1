"""Caches of attention are as long as the rows that are at work need them, and no longer."""

from __future__ import annotations

import torch

from docnmt.layout import DocumentLayout
from docnmt.modules.softmax_attention import CrossKeys, KeyValueCache, SelfAttention
from docnmt.modules.sublayer import Reads, Slots, Step
from docnmt.runtime.tuning import INVARIANT_KEYS


@torch.inference_mode()
def test_a_cache_forgets_the_length_of_rows_that_have_left() -> None:
    torch.manual_seed(0)
    attention = SelfAttention(d_model=16, heads=2, d_head=8, causal=True)
    long, short = torch.randn(3 * INVARIANT_KEYS + 5, 16), torch.randn(9, 16)
    cache = attention.begin(None, Slots(torch.tensor([0]), 1, [], long))
    for place, token in enumerate(long):
        attention.step(token[None], cache, Step(torch.tensor([place]), place, torch.tensor([0])))
    cache.append(attention.begin(None, Slots(torch.tensor([1]), 1, [], long)))
    cache.keep(torch.tensor([1]), torch.tensor([1]))
    steps = [
        attention.step(token[None], cache, Step(torch.tensor([place]), place, torch.tensor([1])))
        for place, token in enumerate(short)
    ]
    assert cache.keys.shape[2] == cache.values.shape[2] == INVARIANT_KEYS
    whole = attention(short, Reads(DocumentLayout.from_lengths([[len(short)]])))
    torch.testing.assert_close(torch.cat(steps), whole, atol=1e-6, rtol=1e-6)


def test_source_keys_forget_the_length_of_sentences_that_have_left() -> None:
    keys, values = torch.randn(60, 2, 8), torch.randn(60, 2, 8)
    spans = DocumentLayout.from_lengths([[50, 4, 6]]).sentences
    cache = CrossKeys.gather(keys, values, spans, torch.tensor([0, 1]))
    assert cache.keys.shape[2] == 64
    cache.keep(torch.tensor([1]), torch.tensor([1]))
    cache.append(CrossKeys.gather(keys, values, spans, torch.tensor([2])))
    assert cache.keys.shape[2] == cache.allowed.shape[1] == INVARIANT_KEYS
    for row, (start, length) in enumerate([(50, 4), (54, 6)]):
        assert torch.equal(cache.keys[row, :, :length].transpose(0, 1), keys[start : start + length])
        assert torch.equal(cache.values[row, :, :length].transpose(0, 1), values[start : start + length])
        assert cache.allowed[row].sum() == length
    left = CrossKeys.gather(keys, values, spans, torch.tensor([0]))
    left.keep(torch.tensor([], dtype=torch.long), torch.tensor([], dtype=torch.long))
    left.append(cache)
    assert left.keys.shape == cache.keys.shape


def test_an_empty_cache_grows_with_its_rows() -> None:
    cache = KeyValueCache.empty(2, 1, 4, torch.zeros(0))
    for place in (0, INVARIANT_KEYS - 1, INVARIANT_KEYS):
        cache.put(torch.ones(2, 1, 4), torch.ones(2, 1, 4), torch.tensor([place, 0]), place)
        assert cache.keys.shape[2] == (2 if place == INVARIANT_KEYS else 1) * INVARIANT_KEYS
