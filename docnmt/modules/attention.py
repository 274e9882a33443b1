"""Self- and cross-attention, softmax and linear, each with its step of decoding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from docnmt.functional.decoding import PackedKeys, Shelf, TokenTable
from docnmt.functional.linear import LinearMemory, LinearState, packed_linear_attention
from docnmt.functional.packed import packed_attention
from docnmt.layout import Spans
from docnmt.modules.layers import OfMemories, Reads, Slots, Step, Sublayer, attended, check_at_least
from docnmt.modules.positions import AttentionPosition, RelativeKeys

# Multi-head linear attention on packed rows, which `--attention linear` uses in place of softmax attention.
#
# The blocks have the interface of `docnmt.modules.attention`; their caches in decoding do not grow with the
# text.


def _relative(position: AttentionPosition | None) -> RelativeKeys | None:
    if position is not None and not isinstance(position, RelativeKeys):
        raise ValueError(f"position: expected RelativeKeys or None for linear attention, got {type(position).__name__}")
    return position


def _embeddings(position: RelativeKeys | None) -> Tensor | None:
    """(2r+1, d_h) embeddings of distances."""
    return None if position is None else position.weight


@dataclass
class LinearCache:
    """The state of linear self-attention for each row; it does not grow with the row."""

    any_memory: ClassVar[bool] = True
    state: LinearState

    def keep(self, rows: Tensor, slots: Tensor | None) -> None:
        """As `Cache.keep`."""
        self.state = self.state.select(rows)

    def append(self, other: LinearCache) -> None:
        """As `Cache.append`."""
        self.state = self.state.append(other.state)


class LinearSelfAttention(Sublayer[None, LinearCache]):
    """Multi-head kernelised self-attention inside each span, in time linear in its length.

    Favier and Dal'Maz Silva, "Scaleformer", equations 9 to 11.

    Args:
        d_model: width of the row. d_head: width of a head.
        causal: a token sees itself and the tokens before it.
        position: relative embeddings of keys, which act as the paper's relative positions, or None.

    Raises:
        ValueError: a size is below 1, or another position, which would need scores to act on.
    """

    position: RelativeKeys | None

    def __init__(
        self, *, d_model: int, heads: int, d_head: int, causal: bool = False, position: AttentionPosition | None = None
    ) -> None:
        relative = _relative(position)
        check_at_least(1, d_model=d_model, heads=heads, d_head=d_head)
        super().__init__()
        self.heads, self.d_head, self.causal, self.position = heads, d_head, causal, relative
        self.qkv = nn.Linear(d_model, 3 * heads * d_head)
        self.output = nn.Linear(heads * d_head, d_model)

    def forward(self, x: Tensor, reads: Reads) -> Tensor:
        """x (T, d) → (T, d), inside each span of `reads.layout.sentences`."""
        return self.within(x, reads.layout.sentences)

    def within(self, x: Tensor, spans: Spans) -> Tensor:
        """Attention inside each of these spans: x (T, d) → (T, d)."""
        q, k, v = self.qkv(x).view(len(x), 3, self.heads, self.d_head).unbind(1)  # (T, h, d_h) each
        mixed = packed_linear_attention(q, k, v, spans, spans, _embeddings(self.position), causal=self.causal)
        output: Tensor = self.output(mixed.flatten(1))
        return output

    def begin(self, remembered: None, slots: Slots) -> LinearCache:
        """The state before the first token."""
        horizon = 0 if self.position is None else len(self.position.weight) // 2
        return LinearCache(
            LinearState.empty(
                len(slots.sentences) * slots.beam, self.heads, self.d_head, self.d_head, horizon, like=slots.like
            )
        )

    def step(self, x: Tensor, cache: LinearCache, at: Step) -> Tensor:
        """One token a row, x (R, d) → (R, d), at the same cost for every length."""
        q, k, v = self.qkv(x).view(len(x), 3, self.heads, self.d_head).unbind(1)
        output: Tensor = self.output(cache.state.step(q, k, v, _embeddings(self.position)).flatten(1))
        return output


class LinearCrossAttention(Sublayer[LinearMemory, OfMemories[LinearMemory]]):
    """Multi-head kernelised attention of each target span to the source span of the same number (L_Q ≠ L_K).

    Args:
        position: embeddings of the distance between a target word's and a source word's place in their spans, or None.

    Raises:
        ValueError: as for `LinearSelfAttention`.
    """

    position: RelativeKeys | None

    def __init__(self, *, d_model: int, heads: int, d_head: int, position: AttentionPosition | None = None) -> None:
        check_at_least(1, d_model=d_model, heads=heads, d_head=d_head)
        super().__init__()
        self.heads, self.d_head, self.position = heads, d_head, _relative(position)
        self.query = nn.Linear(d_model, heads * d_head)
        self.key_value = nn.Linear(d_model, 2 * heads * d_head)
        self.output = nn.Linear(heads * d_head, d_model)

    def _project(self, source: Tensor) -> tuple[Tensor, Tensor]:
        k, v = self.key_value(source).view(len(source), 2, self.heads, self.d_head).unbind(1)  # (Tk, h, d_h) each
        return k, v

    def forward(self, x: Tensor, reads: Reads) -> Tensor:
        """x (Tq, d) → (Tq, d); sentence i reads source sentence i."""
        source, source_layout = reads.of_source
        q = self.query(x).view(len(x), self.heads, self.d_head)
        spans, near = (reads.layout.sentences, source_layout.sentences), _embeddings(self.position)
        k, v = self._project(source)
        mixed = attended(self, lambda values: packed_linear_attention(q, k, values, *spans, near), v)
        output: Tensor = self.output(mixed.flatten(1))
        return output

    def remember(self, reads: Reads) -> LinearMemory:
        """Sums over the keys of all source sentences."""
        source, source_layout = reads.of_source
        horizon = None if self.position is None else len(self.position.weight) // 2
        return LinearMemory.build(*self._project(source), source_layout.sentences, horizon=horizon)

    def begin(self, remembered: LinearMemory, slots: Slots) -> OfMemories[LinearMemory]:
        """The memory that all slots read."""
        return OfMemories.all_of(remembered, slots.sentences)

    def step(self, x: Tensor, cache: OfMemories[LinearMemory], at: Step) -> Tensor:
        """One token a row, x (R, d) → (R, d), at the same cost for every length."""
        q = self.query(x).view(len(x), self.heads, self.d_head)
        output: Tensor = self.output(cache.read(q, [at.sentences, at.lengths], self._of).flatten(1))
        return output

    def _of(self, memory: LinearMemory, q: Tensor, spans: Tensor, lengths: Tensor) -> Tensor:
        return memory.step(q, spans, lengths, _embeddings(self.position))


# Multi-head attention on packed rows: over a word's own span, and from target spans to source spans.
#
# Each block has two routes to the same numbers: `forward` on a whole packed row, and `step` on one new token a row.


@dataclass
class KeyValueCache:
    """Keys and values (K, h, d_h) of the tokens that rows have read, at the places that a `TokenTable` gives them."""

    any_memory: ClassVar[bool] = True
    keys: Tensor
    values: Tensor

    @classmethod
    def empty(cls, heads: int, d_head: int, like: Tensor) -> KeyValueCache:
        """The cache of rows without tokens, in the type and on the device of `like`."""
        return cls(like.new_zeros(0, heads, d_head), like.new_zeros(0, heads, d_head))

    def put(self, key: Tensor, value: Tensor, table: TokenTable) -> None:
        """Write each row's new key and value (R, h, d_h) to its place."""
        if table.moved is not None or self.keys.shape[0] < table.capacity:
            self.keys, self.values = _fitted(self.keys, table), _fitted(self.values, table)
        places = slice(table.size - key.shape[0], table.size)  # len() of a tensor is slow
        self.keys[places], self.values[places] = key, value

    def keep(self, rows: Tensor, slots: Tensor | None) -> None:
        """The rows' tokens stay where they are."""

    def append(self, other: KeyValueCache) -> None:
        """As `Cache.append`."""
        if len(other.keys):
            self.keys, self.values = torch.cat([self.keys, other.keys]), torch.cat([self.values, other.values])


