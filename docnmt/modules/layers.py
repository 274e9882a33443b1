"""One layer of the encoder and one of the decoder, with or without a context attention."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from docnmt.layout import DocumentLayout, Spans
from docnmt.modules.context import ContextAttention, ContextKeys, DocumentStore
from docnmt.modules.target_context import Earlier


class FeedForward(nn.Module):
    """W2·act(W1 x + b1) + b2."""

    def __init__(self, *, d_model: int, d_inner: int, activation: str) -> None:
        super().__init__()
        self.inner = nn.Linear(d_model, d_inner)
        self.output = nn.Linear(d_inner, d_model)
        self.activation = nn.GELU() if activation == "gelu" else nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        """(T, d) → (T, d)."""
        output: Tensor = self.output(self.activation(self.inner(x)))
        return output


class Residual(nn.Module):
    """x + dropout(block(norm(x))), or norm(x + dropout(block(x))) for `norm="post"` (Vaswani et al. 2017)."""

    def __init__(self, *, d_model: int, dropout: float, norm: str) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)
        self.pre = norm == "pre"

    def forward(self, x: Tensor, block: Callable[[Tensor], Tensor]) -> Tensor:
        if self.pre:
            added: Tensor = x + self.dropout(block(self.norm(x)))
            return added
        normed: Tensor = self.norm(x + self.dropout(block(x)))
        return normed


@dataclass(frozen=True)
class ContextPlacement:
    """Where a layer's context attention stands: a block of its own, or beside the self-attention heads.

    Heads of one multi-head block share its input and add up behind its output projection. So extra heads, and heads in
    place of self-attention heads, are the same sum of two blocks and differ in their numbers of heads only.
    """

    own_block: bool
    self_heads: int
    context_heads: int

    @classmethod
    def of(cls, name: str, *, heads: int, context_heads: int | None) -> ContextPlacement:
        """`name` is `block`, `heads` or `replace`; `heads` those of the plain self-attention."""
        if name == "replace":
            taken = context_heads or heads // 2
            return cls(False, heads - taken, taken)
        return cls(name == "block", heads, context_heads or heads)


class EncoderLayer(nn.Module):
    """Self-attention inside each sentence, context attention over the document, feed-forward.

    Args:
        context: a context attention, or None; `summarise` makes its store from this layer's own input (eq. 5).
        residual: makes the residual connection of a block.
        hide: what is done to words before they are context, or None.
    """

    context: ContextAttention | None
    summarise: nn.Module | None
    context_residual: Residual | None

    def __init__(
        self,
        *,
        attention: nn.Module,
        feed_forward: FeedForward,
        residual: Callable[[], Residual],
        context: ContextAttention | None = None,
        summarise: nn.Module | None = None,
        own_block: bool = True,
        hide: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.attention, self.feed_forward = attention, feed_forward
        self.attention_residual, self.feed_forward_residual = residual(), residual()
        self.context, self.summarise, self.hide = context, summarise, hide or nn.Identity()
        self.context_residual = residual() if context is not None and own_block else None

    def forward(self, x: Tensor, layout: DocumentLayout, shared: DocumentStore | None = None) -> Tensor:
        """x (T, d) → (T, d). `shared`: summaries made once of the embeddings (figure 1) instead of this layer's own."""

        def context(h: Tensor) -> Tensor:
            assert self.context is not None
            words = self.hide(h)
            if self.summarise is not None:
                store = self.summarise(words, layout)
            else:
                assert shared is not None
                store = DocumentStore(words, layout, shared.summaries, shared.tree)
            mixed: Tensor = self.context(h, self.context.project(store), layout)
            return mixed

        def attention(h: Tensor) -> Tensor:
            mixed: Tensor = self.attention(h, layout.sentences)
            return mixed + context(h) if self.context is not None and self.context_residual is None else mixed

        x = self.attention_residual(x, attention)
        if self.context_residual is not None:
            x = self.context_residual(x, context)
        out: Tensor = self.feed_forward_residual(x, self.feed_forward)
        return out


class Kept(Protocol):
    """What rows or slots keep while decoding."""

    def select(self, rows: Tensor) -> Any: ...

    def append(self, other: Any) -> Any: ...


class Sources(Protocol):
    """What cross-attention will read of all source sentences."""

    def of(self, sentences: Tensor) -> Kept:
        """For slots that write these sentences (N,)."""


class CausalSelf(Protocol):
    """Self-attention of a decoder, softmax or linear."""

    def __call__(self, x: Tensor, spans: Spans) -> Tensor: ...

    def begin(self, rows: int, like: Tensor) -> Kept: ...

    def step(self, x: Tensor, cache: Any, lengths: Tensor, longest: int) -> Tensor: ...


