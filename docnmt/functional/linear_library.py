"""Masked linear attention by flash-linear-attention (https://github.com/fla-org/flash-linear-attention), where it is
installed, on a CUDA card in half types and without relative positions, which that library does not know.

With relative positions it would compute half of the sum, and the windows of the other half cost as much as both.
Without a mask linear attention is two products, to which no library adds anything.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from importlib import import_module

import torch
from torch import Tensor

#: `chunk_linear_attn`, as versions 0.5.2 and 0.6.0 document it: q, k (N, T, h, d), v (N, T, h, e) → scale ·
#: Σ_{j ≤ i} (q_i·k_j) v_j, and the last state.
Chunked = Callable[..., tuple[Tensor, Tensor | None]]


@lru_cache
def library() -> Chunked | None:
    """The library's function; None where it is not installed."""
    try:
        found: Chunked = import_module("fla.ops.linear_attn").chunk_linear_attn
    except ImportError:
        return None
    return found


def takes_library(q: Tensor, k: Tensor, rel_pos: Tensor | None, causal: bool) -> bool:
    """Whether the library computes attention between these inputs of a layer, (B, h, Lq, d) and (B, h, Lk, d).

    Its products of float32 are rounded to TF32: so only where half types come in.
    """
    fits = q.is_cuda and q.dtype in (torch.bfloat16, torch.float16) and causal and rel_pos is None
    return fits and q.shape == k.shape and q.numel() > 0 and q.shape[-1] <= 256 and library() is not None


def library_attention(q: Tensor, k: Tensor, values: Tensor, chunked: Chunked | None = None) -> Tensor:
    """Σ_{j ≤ i} (q_i·k_j) values_j of features q, k (N, L, d), values (N, L, e) → (N, L, e).

    The weights' sum is a column of the values, so the library is not to normalise, which it would do with 1e-10 in the
    denominator.
    """
    chunked = chunked or library()
    assert chunked is not None, "flash-linear-attention is not installed"
    mixed, _ = chunked(*(x.unsqueeze(2) for x in (q, k, values)), scale=1.0, normalize=False)
    return mixed.squeeze(2)
