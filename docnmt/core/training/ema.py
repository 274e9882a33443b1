"""`--ema`: the running mean of the weights over updates, used in validation and in checkpoint_best."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping

import torch
from torch import Tensor, nn


class MeanWeights:
    """The running mean of a model's weights w: m ← d·m + (1 − d)·w after every update.
    After n updates d = min(decay, (1 + n) / (10 + n)) (Polyak and Juditsky 1992, Acceleration of stochastic
    approximation by averaging; the warm-up is TensorFlow's).

    Args:
        decay: of the mean, less than 1.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.model, self.decay = model, decay
        self.means = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}

    @torch.no_grad()
    def advance(self, update: int) -> None:
        """Update the means after update number `update`."""
        share = 1 - min(self.decay, (1 + update) / (10 + update))
        for name, parameter in self.model.named_parameters():
            self.means[name].lerp_(parameter.detach(), share)

    def tensors(self) -> dict[str, Tensor]:
        """Return the means for a checkpoint that can be continued: `ema.<parameter>`."""
        return {f"ema.{name}": mean for name, mean in self.means.items()}

    @torch.no_grad()
    def load(self, stored: Mapping[str, Tensor]) -> None:
        """Load the means of a checkpoint, by name."""
        for name, mean in self.means.items():
            mean.copy_(stored[name])

    @contextlib.contextmanager
    def in_place(self) -> Iterator[None]:
        """Give the model the mean weights inside the context, and afterwards its own, bit for bit."""
        self._exchange()
        try:
            yield
        finally:
            self._exchange()

    @torch.no_grad()
    def _exchange(self) -> None:
        for name, parameter in self.model.named_parameters():
            own = parameter.detach().clone()
            parameter.copy_(self.means[name])
            self.means[name].copy_(own)
