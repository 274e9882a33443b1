"""Where the tokens that live rows have read are stored, so that rows branch off and die without copies."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn

from docnmt.functional.row_lists import RowLists, attend_listed, round_up


@dataclass
class TokenTable:
    """The places of the rows' tokens in the tables of keys and values that sublayers keep.

    A token is stored once, for all rows that go on from it; a row is the list of its tokens' places. So rows that are
    reordered need no copy of what was computed from their tokens. When the tables are full, places that no row lists
    any more are given up.

    Attributes:
        places: (R, L) int64; a row's tokens are in its first columns, what follows is some place. L is a width that
            `round_up` returns.
        lengths: (R,) how many tokens each row has, the current step's included.
        size: the number of places in use; the last R are the current step's. capacity: of all places.
        moved: the old places that stayed, in their new order, if this step gave up places; else None.
        first: (R,) the number of the first token that each row reads; None: it reads all.
    """

    places: Tensor
    lengths: Tensor
    size: int = 0
    capacity: int = 0
    moved: Tensor | None = None
    first: Tensor | None = None
    _equal: int | None = None  # the length of all rows, where it is one
    _lists: dict[int, RowLists] = field(default_factory=dict)

    @classmethod
    def empty(cls, rows: int, device: torch.device | str = "cpu") -> TokenTable:
        """Rows that have read nothing."""
        lengths = torch.zeros(rows, dtype=torch.int64, device=device)
        return cls(lengths[:, None][:, :0], lengths)

    def grow(self, lengths: Tensor) -> None:
        """Give each row's next token a place; `lengths` (R,) is how many tokens the rows have had so far."""
        rows, self.moved, self._lists = len(lengths), None, {}
        known = lengths.tolist()
        width = round_up(max(known) + 1) if rows else 0
        self._equal = known[0] + 1 if rows and min(known) == max(known) else None
        self.places = _as_wide(self.places, width)
        if self.size + rows > self.capacity:
            self._give_up_places(lengths)
        new = torch.arange(self.size, self.size + rows, device=lengths.device)
        self.places = self.places.scatter(1, lengths[:, None], new[:, None])
        self.lengths, self.size = lengths + 1, self.size + rows

    def _give_up_places(self, lengths: Tensor) -> None:
        real = torch.arange(self.places.shape[1], device=lengths.device) < lengths[:, None]
        self.moved, numbers = self.places[real].unique(return_inverse=True)
        self.places = torch.zeros_like(self.places).masked_scatter(real, numbers)
        self.size, self.capacity = len(self.moved), 2 * (len(self.moved) + len(lengths))

    def keep(self, rows: Tensor) -> None:
        """Keep only `rows`, in that order."""
        self.places, self.lengths = self.places.index_select(0, rows), self.lengths.index_select(0, rows)

    def append(self, other: TokenTable) -> None:
        """Append the rows of another table, whose places come behind all of this one's."""
        places, width = other.places, max(self.places.shape[1], other.places.shape[1])
        if other.capacity:
            places = places + self.capacity
            self.size, self.capacity = self.capacity + other.size, self.capacity + other.capacity
        self.places = torch.cat([_as_wide(each, width) for each in (self.places, places)])
        self.lengths = torch.cat([self.lengths, other.lengths])

    def since(self, first: Tensor) -> TokenTable:
        """The same table, but row r reads only its tokens from number `first[r]` on, first (R,)."""
        return replace(self, first=first, _equal=None, _lists={})

    def lists(self, heads: int) -> RowLists:
        """What the heads of each row read of a table (capacity · h, d): the row's tokens, in order."""
        if heads in self._lists:
            return self._lists[heads]
        if self._equal is not None:
            self._lists[heads] = RowLists.of_equal(self.places[:, : self._equal], heads, self.places.shape[1])
        else:
            column = torch.arange(self.places.shape[1], device=self.places.device)
            real = column < self.lengths[:, None]
            if self.first is not None:
                real &= column >= self.first[:, None]
            self._lists[heads] = RowLists.of_table(self.places, real, heads)
        return self._lists[heads]

    def attend(self, q: Tensor, keys: Tensor, values: Tensor, added: Tensor | None = None) -> Tensor:
        """Softmax attention of the rows' newest tokens to all tokens that they read → (R, h, d_v).

        q (R, h, d); keys (capacity, h, d) and values (capacity, h, d_v) of the places; added to the scores (R, h, L).
        """
        lists = self.lists(q.shape[1])
        more = None if added is None else added.flatten().index_select(0, lists.places)
        return attend_listed(q, keys, values, lists, more)

    def distances(self) -> Tensor:
        """(R, L) how many tokens after a row's newest token each of its tokens stands: 0 and below."""
        return torch.arange(self.places.shape[1], device=self.places.device) - self.lengths[:, None] + 1


def _as_wide(places: Tensor, width: int) -> Tensor:
    """(R, L) → (R, width), cut off or filled up."""
    missing = width - places.shape[1]
    return nn.functional.pad(places, (0, missing)) if missing else places
