"""Updates of training by Hugging Face transformers and by plain PyTorch: for each a function for a process."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import torch
from peers import Ways
from torch import Tensor, nn
from torch.nn import functional as F
from trainers import DROPOUT, FULL, HALF, SMOOTHING, Size

from docnmt.core.batch import TranslationBatch
from docnmt.core.tokenizer import BOS

#: The subwords of the sentences of a source and of its translation, `</s>` included.
Sentences: TypeAlias = "tuple[list[np.ndarray], list[np.ndarray]]"


def hugging_face(size: Size, batches: Sequence[Sentences]) -> Ways:
    """`MarianMTModel` as recipes/studies/manual sets it up."""
    from transformers import MarianConfig, MarianMTModel

    both = {f"{side}_{name}": value for side in ("encoder", "decoder") for name, value in
            {"layers": size.layers, "attention_heads": size.heads, "ffn_dim": 4 * size.width}.items()}  # fmt: skip
    config = MarianConfig(
        vocab_size=size.vocabulary, d_model=size.width, **both, dropout=DROPOUT, activation_function="relu",
        scale_embedding=True, pad_token_id=BOS, decoder_start_token_id=BOS, forced_eos_token_id=None,
    )  # fmt: skip
    model = MarianMTModel(config).train()

    def scores(source: Tensor, read: Tensor) -> Tensor:
        logits: Tensor = model(
            input_ids=source, attention_mask=(source != BOS).long(), decoder_input_ids=read, use_cache=False
        ).logits
        return logits

    return peer(model, scores, batches)


class Plain(nn.Module):
    """PyTorch's own `nn.Transformer` with sinusoidal positions and one matrix of embeddings."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.scale, self.dropout = math.sqrt(size.width), nn.Dropout(DROPOUT)
        self.embeddings = nn.Embedding(size.vocabulary, size.width)
        nn.init.normal_(self.embeddings.weight, std=size.width**-0.5)
        self.layers = nn.Transformer(
            size.width, size.heads, size.layers, size.layers, 4 * size.width, DROPOUT, batch_first=True, norm_first=True
        )
        angles = torch.arange(1024)[:, None] / 10000 ** (torch.arange(0, size.width, 2) / size.width)
        self.register_buffer("places", torch.cat([angles.sin(), angles.cos()], dim=1))

    def forward(self, source: Tensor, read: Tensor) -> Tensor:
        """(S, n) and (S, m) subwords → scores (S, m, V)."""
        texts = [self.dropout(self.scale * self.embeddings(x) + self.places[: x.shape[1]]) for x in (source, read)]
        future = nn.Transformer.generate_square_subsequent_mask(read.shape[1], dtype=torch.bool)
        padding = source == BOS
        states = self.layers(
            *texts, tgt_mask=future, tgt_is_causal=True, src_key_padding_mask=padding, memory_key_padding_mask=padding
        )
        return F.linear(states, self.embeddings.weight)


def plain(size: Size, batches: Sequence[Sentences]) -> Ways:
    """A loop as small toolkits have it."""
    model = Plain(size).train()
    return peer(model, model, batches)


def padded(rows: Sequence[np.ndarray], fill: int) -> Tensor:
    """(S, longest)."""
    return nn.utils.rnn.pad_sequence([torch.from_numpy(row) for row in rows], batch_first=True, padding_value=fill)


def peer(model: nn.Module, scores: Callable[[Tensor, Tensor], Tensor], batches: Sequence[Sentences]) -> Ways:
    """Updates of a model that reads padded rows; `<s>` fills them up, and no loss counts what follows a sentence."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4, betas=(0.9, 0.98), weight_decay=0.0, fused=True)

    def update(half: bool, number: int) -> float:
        source, target = batches[number % len(batches)]
        labels, begin = padded(target, -100), torch.full((len(target), 1), BOS)
        read = torch.cat([begin, labels[:, :-1].clamp(min=BOS)], dim=1)
        with torch.autocast("cpu", torch.bfloat16, enabled=half):
            logits = scores(padded(source, BOS), read)
        loss = F.cross_entropy(logits.float().flatten(0, 1), labels.flatten(), label_smoothing=SMOOTHING)
        torch.autograd.backward(loss)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return float(sum(map(len, target)))

    return {FULL: lambda number: update(False, number), HALF: lambda number: update(True, number)}


def sentences_of(batch: TranslationBatch) -> Sentences:
    """A batch of docnmt's as its sentences."""
    sides = ((batch.source.tokens, batch.source.layout), (batch.labels, batch.target.layout))
    source, target = ([row.numpy() for row in tokens.split(layout.sentence_offsets.diff().tolist())] for
                      tokens, layout in sides)  # fmt: skip
    return source, target
