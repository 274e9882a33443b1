"""A processor on which a row's products depend on its batch, as on Intel processors with AMX, emulated on any other."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor


def emulate(patch: pytest.MonkeyPatch) -> None:
    """Until `patch` is undone, a float32 linear layer gives a row other last bits for other numbers of rows."""
    linear = F.linear

    def uneven(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        y = linear(x, weight, bias)
        rows = x.numel() // max(x.shape[-1], 1)
        return y * (1 + rows % 5 * torch.finfo(torch.float32).eps) if y.dtype == torch.float32 else y

    patch.setattr(F, "linear", uneven)
