"""Bias and activation of a feed-forward block in one kernel; its backward pass also adds up the bias's gradient."""

from __future__ import annotations

from typing import Protocol

import torch
import triton
import triton.language as tl
from torch import Tensor

from docnmt.functional.autograd import PassContext

#: Rows and columns of a block, rows of which a program of the backward pass adds up gradients, warps of a program.
#: Fastest on an H200, of nine.
_BLOCK_ROWS, _BLOCK_COLUMNS, _BIAS_ROWS, _BIAS_WARPS = 32, 64, 128, 4
_KINDS = {"relu": 0, "gelu": 1, "swish": 2}


def bias_activation(product: Tensor, bias: Tensor, activation: str) -> Tensor:
    """act(product + bias), in the product's type; computed in float32.

    Args:
        product: (T, F). bias: (F,).
        activation: "relu", "gelu" (by the error function) or "swish".
    """
    out: Tensor = _BiasActivation.apply(product, bias, _KINDS[activation])  # type: ignore[no-untyped-call]
    return out


class _BiasActivationContext(PassContext, Protocol):
    """What the passes of `_BiasActivation` share."""

    kind: int


class _BiasActivation(torch.autograd.Function):
    @staticmethod
    def forward(ctx: _BiasActivationContext, product: Tensor, bias: Tensor, kind: int) -> Tensor:
        """(T, F)."""
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
    def backward(ctx: _BiasActivationContext, grad: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients of product and bias."""
        kept, bias = ctx.saved_tensors
        grad = grad.contiguous()
        rows, columns = grad.shape
        d_product = torch.empty_like(grad)
        programs = triton.cdiv(rows, _BIAS_ROWS)
        sums = grad.new_empty(programs, columns, dtype=torch.float32)
        _bias_activation_back[(programs, triton.cdiv(columns, _BLOCK_COLUMNS))](
            kept,
            bias,
            grad,
            d_product,
            sums,
            rows,
            columns,
            KIND=ctx.kind,
            ROWS=_BLOCK_ROWS,
            COLUMNS=_BLOCK_COLUMNS,
            BLOCKS=_BIAS_ROWS // _BLOCK_ROWS,
            num_warps=_BIAS_WARPS,
        )
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
