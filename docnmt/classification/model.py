"""The text classifier of Hallam and Tseng, "Fusion Matters" (2026): an encoder, a mean over words, a linear layer.

Padding-free: texts stand in one packed row, each attends to itself. With every random number from a stream of its own
(`random_stream`), classifiers that differ in positions or fusion alone start from identical shared weights.
"""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Iterator
from functools import partial
from typing import ClassVar, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from docnmt.classification.config import FusionClassifierConfig
from docnmt.classification.data import TextBatch
from docnmt.functional.pooling import span_mean
from docnmt.modules.attention import SelfAttention
from docnmt.modules.embedding import Embedding
from docnmt.modules.fusion import build_fusion
from docnmt.modules.layers import EncoderLayer, FeedForward, Residual
from docnmt.modules.linear_attention import LinearSelfAttention
from docnmt.modules.positions import Position, build_position


class ClassificationTask(Protocol):
    """What the model must know of a task."""

    labels: tuple[str, ...]

    @property
    def vocabulary_size(self) -> int:
        """Rows of the embedding table."""


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
        return self.output(self.dropout(span_mean(self.norm(x), text.layout.sentences)))  # type: ignore[no-any-return]

    @classmethod
    def build(cls, config: FusionClassifierConfig, task: ClassificationTask) -> FusionClassifier:
        """The modules a configuration asks for, each with random weights of its own stream."""
        with random_stream("position"):
            position = build_position(
                config.position, config.embed_dim, levels=config.levels or 2,
                max_positions=config.max_positions or 4096, max_distance=config.relative_distance or 16,
                std=1.0,  # as embeddings have it before their √d, and the notebooks' tables
            )  # fmt: skip
        with random_stream("embedding"):
            tokens = nn.Embedding(task.vocabulary_size, config.embed_dim)
            nn.init.normal_(tokens.weight, std=config.embedding_std)
        fusion = None
        if position.input is not None:
            own = {"radius": config.gate_conv_radius, "scalar": config.gate_conv_scalar}
            given = {name: value for name, value in own.items() if value is not None}
            with random_stream("fusion"):
                fusion = build_fusion(
                    config.position_fusion, config.embed_dim, norm_after=config.norm_after_fusion, **given
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


@contextlib.contextmanager
def random_stream(name: str) -> Iterator[None]:
    """Inside, torch (on the CPU) draws from a stream that the current seed and `name` alone determine.

    So a component's initial weights are the same whatever stands beside it, and models that differ in one component can
    be compared pair by pair. The surrounding stream goes on as if nothing had been drawn.
    """
    seeds = np.random.SeedSequence([torch.initial_seed(), zlib.crc32(name.encode())])
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(int(seeds.generate_state(1, np.uint64)[0]))
        yield


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
