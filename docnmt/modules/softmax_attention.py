"""Multi-head attention on packed rows: over a word's own span, and from target spans to source spans.

Each block has two routes to the same numbers: `forward` on a whole packed row, and `step` on one new token a row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from docnmt.functional import packed_attention
from docnmt.layout import Spans
from docnmt.modules.arguments import check_at_least
from docnmt.modules.positions import AttentionPosition
from docnmt.modules.record_reads import attended
from docnmt.modules.sublayer import Reads, Slots, Step, Sublayer
from docnmt.modules.token_tree import TokenTree, round_up
from docnmt.runtime.tuning import new_shapes


@dataclass
class KeyValueCache:
    """Keys and values of the tokens that the rows have written, as a `TokenTree` places them.

    Attributes:
        keys, values: (G, h, K, d_h) for each group of `rows` rows.
    """

    any_memory: ClassVar[bool] = True
    keys: Tensor
    values: Tensor
    rows: int

    @classmethod
    def empty(cls, groups: int, rows: int, heads: int, d_head: int, like: Tensor) -> KeyValueCache:
        """The cache of groups without tokens, in the type and on the device of `like`."""
        return cls(like.new_zeros(groups, heads, 0, d_head), like.new_zeros(groups, heads, 0, d_head), rows)

    def put(self, key: Tensor, value: Tensor, tree: TokenTree) -> None:
        """Write each row's new key and value (R, h, d_h) to its place."""
        groups, width = tree.times.shape
        self.keys, self.values = _as_long(self.keys, width), _as_long(self.values, width)
        group = torch.arange(groups, device=key.device)[:, None]
        for stored, new in ((self.keys, key), (self.values, value)):
            stored[group, :, tree.places] = new.view(groups, self.rows, *new.shape[1:]).to(stored.dtype)

    def keep(self, rows: Tensor, slots: Tensor | None) -> None:
        """As `Cache.keep`."""
        if slots is not None:
            groups = rows[:: self.rows] // self.rows
            self.keys, self.values = self.keys.index_select(0, groups), self.values.index_select(0, groups)

    def append(self, other: KeyValueCache) -> None:
        """As `Cache.append`."""
        self.keys, self.values = _stack(self.keys, other.keys), _stack(self.values, other.values)


def _as_long(x: Tensor, length: int) -> Tensor:
    """(N, h, L, d) → (N, h, length, d): cut off without a copy, or filled up with zeros that no row reads."""
    return x[:, :, :length] if length <= x.shape[2] else nn.functional.pad(x, (0, 0, 0, length - x.shape[2]))


def _stack(first: Tensor, second: Tensor) -> Tensor:
    """Concatenate (N, h, L, d), as wide as the longer one."""
    longest = max(first.shape[2], second.shape[2])
    return torch.cat([_as_long(x, longest) for x in (first, second)])


def attend(q: Tensor, k: Tensor, v: Tensor, allowed: Tensor, extra: Tensor | None = None) -> Tensor:
    """Softmax attention of few queries over padded keys; a row's result does not depend on the other rows.

    q (N, h, b, d), k and v (N, h, L, d), extra scores (N, h, b, L) → (N, h, b, d). allowed, (N, L) or (N, b, L) bool,
    says which keys are read.
    """
    precise = torch.promote_types(q.dtype, torch.float32)
    with new_shapes(attention=True):
        scores = torch.matmul(q, k.transpose(-1, -2)).to(precise) * q.shape[-1] ** -0.5  # (N, h, b, L)
        if extra is not None:
            scores = scores + extra
        scores = scores.masked_fill_(~allowed.view(len(allowed), 1, -1, allowed.shape[-1]), float("-inf"))
        return torch.matmul(scores.softmax(-1).to(v.dtype), v)


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
        q, k, v = self.qkv(x).view(len(x), 3, self.heads, self.d_head).unbind(1)  # (T, h, d_h) each
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
        return KeyValueCache.empty(slots.groups, slots.part, self.heads, self.d_head, slots.like)

    def step(self, x: Tensor, cache: KeyValueCache, at: Step) -> Tensor:
        """One token a row, x (R, d) → (R, d): attention to all tokens of the row so far."""
        q, k, v = self._project(x)
        if self.position is not None:
            q, k = self.position.rotate(q, k, at.lengths, at.lengths)
        cache.put(k, v, at.tree)
        extra = None if self.position is None else self._distance_scores(q, at.tree)
        grouped = q.unflatten(0, (-1, cache.rows)).transpose(1, 2)  # (G, h, b, d_h)
        mixed = attend(grouped, cache.keys, cache.values, at.tree.written, extra)
        output: Tensor = self.output(mixed.transpose(1, 2).reshape(len(x), -1))
        return output

    def _distance_scores(self, q: Tensor, tree: TokenTree) -> Tensor | None:
        """What the queries q (R, h, d_h) add to their scores of the stored tokens: (G, h, b, K), or None."""
        assert self.position is not None
        groups, rows, width = tree.written.shape
        scores = self.position.distance_scores(q, width)  # a row's tokens are all stored: its distances are smaller
        if scores is None:
            return None
        radius = scores.shape[-1] // 2
        columns = radius + tree.distances().clamp(-radius, radius).view(groups * rows, 1, width)
        near = scores.expand(len(q), *scores.shape[-2:]).gather(2, columns.expand(-1, self.heads, -1))  # (R, h, K)
        return near.view(groups, rows, self.heads, width).transpose(1, 2)


