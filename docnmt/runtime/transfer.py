"""Transfer between the host and a device, with few waits: many arrays or many numbers in one copy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

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
    # torch keeps the pinned memory from being used again until the copy is done
    return _parts(_staged(tensors).to(device, non_blocking=True), tensors)


class Inbox:
    """Memory of a device that receives arrays of the same shapes and types again and again, in one copy each time.

    Args:
        like: tensors of the host with these shapes and types.

    Attributes:
        parts: a tensor on the device for each, always in the same memory.
    """

    def __init__(self, like: Sequence[Tensor], device: torch.device | str) -> None:
        self._held = torch.empty(len(_staged(like)), dtype=torch.uint8, device=device)
        self.parts = _parts(self._held, like)

    def send(self, tensors: Sequence[Tensor]) -> None:
        """Write tensors of the host to the device, without waiting for it."""
        self._held.copy_(_staged(tensors), non_blocking=True)


def _staged(tensors: Sequence[Tensor]) -> Tensor:
    """All tensors one after the other in pinned memory, as bytes."""
    lengths = (-(-x.numel() * x.element_size() // _ALIGNED) * _ALIGNED for x in tensors)
    staged = torch.empty(sum(lengths), dtype=torch.uint8, pin_memory=True)
    for part, x in zip(_parts(staged, tensors), tensors, strict=True):
        part.copy_(x)
    return staged


def _parts(row: Tensor, like: Sequence[Tensor]) -> list[Tensor]:
    """The bytes of `_staged` as tensors with these shapes and types."""
    sizes = [x.numel() * x.element_size() for x in like]
    begins = np.cumsum([0, *(-(-size // _ALIGNED) * _ALIGNED for size in sizes)]).tolist()
    parts = zip(like, begins, sizes, strict=False)
    return [row[begin : begin + size].view(x.dtype).view(x.shape) for x, begin, size in parts]


def to_host(values: Sequence[float | Tensor]) -> list[float]:
    """Return all values as numbers; those on a device are read together."""
    waiting = [x for x in values if isinstance(x, Tensor) and x.device.type != "cpu"]
    read = iter(torch.stack([x.detach().double() for x in waiting]).tolist() if waiting else [])
    return [next(read) if isinstance(x, Tensor) and x.device.type != "cpu" else float(x) for x in values]


def to_lists(tensors: Sequence[Tensor]) -> list[list[Any]]:
    """Return tensors of one shape as lists of Python's numbers; those on a device are read in one copy."""
    if tensors[0].device.type == "cpu":
        return [x.tolist() for x in tensors]
    read = torch.stack([x.double() for x in tensors]).cpu()  # whole numbers below 2^53 and float32 are exact
    return [row.to(x.dtype).tolist() for row, x in zip(read, tensors, strict=True)]
