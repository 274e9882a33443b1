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
import logging
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import cast

import torch
from torch import Tensor, nn

from docnmt.apps.convert.ctranslate import attention_problems, position_table, projection
from docnmt.apps.convert.sentence_model import SentenceModel, write_pieces
from docnmt.core.models.encoder_decoder import Stack
from docnmt.modules.fusion import Fusion
from docnmt.modules.layers import Layer
from docnmt.modules.softmax_attention import CrossAttention, SelfAttention
from docnmt.runtime.errors import UserError

#: The files of both graphs.
ENCODER, STEP = "encoder.onnx", "step.onnx"
#: The version of the operators.
_OPSET = 18


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
    """Write both graphs, and the SentencePiece models as source.spm and target.spm.

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
    any_size = torch.export.Dim.DYNAMIC
    text, values = {0: any_size, 1: any_size}, {2: any_size, 4: any_size}
    _export(
        EncoderGraph(sentence), folder / ENCODER, {"source": source, "mask": mask}, ("memory",),
        {"source": text, "mask": text},
    )  # fmt: skip
    _export(
        StepGraph(sentence), folder / STEP, {"token": source[:, 0], "cache": cache, "memory": memory, "mask": mask},
        ("scores", "new_cache"), {"token": {0: any_size}, "cache": values, "memory": values, "mask": text},
    )  # fmt: skip
    write_pieces(sentence, folder)


def _export(
    graph: nn.Module,
    path: Path,
    inputs: dict[str, Tensor],
    outputs: tuple[str, ...],
    sizes: dict[str, dict[int, object]],
) -> None:
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)  # it warns of parts that nothing here needs
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            graph.eval(), (), str(path), kwargs=inputs, input_names=[*inputs], output_names=[*outputs],
            dynamic_shapes=sizes, dynamo=True, verbose=False, opset_version=_OPSET,
        )  # fmt: skip


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
        self.cross = nn.ModuleList(_cross(layer).key_value for layer in sentence.model.decoder.stack)

    def forward(self, source: Tensor, mask: Tensor) -> Tensor:
        """source, mask (B, L) → memory (D, 2, B, h, L, d_h)."""
        x = self.inputs(source, 0)
        for layer in self.encoder.stack:
            attention = _attention(layer)

            def attend(read: Tensor, own: SelfAttention = attention) -> Tensor:
                q, k, v = _heads(own.qkv(read), 3, self.heads)
                return _mixed(own.output, q, k, v, mask)

            x = _through(layer, x, {"attention": attend})
        x = self.encoder.norm(x)
        return torch.stack([_heads(project(x), 2, self.heads) for project in self.cross])


class StepGraph(nn.Module):
    """One step of the decoder."""

    bias: Tensor

    def __init__(self, sentence: SentenceModel) -> None:
        super().__init__()
        self.decoder, self.inputs = sentence.model.decoder, Inputs(sentence.model.decoder)
        self.heads, self.output = sentence.config.heads, sentence.model.output
        self.register_buffer("bias", projection(sentence)[1])

    def forward(self, token: Tensor, cache: Tensor, memory: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """token (B,), cache (D, 2, B, h, T, d_h), memory, mask → scores (B, V), cache (D, 2, B, h, T + 1, d_h)."""
        x = self.inputs(token[:, None], cache.shape[4])  # (B, 1, d)
        written = []
        for number, layer in enumerate(self.decoder.stack):
            attention, cross, before, source = _attention(layer), _cross(layer), cache[number], memory[number]

            def attend(read: Tensor, own: SelfAttention = attention, before: Tensor = before) -> Tensor:
                q, *new = _heads(own.qkv(read), 3, self.heads)
                keys = torch.cat([before, torch.stack(new)], dim=3)  # (2, B, h, T + 1, d_h)
                written.append(keys)
                return _mixed(own.output, q, keys[0], keys[1], None)

            def look(read: Tensor, own: CrossAttention = cross, source: Tensor = source) -> Tensor:
                (q,) = _heads(own.query(read), 1, self.heads)
                return _mixed(own.output, q, source[0], source[1], mask)

            x = _through(layer, x, {"attention": attend, "cross": look})
        features = self.decoder.norm(x)[:, 0]
        return nn.functional.linear(features, self.output.weight, self.bias), torch.stack(written)


def _through(layer: Layer, x: Tensor, attend: Mapping[str, Callable[[Tensor], Tensor]]) -> Tensor:
    """Return x (B, L, d) behind a layer, given how its attentions read."""
    for block in layer.blocks:
        residual = layer.residual(block)
        read = residual.enter(x)
        x = residual.leave(x, attend[block[0]](read) if block[0] in attend else layer.sublayer(block[0])(read))
    return x


def _heads(x: Tensor, parts: int, heads: int) -> Tensor:
    """(B, L, parts · h · d_h) → (parts, B, h, L, d_h)."""
    return x.view(*x.shape[:-1], parts, heads, -1).permute(2, 0, 3, 1, 4)


def _mixed(output: nn.Linear, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
    """Softmax attention of q to k and v, (B, h, L, d_h) each; mask (B, L) of the keys → (B, L, d)."""
    scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    if mask is not None:
        scores = scores.masked_fill(~mask[:, None, None], -torch.inf)
    mixed: Tensor = output((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
    return mixed


def _attention(layer: Layer) -> SelfAttention:
    return cast(SelfAttention, layer.sublayer("attention"))


def _cross(layer: Layer) -> CrossAttention:
    return cast(CrossAttention, layer.sublayer("cross"))
