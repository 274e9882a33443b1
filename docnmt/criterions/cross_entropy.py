"""Cross-entropy of the next token, without a tokens × vocabulary tensor."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from docnmt.criterions.config import CrossEntropyConfig, LabelSmoothedCrossEntropyConfig
from docnmt.functional import chunked_cross_entropy


class LabelSmoothedCrossEntropy:
    """(1 − ε)·(−log p(label)) + ε·(mean over the vocabulary of −log p), summed over labels (Szegedy et al. 2016).

    Reads the model's features (T, d) and its `output` layer; logs `nll`, the sum without smoothing, in nats.
    """

    Config: type = LabelSmoothedCrossEntropyConfig
    metrics: tuple[str, ...] = ("nll",)

    def __init__(self, *, label_smoothing: float) -> None:
        self.label_smoothing = label_smoothing

    @classmethod
    def build(cls, config: LabelSmoothedCrossEntropyConfig, task: Any) -> LabelSmoothedCrossEntropy:
        return cls(label_smoothing=config.label_smoothing)

    def __call__(self, model: nn.Module, batch: Any) -> tuple[Tensor, int, dict[str, float]]:
        """Summed loss, the number of labels it counts, and sums to log."""
        features = model(batch)  # (T, d)
        output: Any = model.output
        loss, nll = chunked_cross_entropy(
            features, output.weight, batch.labels, bias=output.bias, label_smoothing=self.label_smoothing
        )
        return loss, batch.num_tokens, {"nll": float(nll.detach())}


class CrossEntropy(LabelSmoothedCrossEntropy):
    """−log p(label), summed over labels."""

    Config = CrossEntropyConfig

    @classmethod
    def build(cls, config: Any, task: Any) -> CrossEntropy:
        return cls(label_smoothing=0.0)