def _fitted(rows: Tensor, table: TokenTable) -> Tensor:
    """The rows (K, h, d_h) of the places that stayed, and room for the other places."""
    stayed = rows if table.moved is None else rows.index_select(0, table.moved)
    return torch.cat([stayed, stayed.new_zeros(max(table.capacity - len(stayed), 0), *stayed.shape[1:])])


class SelfAttention(Sublayer[None, KeyValueCache]):
    """Multi-head self-attention inside each span.

    Args:
        d_model: width of the row. d_head: width of a head; heads × d_head need not be d_model.
        causal: a token sees itself and the tokens before it.
        position: acts inside the attention (rotary, relative, ALiBi), or None.

    Raises:
        ValueError: a size is below 1.
    """

    position: AttentionPosition | None

    def __init__(
        self, *, d_model: int, heads: int, d_head: int, causal: bool = False, position: AttentionPosition | None = None
    ) -> None:
        check_at_least(1, d_model=d_model, heads=heads, d_head=d_head)
        super().__init__()
        self.heads, self.d_head, self.causal = heads, d_head, causal
        self.qkv = nn.Linear(d_model, 3 * heads * d_head)
        self.output = nn.Linear(heads * d_head, d_model)
        self.position = position

    def _project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = self.qkv(x).view(x.shape[0], 3, self.heads, self.d_head).unbind(1)  # (T, h, d_h) each
        return q, k, v

    def forward(self, x: Tensor, reads: Reads) -> Tensor:
        """x (T, d) → (T, d), inside each span of `reads.layout.sentences`."""
        return self.within(x, reads.layout.sentences)

    def within(self, x: Tensor, spans: Spans) -> Tensor:
        """Attention inside each of these spans: x (T, d) → (T, d)."""
        q, k, v = self._project(x)
        scores = None
        if self.position is not None:
            words = self._words(spans)
            q, k = self.position.rotate(q, k, words, words)
            scores = self.position.distance_scores(q, spans.max_length)
        mixed = packed_attention(q, k, v, spans, spans, causal=self.causal, distance_scores=scores)
        output: Tensor = self.output(mixed.flatten(1))
        return output

    @staticmethod
    def _words(spans: Spans) -> Tensor:
        """(T,) the place of each token in its span."""
        if "words" not in spans.plans:
            starts = spans.offsets[:-1].index_select(0, spans.span_of_token)
            spans.plans["words"] = torch.arange(spans.num_tokens, device=starts.device) - starts
        words: Tensor = spans.plans["words"]
        return words

    def begin(self, remembered: None, slots: Slots) -> KeyValueCache:
        """An empty cache."""
        return KeyValueCache.empty(self.heads, self.d_head, slots.like)

    def step(self, x: Tensor, cache: KeyValueCache, at: Step) -> Tensor:
        """One token a row, x (R, d) → (R, d): attention to all tokens of the row so far."""
        q, k, v = self._project(x)
        if self.position is not None:
            q, k = self.position.rotate(q, k, at.lengths, at.lengths)
        cache.put(k, v, at.table)
        added = None if self.position is None else self._distance_scores(q, at.table)
        output: Tensor = self.output(at.table.attend(q, cache.keys, cache.values, added).flatten(1))
        return output

    def _distance_scores(self, q: Tensor, table: TokenTable) -> Tensor | None:
        """What the queries q (R, h, d_h) add to the scores of their rows' tokens: (R, h, L), or None."""
        assert self.position is not None
        distances = table.distances()
        scores = self.position.distance_scores(q, distances.shape[1])
        if scores is None:
            return None
        radius = scores.shape[-1] // 2
        columns = radius + distances.clamp(-radius, radius)[:, None].expand(-1, self.heads, -1)
        return scores.expand(len(q), *scores.shape[-2:]).gather(2, columns)


