"""What a step of decoding reads in place: lists of rows, tables of tokens, spans of slots, the shelf of sentences."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from docnmt.functional.selection import Keys, SelectionPolicy, SentenceBlocks, in_float32, many_sentences
from docnmt.functional.tree import SentenceTree
from docnmt.layout import DocumentLayout, Spans
from docnmt.runtime.device import INVARIANT_KEYS, to_device

# Softmax attention of single queries, each to its own list of rows of a table: what a decoding step computes.
#
# Keys and values stay where they are. A query's list says which rows of their tables it reads, so nothing is copied,
# padded or reordered. A query's result depends on its own list alone, whatever other queries there are.


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


# Conditional attention for one decoding step: few queries, texts of few sentences.
#
# Every row compares its query with the sentences of its slot's text, and reads the words of those that it keeps where
# they are stored. Its result does not depend on other rows.


#: Sentences of a text up to which all are compared here.
FEW = 128


@dataclass(frozen=True, eq=False)
class Choices:
    """The sentences that N slots choose from, filled up to S sentences.

    Attributes:
        keys: (Sk, h, d_k), the keys of all sentences, in float32 at least.
        numbers: (N, S) int64, each slot's sentences.
        begins: (N, S) int64, the word of a table (T, h, d) where a sentence begins.
        lengths: (N, S) int64, its number of words; 0 behind a slot's sentences.
        most: the largest number of sentences of any slot.
    """

    keys: Tensor
    numbers: Tensor
    begins: Tensor
    lengths: Tensor
    most: int
    _lists: dict[int, RowLists] = field(default_factory=dict)

    @classmethod
    def of(
        cls, slots: Sequence[np.ndarray], relevance: Tensor, begins: np.ndarray, lengths: np.ndarray
    ) -> Choices | None:
        """Return the choices of the slots; None where no slot has a sentence.

        Args:
            slots: for each slot the numbers of its sentences, at most `FEW`.
            relevance: (Sk, h, d_k), the keys of all sentences.
            begins, lengths: (Sk,), the first word of each sentence and its number of words.
        """
        counts = np.array([len(slot) for slot in slots])
        most = int(counts.max(initial=0))
        if most == 0:
            return None
        width = round_up(most)
        number, real = np.zeros((len(slots), width), np.int64), np.arange(width) < counts[:, None]
        number[real] = np.concatenate(slots)
        arrays = number, begins[number], np.where(real, lengths[number], 0)
        numbers, begin, length = to_device(arrays, relevance.device)
        return cls(in_float32(relevance).contiguous(), numbers, begin, length, most)

    def lists(self, beam: int) -> RowLists:
        """For each slot, `beam` rows and h heads, the keys of the slot's sentences that have a word."""
        if beam not in self._lists:
            numbers, real = (x.repeat_interleave(beam, 0) for x in (self.numbers, self.lengths > 0))
            self._lists[beam] = RowLists.of_table(numbers, real, self.keys.shape[1])
        return self._lists[beam]


