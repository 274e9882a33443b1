"""Which sentences a query keeps: `Queries` and `Keys` → `top_sentences`, `find_sentences` or `descend` → `Selection`.

Flat selection compares a query with all sentences of its document, through blocks with some of them; over a tree it
descends (`tree`). Trankova and Rykunov, "Hierarchical Encoding and Conditional Attention in NMT", equations 3 and 4 and
section 3.3.2.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from docnmt.functional.kernels import takes_choice
from docnmt.functional.tree import TreeIndex, best_children, cumulative_keys, on_device, ranked_children
from docnmt.layout import DocumentLayout
from docnmt.runtime.device import to_device

#: Relevances of all sentences held at a time on a CPU: 4 MB in float32, in its caches.
SELECT_CHUNK = 1 << 20
#: Relevances, dots or products held at a time on a GPU: 128 MB in float32.
CARD_CHUNK = 1 << 25
#: Relevances up to which trees are descended together, other documents' sentences included.
SELECT_JOINT = 1 << 18
#: Products of single features at a time on a CPU: their indices stay in the cache.
BLOCK_PRODUCTS = 1 << 16
#: Nodes of a tree's level above which single keys are gathered.
TREE_WIDE = 128
#: Relevances of a tree's upper levels held at a time on a CPU: 16 MB in float32.
TREE_CHUNK = 1 << 22
#: Floats of gathered keys at a time on a CPU: 1 MB, in its cache.
TREE_DOTS = 1 << 18

# What goes in and what comes out. `docnmt.functional.conditional` leads on to the attention's output.


@dataclass(frozen=True, eq=False)
class Queries:
    words: Tensor  # (Tq, h, d_k), to compare with keys of words
    sentences: Tensor  # (Tq, h, d_k), to compare with keys of sentences
    layout: DocumentLayout
    own: Tensor | None = None  # (Tq,) the key sentence that each query belongs to; None: that of its sentence's number

    def choosing(self) -> Queries:
        """The queries with those of sentences in float32 at least."""
        return replace(self, sentences=in_float32(self.sentences))


@dataclass(frozen=True, eq=False)
class Keys:
    """Keys and values of words, and the keys by which their sentences are selected."""

    words: Tensor  # (Tk, h, d_k)
    values: Tensor  # (Tk, h, d_v)
    relevance: Tensor  # (Sk, h, d_k), a key for each sentence; with a tree (N, h, d_k), one for each node
    layout: DocumentLayout
    tree: TreeIndex | None = None
    cumulative: Tensor | None = None  # (N, h, d_k), sums of `relevance` along paths; None: `choosing` computes them

    def choosing(self) -> Keys:
        """The keys with those of sentences in float32 at least, with `cumulative` where there is a tree.

        Keys of sentences and nodes without words become 0, as they may be means of nothing.
        """
        relevance, cumulative, tree = in_float32(self.relevance), self.cumulative, self.tree
        spans, device = self.layout.sentences, self.relevance.device
        empty = spans.empty  # (Sk,), or with a tree (N,), kept with the layout
        if empty is not None and tree is not None:
            key = (Keys, tree.node_spans)
            empty = spans.derive(key, lambda: on_device(~tree.filled_nodes(self.layout), device))
        if empty is not None:
            relevance = relevance.masked_fill(empty.view(-1, 1, 1), 0)
            cumulative = None if cumulative is None else cumulative.masked_fill(empty.view(-1, 1, 1), 0)
        if tree is not None and cumulative is None:
            cumulative = cumulative_keys(relevance, tree)
        return replace(self, relevance=relevance, cumulative=cumulative)

    @property
    def sentences(self) -> Tensor:
        """(Sk, h, d_k): times a query, the (cumulative) relevance of each sentence."""
        if self.tree is None or self.cumulative is None:
            return self.relevance
        return self.cumulative.index_select(0, self.tree.leaves)


@dataclass(frozen=True)
class SelectionPolicy:
    top_t: int  # how many; with a tree, also how many nodes of each level
    visible: str = "document"  # or "earlier": a query of sentence i of its document sees the key sentences before i
    always_own: bool = False  # the query's own sentence, unless empty, replaces the least relevant one if not kept
    select_on: str = "cumulative"  # a tree's nodes are kept by the sum of their path, or by the "node"'s own relevance
    by_blocks: bool = False  # without a tree: in long documents the sentences of the most relevant blocks are compared

    def __post_init__(self) -> None:
        if self.top_t < 1:
            raise ValueError(f"top_t: must be at least 1, got {self.top_t}")
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
    """The kept sentences of every query and head, at most t, without gradient."""

    sentences: Tensor  # (h, Tq, t) int64, indices of key sentences; any valid index where nothing was left to keep
    relevance: Tensor  # (h, Tq, t), the score each was kept with; -inf where nothing was left to keep

    @classmethod
    def empty(cls, queries: Tensor, t: int) -> Selection:
        """A selection of at most t sentences that keeps nothing yet, for queries (Tq, h, d_k)."""
        shape = queries.shape[1], len(queries), t
        return cls(torch.zeros(shape, dtype=torch.int64, device=queries.device), queries.new_full(shape, -torch.inf))


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


# KeepTopT alone, and flat selection: every word and head compares its query with all sentences of its document.


def keep_top_t(scores: Tensor, t: int, mask: Tensor | None = None) -> Tensor:
    """Keeps the t largest scores (..., n) of each row and sets the others to -inf (equation 4); differentiable.

    Ties keep the lowest index, so that exactly min(t, selectable) scores stay. `mask` (..., n): False = not selectable.
    """
    if t < 1:
        raise ValueError(f"t: must be at least 1, got {t}")
    if mask is not None:
        broadcast = zip(mask.shape[::-1], scores.shape[::-1], strict=False)
        if mask.dtype != torch.bool or mask.dim() > scores.dim() or any(m not in (1, n) for m, n in broadcast):
            raise ValueError(
                f"mask: expected bool of shape {tuple(scores.shape)}, got {mask.dtype} of shape {tuple(mask.shape)}"
            )
    selectable = scores if mask is None else scores.masked_fill(~mask, -torch.inf)
    order = selectable.detach().argsort(dim=-1, descending=True, stable=True)
    return selectable.scatter(-1, order[..., t:], -torch.inf)


def top_sentences(queries: Queries, keys: Keys, policy: SelectionPolicy) -> Selection:
    """Top t of the relevances q·sentence/√d_k among the visible non-empty sentences of the query's own document.

    One product a document, some queries at a time. Of equal sentences the same row always keeps the same ones. A key
    that is not finite counts as 0 here, so that it cannot disturb the order of the others.
    """
    if takes_choice(queries.sentences, keys.sentences, policy.top_t):
        from docnmt.functional.kernels.attention import choose_sentences

        layouts, earlier = (queries.layout, keys.layout), policy.visible == "earlier"
        return Selection(*choose_sentences(queries.sentences, keys.sentences, *layouts, policy.top_t, earlier=earlier))
    q = (queries.sentences / math.sqrt(queries.sentences.shape[-1])).transpose(0, 1)  # (h, Tq, d_k)
    k = keys.sentences.transpose(0, 1).nan_to_num(0, 0, 0)  # (h, Sk, d_k)
    empty, sentence = keys.layout.sentences.empty, queries.layout.sentence_of_token
    selection = Selection.empty(queries.sentences, policy.top_t)
    words, sentences = queries.layout.documents.host.tolist(), keys.layout.document_sentences.host.tolist()
    for document, first_own in enumerate(queries.layout.document_sentences.host[:-1].tolist()):
        first, last = sentences[document], sentences[document + 1]
        step = max(1, _at_once(q.device, SELECT_CHUNK) // max(1, len(k) * (last - first)))
        for begin in range(words[document], words[document + 1] if last > first else 0, step):
            rows = slice(begin, min(begin + step, words[document + 1]))
            scores = q[:, rows] @ k[:, first:last].mT  # (h, rows, sentences)
            if empty is not None:
                scores.masked_fill_(empty[first:last], -torch.inf)
            if policy.visible == "earlier":
                number = torch.arange(last - first, device=q.device)
                scores.masked_fill_(number >= (sentence[rows] - first_own)[:, None], -torch.inf)
            kept = min(policy.top_t, last - first)
            if 16 * kept <= last - first < 64 * kept:  # torch sorts whole rows that are shorter
                scores = functional.pad(scores, (0, 64 * kept - last + first), value=-torch.inf)
            relevance, index = scores.topk(kept)
            selection.relevance[:, rows, :kept] = relevance
            selection.sentences[:, rows, :kept] = (index + first).clamp_(max=last - 1)
    return selection


def _at_once(device: torch.device, on_cpu: int) -> int:
    return on_cpu if device.type == "cpu" else CARD_CHUNK


# The search through blocks, for long documents. A block is ranked by an upper bound of its sentences' relevances (Tang
# et al. 2024, Quest), which does not miss a single very relevant sentence, as a mean over the block would. Then the
# sentences of the best 2t blocks are compared. Both steps take O(√n) products per query.

_FIRST = 16  # a document of 16·m² sentences has blocks of m: comparing a block costs less than comparing its members
_FEW = 2048  # sentences of a document up to which all are compared: hardly dearer in a pass, twice as dear in a step
_LEAST = 512  # and so many times t
_WIDER = 2  # blocks that are looked into, for each sentence that is kept


def _blocks(layout: DocumentLayout) -> tuple[DocumentLayout, Tensor, Tensor, Tensor, bool]:
    """The blocks as a layout; first and last sentences (B,); (B, m) bool, True for hidden members; none is hidden?"""
    lengths, starts = layout.document_sentences.lengths, layout.document_sentences.host
    size = 1 << np.ceil(np.log2(np.maximum(lengths / _FIRST, 1)) / 2).astype(np.int64)  # m of each document
    counts = -(-lengths // size)
    offsets = np.concatenate([[0], np.cumsum(counts)])
    number = np.arange(offsets[-1]) - np.repeat(offsets[:-1], counts)  # of a block in its document
    begin = np.repeat(starts[:-1], counts) + number * np.repeat(size, counts)
    end = np.minimum(begin + np.repeat(size, counts), np.repeat(starts[1:], counts))
    members = begin[:, None] + np.arange(size.max(initial=1))
    hidden = (members >= end[:, None]) | (layout.sentences.lengths[np.minimum(members, end[:, None] - 1)] == 0)
    words = np.concatenate([layout.sentences.host[begin], layout.sentences.host[-1:]])
    coarse = DocumentLayout(torch.from_numpy(words), torch.from_numpy(offsets))
    arrived = to_device([words, offsets, begin, end - 1, hidden], layout.sentence_offsets.device)
    first, last, beyond = arrived[2:]
    return coarse.moved(arrived[0], arrived[1]), first, last, beyond, not hidden.any()


def find_sentences(queries: Queries, keys: Keys, policy: SelectionPolicy) -> Selection:
    """The top t sentences; in a long document, only those of the 2t most relevant blocks are compared."""
    many = keys.layout.document_sentences.lengths > max(_FEW, _LEAST * policy.top_t)  # (D,) on the host
    if not many.any():
        return top_sentences(queries, keys, policy)
    best = _through_blocks(queries, keys, policy.top_t)
    if many.all():
        return best
    of_all = top_sentences(queries, keys, policy)
    key, device = (find_sentences, policy.top_t), best.sentences.device
    many_documents = keys.layout.document_sentences.derive(key, lambda: on_device(many, device))
    choose = many_documents[queries.layout.document_of_token, None]  # (Tq, 1)
    return Selection(
        torch.where(choose, best.sentences, of_all.sentences), torch.where(choose, best.relevance, of_all.relevance)
    )


def _through_blocks(queries: Queries, keys: Keys, t: int) -> Selection:
    derived = (_blocks, keys.layout.document_sentences)
    coarse, first, last, hidden, complete = keys.layout.sentences.derive(derived, lambda: _blocks(keys.layout))
    members = torch.minimum(first[:, None] + torch.arange(hidden.shape[1], device=first.device), last[:, None])
    k = keys.sentences.nan_to_num(0, 0, 0).index_select(0, members.flatten()).unflatten(0, members.shape)
    k = k.masked_fill(hidden[..., None, None], 0)  # (B, m, h, d)
    no_key = hidden[..., None, None] & ~hidden.all(1)[:, None, None, None]
    largest, smallest = k.masked_fill(no_key, -torch.inf).amax(1), k.masked_fill(no_key, torch.inf).amin(1)
    # times a block's key Σ_i max(q_i·largest_i, q_i·smallest_i): a bound of q's products with the sentences' keys
    bounds = torch.cat([queries.sentences.clamp(min=0), queries.sentences.clamp(max=0)], -1)
    block_keys = Keys(keys.words, keys.values, torch.cat([largest, smallest], -1), coarse)
    best = top_sentences(replace(queries, sentences=bounds), block_keys, SelectionPolicy(_WIDER * t))

    columns = k.permute(2, 0, 3, 1).reshape(-1, hidden.shape[1])  # (h·B·d, m), the members' keys feature by feature
    heads, width = queries.sentences.shape[1:]
    q = (queries.sentences / math.sqrt(width)).transpose(0, 1).flatten(0, 1)  # (h·Tq, d)
    head = torch.arange(heads, device=q.device)[:, None, None] * len(first)
    block, rows = best.sentences.flatten(0, 1), (best.sentences + head).flatten(0, 1)  # (h·Tq, 2t)
    missing = (best.relevance == -torch.inf).flatten(0, 1)
    selection = Selection.empty(queries.sentences, t)
    sentences, relevance = selection.sentences.flatten(0, 1), selection.relevance.flatten(0, 1)  # views
    step = max(1, _at_once(q.device, BLOCK_PRODUCTS) // (rows.shape[1] * width))
    for start in range(0, len(q), step):
        part = slice(start, start + step)
        scores = _scores(q[part], columns, rows[part])  # (step, 2t, m)
        if not complete:
            scores.masked_fill_(hidden[block[part]], -torch.inf)
        scores = scores.masked_fill_(missing[part, :, None], -torch.inf).flatten(1)
        relevance[part], position = scores.topk(t)
        chosen = block[part].gather(1, position // hidden.shape[1])
        sentences[part] = torch.minimum(first[chosen] + position % hidden.shape[1], last[chosen])
    return selection


def _scores(q: Tensor, columns: Tensor, rows: Tensor) -> Tensor:
    """q (n, d) · the members of blocks `rows` (n, w) → (n, w, m), read where they stand: twice as fast as gathering."""
    width, (n, blocks) = q.shape[1], rows.shape
    feature = torch.arange(width, dtype=torch.int32, device=q.device)
    index = (rows * width).to(torch.int32)[..., None] + feature  # (n, w, d)
    begin = torch.arange(0, index.numel(), width, dtype=torch.int32, device=q.device)
    weights = q[:, None].expand(-1, blocks, -1).reshape(-1)
    scores = functional.embedding_bag(index.flatten(), columns, begin, mode="sum", per_sample_weights=weights)
    return scores.view(n, blocks, -1)


# TraverseTree (section 3.3.2): down the trees of all documents, keeping the top t nodes of each level. All words and
# heads of a run of documents descend together. A node is named by its *place* in its level; the children of place p
# have the places 2p and 2p + 1, and their relevances stand side by side. Those of the upper levels are one product;
# below them only the children of kept nodes are looked at, 2t a level, t rounded up to a power of two.


def descend(queries: Queries, keys: Keys, policy: SelectionPolicy) -> Selection:
    """The sentences that stay after the last level, with their cumulative relevance.

    A node without a word below it, like an empty sentence, is never kept.
    """
    assert keys.tree is not None
    assert keys.cumulative is not None
    by_node, t = policy.select_on == "node", policy.top_t
    node_k = keys.relevance if by_node else keys.cumulative  # what nodes are kept by
    q = (queries.sentences / math.sqrt(queries.sentences.shape[-1])).transpose(0, 1).contiguous()  # (h, Tq, d_k)
    selection = Selection.empty(queries.sentences, t)
    for tokens, documents in _document_runs(queries.layout, keys.layout, heads=len(q)):
        key = (_levels_of, keys.layout.document_sentences, documents, t)  # all layers of a model share them
        levels = keys.layout.sentences.derive(key, partial(_levels_of, keys.tree, documents, keys.layout, t))
        upper = node_k.index_select(0, levels.upper_nodes).transpose(0, 1).contiguous()  # (h, 2·pairs, d_k)
        hidden = q.new_zeros(len(levels.upper_nodes)).masked_fill_(levels.hidden, -torch.inf)
        step = max(1, _at_once(q.device, TREE_CHUNK) // max(1, upper.shape[:2].numel()))
        for start in range(tokens.start, tokens.stop, step):
            rows = slice(start, min(start + step, tokens.stop))
            scores = torch.baddbmm(hidden, q[:, rows], upper.mT)  # (h, rows, 2·pairs)
            document = queries.layout.document_of_token[rows] - documents.start
            values, leaves = _down(q[:, rows], node_k, scores, levels, document, t)
            if by_node:
                total = _dots(q[:, rows], keys.cumulative, leaves + levels.node[0, document])
                values = total.masked_fill_(values == -torch.inf, -torch.inf)
            sentences = (leaves + levels.first_sentence[document]).clamp_(max=keys.layout.num_sentences - 1)
            selection.sentences[:, rows, : len(values)] = sentences.permute(1, 2, 0)
            selection.relevance[:, rows, : len(values)] = values.permute(1, 2, 0)
    return selection


def _document_runs(
    query_layout: DocumentLayout, key_layout: DocumentLayout, *, heads: int
) -> Iterator[tuple[slice, range]]:
    """Yield (query tokens, documents): runs of one document, or of several small ones."""
    tokens, sentences = query_layout.documents.host.tolist(), key_layout.document_sentences.host.tolist()
    start, number = 0, query_layout.num_documents
    joint = _at_once(query_layout.sentence_offsets.device, SELECT_JOINT)
    while start < number:
        stop = start + 1
        while stop < number and (
            heads * (tokens[stop + 1] - tokens[start]) * (sentences[stop + 1] - sentences[start]) <= joint
        ):
            stop += 1
        if sentences[start] < sentences[stop]:
            yield slice(tokens[start], tokens[stop]), range(start, stop)
        start = stop


class _Levels(NamedTuple):
    """The trees of a run of documents, levels from the leaves up. Above a root all levels consist of the root, too."""

    size: Tensor  # (levels, documents), nodes of each level
    node: Tensor  # (levels, documents), the first of them
    pair: Tensor  # (levels, documents), where its pair stands among those of the upper levels
    first_sentence: Tensor  # (documents,)
    upper_nodes: Tensor  # (2·pairs,) the nodes of the upper levels, which are those from `first` down to `low`
    hidden: Tensor  # (2·pairs,) bool, which of them are no nodes of the level, or without a word
    filled: Tensor | None  # (N,) bool, which nodes have words; None: all of these documents
    first: int  # the level to begin at: the next one has at most t nodes in each document, which all stay
    low: int
    widest: int  # nodes of the widest level


def _levels_of(index: TreeIndex, documents: range, key_layout: DocumentLayout, t: int) -> _Levels:
    run = slice(documents.start, documents.stop)
    size, node = index.level_size[:, run], index.level_start[:, run]  # 0 nodes above a root
    root = index.node_spans.host[run.start + 1 : run.stop + 1] - 1  # a tree's last node; none, if it is empty
    size, node = np.where(size > 0, size, np.minimum(size[0], 1)), np.where(size > 0, node, np.maximum(root, 0))
    widest = size.max(1)  # shrinks upwards
    first = max(0, int((widest > t).sum()) - 1)
    low = min(first + 1, int((widest > TREE_WIDE).sum()))

    # the upper levels, document by document: pairs of siblings, and one more pair, hidden, after those of each
    nodes_of, node_of = size[low : first + 1].ravel(), node[low : first + 1].ravel()
    pairs_of = (nodes_of + 1) // 2 + 1
    begin = np.cumsum(pairs_of) - pairs_of
    position = np.arange(2 * pairs_of.sum()) - np.repeat(2 * begin, 2 * pairs_of)  # in its level
    beyond = position >= np.repeat(nodes_of, 2 * pairs_of)
    upper_nodes = np.repeat(node_of, 2 * pairs_of) + np.where(beyond, 0, position)
    pair = np.concatenate([np.zeros_like(size[:low]), begin.reshape(-1, len(documents))])

    filled = index.filled_nodes(key_layout)
    all_filled = filled[index.node_spans.host[run.start] : index.node_spans.host[run.stop]].all()
    arrays = [size, node, pair, upper_nodes, beyond | ~filled[upper_nodes], *([] if all_filled else [filled])]
    sizes, nodes, pairs, upper, hidden, *rest = to_device(arrays, index.document_offsets.device)
    levels = sizes, nodes, pairs, index.document_offsets[run], upper, hidden, rest[0] if rest else None
    return _Levels(*levels, first, low, int(widest[0]))


def _down(
    q: Tensor, keys: Tensor, upper_scores: Tensor, levels: _Levels, document: Tensor, t: int
) -> tuple[Tensor, Tensor]:
    """(≤ t, h, R) scores of the leaves that stay, best first, and their places; -inf and any leaf where none stays."""
    heads, rows, nodes = upper_scores.shape
    pairs = torch.view_as_complex(upper_scores.view(-1, 2))  # both numbers of a pair at once
    first_pair = torch.arange(heads * rows, device=q.device).view(heads, rows) * (nodes // 2)
    size, last = levels.size[:, document], (levels.size[:, document] - 1).clamp_(min=0)  # (levels, R)
    stay = min(t, levels.widest)
    width = 1 << (stay - 1).bit_length()
    places = torch.arange(width, device=q.device).view(-1, 1, 1)
    for level in range(levels.first, -1, -1):
        places = torch.minimum(places, (size[level] + 1) // 2).expand(-1, heads, rows)  # beyond the last: a hidden pair
        parents = places.flatten(1)
        if level >= levels.low:
            pair = (places + (levels.pair[level, document] + first_pair)).flatten()
            scores = torch.view_as_real(pairs.index_select(0, pair)).view(width, -1, 2)
        else:
            children = torch.stack([2 * places, 2 * places + 1], 1)  # (width, 2, h, R)
            node = torch.minimum(children, last[level]) + levels.node[level, document]
            hidden = children >= size[level]
            if levels.filled is not None:
                hidden |= ~levels.filled[node]
            scores = _dots(q, keys, node.flatten(0, 1)).view_as(children).masked_fill(hidden, -torch.inf)
            scores = scores.flatten(2).mT.contiguous()
        if level:
            places = best_children(scores, parents, stay).view(-1, heads, rows)
            if stay < width:
                places = functional.pad(places, (0, 0, 0, 0, 0, width - stay), value=levels.widest)
    values, places = ranked_children(scores, parents, stay)
    return values.view(-1, heads, rows), torch.minimum(places.view(-1, heads, rows), last[0])


def _dots(queries: Tensor, keys: Tensor, nodes: Tensor) -> Tensor:
    """queries (h, R, d) · keys (N, h, d) at nodes (c, h, R) → (c, h, R), a piece at a time."""
    heads, width = len(queries), queries.shape[-1]
    head = torch.arange(heads, device=nodes.device).view(-1, 1)
    index = (nodes * heads + head).flatten(1).T.contiguous()  # (h·R, c)
    flat_q, flat_k = queries.reshape(-1, 1, width), keys.reshape(-1, width)
    step = max(1, _at_once(nodes.device, TREE_DOTS) // (index.shape[1] * width))
    dots = [
        flat_k.index_select(0, part.flatten()).view(*part.shape, width).mul_(q).sum(-1)
        for part, q in zip(torch.split(index, step), torch.split(flat_q, step), strict=True)
    ]
    return torch.cat(dots).T.reshape(nodes.shape)
