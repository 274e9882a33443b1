"""ConstructBT and TraverseTree: trees over sentence summaries, and the descent to the t best leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from docnmt.layout import DocumentLayout, Spans
from docnmt.runtime.device import to_device

# The best children of kept nodes for very many queries at once, each child with the place that names it: a float32
# score and a place are packed into one integer that orders as the two do, so that sorting is minima and maxima of whole
# rows.

#: Lower half of a packed integer: the place, counted from here down.
_LAST_PLACE = (1 << 32) - 1
_MAGNITUDE = (1 << 31) - 1  # the bits of a float32 without its sign


def best_children(scores: Tensor, parents: Tensor, t: int) -> Tensor:
    """The places (t, Q) of the t best children of T parents, in any order; of equal scores the lowest place is better.

    The children of place p have the places 2p and 2p + 1.

    Args:
        scores: (T, Q, 2) contiguous, of Q queries, T a power of two; no NaN. Overwritten.
        parents: (T, Q) int64 from 0 on, all different for one query where a child's score is not -inf.
        t: at most T.
    """
    if scores.dtype != torch.float32:
        return _best_by_sorting(scores, parents, t)[1]
    return _places(torch.stack(_best(scores, parents, ordered=t < len(parents))[:t]))


def ranked_children(scores: Tensor, parents: Tensor, t: int) -> tuple[Tensor, Tensor]:
    """The scores and places of the t best children, (t, Q) each, best first; see `best_children`."""
    if scores.dtype != torch.float32:
        return _best_by_sorting(scores, parents, t)
    packed = torch.stack(_best(scores, parents, ordered=True)[:t])
    bits = (packed >> 32).to(torch.int32)
    bits.bitwise_xor_((bits >> 31).bitwise_and_(_MAGNITUDE))
    return bits.view(torch.float32), _places(packed)


def _best(scores: Tensor, parents: Tensor, *, ordered: bool) -> list[Tensor]:
    """T rows of packed children; largest first if they are to be ordered."""
    rows = list(_pack(scores, parents))  # T of (2, Q): left and right children, sorted apart
    _exchange(rows, *_sorting(len(rows)))
    best = [torch.maximum(left[0], right[1]) for left, right in zip(rows, reversed(rows), strict=True)]
    if ordered:
        _exchange(best, *_merging(len(rows)))
    return best


def _pack(scores: Tensor, parents: Tensor) -> Tensor:
    # IEEE 754 numbers order as integers of sign and magnitude do; adding 0 makes -0 the same as 0
    bits = scores.add_(0.0).view(torch.int32)
    bits.bitwise_xor_((bits >> 31).bitwise_and_(_MAGNITUDE))
    packed = parents.new_empty(len(scores), 2, scores.shape[1])  # (T, 2, Q)
    packed.copy_(bits.transpose(1, 2)).bitwise_left_shift_(32)
    left = torch.rsub(parents, _LAST_PLACE, alpha=2)
    packed[:, 0] += left
    packed[:, 1] += left.sub_(1)
    return packed


def _places(packed: Tensor) -> Tensor:
    return _LAST_PLACE - packed.bitwise_and(_LAST_PLACE)


def _exchange(rows: list[Tensor], *comparators: tuple[int, int]) -> None:
    """Put the elementwise maximum of each pair of rows (i, j) at i and the minimum at j."""
    for i, j in comparators:
        rows[i], rows[j] = torch.maximum(rows[i], rows[j]), torch.minimum(rows[i], rows[j])


@lru_cache
def _sorting(n: int) -> tuple[tuple[int, int], ...]:
    """Batcher's odd-even merge sort of n rows, a power of two."""

    def _merge(first: int, size: int, step: int) -> Iterator[tuple[int, int]]:
        if 2 * step < size:
            yield from _merge(first, size, 2 * step)
            yield from _merge(first + step, size, 2 * step)
            yield from ((i, i + step) for i in range(first + step, first + size - step, 2 * step))
        else:
            yield first, first + step

    def _sort(first: int, size: int) -> Iterator[tuple[int, int]]:
        if size > 1:
            yield from _sort(first, size // 2)
            yield from _sort(first + size // 2, size // 2)
            yield from _merge(first, size, 1)

    return tuple(_sort(0, n))


@lru_cache
def _merging(n: int) -> tuple[tuple[int, int], ...]:
    """Comparators that sort n rows which first fall and then rise, or the reverse (a bitonic merge)."""
    halves = [1 << bit for bit in reversed(range(n.bit_length() - 1))]
    return tuple((i, i + half) for half in halves for i in range(n) if not i & half)


def _best_by_sorting(scores: Tensor, parents: Tensor, t: int) -> tuple[Tensor, Tensor]:
    """Scores and places by ordinary sorting: for float64, which leaves no bits for a place."""
    places = torch.stack([2 * parents, 2 * parents + 1], 1).flatten(0, 1)  # (2T, Q)
    places, order = places.sort(0)
    scores = scores.transpose(1, 2).flatten(0, 1).gather(0, order)
    scores, best = scores.sort(dim=0, descending=True, stable=True)
    return scores[:t], places.gather(0, best[:t])


# ConstructBT: a binary tree over the sentence summaries of every document.


@dataclass(frozen=True, eq=False)
class TreeIndex:
    """The shape of the trees of all documents; a function of the number of sentences of each document alone.

    Nodes are numbered document after document, in each document level after level from the leaves to the root. Node i
    of level l stands for the sentences [i·2^l, (i+1)·2^l) of its document; its children are nodes 2i and 2i+1 of level
    l - 1, if there are as many.
    """

    document_offsets: Tensor  # (D+1,) the sentence index where each document begins
    node_spans: Spans  # of the documents
    level_size: np.ndarray  # (L, D) nodes in each level of each document; 0 above a root
    level_start: np.ndarray  # (L, D) the first node of each level

    @classmethod
    def of(cls, document_sentences: Spans) -> TreeIndex:
        """The index of a layout's documents, made once and kept with the layout."""
        return document_sentences.derive(cls.from_offsets, lambda: cls._of_spans(document_sentences))

    @classmethod
    def from_offsets(cls, document_offsets: Tensor) -> TreeIndex:
        """The index of documents whose sentences begin at `document_offsets` (D+1,)."""
        return cls._of_spans(Spans(document_offsets))

    @classmethod
    def _of_spans(cls, sentences: Spans) -> TreeIndex:
        sizes = [sentences.lengths]
        while sizes[-1].max(initial=0) > 1:
            sizes.append(np.where(sizes[-1] > 1, -(-sizes[-1] // 2), 0))
        level_size = np.stack(sizes)
        ends = np.cumsum(level_size, 0)
        offsets = np.concatenate([[0], np.cumsum(ends[-1])]).astype(np.int64)
        (moved,) = to_device([offsets], sentences.offsets.device)
        nodes = Spans(moved, copied=offsets)
        return cls(sentences.offsets, nodes, level_size, offsets[:-1] + ends - level_size)

    @property
    def num_nodes(self) -> int:
        """N, the nodes of all trees."""
        return self.node_spans.num_tokens

    @cached_property
    def levels(self) -> tuple[Tensor, ...]:
        """The nodes of each level of all documents, leaves first; level 0 is the sentences in order."""
        levels = zip(self.level_start, self.level_size, strict=True)
        arrays = [np.repeat(start, size) + _count_up(size) for start, size in levels]
        return tuple(to_device(arrays, self.document_offsets.device))

    @property
    def leaves(self) -> Tensor:
        """(S,) int64, the leaf of each sentence."""
        return self.levels[0]

    @cached_property
    def merges(self) -> tuple[tuple[Tensor, Tensor, Tensor], ...]:
        """For each level above the leaves, by places in `levels`: the left child of every node, in the level below;
        the nodes that also have a right child; these right children, in the level below."""
        arrays = []
        for below, size in pairwise(self.level_size):
            place = 2 * _count_up(size)
            left = np.repeat(np.cumsum(below) - below, size) + place
            pairs = np.flatnonzero(place + 1 < np.repeat(below, size))
            arrays += [left, pairs, left[pairs] + 1]
        arrived = iter(to_device(arrays, self.document_offsets.device))
        return tuple(zip(arrived, arrived, arrived, strict=True))

    @cached_property
    def parents(self) -> tuple[tuple[Tensor, Tensor], ...]:
        """For each level below the last: the place of every node's parent in the level above, behind all others for a
        root; and which nodes have a parent and no sibling."""
        arrays = []
        for size, above in pairwise(self.level_size):
            place, has = _count_up(size), np.repeat(above > 0, size)
            parent = np.where(has, np.repeat(np.cumsum(above) - above, size) + place // 2, above.sum())
            arrays += [parent, has & ((place ^ 1) >= np.repeat(size, size))]
        arrived = iter(to_device(arrays, self.document_offsets.device))
        return tuple(zip(arrived, arrived, strict=True))

    def filled_nodes(self, layout: DocumentLayout) -> np.ndarray:
        """Return (N,) bool on the host: True for nodes with a word below them."""
        tokens, first = layout.sentences.host, layout.document_sentences.host
        filled = np.zeros(self.num_nodes, bool)
        for level, size in enumerate(self.level_size):
            position = _count_up(size)
            begin = np.repeat(first[:-1], size) + (position << level)
            end = np.minimum(begin + (1 << level), np.repeat(first[1:], size))
            filled[np.repeat(self.level_start[level], size) + position] = tokens[end] > tokens[begin]
        return filled


def on_device(array: np.ndarray, device: torch.device) -> Tensor:
    return to_device([array], device)[0]


def _count_up(lengths: np.ndarray) -> np.ndarray:
    """Return 0, 1, …, n − 1 for each length n, concatenated: [2, 0, 3] → 0 1 0 1 2."""
    counts: np.ndarray = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return counts


@dataclass(frozen=True, eq=False)
class SentenceTree:
    """The trees of all documents of a batch: nodes (N, d), leaves and copies included, and their shape."""

    nodes: Tensor
    index: TreeIndex


def build_tree(
    summaries: Tensor, document_offsets: Tensor, merge: Callable[[Tensor, Tensor], Tensor], *,
    index: TreeIndex | None = None,
) -> SentenceTree:  # fmt: skip
    """ConstructBT over summaries (S, d) for every document at once; n sentences have at most 2n + ⌈log2 n⌉ nodes.

    Args:
        document_offsets: (D+1,) int64, the sentence index where each document begins.
        merge: two (P, d), left and right children → (P, d) parents. Called once a level for all full pairs of all
            documents; a node without a sibling is copied up.
        index: `TreeIndex.of(spans)` of the same offsets, where the caller has them: made once for all layers.
    """
    index = TreeIndex.from_offsets(document_offsets) if index is None else index
    if summaries.dim() != 2 or len(summaries) != len(index.leaves):
        raise ValueError(
            f"summaries: expected (S, d) with S = {len(index.leaves)} from document_offsets, "
            f"got {tuple(summaries.shape)}"
        )
    levels = [summaries]
    for left, pairs, right in index.merges:
        below = levels[-1]
        parents = below.index_select(0, left)
        merged = merge(parents[pairs], below.index_select(0, right))
        if merged.shape != (len(pairs), summaries.shape[1]):
            raise ValueError(f"merge: expected to return {(len(pairs), summaries.shape[1])}, got {tuple(merged.shape)}")
        levels.append(parents.index_copy(0, pairs, merged.to(parents.dtype)))
    return SentenceTree(_join_levels(levels, index), index)


def cumulative_keys(node_k: Tensor, index: TreeIndex, *, count_copies: bool = True) -> Tensor:
    """The sum of the keys (N, ...) on the path from the root to each node: q·sum is the node's cumulative relevance.

    `count_copies`: a node without a sibling, of which its parent is a copy, counts like any other; else not at all.
    """
    levels = [node_k.index_select(0, index.levels[-1])]
    for nodes, (parent, alone) in zip(index.levels[-2::-1], index.parents[::-1], strict=True):
        keys = node_k.index_select(0, nodes)
        if not count_copies:
            keys = keys.masked_fill(alone.view(-1, *(1,) * (keys.dim() - 1)), 0)
        above = torch.cat([levels[-1], levels[-1].new_zeros(1, *keys.shape[1:])])
        levels.append(keys + above.index_select(0, parent))
    return _join_levels(levels[::-1], index)


def _join_levels(levels: list[Tensor], index: TreeIndex) -> Tensor:
    order = torch.cat(index.levels)
    inverse = torch.empty_like(order)
    inverse[order] = torch.arange(len(order), device=order.device)
    return torch.cat(levels).index_select(0, inverse)