class CrossAttention(Sublayer[PackedKeys, Shelf]):
    """Multi-head attention of each target sentence to the source sentence of the same number.

    Raises:
        ValueError: a size is below 1.
    """

    def __init__(self, *, d_model: int, heads: int, d_head: int) -> None:
        check_at_least(1, d_model=d_model, heads=heads, d_head=d_head)
        super().__init__()
        self.heads, self.d_head = heads, d_head
        self.query = nn.Linear(d_model, heads * d_head)
        self.key_value = nn.Linear(d_model, 2 * heads * d_head)
        self.output = nn.Linear(heads * d_head, d_model)

    def _project(self, source: Tensor) -> tuple[Tensor, Tensor]:
        """Encoder states (Tk, d) → keys and values (Tk, h, d_h)."""
        k, v = self.key_value(source).view(len(source), 2, self.heads, self.d_head).unbind(1)
        return k, v

    def forward(self, x: Tensor, reads: Reads) -> Tensor:
        """x (Tq, d) → (Tq, d); sentence i reads source sentence i."""
        source, source_layout = reads.of_source
        return self.between(x, source, reads.layout.sentences, source_layout.sentences)

    def between(self, x: Tensor, source: Tensor, target_spans: Spans, source_spans: Spans) -> Tensor:
        """Attention from each target span to its source span: x (Tq, d), source (Tk, d) → (Tq, d)."""
        q = self.query(x).view(len(x), self.heads, self.d_head)
        k, v = self._project(source)
        mixed = attended(self, lambda values: packed_attention(q, k, values, target_spans, source_spans), v)
        output: Tensor = self.output(mixed.flatten(1))
        return output

    def remember(self, reads: Reads) -> PackedKeys:
        """Keys and values of all source sentences."""
        source, source_layout = reads.of_source
        return self.keys_of(source, source_layout.sentences)

    def keys_of(self, source: Tensor, spans: Spans) -> PackedKeys:
        """Encoder states (Tk, d) as the keys and values of these spans."""
        k, v = self._project(source)
        return PackedKeys(k.contiguous(), v.contiguous(), spans)

    def begin(self, remembered: PackedKeys, slots: Slots) -> Shelf:
        """The source sentence of each slot."""
        return remembered.of(slots.sentences)

    def step(self, x: Tensor, cache: Shelf, at: Step) -> Tensor:
        """One token a row, x (R, d) → (R, d): attention to the source sentence of its slot."""
        q = self.query(x).view(x.shape[0], self.heads, self.d_head)
        output: Tensor = self.output(cache.attend(q, at.plans).flatten(1))
        return output
