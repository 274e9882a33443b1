"""What may be asked of translations of one text in two batches: their bits, where the processor gives the same ones.

Tests that ask it are marked `across_batches`, and run once more with an emulated processor (`emulate`).
"""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from docnmt.core.search.translate import Translation
from docnmt.runtime.device import row_invariant

#: What the contract allows a score to differ by.
NEAR = 1e-4


def same_translation(one: Translation, other: Translation) -> bool:
    """Equal to the last bit, or equally good where products depend on the batch."""
    return one == other if row_invariant() else abs(one.score - other.score) <= NEAR


def emulate(patch: pytest.MonkeyPatch) -> None:
    """Until `patch` is undone, a float32 linear layer gives a row other last bits for other numbers of rows, as it does
    on Intel processors with AMX."""
    linear = F.linear

    def uneven(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        y = linear(x, weight, bias)
        rows = x.numel() // max(x.shape[-1], 1)
        return y * (1 + rows % 5 * torch.finfo(torch.float32).eps) if y.dtype == torch.float32 else y

    patch.setattr(F, "linear", uneven)
