"""The data types of sentence selection: queries, keys, the policy of the selection, and its result.

`docnmt.functional.conditional` leads from the first to the last, and from there to the attention's output.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional

from docnmt.functional.sentence_blocks import SentenceBlocks
from docnmt.functional.top_t import check_t
from docnmt.functional.tree import TreeIndex, cumulative_keys, on_device
from docnmt.layout import DocumentLayout


@dataclass(frozen=True, eq=False)
class Queries:
    """The queries of words.

    Attributes:
        words, sentences: (Tq, h, d_k), to compare with keys of words and with keys of sentences.
        layout: of the Tq queries.
        own: (Tq,) int64, the key sentence that each query belongs to; None: the one of the same number as its own.
    """

    words: Tensor
    sentences: Tensor
    layout: DocumentLayout
    own: Tensor | None = None

    def choosing(self) -> Queries:
        """Return the queries with those of sentences in float32 at least."""
        return replace(self, sentences=in_float32(self.sentences))

    def precise(self) -> Queries:
        """Return the queries in float32 at least."""
        return replace(self.choosing(), words=in_float32(self.words))


@dataclass(frozen=True, eq=False)
class Keys:
    """Keys and values of words, and the keys by which their sentences are selected.

    Attributes:
        words, values: (Tk, h, d_k), (Tk, h, d_v).
        relevance: (Sk, h, d_k), a key for each sentence; (N, h, d_k), a key for each node, with a tree.
        layout: of the Tk words.
        tree: over the sentences of `layout`.
        cumulative: (N, h, d_k), sums of `relevance` along the tree's paths; None: `precise` computes them.
        blocks: of the precise `relevance` of sentences, for a policy that is `by_blocks`; None: selection makes them.
    """

    words: Tensor
    values: Tensor
    relevance: Tensor
    layout: DocumentLayout
    tree: TreeIndex | None = None
    cumulative: Tensor | None = None
    blocks: SentenceBlocks | None = None

    def precise(self) -> Keys:
        """Return the keys in float32 at least, as `choosing`, and the values."""
        return replace(self.choosing(), words=in_float32(self.words), values=in_float32(self.values))

    def choosing(self) -> Keys:
        """Return the keys with those of sentences in float32 at least, with `cumulative` where there is a tree.

        Keys of sentences and nodes without words become 0, as they may be means of nothing.
        """
        relevance, cumulative = in_float32(self.relevance), self.cumulative
        rows = self._empty_rows()
        if rows is not None:
            relevance = relevance.masked_fill(rows, 0)
            cumulative = None if cumulative is None else cumulative.masked_fill(rows, 0)
        if self.tree is not None and cumulative is None:
            cumulative = cumulative_keys(relevance, self.tree)
        return replace(self, relevance=relevance, cumulative=cumulative)

    def _empty_rows(self) -> Tensor | None:
        """Return a mask (Sk or N, 1, 1), True for sentences or nodes without words; it is cached with the layout."""
        tree, spans, device = self.tree, self.layout.sentences, self.relevance.device
        if spans.empty is None or tree is None:
            return None if spans.empty is None else spans.empty.view(-1, 1, 1)

        def _make() -> Tensor:
            return on_device(~tree.filled_nodes(self.layout), device).view(-1, 1, 1)

        return spans.derive((Keys, tree.node_spans), _make)

    @property
    def sentences(self) -> Tensor:
        """(Sk, h, d_k): times a query, the (cumulative) relevance of each sentence."""
        if self.tree is None or self.cumulative is None:
            return self.relevance
        return self.cumulative.index_select(0, self.tree.leaves)


@dataclass(frozen=True)
class SelectionPolicy:
    """The policy by which a word and head keeps sentences.

    Attributes:
        top_t: how many; with a tree, also how many nodes of each level.
        visible: "document", or "earlier": a query of sentence i of its document sees the key sentences before i only.
        always_own: the query's own sentence, unless it is empty, replaces the least relevant one where it is not kept.
        select_on: whether a tree's nodes are kept by their "cumulative" relevance or by the "node"'s own.
        by_blocks: without a tree: in long documents only the sentences of the most relevant blocks are compared.

    Raises:
        ValueError: a value is unknown, or two of them exclude each other.
    """

    top_t: int
    visible: str = "document"
    always_own: bool = False
    select_on: str = "cumulative"
    by_blocks: bool = False

    def __post_init__(self) -> None:
        check_t(self.top_t, "top_t")
        for name, known in (("visible", ("document", "earlier")), ("select_on", ("cumulative", "node"))):
            if getattr(self, name) not in known:
                raise ValueError(f'{name}: expected "{known[0]}" or "{known[1]}", got {getattr(self, name)!r}')
        if self.always_own and self.top_t < 2:
            raise ValueError(f"always_own: expected top_t of at least 2, to read another sentence, got {self.top_t}")
        if self.always_own and self.visible == "earlier":
            raise ValueError('always_own: expected visible="document", as a sentence is not earlier than itself')
        if self.by_blocks and self.visible == "earlier":
            raise ValueError('by_blocks: expected visible="document", as blocks hold later sentences')


@dataclass(frozen=True)
class Selection:
    """The kept sentences of every query and head, at most t, without gradient.

    Attributes:
        sentences: (h, Tq, t) int64, indices of key sentences; any valid index where nothing was left to keep.
        relevance: (h, Tq, t), the score each was kept with; -inf where nothing was left to keep.
    """

    sentences: Tensor
    relevance: Tensor

    @classmethod
    def empty(cls, queries: Tensor, t: int) -> Selection:
        """Return a selection of at most t sentences that keeps nothing yet, for queries (Tq, h, d_k)."""
        shape = queries.shape[1], len(queries), t
        return cls(torch.zeros(shape, dtype=torch.int64, device=queries.device), queries.new_full(shape, -torch.inf))

    def of(self, heads: slice) -> Selection:
        """Return the selection of these heads."""
        return Selection(self.sentences[heads], self.relevance[heads])

    def write(self, heads: slice, rows: slice, sentences: Tensor, relevance: Tensor) -> None:
        """Set the kept sentences and relevances, (heads, ≤ t, rows) each, of some heads and queries."""
        self.sentences[heads, rows, : sentences.shape[1]] = sentences.transpose(1, 2)
        self.relevance[heads, rows, : sentences.shape[1]] = relevance.transpose(1, 2)


def subtract_largest(kept: Tensor) -> Tensor:
    """Return relevances (..., S), -inf where a sentence is not kept, minus the largest of each row.

    The softmax does not change by a constant. But the relevance of a sentence that is kept alone is then exactly 0 and
    gets a gradient of exactly 0, without rounding errors.
    """
    largest = functional.pad(kept, (0, 1), value=-torch.inf).amax(-1, keepdim=True)
    return kept - largest.clamp(min=torch.finfo(kept.dtype).min)


def in_float32(x: Tensor) -> Tensor:
    """Return half types in float32, other types unchanged."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