def attend_rows(
    q: Tensor, sentence_q: Tensor, words: Tensor, values: Tensor, choices: Choices, policy: SelectionPolicy, *,
    own: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Return Softmax[q·k/√d_k + kept relevance of the word's sentence] v (equation 7) for each row, without gradient.

    Args:
        q, sentence_q: (R, h, d_k), slot by slot, as many of each.
        words, values: (Tk, h, d_k), (Tk, h, d_v), contiguous.
        policy: a policy that uses neither a tree nor blocks.
        own: (N,) int64, the place of each slot's own sentence among its choices, for `always_own`.

    Returns:
        (R, h, d_v), in the type of `values`; 0 for a row without a word to read.
    """
    slots, scale = len(choices.numbers), q.shape[2] ** -0.5
    lists = choices.lists(len(q) // slots)
    scores = lists.padded(products(in_float32(sentence_q) * scale, choices.keys, lists))  # (R·h, S)
    relevance, place = scores.topk(min(policy.top_t, choices.most), dim=1)  # (R·h, t)
    if policy.always_own and own is not None:
        _read_own(scores, relevance, place, own)
    shape = *q.shape[:2], -1
    begins, lengths = (x.gather(1, place.view(slots, -1)).view(shape) for x in (choices.begins, choices.lengths))
    return attend_spans(q, words, values, begins, lengths, relevance.view(shape))


def _read_own(scores: Tensor, relevance: Tensor, place: Tensor, own: Tensor) -> None:
    """Replace the least relevant kept sentence, the last one, by the slot's own sentence (N,) if that is not kept."""
    own = own.repeat_interleave(len(scores) // len(own))[:, None]  # (R·h, 1)
    value = scores.gather(1, own)
    missing = ~(place == own).any(1, keepdim=True) & (value > -torch.inf)
    place[:, -1:] = torch.where(missing, own, place[:, -1:])
    relevance[:, -1:] = torch.where(missing, value, relevance[:, -1:])


# The input of context attention: a document's words, sentence summaries, the tree over them, and their projections.


@dataclass(frozen=True, eq=False)
class DocumentStore:
    """The states to attend to: words (T, d), a summary of each sentence (S, d), and the tree over these, or None."""

    words: Tensor
    layout: DocumentLayout
    summaries: Tensor
    tree: SentenceTree | None


@dataclass(frozen=True, eq=False)
class ContextKeys:
    """A store projected by one attention block: keys and values (T, h, d_h), relevance keys of sentences or nodes.

    `cumulative`: with a tree, sums of the nodes' keys along its paths. `blocks`: of sentences, if they were made.
    """

    layout: DocumentLayout
    keys: Tensor
    values: Tensor
    relevance: Tensor | None = None
    tree: SentenceTree | None = None
    cumulative: Tensor | None = None
    blocks: SentenceBlocks | None = None

    def stored(self, policy: SelectionPolicy | None) -> ContextKeys:
        """Return contiguous keys and values for decoding, which reads them at every step, and blocks if used."""
        keys = replace(self, keys=self.keys.contiguous(), values=self.values.contiguous())
        if policy is not None and policy.by_blocks and many_sentences(self.layout, policy.top_t).any():
            return replace(keys, blocks=SentenceBlocks.of(keys.selectable().precise().sentences, self.layout))
        return keys

    @classmethod
    def joined(cls, parts: Sequence[ContextKeys], policy: SelectionPolicy | None) -> ContextKeys:
        """The documents of all parts in one, in their order, as `stored`. Parts must have no tree."""
        relevance = [part.relevance for part in parts if part.relevance is not None]
        return cls(
            DocumentLayout.joined([part.layout for part in parts]),
            torch.cat([part.keys for part in parts]),
            torch.cat([part.values for part in parts]),
            torch.cat(relevance) if relevance else None,
        ).stored(policy)

    def selectable(self) -> Keys:
        """Return the keys in the form that selective attention takes."""
        assert self.relevance is not None, "keys that a SummaryAttention made"
        index = None if self.tree is None else self.tree.index
        return Keys(self.keys, self.values, self.relevance, self.layout, index, self.cumulative, self.blocks)


# Which rows of a growing table each decoding slot reads: the source sentence of the text that it writes.


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


# Storage of documents for decoding steps: a document keeps its position while others are added.


#: A document: the keys that hold it, and its number there.
Document = tuple[ContextKeys, int]


class Shelf:
    """The concatenated words of documents, and the keys of their sentences.

    Attributes:
        words, values: (T, h, d_k), (T, h, d_v), with room behind the last one.
    """

    def __init__(self) -> None:
        self.words = self.values = self._relevance = torch.empty(0)
        self._numbers: dict[tuple[int, int], range] = {}
        self._owners: list[ContextKeys] = []  # an `id` is known as long as its owner lives
        self._ends = [0]  # of the sentences, in words

    def put(self, documents: Sequence[Document]) -> np.ndarray:
        """The numbers of all sentences of these documents in order; those that are new are put behind the others."""
        new = dict.fromkeys((keys, number) for keys, number in documents if (id(keys), number) not in self._numbers)
        if new:
            words, sentences = self._ends[-1], len(self._ends) - 1
            parts = [self._enter(*document) for document in new]
            keys, values, relevance = zip(*parts, strict=True)
            self.words = _put(self.words, words, keys)
            self.values = _put(self.values, words, values)
            self._relevance = _put(self._relevance, sentences, relevance)
        return np.concatenate([np.arange(0), *(self._numbers[id(keys), number] for keys, number in documents)])

    def _enter(self, keys: ContextKeys, document: int) -> tuple[Tensor, Tensor, Tensor]:
        """The words, values and sentence keys of a new document, whose sentences get numbers."""
        spans, known = keys.layout.document_sentences.host, len(self._ends) - 1
        first, last = int(spans[document]), int(spans[document + 1])
        bounds = keys.layout.sentences.host[first : last + 1]
        self._ends += (bounds[1:] - bounds[0] + self._ends[-1]).tolist()
        self._numbers[id(keys), document] = range(known, known + last - first)
        self._owners.append(keys)
        words = slice(int(bounds[0]), int(bounds[-1]))
        return keys.keys[words], keys.values[words], keys.selectable().sentences[first:last]

    def choices(self, slots: Sequence[np.ndarray]) -> Choices | None:
        """Return the choices of slots; each slot is an array of sentence numbers from `put`."""
        ends = np.array(self._ends)
        return Choices.of(slots, self._relevance, ends[:-1], np.diff(ends))

    def mostly_left(self, sentences: int) -> bool:
        """Return True if most stored sentences are unused, given that the slots read `sentences` of them."""
        return len(self._ends) > 2 * sentences + FEW


def _put(table: Tensor, begin: int, parts: Sequence[Tensor]) -> Tensor:
    rows = torch.cat(list(parts))
    return written(table if begin else rows[:0], begin, rows)


# Where the tokens that live rows have read are stored, so that rows branch off and die without copies.


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
