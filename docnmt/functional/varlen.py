"""Attention in half types on a CUDA card, by variable-length flash attention.

The forward and backward kernels are passed as `Calls`: PyTorch's own on a card; in tests, a float64 implementation.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from docnmt.functional.loss import PassContext
from docnmt.layout import Spans


class Sequences(NamedTuple):
    """Offsets of N sequences of queries and keys, (N+1,) int32 each, and upper bounds of their lengths."""

    q: Tensor
    k: Tensor
    max_q: int
    max_k: int


class VarlenOutput(NamedTuple):
    """The result of a forward call: the output (rows, h, d) and the scores' log-sum-exp (h, rows), float32 at least."""

    out: Tensor
    lse: Tensor


class Calls(NamedTuple):
    """Softmax attention in which sequence i of the queries reads sequence i of the keys, and its gradients.

    Rows after the last sequence are neither read nor written: their contents are arbitrary.

    Fields, in this order: `forward` is (q, k, v, sequences, causal) → `VarlenOutput`; q (Tq, h, d), k and v (Tk, h, d);
    scores are q·k/√d.
    `backward` is (gradient of the output, q, k, v, read, sequences, causal) → gradients of q, k and v; it takes weights
    as exp(score − `read.lse`) and the sum of an output's gradient times its value from `read.out`.
    """

    forward: Callable[[Tensor, Tensor, Tensor, Sequences, bool], VarlenOutput]
    backward: Callable[[Tensor, Tensor, Tensor, Tensor, VarlenOutput, Sequences, bool], tuple[Tensor, Tensor, Tensor]]


def _flash_forward(q: Tensor, k: Tensor, v: Tensor, at: Sequences, causal: bool) -> VarlenOutput:
    flash = torch.ops.aten._flash_attention_forward
    return VarlenOutput(*flash(q, k, v, *at, 0.0, causal, False, scale=q.shape[-1] ** -0.5)[:2])


def _flash_backward(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, read: VarlenOutput, at: Sequences, causal: bool
) -> tuple[Tensor, Tensor, Tensor]:
    flash, scale = torch.ops.aten._flash_attention_backward, q.shape[-1] ** -0.5
    seed, unused = q.new_zeros(2, dtype=torch.uint64), q.new_empty(0)  # of dropout, which there is none of
    dq, dk, dv = flash(grad, q, k, v, read.out, read.lse, *at, 0.0, causal, seed, unused, scale=scale)
    return dq, dk, dv


FLASH = Calls(_flash_forward, _flash_backward)


def takes_varlen(q: Tensor, k: Tensor, v: Tensor) -> bool:
    """Return True if flash attention supports these tensors (rows, h, d): type, device and widths."""
    width = q.shape[-1]
    fits = q.is_cuda and q.dtype == k.dtype == v.dtype and q.dtype in (torch.bfloat16, torch.float16)
    fits = fits and v.shape[-1] == width and width % 8 == 0 and width <= 256
    return fits and q.numel() > 0 and k.numel() > 0 and _has_flash(q.device)


@lru_cache
def _has_flash(device: torch.device) -> bool:
    """Return True if this PyTorch and this card have flash attention with a log-sum-exp of shape (h, rows).

    Earlier versions of PyTorch returned (sequences, h, longest), and other names for the results.
    """
    names = [result.name for result in torch.ops.aten._flash_attention_forward.default._schema.returns]
    known = "rng_state" in names and torch.version.cuda is not None
    return known and torch.cuda.get_device_capability(device) >= (8, 0)


def varlen_packed_attention(
    q: Tensor, k: Tensor, v: Tensor, q_spans: Spans, k_spans: Spans, *, causal: bool = False, calls: Calls = FLASH
) -> Tensor:
    """Softmax attention in which query span i reads key span i only; 0 where that is empty.

    Args:
        q: (Tq, h, d). k, v: (Tk, h, d).
        q_spans, k_spans: as many spans of the rows of `q` and of `k`.
        causal: a key is visible when its index in its span is not greater than the query's; needs equal spans.

    Returns:
        (Tq, h, d).
    """
    longest = max(1, q_spans.max_length), max(1, k_spans.max_length)
    sequences = Sequences(_short_offsets(q_spans), _short_offsets(k_spans), *longest)
    out: Tensor = _Packed.apply(q, k, v, sequences, causal, calls)  # type: ignore[no-untyped-call]
    return out


def _short_offsets(spans: Spans) -> Tensor:
    """Return the offsets in int32, as flash attention expects them; they are cached for all layers."""
    return spans.derive(_short_offsets, spans.offsets.int)


class _PackedContext(PassContext, Protocol):
    """The context that the forward and backward pass of `_Packed` share."""

    sequences: Sequences
    causal: bool
    calls: Calls


class _Packed(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: _PackedContext, q: Tensor, k: Tensor, v: Tensor, sequences: Sequences, causal: bool, calls: Calls
    ) -> Tensor:
        """The output (Tq, h, d)."""
        read = calls.forward(q, k, v, sequences, causal)
        ctx.save_for_backward(q, k, v, *read)
        ctx.sequences, ctx.causal, ctx.calls = sequences, causal, calls
        return read.out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: _PackedContext, grad: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients of q, k and v."""
        q, k, v, *read = ctx.saved_tensors
        gradients = ctx.calls.backward(grad.contiguous(), q, k, v, VarlenOutput(*read), ctx.sequences, ctx.causal)
        return (*gradients, None, None, None)
