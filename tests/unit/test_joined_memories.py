"""Slots of several memories: read at once, or one memory after the other, each gets what it gets alone."""

from __future__ import annotations

import pytest
import torch

from docnmt.functional.decoding import PackedKeys, Shelf, TokenTable
from docnmt.layout import DocumentLayout
from docnmt.modules.document_context import ConditionalAttention, ContextAttention, SourceContext, SummaryAttention
from docnmt.modules.layers import DocumentStore, Reads, Slots, Step

WIDTH, BEAM = 16, 2
LENGTHS = [[[3, 5, 2], [4]], [[6, 1, 2, 7, 3]], [[2, 2], [5, 3]]]
CHOSEN = [[0, 3], [4, 1, 2], [3, 0]]
EVERY = [number for chosen in CHOSEN for number in chosen]
ATTENTIONS = {
    "summaries": lambda: SummaryAttention(d_model=WIDTH, heads=2, d_head=8),
    "sentences": lambda: ConditionalAttention(d_model=WIDTH, heads=2, d_head=8, top_t=2),
    "own": lambda: ConditionalAttention(d_model=WIDTH, heads=2, d_head=8, top_t=2, always_own=True, by_blocks=True),
}


def memory(sublayer: SourceContext, lengths: list[list[int]]) -> PackedKeys:
    layout = DocumentLayout.from_lengths(lengths)
    words, summaries = torch.randn(layout.num_tokens, WIDTH), torch.randn(layout.num_sentences, WIDTH)
    keys = sublayer.remember(Reads(layout, store=DocumentStore(words, layout, summaries, None)))
    assert isinstance(keys, PackedKeys)
    return keys


def begun(sublayer: SourceContext, keys: PackedKeys, chosen: list[int]) -> Shelf:
    shelf = sublayer.begin(keys, Slots(torch.tensor(chosen), BEAM, [], torch.zeros(0)))
    assert isinstance(shelf, Shelf)
    return shelf


def stepped(sublayer: SourceContext, x: torch.Tensor, cache: Shelf, chosen: list[int]) -> torch.Tensor:
    rows = torch.tensor(chosen).repeat_interleave(BEAM)
    return sublayer.step(x, cache, Step(torch.zeros_like(rows), rows, TokenTable.empty(len(rows))))


@torch.inference_mode()
@pytest.mark.parametrize("name", ATTENTIONS)
def test_each_slot_reads_its_own_memory(name: str) -> None:
    torch.manual_seed(0)
    attention: ContextAttention = ATTENTIONS[name]()
    sublayer = SourceContext(attention)
    memories = [memory(sublayer, lengths) for lengths in LENGTHS]
    x = [torch.randn(len(chosen) * BEAM, WIDTH) for chosen in CHOSEN]
    alone = [
        stepped(sublayer, rows, begun(sublayer, keys, chosen), chosen)
        for rows, keys, chosen in zip(x, memories, CHOSEN, strict=True)
    ]
    cache = begun(sublayer, memories[0], CHOSEN[0])
    for keys, chosen in zip(memories[1:], CHOSEN[1:], strict=True):
        cache.append(begun(sublayer, keys, chosen))
    together = stepped(sublayer, torch.cat(x), cache, EVERY)
    torch.testing.assert_close(together, torch.cat(alone), atol=1e-6, rtol=1e-6)

    kept = torch.tensor([1, 6, 5])  # the second memory is no longer read
    cache.keep(torch.arange(0), kept)
    rows = (kept[:, None] * BEAM + torch.arange(BEAM)).flatten()
    fewer = stepped(sublayer, torch.cat(x)[rows], cache, [EVERY[n] for n in kept.tolist()])
    torch.testing.assert_close(fewer, torch.cat(alone)[rows], atol=1e-6, rtol=1e-6)
