"""Linear layers for a CPU: packed, eight bits, bfloat16, and in training."""

from __future__ import annotations

import platform
from collections.abc import Callable
from functools import lru_cache
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from docnmt.runtime.device import INVARIANT_ROWS, products_by

# Linear layers for translating on a CPU: with weights packed once, in float32, bfloat16 or eight-bit integers.

#: The middle of a byte: inputs are -127 … 127, and the products of oneDNN take 0 … 255.
_MIDDLE = 128
#: Layers with fewer outputs stay as they are: gates and their like cost nothing.
_FEWEST = 32


class PackedLinear(nn.Module):
    """y = x Wᵀ + b with weights packed once, bit-identical to oneDNN's own result, which packs them at every call and
    for a few rows takes most of its time so. Only where it `packs`; no gradients."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self.in_features, self.out_features = layer.in_features, layer.out_features
        self.weight, self.bias = layer.weight, layer.bias
        self._operands = self.weight, _pack(layer.weight.detach()), self.bias  # a module finds its parameters slowly

    def forward(self, x: Tensor) -> Tensor:  # (…, K) → (…, N)
        return _product(x, *self._operands)

    __call__ = forward  # no hooks: looking for them takes as long as a small product


def _pack(weight: Tensor) -> Tensor:
    return cast(Tensor, torch.ops.mkldnn._reorder_linear_weight(weight, None))


def _product(x: Tensor, weight: Tensor, packed: Tensor | None, bias: Tensor | None) -> Tensor:
    """Return x Wᵀ + b. Few rows use `F.linear`, as the packed product would have other bits there."""
    if packed is None or x.numel() < INVARIANT_ROWS * x.shape[-1]:
        return F.linear(x, weight, bias)
    return cast(Tensor, torch.ops.mkldnn._linear_pointwise.default(x, packed, bias, "none", [], ""))


def packs(dtype: torch.dtype = torch.float32) -> bool:
    """Whether packed weights of this type give the same bits as `F.linear` under the current settings."""
    return _packs(dtype, torch.get_float32_matmul_precision(), torch.get_num_threads())


@lru_cache
def _packs(dtype: torch.dtype, precision: str, threads: int) -> bool:
    random = torch.Generator().manual_seed(0)
    try:
        with torch.inference_mode():
            for width, outputs in ((100, 36), (256, 768), (1024, 256), (512, 2048)):
                weight, bias, x = (
                    torch.randn(shape, generator=random).to(dtype)
                    for shape in ((outputs, width), outputs, (300, width))
                )
                packed = _pack(weight)
                for rows in (x[:count] for count in (4, 5, 9, 16, 33, 64, 300)):
                    if not torch.equal(_product(rows, weight, packed, bias), F.linear(rows, weight, bias)):
                        return False
    except (AttributeError, RuntimeError, NotImplementedError):  # a torch or a processor without it
        return False
    return True


class EightBitLinear(nn.Module):
    """y = (q · Wᵀ) · s ⊗ s_W + b, where q, the input's row, and W are whole numbers of eight bits.

    Each row of the weights is divided by a scale s_W once, so that its largest value is 127, and rounded; each row of
    the input likewise, when it comes. Products are sums of whole numbers and exact, so a row's result does not depend
    on the other rows. For CPUs, without gradients.
    """

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self.in_features, self.out_features = layer.in_features, layer.out_features
        weight = layer.weight.detach().float()
        self.scale = _largest(weight)[:, 0] / 127  # (N,)
        self.rounded = (weight / self.scale[:, None]).round().to(torch.int8)  # (N, K)
        self.bias = None if layer.bias is None else layer.bias.detach()
        no_shift = torch.zeros(len(weight), dtype=torch.int32)
        self._weights = torch.ops.onednn.qlinear_prepack(self.rounded, None), self.scale, no_shift

    def forward(self, x: Tensor) -> Tensor:  # (…, K) → (…, N)
        if x.dim() != 2:
            return self.forward(x.flatten(0, -2)).view(*x.shape[:-1], self.out_features)
        scale = _largest(x).div_(127)
        # Cutting off a positive number's fraction rounds x; by way of 16 bits it takes a third of the time
        shifted = (x / scale).add_(_MIDDLE + 0.5).to(torch.int16).to(torch.uint8)
        product: Tensor = torch.ops.onednn.qlinear_pointwise(
            shifted, 1.0, _MIDDLE, *self._weights, None, 1.0, 0, torch.float32, "none", [], ""
        )
        y = product.mul_(scale) if self.bias is None else torch.addcmul(self.bias, product, scale, out=product)
        return y if x.dtype == torch.float32 else y.to(x.dtype)

    __call__ = forward  # no hooks: looking for them takes as long as a small product


def _largest(rows: Tensor) -> Tensor:
    """(R, K) → (R, 1) each row's largest absolute value, never 0."""
    return rows.abs().amax(1, keepdim=True).clamp_(min=torch.finfo(torch.float32).tiny * 127)


