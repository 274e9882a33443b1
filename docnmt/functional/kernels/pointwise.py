"""Triton kernels by position: bias and activation of a feed-forward block; residual, dropout and norm."""

from __future__ import annotations

from typing import Any, cast

import torch
import triton
import triton.language as tl
from torch import Tensor, nn

from docnmt.runtime.device import next_seed

# Bias and activation. The backward pass also adds up the bias's gradient.

#: Rows and columns of a block, rows of which a program of the backward pass adds up gradients, warps of a program.
#: Fastest on an H200, of nine.
_BLOCK_ROWS, _BLOCK_COLUMNS, _BIAS_ROWS, _BIAS_WARPS = 32, 64, 128, 4
_KINDS = {"relu": 0, "gelu": 1, "swish": 2}


def bias_activation(product: Tensor, bias: Tensor, activation: str) -> Tensor:
    """act(product + bias) of product (T, F), in its type; computed in float32. "relu", "gelu" (by erf) or "swish"."""
    return cast(Tensor, _BiasActivation.apply(product, bias, _KINDS[activation]))  # type: ignore[no-untyped-call]


class _BiasActivation(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, product: Tensor, bias: Tensor, kind: int) -> Tensor:
        product = product.contiguous()
        rows, columns = product.shape
        out = torch.empty_like(product)
        grid = (triton.cdiv(rows, _BLOCK_ROWS), triton.cdiv(columns, _BLOCK_COLUMNS))
        tile = {"ROWS": _BLOCK_ROWS, "COLUMNS": _BLOCK_COLUMNS, "num_warps": _BIAS_WARPS}
        _bias_activation[grid](product, bias, out, rows, columns, KIND=kind, **tile)
        ctx.save_for_backward(out if kind == 0 else product, bias)  # the next layer keeps the output anyway
        ctx.kind = kind
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        kept, bias = ctx.saved_tensors
        grad = grad.contiguous()
        rows, columns = grad.shape
        d_product = torch.empty_like(grad)
        programs = triton.cdiv(rows, _BIAS_ROWS)
        sums = grad.new_empty(programs, columns, dtype=torch.float32)
        _bias_activation_back[(programs, triton.cdiv(columns, _BLOCK_COLUMNS))](
            kept, bias, grad, d_product, sums, rows, columns, KIND=ctx.kind, ROWS=_BLOCK_ROWS,
            COLUMNS=_BLOCK_COLUMNS, BLOCKS=_BIAS_ROWS // _BLOCK_ROWS, num_warps=_BIAS_WARPS,
        )  # fmt: skip
        return d_product, sums.sum(0, dtype=bias.dtype), None


@triton.jit(do_not_specialize=["rows"])  # which differ from batch to batch: no compiling for each
def _bias_activation(
    product, bias, out, rows, columns, KIND: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):  # fmt: skip
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    live = (row < rows)[:, None] & (column < columns)[None, :]
    at = row.to(tl.int64)[:, None] * columns + column[None, :]
    value = tl.load(product + at, mask=live, other=0.0).to(tl.float32)
    value += tl.load(bias + column, mask=column < columns, other=0.0).to(tl.float32)[None, :]
    if KIND == 0:
        value = tl.where(value > 0, value, 0.0)
    elif KIND == 1:
        value = value * 0.5 * (1.0 + tl.erf(value * 0.7071067811865476))
    else:
        value = value * tl.sigmoid(value)
    tl.store(out + at, value.to(out.dtype.element_ty), mask=live)


@triton.jit(do_not_specialize=["rows"])
def _bias_activation_back(
    kept, bias, grad, d_product, sums, rows, columns,
    KIND: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, BLOCKS: tl.constexpr,
):  # fmt: skip
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    shift = tl.load(bias + column, mask=column < columns, other=0.0).to(tl.float32)[None, :]
    total = tl.zeros([COLUMNS], tl.float32)
    for block in range(BLOCKS):
        row = (tl.program_id(0) * BLOCKS + block) * ROWS + tl.arange(0, ROWS)
        live = (row < rows)[:, None] & (column < columns)[None, :]
        at = row.to(tl.int64)[:, None] * columns + column[None, :]
        given = tl.load(grad + at, mask=live, other=0.0).to(tl.float32)
        value = tl.load(kept + at, mask=live, other=0.0).to(tl.float32)
        if KIND == 0:
            given = tl.where(value > 0, given, 0.0)
        elif KIND == 1:
            value += shift
            density = 0.3989422804014327 * tl.exp(-0.5 * value * value)
            given = given * (0.5 * (1.0 + tl.erf(value * 0.7071067811865476)) + value * density)
        else:
            value += shift
            share = tl.sigmoid(value)
            given = given * share * (1.0 + value * (1.0 - share))
        rounded = given.to(d_product.dtype.element_ty)
        tl.store(d_product + at, rounded, mask=live)
        total += tl.sum(tl.where(live, given, 0.0), 0)
    tl.store(sums + tl.program_id(0) * columns + column, total, mask=column < columns)


