"""The tokens that live rows have written, each stored once for all rows that have it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from docnmt.runtime.tuning import INVARIANT_KEYS


def round_up(keys: int) -> int:
    """A number of padded keys at which a row's sums have the same bits as at any other such number."""
    return -(-keys // INVARIANT_KEYS) * INVARIANT_KEYS


@dataclass
class TokenTree:
    """Which of the stored tokens each row has written.

    The rows of a group have the same beginning: they branch off from each other and die. So a token has one place in
    its group, which every row that goes on from there reads. When no row has it any more, another token takes its
    place. Rows that are reordered need no copy of what was computed from their tokens.

    Attributes:
        written: (G, b, K) bool, for each group of b rows. K follows the fullest group, up and down, and is a number of
            `round_up`.
        times: (G, K) how many tokens the row had when each one was stored.
        places: (G, b) where the tokens of the current step are stored.
    """

    written: Tensor
    times: Tensor
    places: Tensor

    @classmethod
    def empty(cls, groups: int, rows: int, device: torch.device | str = "cpu") -> TokenTree:
        """Groups of this many rows that have written nothing."""
        none = torch.zeros(groups, rows, dtype=torch.int64, device=device)
        return cls(none[:, :, None].bool()[:, :, :0], none[:, :0], none)

    def grow(self, lengths: Tensor) -> None:
        """Give each row's next token a free place; `lengths` (R,) is how many tokens the rows have had so far."""
        rows = self.written.shape[1]
        used = self.written.any(1)  # (G, K)
        needed = round_up(int(used.sum(1).max()) + rows) if len(used) else 0
        if needed > used.shape[1]:
            used = nn.functional.pad(used, (0, needed - used.shape[1]))
            self._resize(needed)
        order = torch.arange(used.shape[1], device=used.device) + used.shape[1] * used
        self.places = order.topk(rows, dim=1, largest=False).indices  # the first that are free, (G, b)
        self.written = self.written.scatter(2, self.places[:, :, None], True)
        self.times = self.times.scatter(1, self.places, lengths.view(-1, rows))

    def _resize(self, width: int) -> None:
        missing = width - self.times.shape[1]
        self.written = nn.functional.pad(self.written, (0, missing))
        self.times = nn.functional.pad(self.times, (0, missing))

    def keep(self, rows: Tensor) -> None:
        """Keep only `rows`, in that order: group by group, each row from the same group."""
        each = self.written.shape[1]
        groups = rows[::each] // each
        left = len(groups) < len(self.times)
        self.written = self.written.flatten(0, 1).index_select(0, rows).unflatten(0, (len(groups), each))
        self.times, self.places = self.times.index_select(0, groups), self.places.index_select(0, groups)
        if left:  # long texts may have gone
            used = self.written.flatten(0, 1).any(0).nonzero()
            self._resize(round_up(int(used[-1]) + 1) if len(used) else 0)

    def append(self, other: TokenTree) -> None:
        """Append the groups of another tree."""
        width = max(self.times.shape[1], other.times.shape[1])
        for tree in (self, other):
            tree._resize(width)
        self.written = torch.cat([self.written, other.written])
        self.times = torch.cat([self.times, other.times])
        self.places = torch.cat([self.places, other.places])

    def since(self, first: Tensor) -> TokenTree:
        """The same tree, but row r reads only what it wrote from its token number `first[r]` on, first (R,)."""
        recent = self.times[:, None] >= first.view(*self.places.shape, 1)
        return TokenTree(self.written & recent, self.times, self.places)

    def distances(self) -> Tensor:
        """(G, b, K) how many tokens after a row's newest token each one stands: 0 and below where the row has it."""
        newest = self.times.gather(1, self.places)
        return self.times[:, None] - newest[:, :, None]
