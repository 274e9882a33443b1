"""The text classifier of Hallam and Tseng, "Fusion Matters" (2026): an encoder, a mean over words, a linear layer.

Texts are spans of one packed row without padding, and each attends to itself. Every component draws its initial weights
from a stream of its own (`random_stream`), so that classifiers that differ in positions or fusion alone start from
identical shared weights.
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

from docnmt.functional.pooling import span_mean
from docnmt.modules.attention import LinearSelfAttention, SelfAttention
from docnmt.modules.fusion import build_fusion
from docnmt.modules.layers import Dropout, FeedForward, Layer, Reads, Residual, plain_layer
from docnmt.modules.positions import Embedding, Position, build_position, check_fusion, check_linear
from docnmt.other_tasks.classification.config import FusionClassifierConfig
from docnmt.other_tasks.classification.data import TextBatch
from docnmt.registry.registry import FUSIONS, POSITIONS


class ClassificationTask(Protocol):
    """The attributes of a task that the model needs."""

    labels: tuple[str, ...]

    @property
    def vocabulary_size(self) -> int:
        """The number of rows of the embedding table."""


class FusionClassifier(nn.Module):
    """A classifier: logits = W·dropout(mean over words of encoder(fusion(E·√d, P))) + b; each part has its own stream.

    Attributes:
        position_count: where word indices count from: the sentence (`unit`) or the text (`document`).
    """

    Config: type = FusionClassifierConfig
    predicts: ClassVar[str] = "labels"

    def __init__(self, config: FusionClassifierConfig, task: ClassificationTask) -> None:
        super().__init__()
        width, fusion = config.embed_dim, None
        with random_stream("position"):
            options = POSITIONS.options(config.position, config)
            position = build_position(
                config.position,
                width,
                options=options,
                levels=config.levels or 2,
                max_positions=config.max_positions or 4096,
                max_distance=config.relative_horizon or 16,
                std=1.0,  # the same as embeddings before their √d, and as the notebooks' tables
            )
        check_fusion(config.position, position, config.position_fusion)
        with random_stream("embedding"):
            tokens = nn.Embedding(task.vocabulary_size, width)
            nn.init.normal_(tokens.weight, std=config.embedding_std)
        if position.input is not None:
            own = {"radius": config.gate_conv_radius, "scalar": config.gate_conv_scalar}
            given = {name: value for name, value in own.items() if value is not None}
            given |= FUSIONS.options(config.position_fusion, config)
            with random_stream("fusion"):
                fusion = build_fusion(config.position_fusion, width, norm_after=config.norm_after_fusion, **given)
        self.embedding = Embedding(tokens=tokens, position=position.input, fusion=fusion, dropout=0.0)
        self.embedding.scale = width**0.5 if config.scale_embeddings else 1.0
        self.layers = nn.ModuleList(_layer(config, position, number) for number in range(config.encoder_layers))
        self.norm = nn.LayerNorm(width) if config.norm == "pre" else nn.Identity()
        with random_stream("output"):
            self.output = nn.Linear(width, len(task.labels))
        self.dropout = Dropout(config.dropout)
        levels = config.position == "multi_level"
        self.position_count = (config.position_count or "unit") if levels else "document"

    @classmethod
    def build(cls, config: FusionClassifierConfig, task: ClassificationTask) -> FusionClassifier:
        """Build the model that `config` describes, for the labels and vocabulary of `task`."""
        return cls(config, task)

    def forward(self, batch: TextBatch) -> Tensor:
        """Return logits (B, C) of the batch's B texts; a text without words has the mean 0."""
        text = batch.text
        x = self.embedding(text.tokens, text.positions, text.layout.sentence_offsets)  # (T, d)
        for layer in self.layers:
            x = layer(x, Reads(text.layout))
        return self.output(self.dropout(span_mean(self.norm(x), text.layout.sentences)))  # type: ignore[no-any-return]


@contextlib.contextmanager
def random_stream(name: str) -> Iterator[None]:
    """Let torch (on the CPU) draw, inside the context, from a stream determined by the current seed and `name` alone.

    So a component's initial weights do not depend on other components, and models that differ in one component
    can be compared pairwise. The surrounding stream continues as if nothing had been drawn.
    """
    seeds = np.random.SeedSequence([torch.initial_seed(), zlib.crc32(name.encode())])
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(int(seeds.generate_state(1, np.uint64)[0]))
        yield


def _layer(config: FusionClassifierConfig, position: Position, number: int) -> Layer:
    d_head = config.embed_dim // config.heads
    with random_stream(f"position.{number}"):
        inside = None if position.attention is None else position.attention(config.heads, d_head)
    kind: type[LinearSelfAttention] | type[SelfAttention] = SelfAttention
    if config.attention == "linear":
        check_linear(config.position, inside)
        kind = LinearSelfAttention
    with random_stream(f"layer.{number}"):
        attention = kind(d_model=config.embed_dim, heads=config.heads, d_head=d_head, position=inside)
        nn.init.xavier_uniform_(attention.qkv.weight)  # as nn.TransformerEncoder begins
        nn.init.zeros_(attention.qkv.bias)
        nn.init.zeros_(attention.output.bias)
        return plain_layer(
            attention=attention,
            feed_forward=FeedForward(d_model=config.embed_dim, d_inner=config.ffn_dim, activation=config.activation),
            residual=partial(Residual, d_model=config.embed_dim, dropout=config.dropout, norm=config.norm),
        )