# Residual connection, dropout and layer norm in one kernel: x + dropout(added), and what the next block reads of it.
#
# Dropout's mask is not kept: each number is a function of a seed and of its place (Salmon et al. 2011: Philox). The
# seed is drawn from the host's generator, so a resumed run and a pass that is computed again drop the same; in a CUDA
# graph it is read from memory. Each program adds up its rows' gradients of gain and shift; one reduction adds up those
# of all.

#: Numbers that a program holds at a time, in the forward and in the backward pass; its warps. Fastest on an H200.
_NUMBERS, _NUMBERS_BACK, _NORM_WARPS, _WARPS_BACK = 1024, 1024, 4, 2
#: Rows of which a program of the backward pass adds up gradients, at most.
_NORM_ROWS = 32


def residual_norm(
    x: Tensor, added: Tensor | None, norm: nn.LayerNorm | None, dropout: float = 0.0
) -> tuple[Tensor, Tensor | None]:
    """x + dropout(added), (T, d) each, and its layer norm (Ba et al. 2016), where one is wanted.

    The sum is in the wider type of both, and x itself where nothing is added; the norm is in the type of autocast where
    that is on, else in x's.
    """
    gain, shift, eps = (None, None, 0.0) if norm is None else (norm.weight, norm.bias, norm.eps)
    kind = x.dtype if added is None else torch.promote_types(x.dtype, added.dtype)
    device = x.device.type
    read = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else kind
    seed = next_seed() if added is not None and dropout else 0
    total, normed = _ResidualNorm.apply(  # type: ignore[no-untyped-call]
        x, added, gain, shift, dropout if added is not None else 0.0, eps, seed, kind, read
    )
    return total, normed


