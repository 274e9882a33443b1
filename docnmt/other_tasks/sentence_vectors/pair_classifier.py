"""Models of sentence pairs, which all architectures of the task `nli` extend: encoder, hashing, classifier."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Generic, Protocol, TypeVar, runtime_checkable

import numpy as np
import torch
from torch import Tensor, nn

from docnmt.layout import Spans
from docnmt.modules.layers import Dropout
from docnmt.other_tasks.options import SentencePairConfig
from docnmt.other_tasks.sentence_vectors.data import PackedSentences, PairBatch
from docnmt.other_tasks.sentence_vectors.embeddings import Embeddings
from docnmt.other_tasks.sentence_vectors.hashing import SemanticHash


@runtime_checkable
class SentenceTask(Protocol):
    """The attributes of a task that sentence encoders need.

    Attributes:
        probability: (V,) relative frequency of each word in the training data.
    """

    labels: Sequence[str]
    embeddings: Embeddings
    probability: np.ndarray


ConfigT = TypeVar("ConfigT", bound=SentencePairConfig)


class WordEncoder(nn.Module, ABC, Generic[ConfigT]):
    """The base class of encoders of sentences, one by one, from K tables of frozen word vectors: architectures of nli.

    `ConfigT` are the encoder's own options, its `Config`.

    Attributes:
        d_output: width of a sentence vector.
    """

    Config: ClassVar[type[SentencePairConfig]]
    d_output: int

    @classmethod
    @abstractmethod
    def of(cls, config: ConfigT, task: SentenceTask) -> WordEncoder[ConfigT]:
        """Build the encoder that `config` describes, for the embedding types of `task`."""

    @classmethod
    def build(cls, config: ConfigT, task: SentenceTask) -> SentencePairModel:
        """Build this encoder and all that follows it, for the labels and embedding types of `task`."""
        return SentencePairModel(encoder=cls.of(config, task), config=config, task=task)

    @abstractmethod
    def forward(self, tokens: Tensor, tables: Sequence[Tensor], spans: Spans) -> Tensor:
        """Encode tokens (T,) in sentences `spans`, with tables K × (V, d_k), as (S, d_output)."""


def look_up(tables: Sequence[Tensor], tokens: Tensor, dtype: torch.dtype) -> list[Tensor]:
    """Look up tokens (T,) in each of K tables (V, d_k); return K × (T, d_k)."""
    return [table.index_select(0, tokens).to(dtype) for table in tables]


class PairClassifier(nn.Module):
    """A classifier of pairs: [u; v; u ∘ v; |u - v|] → two ReLU layers → one score a class (Conneau et al. 2017)."""

    def __init__(self, *, d_input: int, d_hidden: int, classes: int, dropout: float) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(4 * d_input, d_hidden),
            nn.ReLU(),
            Dropout(dropout),
            nn.Linear(d_hidden, d_hidden),
            nn.ReLU(),
            Dropout(dropout),
            nn.Linear(d_hidden, classes),
        )

    def forward(self, u: Tensor, v: Tensor) -> Tensor:
        """Map vectors u, v (B, d) to logits (B, classes)."""
        return self.layers(torch.cat([u, v, u * v, (u - v).abs()], dim=1))  # type: ignore[no-any-return]


class SentencePairModel(nn.Module):
    """A sentence encoder with an optional hashing layer and a classifier of pairs.

    The word vectors are frozen, shared with the task and not part of the model's state.
    """

    predicts: ClassVar[str] = "labels"

    def __init__(self, *, encoder: WordEncoder[ConfigT], config: ConfigT, task: SentenceTask) -> None:
        super().__init__()
        for k, table in enumerate(task.embeddings.vectors):
            self.register_buffer(f"table_{k}", torch.as_tensor(table), persistent=False)
        self.types = len(task.embeddings.vectors)
        self.encoder = encoder
        self.hash: SemanticHash | None = None
        if config.hash_bits:
            self.hash = SemanticHash(
                d_input=encoder.d_output,
                bits=config.hash_bits,
                steps=config.hash_steps,
                minimum=config.hash_min_temperature,
            )
        self.classifier = PairClassifier(
            d_input=config.hash_bits or encoder.d_output,
            d_hidden=config.classifier_dim,
            classes=len(task.labels),
            dropout=config.classifier_dropout,
        )

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
