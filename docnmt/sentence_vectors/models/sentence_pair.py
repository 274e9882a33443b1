"""A sentence encoder trained on pairs of sentences: what all architectures of the task `nli` have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from docnmt.layout import Spans
from docnmt.sentence_vectors.models.config import SentencePairConfig
from docnmt.sentence_vectors.modules.hashing import SemanticHash
from docnmt.sentence_vectors.modules.pair import PairClassifier


@dataclass(frozen=True, eq=False)
class PackedSentences:
    """Sentences in one row: tokens (T,) int64, rows of the embedding tables."""

    tokens: Tensor
    spans: Spans

    @classmethod
    def of(cls, sentences: Sequence[Sequence[int] | np.ndarray]) -> PackedSentences:
        """From each sentence's rows."""
        lengths = torch.tensor([0, *(len(sentence) for sentence in sentences)], dtype=torch.int64)
        tokens = np.concatenate([np.asarray(sentence, dtype=np.int64) for sentence in ([], *sentences)])
        return cls(torch.from_numpy(tokens), Spans(lengths.cumsum(0)))

    def to(self, device: torch.device | str) -> PackedSentences:
        return PackedSentences(self.tokens.to(device), Spans(self.spans.offsets.to(device)))


@dataclass(frozen=True, eq=False)
class PairBatch:
    """B pairs: `text` holds their B first sentences, then their B second ones; labels (B,) int64."""

    text: PackedSentences
    labels: Tensor

    @property
    def num_tokens(self) -> int:
        return len(self.text.tokens)

    def to(self, device: torch.device | str) -> PairBatch:
        return PairBatch(self.text.to(device), self.labels.to(device))


class SentenceTask(Protocol):
    """What a sentence encoder needs to know of its task."""

    labels: Sequence[str]
    vectors: Sequence[np.ndarray]
    """K × (V, d_k), one table a type."""
    probability: np.ndarray
    """(V,) how often each word is met in the training data, as a share of all."""


class SentencePairModel(nn.Module):
    """Sentence encoder, hashing layer or none, classifier of the pair.

    The word vectors are frozen, shared with the task and not part of the model's state.

    Args:
        encoder: (tokens, tables, spans) → (S, d); its width is `encoder.d_output`.
    """

    predicts: ClassVar[str] = "labels"

    def __init__(self, *, encoder: nn.Module, config: SentencePairConfig, task: SentenceTask) -> None:
        super().__init__()
        for k, table in enumerate(task.vectors):
            self.register_buffer(f"table_{k}", torch.as_tensor(table), persistent=False)
        self.types = len(task.vectors)
        self.encoder = encoder
        width = int(encoder.d_output)  # type: ignore[arg-type]
        self.hash: SemanticHash | None = None
        if config.hash_bits:
            self.hash = SemanticHash(
                d_input=width, bits=config.hash_bits, steps=config.hash_steps, minimum=config.hash_min_temperature
            )
        self.classifier = PairClassifier(
            d_input=config.hash_bits or width,
            d_hidden=config.classifier_dim,
            classes=len(task.labels),
            dropout=config.classifier_dropout,
        )

    @property
    def tables(self) -> list[Tensor]:
        """K × (V, d_k) word vectors."""
        return [self.get_buffer(f"table_{k}") for k in range(self.types)]

    def encode(self, text: PackedSentences) -> Tensor:
        """Sentence vectors s (S, d)."""
        vectors: Tensor = self.encoder(text.tokens, self.tables, text.spans)
        return vectors

    def forward(self, batch: PairBatch) -> Tensor:
        """Logits (B, classes)."""
        vectors = self.encode(batch.text)
        if self.hash is not None:
            vectors = self.hash(vectors)
        return self.classify(vectors)

    def classify(self, vectors: Tensor) -> Tensor:
        """Logits of the pairs (i, B + i) of 2B sentence vectors or codes: (2B, d) → (B, classes)."""
        logits: Tensor = self.classifier(*vectors.chunk(2))
        return logits


def dims(task: SentenceTask) -> list[int]:
    """The width d_k of each embedding type."""
    return [table.shape[1] for table in task.vectors]