@dataclass
class CrossKeys:
    """The source sentence of each decoding slot, padded: keys, values (N, h, m, d_h), allowed (N, m)."""

    any_memory: ClassVar[bool] = True
    keys: Tensor
    values: Tensor
    allowed: Tensor

    @classmethod
    def gather(cls, keys: Tensor, values: Tensor, spans: Spans, chosen: Tensor) -> CrossKeys:
        """From packed keys and values (T, h, d_h), the spans `chosen` (N,)."""
        starts, ends = spans.offsets[:-1][chosen], spans.offsets[1:][chosen]
        width = round_up(int((ends - starts).max())) if len(chosen) else 0
        places = starts[:, None] + torch.arange(width, device=starts.device)  # (N, m)
        allowed = places < ends[:, None]
        index = places.clamp(max=max(len(keys) - 1, 0)).flatten()
        padded = [x.index_select(0, index).view(*places.shape, *x.shape[1:]).transpose(1, 2) for x in (keys, values)]
        return cls(padded[0].contiguous(), padded[1].contiguous(), allowed)

    def keep(self, rows: Tensor, slots: Tensor | None) -> None:
        """As `Cache.keep`."""
        if slots is not None:
            kept = (x.index_select(0, slots) for x in (self.keys, self.values, self.allowed))
            self.keys, self.values, self.allowed = kept

    def append(self, other: CrossKeys) -> None:
        """As `Cache.append`; long sentences that have left are forgotten."""
        longest = round_up(int(self.allowed.sum(1).max())) if len(self.allowed) else 0
        self.keys = _stack(_as_long(self.keys, longest), other.keys)
        self.values = _stack(_as_long(self.values, longest), other.values)
        self.allowed = _stack(self.allowed[:, None, :longest, None], other.allowed[:, None, :, None])[:, 0, :, 0]


@dataclass(frozen=True, eq=False)
class PackedKeys:
    """Keys and values (Tk, h, d_h) of all source sentences, and the span of each sentence."""

    keys: Tensor
    values: Tensor
    spans: Spans

    def of(self, sentences: Tensor) -> CrossKeys:
        """For slots that write these sentences (N,)."""
        return CrossKeys.gather(self.keys, self.values, self.spans, sentences)


class CrossAttention(Sublayer[PackedKeys, CrossKeys]):
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
        return PackedKeys(*self._project(source), spans)

    def begin(self, remembered: PackedKeys, slots: Slots) -> CrossKeys:
        """The source sentence of each slot, padded."""
        return remembered.of(slots.sentences)

    def step(self, x: Tensor, cache: CrossKeys, at: Step) -> Tensor:
        """One token a row, x (R, d) → (R, d): attention to the source sentence of its slot."""
        q = self.query(x).view(len(cache.allowed), -1, self.heads, self.d_head).transpose(1, 2)  # (N, h, b, d_h)
        mixed = attend(q, cache.keys, cache.values, cache.allowed).transpose(1, 2).reshape(len(x), -1)
        output: Tensor = self.output(mixed)
        return output
