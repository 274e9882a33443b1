"""Models of sentence pairs, which all architectures of the task `nli` extend: encoder, hashing, classifier."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor, nn

from docnmt.other_tasks.sentence_vectors import encoders
from docnmt.other_tasks.sentence_vectors.config import (
    BagOfWordsConfig,
    BiLstmMaxConfig,
    InferLiteConfig,
    SentencePairConfig,
    Source2TokenEncoderConfig,
)
from docnmt.other_tasks.sentence_vectors.embeddings import Embeddings
from docnmt.other_tasks.sentence_vectors.hashing import SemanticHash
from docnmt.other_tasks.sentence_vectors.inferlite import InferLiteEncoder
from docnmt.other_tasks.sentence_vectors.sentence_batches import PackedSentences, PairBatch


@runtime_checkable
class SentenceTask(Protocol):
    """The attributes of a task that sentence encoders need.

    Attributes:
        probability: (V,) relative frequency of each word in the training data.
    """

    labels: Sequence[str]
    embeddings: Embeddings
    probability: np.ndarray


class PairClassifier(nn.Module):
    """A classifier of pairs: [u; v; u ∘ v; |u - v|] → two ReLU layers → one score a class (Conneau et al. 2017)."""

    def __init__(self, *, d_input: int, d_hidden: int, classes: int, dropout: float) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(4 * d_input, d_hidden), nn.ReLU(), nn.Dropout(dropout),
            nn.Linear(d_hidden, d_hidden), nn.ReLU(), nn.Dropout(dropout),
            nn.Linear(d_hidden, classes),
        )  # fmt: skip

    def forward(self, u: Tensor, v: Tensor) -> Tensor:
        """Map vectors u, v (B, d) to logits (B, classes)."""
        return self.layers(torch.cat([u, v, u * v, (u - v).abs()], dim=1))  # type: ignore[no-any-return]


class SentencePairModel(nn.Module, ABC):
    """A sentence encoder with an optional hashing layer and a classifier of pairs.

    The word vectors are frozen, shared with the task and not part of the model's state.
    """

    Config: ClassVar[type[SentencePairConfig]]
    predicts: ClassVar[str] = "labels"

    def __init__(self, *, encoder: encoders.WordEncoder, config: SentencePairConfig, task: SentenceTask) -> None:
        super().__init__()
        for k, table in enumerate(task.embeddings.vectors):
            self.register_buffer(f"table_{k}", torch.as_tensor(table), persistent=False)
        self.types = len(task.embeddings.vectors)
        self.encoder = encoder
        self.hash: SemanticHash | None = None
        if config.hash_bits:
            self.hash = SemanticHash(
                d_input=encoder.d_output, bits=config.hash_bits, steps=config.hash_steps,
                minimum=config.hash_min_temperature,
            )  # fmt: skip
        self.classifier = PairClassifier(
            d_input=config.hash_bits or encoder.d_output, d_hidden=config.classifier_dim, classes=len(task.labels),
            dropout=config.classifier_dropout,
        )  # fmt: skip

    @property
    def tables(self) -> list[Tensor]:
        """The word vectors, K × (V, d_k)."""
        return [self.get_buffer(f"table_{k}") for k in range(self.types)]

    def encode(self, text: PackedSentences) -> Tensor:
        """Return sentence vectors s (S, d)."""
        return self.encoder(text.tokens, self.tables, text.spans)  # type: ignore[no-any-return]

    def forward(self, batch: PairBatch) -> Tensor:
        """Return logits (B, classes)."""
        vectors = self.encode(batch.text)
        return self.classify(vectors if self.hash is None else self.hash(vectors))

    def classify(self, vectors: Tensor) -> Tensor:
        """Return logits (B, classes) of the pairs (i, B + i) among 2B sentence vectors or codes (2B, d)."""
        return self.classifier(*vectors.chunk(2))  # type: ignore[no-any-return]

    @classmethod
    def build(cls, config: Any, task: SentenceTask) -> SentencePairModel:  # Any: the subclass's own `Config`
        """Build the model that `config` describes, for the labels and embedding types of `task`."""
        return cls(encoder=cls.encoder_of(config, task), config=config, task=task)

    @staticmethod
    @abstractmethod
    def encoder_of(config: Any, task: SentenceTask) -> encoders.WordEncoder:  # Any: see `build`
        """Build the encoder that `config` describes, which distinguishes the architectures."""


class InferLite(SentencePairModel):
    """InferLite: gated word vectors of several types, max-pooled (Kiros and Chan 2018)."""

    Config = InferLiteConfig

    @staticmethod
    def encoder_of(config: InferLiteConfig, task: SentenceTask) -> InferLiteEncoder:
        """Build InferLite's encoder."""
        return InferLiteEncoder(
            dims=task.embeddings.dims, d_model=config.hidden_dim, d_output=config.output_dim, layers=config.conv_layers,
            width=config.conv_width, gate=config.gate, skip=config.skip, pooling=config.pooling,
        )  # fmt: skip


class BagOfWords(SentencePairModel):
    """The mean, maximum or SIF-weighted mean of the word vectors; only the classifier learns."""

    Config = BagOfWordsConfig

    @staticmethod
    def encoder_of(config: BagOfWordsConfig, task: SentenceTask) -> encoders.BagOfWords:
        """Build the bag of words."""
        probability = torch.as_tensor(task.probability, dtype=torch.float32)
        return encoders.BagOfWords(dims=task.embeddings.dims, pooling=config.bag_pooling, probability=probability)


class BiLstmMax(SentencePairModel):
    """InferSent: bidirectional LSTM, max-pooling (Conneau et al. 2017)."""

    Config = BiLstmMaxConfig

    @staticmethod
    def encoder_of(config: BiLstmMaxConfig, task: SentenceTask) -> encoders.BiLstmMax:
        """Build the LSTM with max-pooling."""
        return encoders.BiLstmMax(dims=task.embeddings.dims, d_output=config.output_dim)


class Source2TokenEncoder(SentencePairModel):
    """The document encoder's layers and its source2token summaries, on single sentences."""

    Config = Source2TokenEncoderConfig

    @staticmethod
    def encoder_of(config: Source2TokenEncoderConfig, task: SentenceTask) -> encoders.Source2TokenEncoder:
        """Build the self-attention encoder."""
        return encoders.Source2TokenEncoder(
            dims=task.embeddings.dims, d_model=config.embed_dim, layers=config.encoder_layers, heads=config.heads,
            d_inner=config.ffn_dim, dropout=config.dropout,
        )  # fmt: skip
