"""Transfer between the host and a device, with few waits: many arrays or many numbers in one copy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

#: Alignment in bytes of each array in a joint copy; no type needs more.
_ALIGNED = 16
#: Devices that cannot copy from pinned memory asynchronously.
_WITHOUT_PINNED = ("cpu", "mps", "meta")


def to_device(arrays: Sequence[Tensor | np.ndarray], device: torch.device | str) -> list[Tensor]:
    """Return tensors on a device for arrays of the host; to a GPU all go in one asynchronous copy from pinned memory.

    Arrays that are already on a device are moved by torch.
    """
    device = torch.device(device)
    tensors = [x if isinstance(x, Tensor) else torch.from_numpy(np.ascontiguousarray(x)) for x in arrays]
    if device.type in _WITHOUT_PINNED or any(x.device.type != "cpu" for x in tensors):
        return [x.to(device) for x in tensors]
    sizes = [x.numel() * x.element_size() for x in tensors]
    begins = np.cumsum([0, *(-(-size // _ALIGNED) * _ALIGNED for size in sizes)]).tolist()
    staged = torch.empty(begins[-1], dtype=torch.uint8, pin_memory=True)

    def _parts(row: Tensor) -> list[Tensor]:
        parts = zip(tensors, begins, sizes, strict=False)
        return [row[begin : begin + size].view(x.dtype).view(x.shape) for x, begin, size in parts]

    for part, x in zip(_parts(staged), tensors, strict=True):
        part.copy_(x)
    # torch keeps the pinned memory from being used again until the copy is done
    return _parts(staged.to(device, non_blocking=True))


def to_host(values: Sequence[float | Tensor]) -> list[float]:
    """Return all values as numbers; those on a device are read together."""
    waiting = [x for x in values if isinstance(x, Tensor) and x.device.type != "cpu"]
    read = iter(torch.stack([x.detach().double() for x in waiting]).tolist() if waiting else [])
    return [next(read) if isinstance(x, Tensor) and x.device.type != "cpu" else float(x) for x in values]
