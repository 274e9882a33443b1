"""Self- and cross-attention on packed rows, softmax and linear; each also takes one token a row, to the same numbers.

forward   x (T, d) → q, k, v (T, h, d_h) → packed attention inside spans → output (T, d)
step      x (R, d) → q, k, v (R, h, d_h) → what the cache has of the row's text or source → output (R, d)
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from docnmt.functional.decoding import PackedKeys, Shelf, TokenTable
from docnmt.functional.linear import LinearMemory, LinearState, packed_linear_attention
from docnmt.functional.packed import packed_attention
from docnmt.layout import Spans
from docnmt.modules.layers import CacheT, Heads, OfMemories, Reads, RememberedT, Slots, Step, Sublayer, attended
from docnmt.modules.positions import AttentionPosition, RelativeKeys
from docnmt.runtime.system import UsageError


class _SelfAttention(Sublayer[None, CacheT], Heads):
    """Attention inside each span; `causal`: a token sees itself and the tokens before it."""

    causal: bool

    def _add_projections(self, d_model: int) -> None:
        self.qkv = nn.Linear(d_model, 3 * self.heads * self.d_head)
        self.output = nn.Linear(self.heads * self.d_head, d_model)

    def forward(self, x: Tensor, reads: Reads) -> Tensor:
        return self.within(x, reads.layout.sentences)

    @abstractmethod
    def within(self, x: Tensor, spans: Spans) -> Tensor:
        """Attention inside each of these spans: x (T, d) → (T, d)."""


class _CrossAttention(Sublayer[RememberedT, CacheT], Heads):
    """Attention of each target sentence to the source sentence of the same number."""

    def _add_projections(self, d_model: int) -> None:
        self.query = nn.Linear(d_model, self.heads * self.d_head)
        self.key_value = nn.Linear(d_model, 2 * self.heads * self.d_head)
        self.output = nn.Linear(self.heads * self.d_head, d_model)

    def forward(self, x: Tensor, reads: Reads) -> Tensor:
        source, source_layout = reads.of_source
        return self.between(x, source, reads.layout.sentences, source_layout.sentences)

    @abstractmethod
    def between(self, x: Tensor, source: Tensor, target_spans: Spans, source_spans: Spans) -> Tensor:
        """Attention from each target span to its source span: x (Tq, d), source (Tk, d) → (Tq, d)."""


# Softmax attention.


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

    def keep(self, rows: Tensor, slots: Tensor | None) -> None: ...  # tokens stay where they are

    def append(self, other: KeyValueCache) -> None:
        if len(other.keys):
            self.keys, self.values = torch.cat([self.keys, other.keys]), torch.cat([self.values, other.values])


def _fitted(rows: Tensor, table: TokenTable) -> Tensor:
    """The rows (K, h, d_h) of the places that stayed, and room for the other places."""
    stayed = rows if table.moved is None else rows.index_select(0, table.moved)
    return torch.cat([stayed, stayed.new_zeros(max(table.capacity - len(stayed), 0), *stayed.shape[1:])])


class SelfAttention(_SelfAttention[KeyValueCache]):
    """Multi-head self-attention inside each span; `position` acts inside it (rotary, relative, ALiBi)."""

    position: AttentionPosition | None

    def __init__(
        self, *, d_model: int, heads: int, d_head: int, causal: bool = False, position: AttentionPosition | None = None
    ) -> None:
        super().__init__(heads, d_head)
        self._add_projections(d_model)
        self.causal, self.position = causal, position

    def within(self, x: Tensor, spans: Spans) -> Tensor:
        q, k, v = self.split(self.qkv(x), 3)
        scores = None
        if self.position is not None:
            places = spans.derive("places", lambda: _places(spans))
            q, k = self.position.rotate(q, k, places, places)
            scores = self.position.distance_scores(q, spans.max_length)
        return self.join(packed_attention(q, k, v, spans, spans, causal=self.causal, distance_scores=scores))

    def begin(self, remembered: None, slots: Slots) -> KeyValueCache:
        return KeyValueCache.empty(self.heads, self.d_head, slots.like)

    def step(self, x: Tensor, cache: KeyValueCache, at: Step) -> Tensor:
        q, k, v = self.split(self.qkv(x), 3)
        added = None
        if self.position is not None:
            q, k = self.position.rotate(q, k, at.lengths, at.lengths)
            distances = at.table.distances()  # (R, L)
            scores = self.position.distance_scores(q, distances.shape[1])  # (…, h, 2r + 1)
            if scores is not None:
                radius = scores.shape[-1] // 2
                columns = radius + distances.clamp(-radius, radius)[:, None].expand(-1, self.heads, -1)
                added = scores.expand(len(q), *scores.shape[-2:]).gather(2, columns)  # (R, h, L)
        cache.put(k, v, at.table)
        return self.join(at.table.attend(q, cache.keys, cache.values, added))


def _places(spans: Spans) -> Tensor:
    """(T,) the place of each token in its span."""
    starts = spans.offsets[:-1].index_select(0, spans.span_of_token)
    return torch.arange(spans.num_tokens, device=starts.device) - starts


class CrossAttention(_CrossAttention[PackedKeys, Shelf]):
    """Multi-head attention of each target sentence to the source sentence of the same number."""

    def __init__(self, *, d_model: int, heads: int, d_head: int) -> None:
        super().__init__(heads, d_head)
        self._add_projections(d_model)

    def between(self, x: Tensor, source: Tensor, target_spans: Spans, source_spans: Spans) -> Tensor:
        q, (k, v) = self.as_heads(self.query(x)), self.split(self.key_value(source), 2)
        return self.join(attended(self, lambda values: packed_attention(q, k, values, target_spans, source_spans), v))

    def remember(self, reads: Reads) -> PackedKeys:
        source, source_layout = reads.of_source
        return self.keys_of(source, source_layout.sentences)

    def keys_of(self, source: Tensor, spans: Spans) -> PackedKeys:
        """Encoder states (Tk, d) as the keys and values of these spans."""
        k, v = self.split(self.key_value(source), 2)
        return PackedKeys(k.contiguous(), v.contiguous(), spans)

    def begin(self, remembered: PackedKeys, slots: Slots) -> Shelf:
        return remembered.of(slots.sentences)

    def step(self, x: Tensor, cache: Shelf, at: Step) -> Tensor:
        return self.join(cache.attend(self.as_heads(self.query(x)), at.plans))


# Linear attention (Favier and Dal'Maz Silva, "Scaleformer", equations 9 to 11): its caches do not grow with the text.


def _embeddings(position: RelativeKeys | None) -> Tensor | None:
    return None if position is None else position.weight  # (2r+1, d_h), of distances


class LinearSelfAttention(_SelfAttention[LinearState]):
    """Multi-head kernelised self-attention inside each span, in time linear in its length; `position` has the paper's
    relative embeddings of keys. Other families would need scores to act on."""

    position: RelativeKeys | None

    def __init__(
        self, *, d_model: int, heads: int, d_head: int, causal: bool = False, position: AttentionPosition | None = None
    ) -> None:
        super().__init__(heads, d_head)
        if position is not None and not isinstance(position, RelativeKeys):  # only a plug-in's gets here
            raise UsageError(f"--attention linear has no scores for {type(position).__name__}; use another --position")
        self.causal, self.position = causal, position
        self._add_projections(d_model)  # behind the position's, which is the first of the parameters

    def within(self, x: Tensor, spans: Spans) -> Tensor:
        (q, k, v), distances = self.split(self.qkv(x), 3), _embeddings(self.position)
        return self.join(packed_linear_attention(q, k, v, spans, spans, distances, causal=self.causal))

    def begin(self, remembered: None, slots: Slots) -> LinearState:
        horizon = 0 if self.position is None else len(self.position.weight) // 2
        return LinearState.empty(slots.rows, self.heads, self.d_head, self.d_head, horizon, like=slots.like)

    def step(self, x: Tensor, cache: LinearState, at: Step) -> Tensor:
        q, k, v = self.split(self.qkv(x), 3)
        return self.join(cache.step(q, k, v, _embeddings(self.position)))


class LinearCrossAttention(_CrossAttention[LinearMemory, OfMemories[LinearMemory]]):
    """Multi-head kernelised attention of each target span to the source span of the same number (L_Q ≠ L_K);
    `position` has embeddings of the distance between the places of a target and a source word in their spans."""

    position: RelativeKeys | None

    def __init__(self, *, d_model: int, heads: int, d_head: int, position: RelativeKeys | None = None) -> None:
        super().__init__(heads, d_head)
        self.position = position
        self._add_projections(d_model)

    def between(self, x: Tensor, source: Tensor, target_spans: Spans, source_spans: Spans) -> Tensor:
        q, (k, v) = self.as_heads(self.query(x)), self.split(self.key_value(source), 2)
        spans, distances = (target_spans, source_spans), _embeddings(self.position)
        return self.join(attended(self, lambda values: packed_linear_attention(q, k, values, *spans, distances), v))

    def remember(self, reads: Reads) -> LinearMemory:
        source, source_layout = reads.of_source
        horizon = None if self.position is None else len(self.position.weight) // 2
        k, v = self.split(self.key_value(source), 2)
        return LinearMemory.build(k, v, source_layout.sentences, horizon=horizon)

    def begin(self, remembered: LinearMemory, slots: Slots) -> OfMemories[LinearMemory]:
        return OfMemories.all_of(remembered, slots.sentences)

    def step(self, x: Tensor, cache: OfMemories[LinearMemory], at: Step) -> Tensor:
        return self.join(cache.read(self.as_heads(self.query(x)), [at.sentences, at.lengths], self._read))

    def _read(self, memory: LinearMemory, q: Tensor, spans: Tensor, lengths: Tensor) -> Tensor:
        return memory.step(q, spans, lengths, _embeddings(self.position))
