"""Models of 40 words in double precision, and a batch of three documents for them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import plugins  # noqa: F401  registers more architectures
import torch
from torch import Tensor

from docnmt.core.batch import PackedText, TranslationBatch
from docnmt.core.tokenizer import BOS
from docnmt.layout import DocumentLayout
from docnmt.options import contradictions
from docnmt.registry import MODELS


class Task:
    """A vocabulary of 40."""

    source_vocabulary_size = target_vocabulary_size = 40
    joined = True


SOURCE, TARGET = [[4, 5, 3, 2, 6], [3], [2, 7, 4]], [[5, 2, 4, 6, 3], [4], [3, 3, 8]]


def text(lengths: list[list[int]]) -> PackedText:
    """Random tokens with word and sentence positions."""
    layout = DocumentLayout.from_lengths(lengths)
    positions = torch.full((layout.num_tokens, 4), -1)
    sentence = layout.sentence_of_token
    positions[:, 0] = torch.arange(layout.num_tokens) - layout.sentence_offsets[sentence]
    positions[:, 1] = sentence - layout.document_offsets[layout.document_of_token]
    return PackedText(torch.randint(5, 40, (layout.num_tokens,)), layout, positions)


def batch() -> TranslationBatch:
    torch.manual_seed(1)
    source, target = text(SOURCE), text(TARGET)
    return TranslationBatch(source, target, target.tokens, torch.arange(len(SOURCE)))


def build(name: str, **settings: Any) -> Any:
    torch.manual_seed(0)
    config = MODELS.config(name)(
        encoder_layers=2, decoder_layers=2, embed_dim=32, heads=4, ffn_dim=64, dropout=0.0, **settings
    )
    assert contradictions(config) == []
    return MODELS.get(name).build(config, Task()).double().eval()


def scores(model: Any, data: TranslationBatch) -> Tensor:
    logits: Tensor = model.output(model(data))
    return logits


def gold() -> TranslationBatch:
    """The batch, whose target sentences begin with `<s>` as a decoder's input does."""
    text = batch()
    tokens = text.target.tokens.clone()
    tokens[text.target.layout.sentence_offsets[:-1]] = BOS
    positions = text.source.positions[text.source.layout.sentence_offsets[:-1]][text.target.layout.sentence_of_token]
    first = text.target.layout.sentence_offsets[text.target.layout.sentence_of_token]
    positions[:, 0] += torch.arange(len(tokens)) - first
    return replace(text, target=PackedText(tokens, text.target.layout, positions), labels=tokens)


#: Models that read their own translations.
OWN_TEXT: list[tuple[str, dict[str, Any]]] = [
    ("hier_transformer", {"target_context": "summaries"}),
    ("hier_transformer", {"target_context": "conditional", "norm": "post"}),
    ("cond_transformer", {"target_context": "conditional", "target_top_t": 2, "context_placement": "heads"}),
    ("cond_transformer", {"target_context": "summaries", "context_sides": "encoder"}),
    ("hier_cond_transformer", {"target_context": "conditional", "target_top_t": 1, "attention": "linear"}),
    ("hier_cond_transformer", {"target_context": "summaries", "always_own_sentence": True, "position": "rope"}),
]