class Cross(Protocol):
    """Attention of target spans to source spans, softmax or linear."""

    def __call__(self, x: Tensor, source: Tensor, target_spans: Spans, source_spans: Spans) -> Tensor: ...

    def remember(self, source: Tensor, spans: Spans) -> Sources: ...

    def step(self, x: Tensor, source: Any, lengths: Tensor) -> Tensor: ...


@dataclass
class LayerState:
    """What a decoder layer keeps while decoding: the rows' own tokens, their source sentence, their document, and what
    has been written before their sentence."""

    tokens: Kept
    source: Kept
    context: ContextKeys | None
    earlier: Earlier | None = None

    def select(self, rows: Tensor, slots: Tensor | None) -> None:
        """Keep `rows` and, unless all stay in place, `slots`."""
        self.tokens = self.tokens.select(rows)
        if slots is not None:
            self.source = self.source.select(slots)
            self.earlier = None if self.earlier is None else self.earlier.select(slots)

    def append(self, other: LayerState) -> None:
        self.tokens = self.tokens.append(other.tokens)
        self.source = self.source.append(other.source)
        if self.earlier is not None and other.earlier is not None:
            self.earlier = self.earlier.append(other.earlier)


class DecoderLayer(nn.Module):
    """Causal self-attention in the target sentence, attention to its source sentence, to the source document and, with
    `target`, to the target sentences before it."""

    attention: CausalSelf
    cross: Cross
    context: ContextAttention | None
    context_residual: Residual | None
    target: ContextAttention | None
    target_residual: Residual | None

    def __init__(
        self,
        *,
        attention: CausalSelf,
        cross: Cross,
        feed_forward: FeedForward,
        residual: Callable[[], Residual],
        context: ContextAttention | None = None,
        own_block: bool = True,
        target: ContextAttention | None = None,
    ) -> None:
        super().__init__()
        self.attention, self.cross, self.feed_forward, self.context = attention, cross, feed_forward, context
        self.attention_residual, self.cross_residual, self.feed_forward_residual = residual(), residual(), residual()
        self.context_residual = residual() if context is not None and own_block else None
        self.target, self.target_residual = target, residual() if target is not None else None

    def _blocks(
        self,
        x: Tensor,
        attention: Callable[[Tensor], Tensor],
        cross: Callable[[Tensor], Tensor],
        context: Callable[[Tensor], Tensor],
        target: Callable[[Tensor], Tensor],
    ) -> Tensor:
        """The order of the blocks; training and decoding differ only in how each block attends."""
        x = self.attention_residual(x, attention)
        beside = self.context is not None and self.context_residual is None
        x = self.cross_residual(x, (lambda h: cross(h) + context(h)) if beside else cross)
        if self.context_residual is not None:
            x = self.context_residual(x, context)
        if self.target_residual is not None:
            x = self.target_residual(x, target)
        out: Tensor = self.feed_forward_residual(x, self.feed_forward)
        return out

    def forward(
        self,
        x: Tensor,
        layout: DocumentLayout,
        source: Tensor,
        source_layout: DocumentLayout,
        store: DocumentStore | None,
        written: DocumentStore | None = None,
    ) -> Tensor:
        """x (Tq, d) that follows `layout`, source (Tk, d) → (Tq, d). `written`: of the target, all sentences."""

        def context(h: Tensor) -> Tensor:
            assert self.context is not None
            assert store is not None
            mixed: Tensor = self.context(h, self.context.project(store), layout)
            return mixed

        def target(h: Tensor) -> Tensor:
            assert self.target is not None
            assert written is not None
            mixed: Tensor = self.target(h, self.target.project(written), layout)
            return mixed

        return self._blocks(
            x,
            lambda h: self.attention(h, layout.sentences),
            lambda h: self.cross(h, source, layout.sentences, source_layout.sentences),
            context,
            target,
        )

    def step(self, x: Tensor, state: LayerState, lengths: Tensor, longest: int, sentence_of_row: Tensor) -> Tensor:
        """One new token a row, which translates sentence `sentence_of_row[r]` of the memory: x (R, d) → (R, d)."""

        def context(h: Tensor) -> Tensor:
            assert self.context is not None
            assert state.context is not None
            return self.context.step(h, state.context, sentence_of_row)

        def target(h: Tensor) -> Tensor:
            assert self.target is not None
            earlier = state.earlier
            if earlier is None or earlier.keys is None:
                return torch.zeros_like(h)
            return self.target.step(h, earlier.keys, earlier.slot_of_row(len(h), h.device))

        return self._blocks(
            x,
            lambda h: self.attention.step(h, state.tokens, lengths, longest),
            lambda h: self.cross.step(h, state.source, lengths),
            context,
            target,
        )
