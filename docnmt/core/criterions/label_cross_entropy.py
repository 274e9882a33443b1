"""Cross-entropy of a text's label."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from typing_extensions import Self

from docnmt.core.training.config import CrossEntropyConfig


class PackedTexts(Protocol):
    """Texts packed in one row."""

    @property
    def tokens(self) -> Tensor:
        """Tokens (T,), int64."""

    def to(self, device: torch.device | str) -> Self:
        """Return the texts on another device."""


TextT = TypeVar("TextT", bound=PackedTexts)


@dataclass(frozen=True, eq=False)
class LabelledBatch(Generic[TextT]):
    """Texts packed in one row, and labels (B,), int64: one per text, or per pair of texts i and B + i."""

    text: TextT
    labels: Tensor

    @property
    def num_tokens(self) -> int:
        """The number of tokens of all texts."""
        return len(self.text.tokens)

    def to(self, device: torch.device | str) -> LabelledBatch[TextT]:
        """Return the batch on another device."""
        return LabelledBatch(self.text.to(device), self.labels.to(device))


class Classification:
    """Classification loss −log p(label), summed over texts, in nats; logs the number of correct labels."""

    Config: type = CrossEntropyConfig
    metrics: tuple[str, ...] = ("accuracy",)
    predicts: str = "labels"

    @classmethod
    def build(cls, config: CrossEntropyConfig, task: object) -> Classification:
        """Build the criterion, which has no options."""
        return cls()

    def __call__(
        self, model: nn.Module, batch: LabelledBatch[TextT]
    ) -> tuple[Tensor, int, Mapping[str, float | Tensor]]:
        """Compare the model's logits (B, C) with `batch.labels` (B,); return the summed loss, B, and sums to log."""
        logits = model(batch)
        loss = F.cross_entropy(logits.float(), batch.labels, reduction="sum")
        correct = (logits.detach().argmax(-1) == batch.labels).sum()
        return loss, len(batch.labels), {"accuracy": correct}
