"""Cross-entropy of a text's label."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor, nn
from torch.nn import functional as F

from docnmt.criterions.config import CrossEntropyConfig


class LabelledBatch(Protocol):
    """A batch with labels (B,)."""

    @property
    def labels(self) -> Tensor:
        """(B,) int64 numbers of labels."""


class Classification:
    """−log p(label) in nats, summed over texts; logs how many labels are right (so the mean is the accuracy)."""

    Config: type = CrossEntropyConfig
    metrics: tuple[str, ...] = ("accuracy",)
    predicts: str = "labels"

    @classmethod
    def build(cls, config: CrossEntropyConfig, task: object) -> Classification:
        """The criterion, which has no options."""
        return cls()

    def __call__(self, model: nn.Module, batch: LabelledBatch) -> tuple[Tensor, int, dict[str, float]]:
        """The model's logits (B, C) against `batch.labels` (B,): summed loss, B, sums to log."""
        logits = model(batch)
        loss = F.cross_entropy(logits.float(), batch.labels, reduction="sum")
        correct = (logits.detach().argmax(-1) == batch.labels).sum().item()
        return loss, len(batch.labels), {"accuracy": float(correct)}
