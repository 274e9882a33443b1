"""G-Transformer and HAN of examples/ against the equations of their papers; what else they do: test_architectures."""

from __future__ import annotations

import importlib
import math
import sys
from typing import Any

import torch
from attention_reference import assert_same_passes
from small_models import batch, build
from torch import Tensor

from docnmt.layout import DocumentLayout
from docnmt.modules.layers import Reads

by_sentence = importlib.import_module("joined_text").by_sentence  # of the plug-ins, which stand on the path now


def module(name: str) -> Any:
    return sys.modules[name]


def multi_head(q: Tensor, k: Tensor, v: Tensor, hidden: Tensor) -> Tensor:
    """q (Tq, h, d), k and v (Tk, h, d), hidden (Tq, Tk) added to the scores of all heads → (Tq, h · d)."""
    scores = torch.einsum("qhd,khd->hqk", q, k) / math.sqrt(q.shape[-1]) + hidden
    return torch.einsum("hqk,khd->qhd", scores.softmax(-1), v).flatten(1)


def test_group_attention_is_the_masked_equation() -> None:
    model = build("g_transformer", global_layers=1).double()
    data = batch(model)
    source, target = by_sentence(data.source, begin=False), by_sentence(data.target, begin=True)
    assert source.layout.document_sentences.lengths.tolist() == target.layout.document_sentences.lengths.tolist()
    tags, source_tags = target.layout.sentence_of_token, source.layout.sentence_of_token
    other = (tags[:, None] - source_tags).abs().clamp(max=1)  # min(1, |G_Q − G_K|)
    elsewhere = target.layout.document_of_token[:, None] != source.layout.document_of_token
    x, states = (torch.randn(len(side.tokens), 32, dtype=torch.float64) for side in (target, source))
    for layer, combined in zip(model.decoder.layers, (False, True), strict=True):
        cross = layer.cross
        parts = [cross, cross.whole.attention if combined else cross]
        local, whole = (
            part.output(
                multi_head(
                    part.query(x).view(len(x), 2, 16), *part.key_value(states).view(-1, 2, 2, 16).unbind(1), hidden
                )
            )
            for part, hidden in zip(parts, (-1e8 * other, -1e8 * elsewhere), strict=True)
        )
        if combined:
            gate = torch.sigmoid(cross.whole.sum.gate(torch.cat([local, whole], dim=1)))
            local = gate * local + (1 - gate) * whole
        assert torch.allclose(cross(x, Reads(target.layout, states, source.layout)), local, atol=1e-10)


def test_hierarchical_attention_is_the_papers_equations() -> None:
    """Loops over words, sentences before, and heads' spans; float64, values and gradients."""
    torch.manual_seed(3)
    lengths = [[3, 1, 4, 2, 2], [2], [1, 3]]
    layout = DocumentLayout.from_lengths(lengths)
    han = module("han").HierarchicalAttention(
        d_model=8, heads=2, d_inner=12, activation="relu", dropout=0.0, previous=2
    ).double()  # fmt: skip
    h = torch.randn(layout.num_tokens, 8, dtype=torch.float64, requires_grad=True)
    expected = torch.stack([written_out(han, h, layout, token) for token in range(len(h))])
    assert_same_passes(han(h, layout), expected, [h])


def written_out(han: Any, h: Tensor, layout: DocumentLayout, token: int) -> Tensor:
    """h̃ of one word."""
    sentence = int(layout.sentence_of_token[token])
    begin = int(layout.document_offsets[layout.document_of_sentence[sentence]])
    word_q, sentence_q = han.queries(h[token]).chunk(2)
    nothing = torch.zeros(())
    read = []
    for j in range(max(begin, sentence - han.previous), sentence):
        words = h[layout.sentence_offsets[j] : layout.sentence_offsets[j + 1]]
        keys, values = han.word_keys(words).chunk(2, dim=1)
        s = multi_head(word_q.view(1, 2, 4), keys.view(-1, 2, 4), values.view(-1, 2, 4), nothing)
        read.append(han.word_output(s)[0])
    if not read:
        return h[token]
    keys, values = han.sentence_keys(torch.stack(read)).chunk(2, dim=1)
    mixed = multi_head(sentence_q.view(1, 2, 4), keys.view(-1, 2, 4), values.view(-1, 2, 4), nothing)
    d = han.feed_forward(han.sentence_output(mixed))[0]
    w_h, w_p = han.sum.gate.weight.chunk(2, dim=1)
    gate = torch.sigmoid(w_h @ h[token] + w_p @ d + han.sum.gate.bias)
    return gate * h[token] + (1 - gate) * d
