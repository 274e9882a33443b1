"""Softmax attention of single queries, each to its own list of rows of a table: what a decoding step computes.

Keys and values stay where they are. A query's list says which rows of their tables it reads, so nothing is copied,
padded or reordered. A query's result depends on its own list alone, whatever other queries there are.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from functools import lru_cache

import torch
from torch import Tensor
from torch.nn import functional

from docnmt.functional.kernels import takes_kernels
from docnmt.runtime.tuning import INVARIANT_KEYS


def round_up(entries: int) -> int:
    """A width at which a query's sums have the same bits as at any other such width."""
    return -(-entries // INVARIANT_KEYS) * INVARIANT_KEYS


@dataclass(frozen=True, eq=False)
class RowLists:
    """The lists of Q = R·h queries, of all heads of R rows, one behind the other.

    Attributes:
        rows: (n,) int64, rows of a table.
        offsets: (Q + 1,) int64, where the queries' lists begin.
        places: (n,) int64, places of the entries among numbers (Q, width) that are filled up on the right.
        width: at least the longest list's length, and one that `round_up` returns.
    """

    rows: Tensor
    offsets: Tensor
    places: Tensor
    width: int
    _sparse: dict[tuple[torch.dtype, int], Tensor] = field(default_factory=dict)

    @classmethod
    def of_spans(cls, begins: Tensor, lengths: Tensor) -> RowLists:
        """Head i of row r reads for each s the `lengths[r, i, s]` words from `begins[r, i, s]` on.

        begins, lengths: (R, h, s) int64. Word w of a table (T, h, d) is its row w·h + i for head i.
        """
        heads, spans = begins.shape[1:]
        begins = begins * heads + torch.arange(heads, device=begins.device)[:, None]
        totals, many = lengths.sum(2).flatten(), lengths.flatten()
        offsets = functional.pad(totals.cumsum(0), (1, 0))
        width = round_up(int(totals.max())) if len(totals) else 0
        first = torch.arange(len(totals), device=totals.device) * width - offsets[:-1]
        span = torch.stack([begins.flatten() - (many.cumsum(0) - many) * heads, first.repeat_interleave(spans)])
        shift = span.repeat_interleave(many, dim=1)  # (2, n)
        entry = torch.arange(shift.shape[1], device=totals.device)
        return cls(shift[0] + entry * heads, offsets, shift[1] + entry, width)

    @classmethod
    def of_table(cls, words: Tensor, real: Tensor, heads: int) -> RowLists:
        """All heads of row r read those words of `words[r]` that are `real`.

        words (int64), real (bool): (R, width), a width that `round_up` returns.
        """
        rows = words[:, None] * heads + torch.arange(heads, device=words.device)[:, None]  # (R, h, width)
        offsets = functional.pad(real.sum(1)[:, None].expand(-1, heads).flatten().cumsum(0), (1, 0))
        places = real[:, None].expand(-1, heads, -1).flatten().nonzero()[:, 0]
        return cls(rows.flatten().index_select(0, places), offsets, places, words.shape[1])

    @classmethod
    def of_equal(cls, words: Tensor, heads: int, width: int) -> RowLists:
        """All heads of row r read the words `words[r]`: `of_table` of rows that all have n words (R, n)."""
        queries, length = words.shape[0] * heads, words.shape[1]
        rows = words[:, None] * heads + torch.arange(heads, device=words.device)[:, None]  # (R, h, n)
        offsets = torch.arange(0, queries * length + 1, length, device=words.device)
        places = torch.arange(queries * width, device=words.device).view(queries, width)[:, :length]
        return cls(rows.flatten(), offsets, places.flatten(), width)

    def sparse(self, table: Tensor) -> Tensor:
        """The lists as a sparse matrix (Q, rows of the table (T·h, d)); one for all tables of that size and type, so
        its values are whatever was last written there."""
        kind = table.dtype, table.shape[0]
        if kind not in self._sparse:
            _no_warning()
            size, nothing = (len(self.offsets) - 1, len(table)), table.new_zeros(len(self.rows))
            found = torch.sparse_csr_tensor(self.offsets, self.rows, nothing, size, check_invariants=False)
            self._sparse[kind] = found
        return self._sparse[kind]

    def padded(self, values: Tensor) -> Tensor:
        """A value for each entry (n,) → (Q, width), with -inf behind each list."""
        filled = values.new_full((self.offsets.shape[0] - 1, self.width), -torch.inf)
        filled.view(-1).index_copy_(0, self.places, values)
        return filled


def products(q: Tensor, table: Tensor, lists: RowLists) -> Tensor:
    """The product of each query with the rows of its list → (n,), which the next call for the same lists overwrites.

    q (R, h, d) are R·h queries, table (T, h, d) is T·h rows: row t·h + i is that of head i.
    """
    q, table = q.flatten(0, 1), table.flatten(0, 1)
    if q.device.type != "cpu" or q.dtype not in (torch.float32, torch.float64):
        count = lists.offsets.diff()
        query = torch.arange(len(q), device=q.device).repeat_interleave(count, output_size=len(lists.rows))
        return (q.index_select(0, query) * table.index_select(0, lists.rows)).sum(1)
    entries = lists.sparse(table)
    entries.values().zero_()  # by which `beta` multiplies: 0 times NaN is NaN
    found: Tensor = torch.sparse.sampled_addmm(entries, q.detach(), table.detach().T, beta=0.0, out=entries).values()
    return found


def attend_listed(q: Tensor, keys: Tensor, values: Tensor, lists: RowLists, added: Tensor | None = None) -> Tensor:
    """Softmax(q·k/√d + added) v over the rows of each query's list; 0 for an empty list. No gradient.

    q (R, h, d), keys (T, h, d), values (T, h, d_v), added (n,) → (R, h, d_v), in the type of `values`.
    """
    if q.is_cuda and takes_kernels(q, keys, values):
        from docnmt.functional.kernels.listed_attention import listed_attention

        return listed_attention(q, keys, values, lists.rows, lists.offsets, added)
    scores = products(q * q.shape[-1] ** -0.5, keys, lists)
    if scores.dtype != torch.float64:
        scores = scores.float()
    if added is not None:
        scores = scores + added
    weights = lists.padded(scores).softmax(1).view(-1).index_select(0, lists.places).to(values.dtype)
    table, no_scaling, as_sum, not_sparse, last_offset = values.flatten(0, 1), False, 0, False, True
    mixed = torch.embedding_bag(
        table, lists.rows, lists.offsets, no_scaling, as_sum, not_sparse, weights, last_offset
    )[0]  # fmt: skip
    return mixed.view(*q.shape[:2], values.shape[-1])


def attend_spans(q: Tensor, keys: Tensor, values: Tensor, begins: Tensor, lengths: Tensor, relevance: Tensor) -> Tensor:
    """Attention to the words of spans, with each span's relevance added to the scores of its words.

    q, keys, values as `attend_listed`; begins, lengths, relevance (R, h, s), -inf: the span is not read → (R, h, d_v).
    """
    lengths = lengths.masked_fill(relevance == -torch.inf, 0)
    added = relevance.flatten().repeat_interleave(lengths.flatten())
    return attend_listed(q, keys, values, RowLists.of_spans(begins, lengths), added)


@lru_cache
def _no_warning() -> None:
    """Make PyTorch say now, unheard, what it says once in a process: that CSR tensors are new. We make no others."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.zeros(1, 1).to_sparse_csr()