class BFloat16Linear(nn.Module):
    """y = x Wᵀ + b, with x and W rounded to bfloat16, sums in float32, and y rounded to bfloat16 again."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self.in_features, self.out_features = layer.in_features, layer.out_features
        self.weight = nn.Parameter(layer.weight.detach().bfloat16(), requires_grad=False)
        bias = layer.bias
        self.bias = None if bias is None else nn.Parameter(bias.detach().bfloat16(), requires_grad=False)
        self._operands = self.weight, _pack(self.weight.detach()) if packs(torch.bfloat16) else None, self.bias

    def forward(self, x: Tensor) -> Tensor:  # in the type of x
        return _product(x.bfloat16(), *self._operands).to(x.dtype)


def replace_linear(model: nn.Module, kind: Callable[[nn.Linear], nn.Module]) -> None:
    """Replace the linear layers; embeddings, norms, attention and softmax stay in float32.

    Small ones stay, and those that a module names as `folded`: it multiplies their weights by others.
    """
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            folded = name in getattr(module, "folded", ())
            if type(child) is nn.Linear and child.out_features >= _FEWEST and not folded:
                setattr(module, name, kind(child))


def multiplies_bfloat16() -> bool:
    """Whether this processor has bfloat16 instructions; without them bfloat16 is slower than float32."""
    if platform.machine() in ("x86_64", "AMD64"):  # where oneDNN would do without them
        return bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())
    return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


@lru_cache
def multiplies_eight_bits() -> bool:
    """Whether PyTorch and this processor have the eight-bit product and compute it exactly."""
    random = torch.Generator().manual_seed(0)
    layer = nn.Linear(64, 48, bias=False, device="meta").to_empty(device="cpu")  # the global stream is the caller's
    weight = torch.randint(-127, 128, (48, 64), generator=random).float()
    weight[:, 0] = 127
    layer.weight = nn.Parameter(weight)
    x = torch.randint(-127, 128, (5, 64), generator=random).float()
    x[:, 0] = 127
    try:
        with torch.inference_mode():
            return bool((EightBitLinear(layer)(x) - layer(x)).abs().max() < 1)
    except (AttributeError, RuntimeError, NotImplementedError):
        return False


# Linear layers for training on a CPU in float32: their products, forward and backward, by oneDNN ("medium" precision),
# where `tune` has checked that it does not round and so chose it.


class TrainedLinear(nn.Linear):
    """y = x Wᵀ + b. Float32 with gradients oneDNN computes, so that what is computed without, as in validation, has the
    bits that it has elsewhere."""

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
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        with products_by("medium"):
            return F.linear(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        needed, rows = ctx.needs_input_grad, grad.reshape(-1, len(weight))  # (R, N)
        with products_by("medium"):
            d_x = grad @ weight if needed[0] else None
            d_weight = rows.t() @ x.reshape(-1, weight.shape[1]) if needed[1] else None
        return d_x, d_weight, rows.sum(0) if needed[2] else None