class _ResidualNorm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, added: Tensor | None, gain: Tensor | None, shift: Tensor | None,
        dropout: float, eps: float, seed: int | Tensor, kind: torch.dtype, read: torch.dtype,
    ) -> tuple[Tensor, Tensor | None]:  # fmt: skip
        x, added = x.contiguous(), None if added is None else added.contiguous()
        rows, d = x.shape
        total = None if added is None else torch.empty_like(x, dtype=kind)
        normed = None if gain is None else torch.empty_like(x, dtype=read)
        statistics = None if gain is None else x.new_empty(2, rows, dtype=torch.float32)
        width = max(4, triton.next_power_of_2(d))
        block = max(1, _NUMBERS // width)
        _residual_norm[(triton.cdiv(rows, block),)](
            x, added, gain, shift, total, normed, statistics, rows, d, dropout, eps, seed,
            ADDS=added is not None, NORMS=gain is not None, DROPS=dropout > 0, READS=isinstance(seed, Tensor),
            D=width, ROWS=block, num_warps=_NORM_WARPS,
        )  # fmt: skip
        total = x if total is None else total  # its gradient then comes here, to be added to the norm's
        ctx.save_for_backward(total, gain, statistics)
        ctx.numbers = dropout, seed
        ctx.types = x.dtype, None if added is None else added.dtype
        ctx.set_materialize_grads(False)
        return total, normed

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, d_total: Tensor | None, d_normed: Tensor | None) -> tuple[Tensor | None, ...]:
        total, gain, statistics = ctx.saved_tensors
        dropout, seed = ctx.numbers
        x_type, added_type = ctx.types
        norms = d_normed is not None
        rows, d = total.shape
        dx = torch.empty_like(total, dtype=x_type)
        d_added = None if added_type is None else torch.empty_like(total, dtype=added_type)
        width = max(4, triton.next_power_of_2(d))
        block = max(1, _NUMBERS_BACK // width)
        programs = triton.cdiv(rows, max(block, _NORM_ROWS))
        sums = total.new_empty(programs, 2, d, dtype=torch.float32) if norms else None
        _residual_norm_back[(programs,)](
            None if d_total is None else d_total.contiguous(), None if d_normed is None else d_normed.contiguous(),
            total, gain, statistics, dx, d_added, sums, rows, d, dropout, seed,
            ADDS=d_added is not None, NORMS=norms, PASSES=d_total is not None, DROPS=dropout > 0,
            READS=isinstance(seed, Tensor), D=width, ROWS=block, BLOCKS=max(block, _NORM_ROWS) // block,
            num_warps=_WARPS_BACK,
        )  # fmt: skip
        of_norm = (None, None) if sums is None else sums.sum(0, dtype=gain.dtype)
        return dx, d_added, of_norm[0], of_norm[1], None, None, None, None, None


@triton.jit
def _mask_of(seed, row, d, dropout, READS: tl.constexpr, D: tl.constexpr):
    """1 / (1 − p) for what is kept, 0 for what is dropped; `seed` is a number or, if `READS`, where one is.

    Philox gives four numbers at a time, for four neighbours.
    """
    if READS:
        seed = tl.load(seed)
    at = row[:, None] * ((d + 3) // 4) + tl.arange(0, D // 4)[None, :]
    a, b, c, e = tl.rand4x(seed, at)
    number = tl.interleave(tl.interleave(a, c), tl.interleave(b, e))
    return tl.where(number >= dropout, 1.0 / (1.0 - dropout), 0.0)


@triton.jit(do_not_specialize=["rows", "seed"])  # which differ from batch to batch: no compiling for each
def _residual_norm(
    x, added, gain, shift, total, normed, statistics, rows, d, dropout, eps, seed,
    ADDS: tl.constexpr, NORMS: tl.constexpr, DROPS: tl.constexpr, READS: tl.constexpr, D: tl.constexpr,
    ROWS: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, D)
    live = (row < rows)[:, None] & (column < d)[None, :]
    at = row[:, None] * d + column[None, :]
    value = tl.load(x + at, mask=live, other=0.0).to(tl.float32)
    if ADDS:
        more = tl.load(added + at, mask=live, other=0.0).to(tl.float32)
        if DROPS:
            more = more * _mask_of(seed, row, d, dropout, READS, D)
        value = (value + more).to(total.dtype.element_ty)
        tl.store(total + at, value, mask=live)
        value = value.to(tl.float32)  # the norm is that of the rounded sum, as the backward pass reads it
    if NORMS:
        mean = tl.sum(value, 1) / d
        centred = tl.where(live, value - mean[:, None], 0.0)
        inverse = 1.0 / tl.sqrt(tl.sum(centred * centred, 1) / d + eps)
        tl.store(statistics + row, mean, mask=row < rows)
        tl.store(statistics + rows + row, inverse, mask=row < rows)
        weight = tl.load(gain + column, mask=column < d, other=0.0).to(tl.float32)
        bias = tl.load(shift + column, mask=column < d, other=0.0).to(tl.float32)
        out = centred * inverse[:, None] * weight[None, :] + bias[None, :]
        tl.store(normed + at, out.to(normed.dtype.element_ty), mask=live)


@triton.jit(do_not_specialize=["rows", "seed"])
def _residual_norm_back(
    d_total, d_normed, total, gain, statistics, dx, d_added, sums, rows, d, dropout, seed,
    ADDS: tl.constexpr, NORMS: tl.constexpr, PASSES: tl.constexpr, DROPS: tl.constexpr, READS: tl.constexpr,
    D: tl.constexpr, ROWS: tl.constexpr, BLOCKS: tl.constexpr,
):  # fmt: skip
    column = tl.arange(0, D)
    of_gain = tl.zeros([D], tl.float32)
    of_shift = tl.zeros([D], tl.float32)
    for block in range(BLOCKS):
        row = (tl.program_id(0) * BLOCKS + block) * ROWS + tl.arange(0, ROWS)
        live = (row < rows)[:, None] & (column < d)[None, :]
        at = row[:, None] * d + column[None, :]
        grad = tl.zeros([ROWS, D], tl.float32)
        if PASSES:
            grad += tl.load(d_total + at, mask=live, other=0.0).to(tl.float32)
        if NORMS:
            mean = tl.load(statistics + row, mask=row < rows, other=0.0)
            inverse = tl.load(statistics + rows + row, mask=row < rows, other=0.0)
            value = tl.load(total + at, mask=live, other=0.0).to(tl.float32)
            normal = tl.where(live, (value - mean[:, None]) * inverse[:, None], 0.0)
            given = tl.load(d_normed + at, mask=live, other=0.0).to(tl.float32)
            of_gain += tl.sum(given * normal, 0)
            of_shift += tl.sum(given, 0)
            scaled = given * tl.load(gain + column, mask=column < d, other=0.0).to(tl.float32)[None, :]
            level = tl.sum(scaled, 1) / d
            slope = tl.sum(scaled * normal, 1) / d
            grad += (scaled - level[:, None] - normal * slope[:, None]) * inverse[:, None]
        tl.store(dx + at, grad.to(dx.dtype.element_ty), mask=live)
        if ADDS:
            if DROPS:
                grad = grad * _mask_of(seed, row, d, dropout, READS, D)
            tl.store(d_added + at, grad.to(d_added.dtype.element_ty), mask=live)
    if NORMS:
        tl.store(sums + tl.program_id(0) * 2 * d + column, of_gain, mask=column < d)
        tl.store(sums + (tl.program_id(0) * 2 + 1) * d + column, of_shift, mask=column < d)
