"""Which rows of a growing table each decoding slot reads: the source sentence of the text that it writes."""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field

import torch
from torch import Tensor

from docnmt.functional.row_lists import RowLists, attend_listed
from docnmt.layout import Spans


@dataclass(eq=False)
class SlotSpans:
    """For each of N slots a span of a table. What changes gives a new value.

    The layers of a model go through the same changes; the last result of each is kept, so that they share it.

    Attributes:
        begins, lengths: (N,) int64. used: the rows of the table that may be in use.
    """

    begins: Tensor
    lengths: Tensor
    used: int
    _lists: dict[tuple[int, int], RowLists] = field(default_factory=dict)
    _kept: tuple[Tensor, SlotSpans] | None = None
    _joined: tuple[SlotSpans, bool, Joined] | None = None

    @classmethod
    def of(cls, spans: Spans, chosen: Tensor) -> SlotSpans:
        """Slots that read the spans `chosen` (N,)."""
        of, last = spans.plans.get("slots", (None, lambda: None))
        found: SlotSpans | None = last() if of is chosen else None
        if found is None:
            begins = spans.offsets[:-1][chosen]
            found = cls(begins, spans.offsets[1:][chosen] - begins, spans.num_tokens)
            spans.plans["slots"] = chosen, weakref.ref(found)  # a result keeps all that were made from it
        return found

    def kept(self, slots: Tensor) -> SlotSpans:
        """Only these slots, in that order."""
        if self._kept is None or self._kept[0] is not slots:
            self._kept = slots, SlotSpans(self.begins[slots], self.lengths[slots], self.used)
        return self._kept[1]

    def joined(self, other: SlotSpans, *, same: bool) -> Joined:
        """These slots, then the other ones; `same`: both read the same table."""
        if self._joined is None or self._joined[:2] != (other, same):
            self._joined = other, same, self._join(other, same)
        return self._joined[2]

    def _join(self, other: SlotSpans, same: bool) -> Joined:
        lengths = torch.cat([self.lengths, other.lengths])
        if same:
            return Joined(SlotSpans(torch.cat([self.begins, other.begins]), lengths, self.used), None, None)
        own, begins, used = None, self.begins, self.used
        if used > 2 * int(self.lengths.sum()):  # mostly spans of slots that have left
            own, begins = self.rows(), self.lengths.cumsum(0) - self.lengths
            used = len(own)
        new = other.rows()
        begins = torch.cat([begins, other.lengths.cumsum(0) - other.lengths + used])
        return Joined(SlotSpans(begins, lengths, used + len(new)), own, new)

    def rows(self) -> Tensor:
        """(n,) the rows of all spans, one span behind the other."""
        return RowLists.of_spans(self.begins[:, None, None], self.lengths[:, None, None]).rows

    def lists(self, beam: int, heads: int) -> RowLists:
        """What the heads of `beam` rows of each slot read of a table (T · h, d)."""
        if (beam, heads) not in self._lists:
            spans = (x.repeat_interleave(beam)[:, None, None].expand(-1, heads, 1) for x in (self.begins, self.lengths))
            self._lists[beam, heads] = RowLists.of_spans(*spans)
        return self._lists[beam, heads]

    def attend(self, q: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """Softmax attention of each slot's rows to its span → (R, h, d_v).

        q (R, h, d), as many rows for each slot, slot by slot; keys (T, h, d), values (T, h, d_v).
        """
        lists = self.lists(q.shape[0] // max(self.lengths.shape[0], 1), q.shape[1])  # len() of a tensor is slow
        return attend_listed(q, keys, values, lists)


@dataclass(frozen=True, eq=False)
class Joined:
    """The spans of slots of two tables, and how one table is made of these.

    Attributes:
        own: (m,) the rows of the first table that stay; None: all rows in use, where they are.
        new: (n,) the rows of the second table that follow; None: the tables are the same.
    """

    spans: SlotSpans
    own: Tensor | None
    new: Tensor | None

    def table(self, first: Tensor, second: Tensor) -> Tensor:
        """Make the table of these two, with room behind it."""
        if self.new is None:
            return first
        table = first if self.own is None else first.index_select(0, self.own)
        return written(table, self.spans.used - len(self.new), second.index_select(0, self.new))


def written(table: Tensor, begin: int, rows: Tensor) -> Tensor:
    """Put `rows` behind the first `begin` rows of a table; where it is full, in a larger one."""
    end = begin + len(rows)
    if end > len(table):
        wider = table.new_zeros(2 * end, *rows.shape[1:])
        wider[:begin] = table[:begin]
        table = wider
    table[begin:end] = rows
    return table
