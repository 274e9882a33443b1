"""What a step of decoding reads where it stands: nothing is copied, padded or reordered, and there is no gradient.

    a row's own text        TokenTable.lists ─┐
    all of a slot's text    Shelf.lists ──────┼→ RowLists → products → softmax → sum of values
    sentences that it keeps Shelf.choose ─────┘

A query's result depends on its own list alone, whatever other queries there are.
"""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import ClassVar, TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from docnmt.functional.selection import SelectionPolicy, in_float32
from docnmt.layout import Spans
from docnmt.runtime.device import INVARIANT_KEYS, INVARIANT_ROWS, to_device

# Softmax attention of single queries, each to its own list of rows of a table.


def round_up(entries: int) -> int:
    """A width at which a query's sums have the same bits as at any other such width."""
    return -(-entries // INVARIANT_KEYS) * INVARIANT_KEYS


@dataclass(frozen=True, eq=False)
class RowLists:
    """The lists of Q = R·h queries, of all heads of R rows, one behind the other."""

    rows: Tensor  # (n,) rows of a table (T·h, d): row w·h + i is word w for head i
    offsets: Tensor  # (Q + 1,) where the queries' lists begin
    places: Tensor  # (n,) places of the entries among numbers (Q, width) that are filled up on the right
    width: int  # at least the longest list's length, and one that `round_up` returns

    @classmethod
    def of_spans(cls, begins: Tensor, lengths: Tensor) -> RowLists:
        """Head i of row r reads for each s the `lengths[r, i, s]` words from `begins[r, i, s]` on, (R, h, s) int64."""
        heads, spans = begins.shape[1:]
        begins = begins * heads + torch.arange(heads, device=begins.device)[:, None]
        totals, counts = lengths.sum(2).flatten(), lengths.flatten()  # (R·h,), (R·h·s,)
        offsets = functional.pad(totals.cumsum(0), (1, 0))
        width = round_up(int(totals.max())) if len(totals) else 0
        first = torch.arange(len(totals), device=totals.device) * width - offsets[:-1]
        span = torch.stack([begins.flatten() - (counts.cumsum(0) - counts) * heads, first.repeat_interleave(spans)])
        shift = span.repeat_interleave(counts, dim=1)  # (2, n)
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

    def padded(self, values: Tensor) -> Tensor:
        """A value for each entry (n,) → (Q, width), with -inf behind each list."""
        filled = values.new_full((self.offsets.shape[0] - 1, self.width), -torch.inf)
        filled.view(-1).index_copy_(0, self.places, values)
        return filled


def products(q: Tensor, table: Tensor, lists: RowLists) -> Tensor:
    """The product of each query with the rows of its list: q (R, h, d), table (T, h, d) → (n,)."""
    q, table = q.flatten(0, 1), table.flatten(0, 1)
    if q.device.type != "cpu" or q.dtype not in (torch.float32, torch.float64):
        query = torch.arange(len(q), device=q.device)
        query = query.repeat_interleave(lists.offsets.diff(), output_size=len(lists.rows))
        return (q.index_select(0, query) * table.index_select(0, lists.rows)).sum(1)
    _no_warning()
    size, zeros = (len(q), len(table)), table.new_zeros(len(lists.rows))
    entries = torch.sparse_csr_tensor(lists.offsets, lists.rows, zeros, size, check_invariants=False)
    sampled: Tensor = torch.sparse.sampled_addmm(entries, q.detach(), table.detach().T, beta=0.0, out=entries)
    return sampled.values()


def attend_listed(q: Tensor, keys: Tensor, values: Tensor, lists: RowLists, added: Tensor | None = None) -> Tensor:
    """Softmax(q·k/√d + added) v over the rows of each query's list; 0 for an empty list. No gradient.

    q (R, h, d), keys (T, h, d), values (T, h, d_v), added (n,) → (R, h, d_v), in the type of `values`.
    """
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


# What decoding slots read of source documents and of earlier translations: spans that stand in tables.

#: Sentences of a text up to which lists compare them with all queries at once; those of a longer text are one product.
FEW = 128
#: Lists that a layer has made in a step, for the other layers, which read alike.
Plans: TypeAlias = dict[Hashable, RowLists]


@dataclass(frozen=True, eq=False)
class PackedKeys:
    """Keys and values of spans, contiguous."""

    keys: Tensor  # (T, h, d)
    values: Tensor  # (T, h, d_v)
    spans: Spans
    relevance: Tensor | None = None  # (S, h, d) in float32 at least, by which spans are chosen
    documents: Spans | None = None  # of the sentences, whose numbers slots have

    def document_of(self, sentence: int) -> Piece:
        """What is read where this sentence is translated: the sentences of its document, or the span of it."""
        bounds = (self.spans if self.documents is None else self.documents).host
        document = int(np.searchsorted(bounds, sentence, side="right")) - 1
        if self.documents is None:
            return self, document, document + 1
        return self, int(bounds[document]), int(bounds[document + 1])

    def of(self, numbers: Tensor) -> Shelf:
        """What slots read that read one span each, these (N,)."""
        return Shelf([((self, number, number + 1),) for number in numbers.tolist()])


#: Keys, and the spans there from the first number to the one before the last: a sentence or a document.
Piece: TypeAlias = tuple[PackedKeys, int, int]


class Shelf:
    """The texts that N slots read, as one layer keeps them: a piece stands once in its tables, whoever reads it.

    The tables are those of the memory that all slots read, where there is only one. Otherwise they have room to grow
    and begin anew once most of their spans are no longer read.
    """

    any_memory: ClassVar[bool] = True

    def __init__(self, slots: Sequence[tuple[Piece, ...]]) -> None:
        self.slots = list(slots)  # the pieces of each slot's text, in order
        self._begin(None)

    def _begin(self, memory: PackedKeys | None) -> None:
        """Let the tables be those of a memory, or empty."""
        self._memory = memory
        self._numbers: list[np.ndarray | None] = [None] * len(self.slots)  # of each slot's spans in the tables
        self._places: dict[Piece, np.ndarray] = {}  # and of each piece's
        self._bounds = np.zeros(1, np.int64) if memory is None else memory.spans.host  # (S + 1,) of the spans, in words
        nothing = torch.empty(0)
        self.keys, self.values = (nothing, nothing) if memory is None else (memory.keys, memory.values)  # (T, h, d)
        self._relevance = None if memory is None else memory.relevance
        self._change()

    def _change(self) -> None:
        self._settled = False
        self._lists: dict[tuple[int, int], RowLists] = {}
        self._choices: list[_Choice] | None = None

    def keep(self, rows: Tensor, slots: Tensor | None) -> None:
        if slots is not None:
            stay = slots.tolist()
            self.slots, self._numbers = [self.slots[n] for n in stay], [self._numbers[n] for n in stay]
            self._change()

    def append(self, other: Shelf) -> None:
        self.slots, self._numbers = [*self.slots, *other.slots], [*self._numbers, *[None] * len(other.slots)]
        self._change()

    @property
    def empty(self) -> bool:
        """True if no slot has anything to read."""
        return not any(self.slots)

    def attend(self, q: Tensor, plans: Plans) -> Tensor:
        """Softmax attention to all words of each slot's text: q (R, h, d), as many rows a slot → (R, h, d_v)."""
        if self.empty:
            return torch.zeros_like(q)
        self._settle()
        beam, heads = q.shape[0] // len(self.slots), q.shape[1]
        if (beam, heads) not in self._lists:
            numbers, real = self._padded(range(len(self.slots)))
            begins, lengths = self._bounds[:-1][numbers], np.where(real, np.diff(self._bounds)[numbers], 0)  # (N, s)
            key = "attend", beam, heads, begins.tobytes(), lengths.tobytes()
            if key not in plans:
                spans = (x.repeat_interleave(beam, 0)[:, None] for x in to_device([begins, lengths], q.device))
                plans[key] = RowLists.of_spans(*(x.expand(-1, heads, -1) for x in spans))
            self._lists[beam, heads] = plans[key]
        return attend_listed(q, self.keys, self.values, self._lists[beam, heads])

    def attend_chosen(
        self, q: Tensor, sentence_q: Tensor, policy: SelectionPolicy, plans: Plans, own: Tensor | None = None
    ) -> Tensor:
        """Softmax[q·k/√d_k + kept relevance of the word's sentence] v (equation 7) over each slot's text, flat.

        q, sentence_q (R, h, d_k), as many rows a slot; own (N,): each slot's own sentence, by its number in its memory,
        for `always_own` → (R, h, d_v); 0 for a row without a word to read.
        """
        if self.empty:
            return torch.zeros_like(q)
        self._settle()
        beam, heads = q.shape[0] // len(self.slots), q.shape[1]
        if self._choices is None:
            self._choices = self._grouped(beam, heads, plans, q.device)
        sentence_q = in_float32(sentence_q) * q.shape[2] ** -0.5
        top_t = min(policy.top_t, max((choice.most for choice in self._choices), default=0))
        relevance = sentence_q.new_full((len(q), heads, top_t), -torch.inf)
        number = torch.zeros_like(relevance, dtype=torch.int64)
        for choice in self._choices:
            assert self._relevance is not None, "keys to choose by"
            scores = choice.scores(sentence_q.index_select(0, choice.rows), self._relevance)  # (n, h, S)
            best, index = scores.topk(min(top_t, choice.most), dim=2)
            if policy.always_own and own is not None:
                of_row = (own - self._firsts).repeat_interleave(beam).index_select(0, choice.rows)
                _read_own(scores, best, index, of_row[:, None, None].expand(-1, heads, 1))
            chosen = choice.numbers.gather(1, index.reshape(len(choice.numbers), -1))
            relevance[choice.rows, :, : best.shape[2]] = best
            number[choice.rows, :, : best.shape[2]] = chosen.view(best.shape)
        begins, lengths = self._spans[:, number]  # (R, h, t) each
        return attend_spans(q, self.keys, self.values, begins, lengths, relevance)

    def _settle(self) -> None:
        """Find each slot's spans in the tables, and put those there that are new."""
        if self._settled:
            return
        memories = {keys for slot in self.slots for keys, *_ in slot[:1]}
        memory = memories.pop() if len(memories) == 1 else None
        if any(keys is not memory for slot in self.slots for keys, *_ in slot[1:]):
            memory = None
        new = [number for number, numbers in enumerate(self._numbers) if numbers is None]
        if memory is not self._memory or (memory is None and new and len(self._bounds) > 2 * self._read()):
            self._begin(memory)
            new = list(range(len(self.slots)))
        self._put([*dict.fromkeys(piece for n in new for piece in self.slots[n] if piece not in self._places)])
        for n in new:
            numbers = [self._places[piece] for piece in self.slots[n]]
            self._numbers[n] = numbers[0] if len(numbers) == 1 else np.concatenate([_NONE, *numbers])
        self._settled = True

    def _read(self) -> int:
        """How many spans the slots read; where several of these have several pieces, each counts."""
        texts = {slot if len(slot) == 1 else id(slot): slot for slot in self.slots}
        return sum(end - begin for slot in texts.values() for _, begin, end in slot)

    def _put(self, pieces: Sequence[Piece]) -> None:
        if self._memory is not None:
            self._places.update({piece: np.arange(piece[1], piece[2]) for piece in pieces})
            return
        if not pieces:
            return
        spans, words = len(self._bounds) - 1, int(self._bounds[-1])
        bounds = [keys.spans.host[begin : end + 1] for keys, begin, end in pieces]
        self._bounds = np.append(self._bounds, words + np.cumsum(np.concatenate([np.diff(part) for part in bounds])))
        rows = [slice(*part[[0, -1]].tolist()) for part in bounds]
        self.keys = _written(self.keys, words, [keys.keys[part] for (keys, *_), part in zip(pieces, rows, strict=True)])
        self.values = _written(
            self.values, words, [keys.values[part] for (keys, *_), part in zip(pieces, rows, strict=True)]
        )
        relevance = [keys.relevance[begin:end] for keys, begin, end in pieces if keys.relevance is not None]
        if relevance:
            self._relevance = _written(self._relevance, spans, relevance)
        for keys, begin, end in pieces:
            self._places[keys, begin, end] = np.arange(spans, spans + end - begin)
            spans += end - begin

    def _padded(self, slots: Sequence[int], multiple: int = 1) -> tuple[np.ndarray, np.ndarray]:
        """(N, s) numbers of these slots' spans, filled up to a multiple on the right, and which of them are real."""
        texts = [numbers for n in slots if (numbers := self._numbers[n]) is not None]
        counts = np.array([len(text) for text in texts], np.int64)
        real = np.arange(-(-counts.max(initial=0) // multiple) * multiple) < counts[:, None]
        numbers = np.zeros(real.shape, np.int64)
        numbers[real] = np.concatenate([_NONE, *texts])
        return numbers, real

    def _grouped(self, beam: int, heads: int, plans: Plans, device: torch.device) -> list[_Choice]:
        """The short texts together, and each long one for all slots that read it."""
        lengths = np.diff(self._bounds)
        firsts = np.array([slot[0][1] if slot else 0 for slot in self.slots], np.int64)
        begin, length, self._firsts = to_device([self._bounds[:-1], lengths, firsts], device)
        self._spans = torch.stack([begin, length])
        short: list[int] = []
        long: dict[int, tuple[np.ndarray, list[int]]] = {}
        for n, text in enumerate(self._numbers):
            if text is not None and 0 < len(text) <= FEW:
                short.append(n)
            elif text is not None and len(text):
                long.setdefault(id(text), (text, []))[1].append(n)
        choices = []
        if short:
            numbers, real = self._padded(short, INVARIANT_KEYS)
            readable = real & (lengths[numbers] > 0)
            number, words = to_device([numbers, readable], device)
            key = "choose", beam, heads, numbers.tobytes(), readable.tobytes()
            if key not in plans:
                of_rows = number.repeat_interleave(beam, 0), words.repeat_interleave(beam, 0)
                plans[key] = RowLists.of_table(*of_rows, heads)
            most = int(real.sum(1).max())
            choices.append(_Choice(_rows(short, beam, device), number, most, plans[key]))
        for text, slots in long.values():
            number, hidden = to_device([text[None], lengths[text] == 0], device)
            in_order = (np.diff(text) == 1).all()
            index = slice(int(text[0]), int(text[0]) + len(text)) if in_order else number[0]
            choices.append(_Choice(_rows(slots, beam, device), number, len(text), index=index, hidden=hidden))
        return choices


_NONE = np.zeros(0, np.int64)


def _rows(slots: Sequence[int], beam: int, device: torch.device) -> Tensor:
    return to_device([(np.array(slots)[:, None] * beam + np.arange(beam)).ravel()], device)[0]


def _written(table: Tensor | None, begin: int, parts: Sequence[Tensor]) -> Tensor:
    """Put rows behind the first `begin` ones of a table; where it is full, in a larger one."""
    rows = torch.cat(list(parts))
    end = begin + len(rows)
    if table is None or not begin:
        table = rows[:0]
    if end > len(table):
        wider = table.new_zeros(2 * end, *rows.shape[1:])
        wider[:begin] = table[:begin]
        table = wider
    table[begin:end] = rows
    return table


@dataclass(frozen=True, eq=False)
class _Choice:
    """Rows that choose their sentences together: those of all short texts, or of a long one."""

    rows: Tensor  # (n,) of all rows
    numbers: Tensor  # (texts, S) the spans to choose from
    most: int  # spans of a text, at most
    lists: RowLists | None = None  # of short texts, for h heads
    index: slice | Tensor | None = None  # of a long one: its spans as an index
    hidden: Tensor | None = None  # and (S,) True for those without a word

    def scores(self, q: Tensor, keys: Tensor) -> Tensor:
        """q (n, h, d), the spans' keys (·, h, d) → (n, h, S), -inf for spans that cannot be read."""
        if self.lists is not None:
            return self.lists.padded(products(q, keys, self.lists)).view(*q.shape[:2], -1)
        assert self.hidden is not None
        enough = q.repeat(-(-INVARIANT_ROWS // len(q)), 1, 1)  # fewer rows take other kernels
        scores = (enough.transpose(0, 1) @ keys[self.index].permute(1, 2, 0))[:, : len(q)]  # (h, n, S)
        return scores.masked_fill_(self.hidden, -torch.inf).transpose(0, 1)


def _read_own(scores: Tensor, relevance: Tensor, index: Tensor, own_index: Tensor) -> None:
    """Replace the least relevant kept sentence, the last one, by the row's own sentence (n, h, 1) if it is not kept."""
    value = scores.gather(2, own_index)
    missing = ~(index == own_index).any(2, keepdim=True) & (value > -torch.inf)
    index[..., -1:] = torch.where(missing, own_index, index[..., -1:])
    relevance[..., -1:] = torch.where(missing, value, relevance[..., -1:])


# Where the tokens that live rows have read are stored, so that rows branch off and die without copies.


@dataclass
class TokenTable:
    """The places of the rows' tokens in the tables of keys and values that sublayers keep.

    A token is stored once, for all rows that go on from it; a row is the list of its tokens' places, so rows are
    reordered without a copy. When the tables are full, places that no row lists any more are given up.
    """

    places: Tensor  # (R, L) a row's tokens are in its first columns, behind is any place; L as `round_up` returns it
    lengths: Tensor  # (R,) how many tokens each row has, the current step's included
    size: int = 0  # the number of places in use; the last R are the current step's
    capacity: int = 0  # of all places
    moved: Tensor | None = None  # the old places that stayed, in their new order, if this step gave up places
    first: Tensor | None = None  # (R,) the number of the first token that each row reads; None: it reads all
    _lists: dict[int, RowLists] = field(default_factory=dict)

    @classmethod
    def empty(cls, rows: int, device: torch.device | str = "cpu") -> TokenTable:
        """Rows that have read nothing."""
        lengths = torch.zeros(rows, dtype=torch.int64, device=device)
        return cls(lengths[:, None][:, :0], lengths)

    def grow(self, lengths: Tensor) -> None:
        """Give each row's next token a place; `lengths` (R,) is how many tokens the rows have had so far."""
        rows, self.moved, self._lists = len(lengths), None, {}
        self.places = _as_wide(self.places, round_up(int(lengths.max()) + 1) if rows else 0)
        if self.size + rows > self.capacity:  # give up places that no row lists
            real = torch.arange(self.places.shape[1], device=lengths.device) < lengths[:, None]
            self.moved, numbers = self.places[real].unique(return_inverse=True)
            self.places = torch.zeros_like(self.places).masked_scatter(real, numbers)
            self.size, self.capacity = len(self.moved), 2 * (len(self.moved) + rows)
        new = torch.arange(self.size, self.size + rows, device=lengths.device)
        self.places = self.places.scatter(1, lengths[:, None], new[:, None])
        self.lengths, self.size = lengths + 1, self.size + rows

    def keep(self, rows: Tensor) -> None:
        self.places, self.lengths = self.places.index_select(0, rows), self.lengths.index_select(0, rows)

    def append(self, other: TokenTable) -> None:
        """Append the rows of another table, whose places come behind all of this one's."""
        places, width = other.places, max(self.places.shape[1], other.places.shape[1])
        if other.capacity:
            places = places + self.capacity
            self.size, self.capacity = self.capacity + other.size, self.capacity + other.capacity
        self.places = torch.cat([_as_wide(self.places, width), _as_wide(places, width)])
        self.lengths = torch.cat([self.lengths, other.lengths])

    def since(self, first: Tensor) -> TokenTable:
        """The same table, but row r reads only its tokens from number `first[r]` on, first (R,)."""
        return replace(self, first=first, _lists={})

    def lists(self, heads: int) -> RowLists:
        """What the heads of each row read of a table (capacity · h, d): the row's tokens, in order."""
        if heads not in self._lists:
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
        of_entries = None if added is None else added.flatten().index_select(0, lists.places)
        return attend_listed(q, keys, values, lists, of_entries)

    def distances(self) -> Tensor:
        """(R, L) how many tokens after a row's newest token each of its tokens stands: 0 and below."""
        return torch.arange(self.places.shape[1], device=self.places.device) - self.lengths[:, None] + 1


def _as_wide(places: Tensor, width: int) -> Tensor:
    """(R, L) → (R, width), cut off or filled up."""
    missing = width - places.shape[1]
    return functional.pad(places, (0, missing)) if missing else places
