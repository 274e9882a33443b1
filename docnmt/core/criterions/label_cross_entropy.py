"""Cross-entropy of a text's label."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from typing_extensions import Self

from docnmt.core.criterions.config import CrossEntropyConfig


class Text(Protocol):
    """Texts in one packed row."""

    @property
    def tokens(self) -> Tensor:
        """(T,) int64."""

    def to(self, device: torch.device | str) -> Self:
        """The same on a device."""


TextT = TypeVar("TextT", bound=Text)


@dataclass(frozen=True, eq=False)
class LabelledBatch(Generic[TextT]):
    """Texts in one packed row, and B labels (B,) int64: of each text, or of each pair of texts i and B + i."""

    text: TextT
    labels: Tensor

    @property
    def num_tokens(self) -> int:
        """Tokens of all texts."""
        return len(self.text.tokens)

    def to(self, device: torch.device | str) -> LabelledBatch[TextT]:
        """The same on a device."""
        return LabelledBatch(self.text.to(device), self.labels.to(device))


class Classification:
    """−log p(label) in nats, summed over texts; logs how many labels are right (so the mean is the accuracy)."""

    Config: type = CrossEntropyConfig
    metrics: tuple[str, ...] = ("accuracy",)
    predicts: str = "labels"

    @classmethod
    def build(cls, config: CrossEntropyConfig, task: object) -> Classification:
        """The criterion, which has no options."""
        return cls()

    def __call__(
        self, model: nn.Module, batch: LabelledBatch[TextT]
    ) -> tuple[Tensor, int, Mapping[str, float | Tensor]]:
        """The model's logits (B, C) against `batch.labels` (B,): summed loss, B, sums to log."""
        logits = model(batch)
        loss = F.cross_entropy(logits.float(), batch.labels, reduction="sum")
        correct = (logits.detach().argmax(-1) == batch.labels).sum()
        return loss, len(batch.labels), {"accuracy": correct}
