"""The text classifier of "Fusion Matters" (Hallam and Tseng 2026): an encoder, a mean over words, a linear layer.

Padding-free: texts stand in one packed row, each attends to itself. With every random number from a stream of its own
(`random_stream`), classifiers that differ in positions or fusion alone start from identical shared weights.
"""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar, Protocol

from torch import Tensor, nn

from docnmt.batch import PackedText
from docnmt.classification.model_config import FusionClassifierConfig
from docnmt.classification.random_stream import random_stream
from docnmt.layout import Spans
from docnmt.modules.attention import SelfAttention
from docnmt.modules.embedding import Embedding
from docnmt.modules.fusion import build_fusion
from docnmt.modules.layers import EncoderLayer, FeedForward, Residual
from docnmt.modules.linear_attention import LinearSelfAttention
from docnmt.modules.positions import Position, build_position
from docnmt.registry import FUSIONS, POSITIONS


class Vocabulary(Protocol):
    """What the model must know of a task."""

    vocabulary_size: int
    labels: tuple[str, ...]


class TextBatch(Protocol):
    """What the model reads: every text of `text` is a document of one span."""

    text: PackedText


class FusionClassifier(nn.Module):
    """logits = W·dropout(mean over words of encoder(fusion(E·√d, P))) + b.

    Args:
        position_count: where the word index of a position counts from: its sentence (`unit`) or its text (`document`).
    """

    Config: type = FusionClassifierConfig
    predicts: ClassVar[str] = "labels"

    def __init__(
        self,
        *,
        embedding: Embedding,
        layers: list[EncoderLayer],
        norm: nn.Module,
        dropout: float,
        output: nn.Linear,
        position_count: str,
    ) -> None:
        super().__init__()
        self.embedding, self.layers, self.norm, self.output = embedding, nn.ModuleList(layers), norm, output
        self.dropout = nn.Dropout(dropout)
        self.position_count = position_count

    def forward(self, batch: TextBatch) -> Tensor:
        """Logits (B, C) of the batch's B texts; a text without words has the mean 0."""
        text = batch.text
        x = self.embedding(text.tokens, text.positions, text.layout.sentence_offsets)  # (T, d)
        for layer in self.layers:
            x = layer(x, text.layout)
        logits: Tensor = self.output(self.dropout(span_means(self.norm(x), text.layout.sentences)))
        return logits

    @classmethod
    def build(cls, config: FusionClassifierConfig, task: Vocabulary) -> FusionClassifier:
        """The modules a configuration asks for, each with random weights of its own stream."""
        with random_stream("position"):
            options = POSITIONS.options(config.position, config)
            position = build_position(config.position, config.embed_dim, options=options, **_position_settings(config))
        with random_stream("embedding"):
            tokens = nn.Embedding(task.vocabulary_size, config.embed_dim)
            nn.init.normal_(tokens.weight, std=config.embedding_std)
        fusion = None
        if position.input is not None:
            with random_stream("fusion"):
                fusion = build_fusion(
                    config.position_fusion,
                    config.embed_dim,
                    norm_after=config.norm_after_fusion,
                    **_fusion_options(config),
                )
        embedding = Embedding(tokens=tokens, position=position.input, fusion=fusion, dropout=0.0)
        embedding.scale = config.embed_dim**0.5 if config.scale_embeddings else 1.0
        layers = [_layer(config, position, number) for number in range(config.encoder_layers)]
        with random_stream("output"):
            output = nn.Linear(config.embed_dim, len(task.labels))
        return cls(
            embedding=embedding,
            layers=layers,
            norm=nn.LayerNorm(config.embed_dim) if config.norm == "pre" else nn.Identity(),
            dropout=config.dropout,
            output=output,
            position_count=(config.position_count or "unit") if config.position == "multi_level" else "document",
        )


def _position_settings(config: FusionClassifierConfig) -> dict[str, Any]:
    return {
        "levels": config.levels or 2,
        "max_positions": config.max_positions or 4096,
        "max_distance": config.relative_horizon or 16,
        "std": 1.0,  # as embeddings have it before their √d, and the notebooks' tables
    }


def _fusion_options(config: FusionClassifierConfig) -> dict[str, Any]:
    options = {"radius": config.gate_conv_radius, "scalar": config.gate_conv_scalar}
    given = {name: value for name, value in options.items() if value is not None}
    return given | FUSIONS.options(config.position_fusion, config)


def span_means(x: Tensor, spans: Spans) -> Tensor:
    """The mean (B, d) of the rows of x (T, d) in each span; 0 for an empty one."""
    sums = x.new_zeros(len(spans), x.shape[-1]).index_add(0, spans.span_of_token, x)
    return sums / spans.offsets.diff().clamp(min=1)[:, None]


def _layer(config: FusionClassifierConfig, position: Position, number: int) -> EncoderLayer:
    d_head = config.embed_dim // config.heads
    with random_stream(f"position.{number}"):
        inside = None if position.attention is None else position.attention(config.heads, d_head)
    kind = LinearSelfAttention if config.attention == "linear" else SelfAttention
    with random_stream(f"layer.{number}"):
        attention = kind(d_model=config.embed_dim, heads=config.heads, d_head=d_head, position=inside)
        nn.init.xavier_uniform_(attention.qkv.weight)  # as nn.TransformerEncoder begins
        nn.init.zeros_(attention.qkv.bias)
        nn.init.zeros_(attention.output.bias)
        return EncoderLayer(
            attention=attention,
            feed_forward=FeedForward(d_model=config.embed_dim, d_inner=config.ffn_dim, activation=config.activation),
            residual=partial(Residual, d_model=config.embed_dim, dropout=config.dropout, norm=config.norm),
        )
