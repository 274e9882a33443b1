"""The type of what PyTorch hands to both passes of an autograd function."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor


class PassContext(Protocol):
    """What the forward pass leaves to the backward pass. A function that attaches more names it in a subclass."""

    @property
    def saved_tensors(self) -> tuple[Tensor, ...]:
        """What `save_for_backward` was given; None where it was given None, which the type does not say."""

    @property
    def needs_input_grad(self) -> tuple[bool, ...]:
        """For each argument of the forward pass, whether its gradient is wanted."""

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keep inputs and outputs."""

    def mark_non_differentiable(self, *outputs: Tensor) -> None:
        """Say that these outputs have no gradient."""
