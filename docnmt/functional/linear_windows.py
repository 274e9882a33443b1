"""Blocks of queries and the windows of keys around them, for `linear_kernel`."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor


class Geometry(NamedTuple):
    """The sizes of blocks and windows. The columns of a block's scores are [sum before] window [sum after]."""

    block: int  # queries of a block
    horizon: int  # r; 0 without relative positions
    causal: bool
    sums: bool  # True if sums of the values outside the window have columns of their own
    blocks: int  # of all queries
    segment: int  # blocks handled at once

    @property
    def window(self) -> int:
        """Keys of a window."""
        return self.horizon + self.block + (0 if self.causal else self.horizon)

    @property
    def columns(self) -> int:
        """Columns of a block's scores."""
        return self.window + (0 if not self.sums else 1 if self.causal else 2)

    @property
    def shown(self) -> slice:
        """The columns of the window."""
        return slice(int(self.sums), int(self.sums) + self.window)


def far_sums(values: Tensor, g: Geometry) -> Tensor:
    """(N, blocks, 1 or 2, e): sums of the values before each block's window and, where it can be seen, after it."""
    n = max(g.blocks, -(-(values.shape[1] + g.horizon) // g.block))

    def sums(begin: int) -> Tensor:
        """(N, n, e): sums of the values of each of n blocks of keys, the first beginning at `begin`."""
        return rows_at(values, begin, n * g.block).reshape(len(values), n, g.block, -1).sum(2)

    earlier = F.pad(sums(-g.horizon), (0, 0, 1, -1)).cumsum(1)
    if g.causal:
        return earlier[:, : g.blocks, None]
    later = F.pad(sums(g.horizon), (0, 0, -1, 1)).flip(1).cumsum(1).flip(1)
    return torch.stack([earlier, later], dim=2)[:, : g.blocks]


def rows_at(x: Tensor, begin: int, count: int) -> Tensor:
    """Return x[:, begin : begin + count], with zeros for rows that do not exist."""
    length = x.shape[1]
    part = x[:, min(max(begin, 0), length) : min(max(begin + count, 0), length)]
    before = min(max(-begin, 0), count)
    after = count - before - part.shape[1]
    return F.pad(part, (0, 0, before, after)) if before or after else part


def windows_of(x: Tensor, begin: int, blocks: int, g: Geometry, far: Tensor | None = None) -> Tensor:
    """(N·G, columns, ·): the rows of the window of each block, and the far sums (N, G, 1 or 2, ·) around it."""
    rows = rows_at(x, begin - g.horizon, (blocks - 1) * g.block + g.window)
    outer, row, inner = rows.stride()
    shape, strides = (len(x), blocks, g.window, x.shape[2]), (outer, g.block * row, row, inner)
    windows = rows.as_strided(shape, strides, rows.storage_offset())
    if far is not None:
        windows = torch.cat([far[:, :, :1], windows, far[:, :, 1:]], dim=2)
    return windows.reshape(-1, g.columns, x.shape[2])


def add_windows(total: Tensor, windows: Tensor, begin: int, g: Geometry) -> None:
    """The adjoint of `windows_of`, on rows `total` that begin a horizon before the first key."""
    windows = windows.view(len(total), -1, g.columns, total.shape[2])[:, :, g.shown]
    blocks = windows.shape[1]
    for at in range(0, g.window, g.block):  # pieces of a block's length: windows overlap, these do not
        piece = windows[:, :, at : at + g.block]
        rows = total[:, begin + at : begin + at + blocks * g.block].view(len(total), blocks, g.block, -1)
        rows[:, :, : piece.shape[2]] += piece


def outside_band(g: Geometry, like: Tensor) -> tuple[Tensor, Tensor]:
    """(c, columns): 1 where a key lies before, and after, the band of relative positions."""
    column = torch.arange(g.columns, device=like.device) - torch.arange(g.block, device=like.device)[:, None]
    offset = column - g.shown.start  # 0 for the key r positions back
    return (offset < 0).to(like.dtype), (offset > 2 * g.horizon).to(like.dtype)


def band_of(scores: Tensor, g: Geometry, width: int) -> Tensor:
    """A view (N·G, c, width) of scores (N·G, c, columns): for each query the keys from r positions back on."""
    outer, row, column = scores.stride()
    offset = scores.storage_offset() + g.shown.start
    return scores.as_strided((len(scores), g.block, width), (outer, row + column, column), offset)
