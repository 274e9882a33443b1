"""Export of a `transformer` or `concat_transformer` as two ONNX graphs: the encoder, and one step of the decoder.

The graphs compute what the model computes, in padded batches and with plain operators. Their values:

    source (B, L) int64, mask (B, L) bool       subwords of B texts with `</s>`, and which of them are no padding
    memory (D, 2, B, h, L, d_h)                 keys and values of the source for each of D decoder layers
    token (B,) int64                            the last subword of each translation; `<s>` at the beginning
    cache (D, 2, B, h, T, d_h) → (…, T + 1, …)  keys and values of the T subwords before it; 0 at the beginning
    scores (B, V)                               logits of the next subword
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import cast

import torch
from torch import Tensor, nn

from docnmt.apps.convert.ctranslate import attention_problems, position_table, projection
from docnmt.apps.convert.onnx_parts import (
    ENCODER,
    STEP,
    across,
    cross_attention,
    export,
    heads_of,
    next_word,
    self_attention,
    through,
    whole,
)
from docnmt.apps.convert.sentence_model import SentenceModel, write_pieces
from docnmt.core.models.encoder_decoder import Stack
from docnmt.modules.fusion import Fusion
from docnmt.runtime.errors import UserError


def require_onnx() -> None:
    """Check that the packages are there with which torch writes ONNX.

    Raises:
        UserError: a package is not installed.
    """
    for name in ("onnx", "onnxscript"):
        try:
            importlib.import_module(name)
        except ImportError as error:
            raise UserError(f"--to onnx: {name} is not installed; pip install 'docnmt[onnx]'") from error


def write_onnx(sentence: SentenceModel, folder: Path) -> None:
    """Write the graphs, and the SentencePiece models as source.spm and target.spm.

    Raises:
        UserError: a package is missing, or the graphs cannot express the model's options.
    """
    require_onnx()
    if found := attention_problems(sentence):
        raise UserError(f"{sentence.path}: cannot be an ONNX model: {'; '.join(found)}")
    heads, width = sentence.config.heads, sentence.config.embed_dim
    layers, size = sentence.config.decoder_layers, width // heads
    source, mask = torch.ones(2, 5, dtype=torch.int64), torch.ones(2, 5, dtype=torch.bool)
    memory, cache = (torch.zeros(layers, 2, 2, heads, length, size) for length in (5, 3))
    text = {"source": (source, (0, 1)), "mask": (mask, (0, 1))}
    export(EncoderGraph(sentence), folder / ENCODER, text, ("memory",))
    step = {"token": (source[:, 0], (0,)), "cache": (cache, (2, 4)), "memory": (memory, (2, 4)), "mask": text["mask"]}
    export(StepGraph(sentence), folder / STEP, step, ("scores", "new_cache"))
    write_pieces(sentence, folder)


class Inputs(nn.Module):
    """The embeddings of a side, with positions from a table."""

    table: Tensor

    def __init__(self, stack: Stack) -> None:
        super().__init__()
        self.embedding, self.fusion = stack.embedding, cast("Fusion | None", stack.embedding.fusion)
        self.register_buffer("table", position_table(stack))

    def forward(self, tokens: Tensor, first: int) -> Tensor:
        """tokens (B, L), of which the first stands in this place → (B, L, d)."""
        x: Tensor = self.embedding.tokens(tokens) * self.embedding.scale
        if self.fusion is not None:
            places = self.table.narrow(0, first, tokens.shape[1])
            x = self.fusion.combine(x, places.expand_as(x), None)
        if self.embedding.norm is not None:
            x = self.embedding.norm(x)
        return x


class EncoderGraph(nn.Module):
    """The encoder, and the decoder's projections of what it returns."""

    def __init__(self, sentence: SentenceModel) -> None:
        super().__init__()
        self.encoder, self.inputs = sentence.model.encoder, Inputs(sentence.model.encoder)
        self.heads = sentence.config.heads
        self.cross = nn.ModuleList(cross_attention(layer).key_value for layer in sentence.model.decoder.stack)

    def forward(self, source: Tensor, mask: Tensor) -> Tensor:
        """source, mask (B, L) → memory (D, 2, B, h, L, d_h)."""
        x = self.inputs(source, 0)
        for layer in self.encoder.stack:
            x = through(layer, x, {"attention": whole(self_attention(layer), mask)})
        x = self.encoder.norm(x)
        return torch.stack([heads_of(project(x), 2, self.heads) for project in self.cross])


class StepGraph(nn.Module):
    """One step of the decoder."""

    bias: Tensor

    def __init__(self, sentence: SentenceModel) -> None:
        super().__init__()
        self.decoder, self.inputs = sentence.model.decoder, Inputs(sentence.model.decoder)
        self.output = sentence.model.output
        self.register_buffer("bias", projection(sentence)[1])

    def forward(self, token: Tensor, cache: Tensor, memory: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """token (B,), cache (D, 2, B, h, T, d_h), memory, mask → scores (B, V), cache (D, 2, B, h, T + 1, d_h)."""
        x = self.inputs(token[:, None], cache.shape[4])  # (B, 1, d)
        written: list[Tensor] = []
        for number, layer in enumerate(self.decoder.stack):
            attention = next_word(self_attention(layer), cache[number], written)
            x = through(
                layer, x, {"attention": attention, "cross": across(cross_attention(layer), memory[number], mask)}
            )
        features = self.decoder.norm(x)[:, 0]
        return nn.functional.linear(features, self.output.weight, self.bias), torch.stack(written)
