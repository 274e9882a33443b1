"""A sentence encoder trained on pairs of sentences: what all architectures of the task `nli` have in common."""

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
    """What a sentence encoder reads of its task.

    Attributes:
        probability: (V,) how often each word is met in the training data, as a share of all.
    """

    labels: Sequence[str]
    embeddings: Embeddings
    probability: np.ndarray


class PairClassifier(nn.Module):
    """[u; v; u ∘ v; |u - v|] → two hidden ReLU layers → one score a class (Conneau et al. 2017)."""

    def __init__(self, *, d_input: int, d_hidden: int, classes: int, dropout: float) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(4 * d_input, d_hidden), nn.ReLU(), nn.Dropout(dropout),
            nn.Linear(d_hidden, d_hidden), nn.ReLU(), nn.Dropout(dropout),
            nn.Linear(d_hidden, classes),
        )  # fmt: skip

    def forward(self, u: Tensor, v: Tensor) -> Tensor:
        """u, v (B, d) → logits (B, classes)."""
        return self.layers(torch.cat([u, v, u * v, (u - v).abs()], dim=1))  # type: ignore[no-any-return]


class SentencePairModel(nn.Module, ABC):
    """Sentence encoder, hashing layer or none, classifier of the pair.

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
        """K × (V, d_k) word vectors."""
        return [self.get_buffer(f"table_{k}") for k in range(self.types)]

    def encode(self, text: PackedSentences) -> Tensor:
        """Sentence vectors s (S, d)."""
        return self.encoder(text.tokens, self.tables, text.spans)  # type: ignore[no-any-return]

    def forward(self, batch: PairBatch) -> Tensor:
        """Logits (B, classes)."""
        vectors = self.encode(batch.text)
        return self.classify(vectors if self.hash is None else self.hash(vectors))

    def classify(self, vectors: Tensor) -> Tensor:
        """Logits of the pairs (i, B + i) of 2B sentence vectors or codes: (2B, d) → (B, classes)."""
        return self.classifier(*vectors.chunk(2))  # type: ignore[no-any-return]

    @classmethod
    def build(cls, config: Any, task: SentenceTask) -> SentencePairModel:  # Any: of the subclass's own `Config`
        """The model that `config` describes, for the labels and embedding types of `task`."""
        return cls(encoder=cls.encoder_of(config, task), config=config, task=task)

    @staticmethod
    @abstractmethod
    def encoder_of(config: Any, task: SentenceTask) -> encoders.WordEncoder:  # Any: as in `build`
        """The encoder that `config` describes: what tells the architectures apart."""


class InferLite(SentencePairModel):
    """Gated word vectors of several types, max-pooled (Kiros and Chan 2018)."""

    Config = InferLiteConfig

    @staticmethod
    def encoder_of(config: InferLiteConfig, task: SentenceTask) -> InferLiteEncoder:
        """InferLite's encoder."""
        return InferLiteEncoder(
            dims=task.embeddings.dims, d_model=config.hidden_dim, d_output=config.output_dim, layers=config.conv_layers,
            width=config.conv_width, gate=config.gate, skip=config.skip, pooling=config.pooling,
        )  # fmt: skip


class BagOfWords(SentencePairModel):
    """Mean, maximum or SIF-weighted mean of the word vectors; only the classifier learns."""

    Config = BagOfWordsConfig

    @staticmethod
    def encoder_of(config: BagOfWordsConfig, task: SentenceTask) -> encoders.BagOfWords:
        """The bag of words."""
        probability = torch.as_tensor(task.probability, dtype=torch.float32)
        return encoders.BagOfWords(dims=task.embeddings.dims, pooling=config.bag_pooling, probability=probability)


class BiLstmMax(SentencePairModel):
    """InferSent: bidirectional LSTM, max-pooling (Conneau et al. 2017)."""

    Config = BiLstmMaxConfig

    @staticmethod
    def encoder_of(config: BiLstmMaxConfig, task: SentenceTask) -> encoders.BiLstmMax:
        """The LSTM with max-pooling."""
        return encoders.BiLstmMax(dims=task.embeddings.dims, d_output=config.output_dim)


class Source2TokenEncoder(SentencePairModel):
    """The document encoder's layers and its source2token summaries, on single sentences."""

    Config = Source2TokenEncoderConfig

    @staticmethod
    def encoder_of(config: Source2TokenEncoderConfig, task: SentenceTask) -> encoders.Source2TokenEncoder:
        """The self-attention encoder."""
        return encoders.Source2TokenEncoder(
            dims=task.embeddings.dims, d_model=config.embed_dim, layers=config.encoder_layers, heads=config.heads,
            d_inner=config.ffn_dim, dropout=config.dropout,
        )  # fmt: skip
