"""Slots of several memories: read at once, or one memory after the other, each gets what it gets alone."""

from __future__ import annotations

import pytest
import torch

from docnmt.functional.decoding import ContextKeys, DocumentStore, TokenTable
from docnmt.layout import DocumentLayout
from docnmt.modules import document_context
from docnmt.modules import document_context as context
from docnmt.modules.document_context import (
    ConditionalAttention,
    ContextAttention,
    DecoderContext,
    SourceKeys,
    SummaryAttention,
)
from docnmt.modules.layers import Reads, Slots, Step

WIDTH, BEAM = 16, 2
LENGTHS = [[[3, 5, 2], [4]], [[6, 1, 2, 7, 3]], [[2, 2], [5, 3]]]
CHOSEN = [[0, 3], [4, 1, 2], [3, 0]]
EVERY = [number for chosen in CHOSEN for number in chosen]
ATTENTIONS = {
    "summaries": lambda: SummaryAttention(d_model=WIDTH, heads=2, d_head=8),
    "sentences": lambda: ConditionalAttention(d_model=WIDTH, heads=2, d_head=8, top_t=2),
    "own": lambda: ConditionalAttention(d_model=WIDTH, heads=2, d_head=8, top_t=2, always_own=True, by_blocks=True),
}


def memory(sublayer: DecoderContext, lengths: list[list[int]]) -> ContextKeys:
    layout = DocumentLayout.from_lengths(lengths)
    words, summaries = torch.randn(layout.num_tokens, WIDTH), torch.randn(layout.num_sentences, WIDTH)
    return sublayer.remember(Reads(layout, store=DocumentStore(words, layout, summaries, None)))


def begun(sublayer: DecoderContext, keys: ContextKeys, chosen: list[int]) -> SourceKeys:
    return sublayer.begin(keys, Slots(torch.tensor(chosen), BEAM, [], torch.zeros(0)))


def stepped(sublayer: DecoderContext, x: torch.Tensor, cache: SourceKeys, chosen: list[int]) -> torch.Tensor:
    rows = torch.tensor(chosen).repeat_interleave(BEAM)
    return sublayer.step(x, cache, Step(torch.zeros_like(rows), rows, TokenTable.empty(len(rows))))


@torch.inference_mode()
@pytest.mark.parametrize("most", [1 << 13, 0])
@pytest.mark.parametrize("name", ATTENTIONS)
def test_each_slot_reads_its_own_memory(name: str, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document_context, "_JOINED", most)
    torch.manual_seed(0)
    attention: ContextAttention = ATTENTIONS[name]()
    sublayer = DecoderContext(attention)
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
    assert (cache.joined(attention.policy) is not None) == bool(most)

    kept = torch.tensor([1, 6, 5])  # the second memory is no longer read
    cache.keep(torch.arange(0), kept)
    rows = (kept[:, None] * BEAM + torch.arange(BEAM)).flatten()
    fewer = stepped(sublayer, torch.cat(x)[rows], cache, [EVERY[n] for n in kept.tolist()])
    torch.testing.assert_close(fewer, torch.cat(alone)[rows], atol=1e-6, rtol=1e-6)
    assert len(cache.keys.parts) == 2


@torch.inference_mode()
def test_summaries_are_read_by_few_rows_at_a_time_as_by_all(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    attention = SummaryAttention(d_model=WIDTH, heads=2, d_head=8)
    sublayer = DecoderContext(attention)
    lengths = [[1] * 150, [2, 1], [1] * 7]
    keys, chosen = memory(sublayer, lengths), [3, 155, 151, 149, 0, 150, 77]
    x = torch.randn(len(chosen) * BEAM, WIDTH)
    at_once = stepped(sublayer, x, begun(sublayer, keys, chosen), chosen)
    monkeypatch.setattr(context, "_SCORES", 1)
    assert torch.equal(stepped(sublayer, x, begun(sublayer, keys, chosen), chosen), at_once)
