"""Parts of the ONNX graphs: how torch writes one, and layers and attention over padded batches by plain operators."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import cast

import torch
from torch import Tensor, nn

from docnmt.modules.layers import Layer
from docnmt.modules.softmax_attention import CrossAttention, SelfAttention

#: The files of the graphs that every model has.
ENCODER, STEP = "encoder.onnx", "step.onnx"
#: The version of the operators.
_OPSET = 18


def export(
    graph: nn.Module, path: Path, inputs: Mapping[str, tuple[Tensor, Sequence[int]]], outputs: Sequence[str]
) -> None:
    """Write a graph as an ONNX file.

    Args:
        inputs: for each argument of the graph, an example and which of its sizes are any. These may be neither 1
            nor equal to others, and no two examples the same tensor: torch takes them for fixed, or for the same.
    """
    any_size = torch.export.Dim.DYNAMIC
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)  # it warns of parts that nothing here needs
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            graph.eval(), (), str(path), kwargs={name: example for name, (example, _) in inputs.items()},
            input_names=[*inputs], output_names=[*outputs],
            dynamic_shapes={name: dict.fromkeys(sizes, any_size) for name, (_, sizes) in inputs.items()},
            dynamo=True, verbose=False, opset_version=_OPSET,
        )  # fmt: skip


def through(layer: Layer, x: Tensor, attend: Mapping[str, Callable[[Tensor], Tensor]]) -> Tensor:
    """Return x (B, L, d) behind a layer, given how its attentions read."""
    for block in layer.blocks:
        residual = layer.residual(block)
        read = residual.enter(x)
        first, *beside = [attend[name](read) if name in attend else layer.sublayer(name)(read) for name in block]
        x = residual.leave(x, sum(beside, start=first))
    return x


def heads_of(x: Tensor, parts: int, heads: int) -> Tensor:
    """(B, L, parts · h · d_h) → (parts, B, h, L, d_h)."""
    return x.view(*x.shape[:-1], parts, heads, -1).permute(2, 0, 3, 1, 4)


def mixed(output: nn.Linear, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
    """Softmax attention of q to k and v, (B, h, L, d_h) each; mask (B, L) of the keys → (B, L, d)."""
    scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    if mask is not None:
        scores = scores.masked_fill(~mask[:, None, None], -torch.inf)
    read: Tensor = output((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
    return read


def whole(own: SelfAttention, mask: Tensor) -> Callable[[Tensor], Tensor]:
    """Return self-attention of rows (B, L, d) in an encoder; mask (B, L)."""

    def attend(read: Tensor) -> Tensor:
        q, k, v = heads_of(own.qkv(read), 3, own.heads)
        return mixed(own.output, q, k, v, mask)

    return attend


def next_word(own: SelfAttention, before: Tensor, written: list[Tensor]) -> Callable[[Tensor], Tensor]:
    """Return self-attention of one word, (B, 1, d), to keys and values (2, B, h, T, d_h) of those before it and itself.

    All T + 1 of them are appended to `written`.
    """

    def attend(read: Tensor) -> Tensor:
        q, *new = heads_of(own.qkv(read), 3, own.heads)
        keys = torch.cat([before, torch.stack(new)], dim=3)  # (2, B, h, T + 1, d_h)
        written.append(keys)
        return mixed(own.output, q, keys[0], keys[1], None)

    return attend


def across(own: CrossAttention, source: Tensor, mask: Tensor) -> Callable[[Tensor], Tensor]:
    """Return the attention of one word, (B, 1, d), to keys and values (2, B, h, L, d_h) of its source; mask (B, L)."""

    def attend(read: Tensor) -> Tensor:
        (q,) = heads_of(own.query(read), 1, own.heads)
        return mixed(own.output, q, source[0], source[1], mask)

    return attend


def self_attention(layer: Layer) -> SelfAttention:
    """The self-attention of a layer."""
    return cast(SelfAttention, layer.sublayer("attention"))


def cross_attention(layer: Layer) -> CrossAttention:
    """The attention of a decoder layer to the source sentence."""
    return cast(CrossAttention, layer.sublayer("cross"))
