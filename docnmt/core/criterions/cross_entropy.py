"""Cross-entropy of the next token, computed without a tokens × vocabulary tensor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from docnmt.core.batch import IGNORE
from docnmt.core.training.config import CrossEntropyConfig, LabelSmoothedCrossEntropyConfig
from docnmt.functional import chunked_cross_entropy
from docnmt.functional.loss import CopiedFeatures, counted_labels

#: Number of labels whose vocabulary scores are in memory at once; the backward pass recomputes them.
CHUNK = 1024


#: What a model reads: batches of its own kind.
ReadT = TypeVar("ReadT", contravariant=True)
BatchT = TypeVar("BatchT", bound="TokenBatch")


class TokenModel(Protocol[ReadT]):
    """A model that predicts tokens: features (T, d) of a batch, and the layer that maps them to scores."""

    output: nn.Linear
    training: bool

    def __call__(self, batch: ReadT) -> Tensor | CopiedFeatures: ...


class TokenBatch(Protocol):
    """A batch with labels (T,)."""

    @property
    def labels(self) -> Tensor:
        """Token ids (T,), int64; `IGNORE` where nothing is predicted."""

    @property
    def num_tokens(self) -> Any:  # Any: a tensor where only the device knows it, as in a CUDA graph
        """The number of labels that count."""


class LabelSmoothedCrossEntropy:
    """(1 − ε)·(−log p(label)) + ε·(mean over the vocabulary of −log p), summed over labels (Szegedy et al. 2016).

    Reads the model's features (T, d) and its `output` layer; logs `nll`, the sum without smoothing, in nats.

    With `r_drop` α, in training: the mean of this loss over two passes with other dropout, plus α/2 times their
    symmetric divergence, which is logged, too. That is half of R-Drop's loss (Liang et al. 2021), so that
    it is comparable with the loss without it.
    """

    Config: type = LabelSmoothedCrossEntropyConfig
    metrics: tuple[str, ...] = ("nll",)
    predicts: str = "tokens"

    def __init__(self, *, label_smoothing: float, r_drop: float = 0.0) -> None:
        self.label_smoothing, self.r_drop = label_smoothing, r_drop

    @classmethod
    def build(cls, config: LabelSmoothedCrossEntropyConfig, task: object) -> LabelSmoothedCrossEntropy:
        """Build the criterion with the values of its options."""
        return cls(label_smoothing=config.label_smoothing, r_drop=config.r_drop)

    def __call__(self, model: TokenModel[BatchT], batch: BatchT) -> tuple[Tensor, int, Mapping[str, float | Tensor]]:
        """Return the summed loss, the number of labels it counts, and sums to log, which may be on the device."""
        if self.r_drop and model.training:
            return self._of_two_passes(model, batch)
        loss, nll = self._cross_entropy(model, model(batch), batch)  # features (T, d)
        return loss, batch.num_tokens, {"nll": nll.detach()}

    def _of_two_passes(
        self, model: TokenModel[BatchT], batch: BatchT
    ) -> tuple[Tensor, int, Mapping[str, float | Tensor]]:
        output = model.output
        passes = (model(batch), model(batch))
        losses, nlls = zip(*(self._cross_entropy(model, each, batch) for each in passes), strict=True)
        loss, nll = losses[0] + losses[1], nlls[0] + nlls[1]
        one, other = (each if isinstance(each, Tensor) else each.features for each in passes)
        counted = counted_labels(batch.labels, IGNORE, batch.num_tokens)
        divergence = symmetric_divergence(one, other, counted, output.weight, output.bias)
        sums = {"nll": nll.detach() / 2, "divergence": divergence.detach()}
        return (loss + self.r_drop * divergence) / 2, batch.num_tokens, sums

    def _cross_entropy(
        self, model: TokenModel[BatchT], predicted: Tensor | CopiedFeatures, batch: BatchT
    ) -> tuple[Tensor, Tensor]:
        output, smoothing = model.output, self.label_smoothing
        if isinstance(predicted, Tensor):
            features, copied = predicted, None
        else:
            features, copied = predicted.features, predicted.copied
        return chunked_cross_entropy(
            features,
            output.weight,
            batch.labels,
            bias=output.bias,
            label_smoothing=smoothing,
            copied=copied,
            count=batch.num_tokens,
        )


class CrossEntropy(LabelSmoothedCrossEntropy):
    """Cross-entropy: −log p(label), summed over labels."""

    Config = CrossEntropyConfig

    @classmethod
    def build(cls, config: object, task: object) -> CrossEntropy:
        """Build the criterion, which has no options."""
        return cls(label_smoothing=0.0)


def symmetric_divergence(first: Tensor, second: Tensor, rows: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Compute R-Drop's divergence (Liang et al. 2021): Σ ½(KL(P₁‖P₂) + KL(P₂‖P₁)) over labels that count, in nats.

    Args:
        first, second: features (T, d) of the same tokens. rows: (N,) the rows whose labels count.
        weight, bias: of the output layer, (V, d) and (V,).
    """
    total = first.new_zeros((), dtype=torch.promote_types(first.dtype, torch.float32))
    chosen = (features.index_select(0, rows).split(CHUNK) for features in (first, second))
    for one, other in zip(*chosen, strict=True):
        total = total + checkpoint(_of_chunk, one, other, weight, bias, use_reentrant=False)
    return total


def _of_chunk(first: Tensor, second: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    precise = torch.promote_types(first.dtype, torch.float32)
    one, other = (F.log_softmax(F.linear(x, weight, bias).to(precise), dim=-1) for x in (first, second))  # (C, V)
    return ((one.exp() - other.exp()) * (one - other)).sum() / 2
