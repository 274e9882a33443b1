"""Modules that act otherwise early in training."""

from __future__ import annotations

from torch import nn


class Scheduled(nn.Module):
    """A module that is told before every update of training how many there have been."""

    update = 0


def tell_update(model: nn.Module, update: int) -> None:
    """Tell every `Scheduled` module of `model` that `update` updates have been made; a function of the update alone, so
    that a resumed run goes on as if it had never stopped.
    """
    for module in model.modules():
        if isinstance(module, Scheduled):
            module.update = update
