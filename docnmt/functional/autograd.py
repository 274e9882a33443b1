"""The type of the context that PyTorch passes to the forward and backward pass of an autograd function."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor


class PassContext(Protocol):
    """The context of an autograd function. A function that sets more attributes declares them in a subclass."""

    @property
    def saved_tensors(self) -> tuple[Tensor, ...]:
        """The arguments of `save_for_backward`; an entry may be None, which the type does not express."""

    @property
    def needs_input_grad(self) -> tuple[bool, ...]:
        """One flag for each argument of the forward pass: True if its gradient is needed."""

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Save inputs and outputs for the backward pass."""

    def mark_non_differentiable(self, *outputs: Tensor) -> None:
        """Mark outputs that have no gradient."""
