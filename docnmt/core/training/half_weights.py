"""The weights of linear layers in bfloat16, all cast at once: autocast casts each by a launch of its own, twice."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Protocol

import torch
from torch import Tensor, nn

from docnmt.functional.autograd import PassContext


class HalfWeights:
    """What autocast makes of the weights and biases of linear layers, and the same gradients, in a few launches.

    Parameters that several modules share stay as they are: an output layer's weights are embeddings, too. So do those
    of modules that a plug-in brings, which may switch autocast off.

    Args:
        parts: of the model, whose linear layers are all used under autocast.
    """

    def __init__(self, model: nn.Module, parts: Iterable[nn.Module]) -> None:
        uses = Counter(id(parameter) for module in model.modules() for parameter in module.parameters(recurse=False))
        self._held: list[tuple[nn.Module, str, nn.Parameter]] = [
            (module, name, parameter)
            for part in parts
            for owner in part.modules()
            if type(owner).__module__.partition(".")[0] in ("docnmt", "torch")
            for module in owner.children()
            if type(module) is nn.Linear
            for name, parameter in module.named_parameters(recurse=False)
            if uses[id(parameter)] == 1
        ]

    @contextlib.contextmanager
    def in_place(self) -> Iterator[None]:
        """Inside, the linear layers have these weights; gradients reach the parameters themselves."""
        halves = _CastAll.apply(*(parameter for _, _, parameter in self._held))  # type: ignore[no-untyped-call]
        for (module, name, _), half in zip(self._held, halves, strict=True):
            module._parameters[name] = half
        try:
            yield
        finally:
            for module, name, parameter in self._held:
                module._parameters[name] = parameter


class _CastContext(PassContext, Protocol):
    """What the passes of `_CastAll` share."""

    types: list[torch.dtype]

    def set_materialize_grads(self, value: bool) -> None:
        """Whether a gradient that there is none of is 0 instead of None."""


class _CastAll(torch.autograd.Function):
    @staticmethod
    def forward(ctx: _CastContext, *weights: Tensor) -> tuple[Tensor, ...]:
        """Each in bfloat16."""
        ctx.types = [weight.dtype for weight in weights]
        ctx.set_materialize_grads(False)
        halves = [torch.empty_like(weight, dtype=torch.bfloat16) for weight in weights]
        torch._foreach_copy_(halves, list(weights))
        return tuple(halves)

    @staticmethod
    def backward(ctx: _CastContext, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        """Each in the type of its weight."""
        there = [None if g is None else torch.empty_like(g, dtype=t) for g, t in zip(grads, ctx.types, strict=True)]
        pairs = [(to, g) for to, g in zip(there, grads, strict=True) if to is not None and g is not None]
        if pairs:
            torch._foreach_copy_([to for to, _ in pairs], [g for _, g in pairs])
        return tuple(there)
