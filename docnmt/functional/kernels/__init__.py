"""Triton kernels for CUDA cards. Each computes what the code beside its call computes, which stays the reference.

Modules of this folder import triton, so they are imported where they are called, on a card. Without triton, which comes
with PyTorch for CUDA on Linux, the reference computes there, too. Triton's interpreter runs them on tensors of the CPU
(`TRITON_INTERPRET=1`, set before their first import): so they are tested.
"""

from __future__ import annotations

from functools import lru_cache
from importlib.util import find_spec

import torch
from torch import Tensor

_TYPES = (torch.bfloat16, torch.float16, torch.float32)


def takes_kernels(*tensors: Tensor) -> bool:
    """Whether these go to Triton's kernels: on a CUDA card with triton, of one type that they compute in."""
    first = tensors[0]
    return first.is_cuda and first.dtype in _TYPES and all(x.dtype == first.dtype for x in tensors) and _has_triton()


@lru_cache
def _has_triton() -> bool:
    return find_spec("triton") is not None
