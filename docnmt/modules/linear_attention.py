"""Multi-head linear attention on packed rows, which `--attention linear` uses in place of softmax attention.

The blocks have the interface of `docnmt.modules.softmax_attention`; their caches in decoding do not grow with the text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from docnmt.functional import LinearMemory, LinearState, packed_linear_attention
from docnmt.layout import Spans
from docnmt.modules.arguments import check_at_least
from docnmt.modules.positions import AttentionPosition, RelativeKeys
from docnmt.modules.record_reads import attended
from docnmt.modules.sublayer import OfMemories, Reads, Slots, Step, Sublayer


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


@dataclass
class LinearSource:
    """The source sentence of each decoding slot: numbers (N,) of spans in its memory."""

    any_memory: ClassVar[bool] = True
    memory: OfMemories[LinearMemory]
    spans: Tensor

    def keep(self, rows: Tensor, slots: Tensor | None) -> None:
        """As `Cache.keep`."""
        self.memory.keep(slots)
        if slots is not None:
            self.spans = self.spans.index_select(0, slots)

    def append(self, other: LinearSource) -> None:
        """As `Cache.append`."""
        self.memory.append(other.memory)
        self.spans = torch.cat([self.spans, other.spans])


class LinearCrossAttention(Sublayer[LinearMemory, LinearSource]):
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

    def begin(self, remembered: LinearMemory, slots: Slots) -> LinearSource:
        """The number of each slot's source sentence in the memory."""
        return LinearSource(OfMemories.all_of(remembered, slots.sentences), slots.sentences)

    def step(self, x: Tensor, cache: LinearSource, at: Step) -> Tensor:
        """One token a row, x (R, d) → (R, d), at the same cost for every length."""
        q = self.query(x).view(len(x), self.heads, self.d_head)
        spans = cache.spans.repeat_interleave(len(x) // max(len(cache.spans), 1))
        output: Tensor = self.output(cache.memory.read(q, [spans, at.lengths], self._of).flatten(1))
        return output

    def _of(self, memory: LinearMemory, q: Tensor, spans: Tensor, lengths: Tensor) -> Tensor:
        return memory.step(q, spans, lengths, _embeddings(self.position))
