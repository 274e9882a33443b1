"""Linear layers for training on a CPU in float32: their products, forward and backward, by oneDNN."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from docnmt.functional.loss import PassContext
from docnmt.runtime.tuning import linear_products


class TrainedLinear(nn.Linear):
    """y = x Wᵀ + b. In training oneDNN computes it and its gradients, where `tune` chose that; else as `nn.Linear`.

    Only float32 with gradients: so what is computed without, as in validation, has the bits that it has elsewhere.

    Args:
        layer: the layer that it replaces, whose parameters it has.
    """

    def __init__(self, layer: nn.Linear) -> None:
        nn.Module.__init__(self)  # no parameters of its own
        self.in_features, self.out_features = layer.in_features, layer.out_features
        self.weight, self.bias = layer.weight, layer.bias

    def forward(self, x: Tensor) -> Tensor:
        """x (…, K) → (…, N)."""
        if not torch.is_grad_enabled() or x.dtype != torch.float32 or torch.is_autocast_enabled(x.device.type):
            return super().forward(x)
        return cast(Tensor, _Linear.apply(x, self.weight, self.bias))  # type: ignore[no-untyped-call]


class _Linear(torch.autograd.Function):
    """x (…, K), W (N, K) and b (N,) → (…, N)."""

    @staticmethod
    def forward(ctx: PassContext, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        with linear_products():
            return F.linear(x, weight, bias)

    @staticmethod
    def backward(ctx: PassContext, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        needed, rows = ctx.needs_input_grad, grad.reshape(-1, len(weight))  # (R, N)
        with linear_products():
            d_x = grad @ weight if needed[0] else None
            d_weight = rows.t() @ x.reshape(-1, weight.shape[1]) if needed[1] else None
        return d_x, d_weight, rows.sum(0) if needed[2] else None
