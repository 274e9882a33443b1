"""Every form of sentence selection once more, query by query and from the paper alone, for the tests to compare with.

Trankova and Rykunov, "Hierarchical Encoding and Conditional Attention in NMT", equations 3 to 7 and section 3.3.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from hypothesis import strategies
from torch import Tensor

from docnmt.functional import build_tree
from docnmt.functional.selection import Keys, Queries, Selection, SelectionPolicy, subtract_largest
from docnmt.functional.tree import SentenceTree, TreeIndex
from docnmt.layout import DocumentLayout, Spans

sentence_lengths = strategies.lists(strategies.integers(0, 4), max_size=7)
documents = strategies.lists(sentence_lengths, min_size=1, max_size=4)


class Inputs(NamedTuple):
    q: Tensor
    k: Tensor
    v: Tensor
    sentence_q: Tensor
    sentence_k: Tensor


def spans(lengths: Sequence[int]) -> Spans:
    return Spans(torch.tensor([0, *itertools.accumulate(lengths)]))


def tree_over(layout: DocumentLayout) -> SentenceTree:
    return build_tree(torch.zeros(layout.num_sentences, 1), layout.document_offsets, lambda left, right: left)


def random_inputs(
    query_layout: DocumentLayout, key_layout: DocumentLayout, num_keys: int, seed: int, h: int = 2, d_k: int = 3
) -> Inputs:
    """Float64 leaves; `num_keys` sentence or node keys."""
    generator = torch.Generator().manual_seed(seed)
    queries, keys = query_layout.num_tokens, key_layout.num_tokens
    shapes = (queries, h, d_k), (keys, h, d_k), (keys, h, d_k + 1), (queries, h, d_k), (num_keys, h, d_k)
    return Inputs(*(torch.randn(s, generator=generator, dtype=torch.float64).requires_grad_() for s in shapes))


def values_and_gradients(function, inputs: Inputs) -> list[Tensor]:
    """The output and the gradient of each input for the same random gradient of the output."""
    out = function(*inputs)
    generator = torch.Generator().manual_seed(out.numel())
    # Drawn in one type: some versions of torch draw other numbers in others
    gradient = torch.randn(out.shape, generator=generator, dtype=torch.float64).to(out)
    gradients = torch.autograd.grad(out, inputs, gradient, allow_unused=True)
    return [out.detach()] + [torch.zeros_like(x) if g is None else g for g, x in zip(gradients, inputs, strict=True)]


def assert_same(ours: list[Tensor], theirs: list[Tensor], tolerance: float = 1e-10) -> None:
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, other, rtol=0, atol=tolerance)


def assert_same_passes(ours: Tensor, theirs: Tensor, inputs: Sequence[Tensor], tolerance: float = 1e-10) -> None:
    """Values, and the gradients of all inputs for one random gradient of the output; 0 where an input has none."""
    both, given = [], torch.randn_like(theirs)
    for out in (ours, theirs):
        out = out if out.requires_grad else out + 0 * sum(x.sum() for x in inputs)
        grads = torch.autograd.grad(out, inputs, given, retain_graph=True, materialize_grads=True, allow_unused=True)
        both.append([out.detach(), *grads])
    assert_same(*both, tolerance)


def clear_choice(scores: list[Tensor], t: int) -> bool:
    """Whether the t-th and the next of the scores differ enough for rounding not to change the choice."""
    ordered = sorted((float(s.detach()) for s in scores), reverse=True)
    return len(ordered) <= t or ordered[t - 1] - ordered[t] > 1e-9


def selective(
    inputs: Inputs,
    query_layout: DocumentLayout,
    key_layout: DocumentLayout,
    policy: SelectionPolicy,
    tree: SentenceTree | None = None,
    count_copies: bool = True,
) -> Tensor:
    """Softmax[q·k/√d_k + relevance of the word's sentence] v over the words of the kept sentences, for every policy.

    A query's own sentence is the key sentence of the same number.
    """
    q, k, v, sentence_q, sentence_k = inputs
    begin = key_layout.sentence_offsets.tolist()
    out = []
    for i in range(len(q)):
        for head in range(q.shape[1]):
            relevance = sentence_k[:, head] @ sentence_q[i, head] / math.sqrt(q.shape[-1])
            own, document = int(query_layout.sentence_of_token[i]), int(query_layout.document_of_token[i])
            if tree is None:
                first, last = key_layout.document_offsets[document : document + 2].tolist()
                if policy.visible == "earlier":
                    last = first + own - int(query_layout.document_offsets[document])
                total = {j: relevance[j] for j in range(first, last)}
                kept = largest({j: total[j] for j in total if begin[j] < begin[j + 1]}, policy.top_t)
            else:
                total, kept = traverse_tree(tree, relevance, key_layout, document, policy, count_copies)
            if policy.always_own and own not in kept and begin[own] < begin[own + 1]:
                kept = [*sorted(kept, key=lambda j: -float(total[j].detach()))[: policy.top_t - 1], own]
            words = [w for j in kept for w in range(begin[j], begin[j + 1])]
            added = [total[j] for j in kept for _ in range(begin[j], begin[j + 1])]
            if words:
                scores = k[words, head] @ q[i, head] / math.sqrt(q.shape[-1]) + torch.stack(added)
                out.append(scores.softmax(-1) @ v[words, head])
            else:
                out.append(0 * v[:, head].sum(0))
    return torch.stack(out).view(len(q), q.shape[1], -1) if out else 0 * v[:0]


def largest(scores: dict[int, Tensor], t: int) -> list[int]:
    assert clear_choice(list(scores.values()), t)
    return sorted(scores, key=lambda n: -float(scores[n].detach()))[:t]


def links(index: TreeIndex) -> tuple[list[list[int]], list[int]]:
    """The children of each node, one or two, and its parent, -1 for a root: node i is above 2i and 2i + 1."""
    children: list[list[int]] = [[] for _ in range(index.num_nodes)]
    parents = [-1] * index.num_nodes
    for document, sizes in enumerate(index.level_size.T.tolist()):
        starts = index.level_start[:, document].tolist()
        for level in range(1, len(sizes)):
            for i in range(sizes[level]):
                below = [n for n in (2 * i, 2 * i + 1) if n < sizes[level - 1]]
                children[starts[level] + i] = [starts[level - 1] + n for n in below]
                for child in children[starts[level] + i]:
                    parents[child] = starts[level] + i
    return children, parents


def traverse_tree(
    tree: SentenceTree,
    relevance: Tensor,
    key_layout: DocumentLayout,
    document: int,
    policy: SelectionPolicy,
    count_copies: bool,
) -> tuple[dict[int, Tensor], list[int]]:
    """Figure 3 through lists of children: cumulative relevance of the document's sentences, and those that are kept."""
    children, parents = links(tree.index)
    sentence = {leaf: s for s, leaf in enumerate(tree.index.leaves.tolist())}
    begin = key_layout.sentence_offsets.tolist()

    def words(node: int) -> int:
        if node in sentence:
            return begin[sentence[node] + 1] - begin[sentence[node]]
        return sum(words(child) for child in children[node])

    nodes = [n for n, of in enumerate(tree.index.node_spans.span_of_token.tolist()) if of == document]
    total: dict[int, Tensor] = {}
    for node in reversed(nodes):  # a document's root is its last node
        parent = parents[node]
        if parent >= 0 and len(children[parent]) == 1 and not count_copies:
            total[node] = total[parent]
        else:
            total[node] = relevance[node] + (total[parent] if parent >= 0 else 0)
    level = [n for n in nodes if parents[n] < 0 and words(n)]
    while level and level[0] not in sentence:
        level = [c for n in level for c in children[n] if words(c)]
        rank = total if policy.select_on == "cumulative" else relevance
        level = largest({n: rank[n] for n in level}, policy.top_t)
    return {sentence[n]: total[n] for n in nodes if n in sentence}, [sentence[n] for n in level]


def attend_dense(queries: Queries, keys: Keys, selection: Selection) -> Tensor:
    """Equation 7 for a selection, document after document."""
    sentence_k, root = keys.sentences, math.sqrt(queries.words.shape[-1])
    outputs = []
    spans = (queries.layout.documents, keys.layout.documents, keys.layout.document_sentences)
    bounds = np.stack([of.host for of in spans]).T.tolist()  # (D + 1, 3)
    for begin, end in itertools.pairwise(bounds if len(bounds) > 1 else [(0, 0, 0)] * 2):
        q, k, s = (slice(*pair) for pair in zip(begin, end, strict=True))
        relevance = torch.einsum("qhd,shd->hqs", queries.sentences[q], sentence_k[s]) / root  # (h, Lq, S)
        most = relevance.shape[-1]  # choices beyond them are empty
        kept = (selection.sentences[:, q, :most] - s.start).clamp_(0, max(0, most - 1))
        there = (selection.relevance[:, q, :most] != -torch.inf).to(relevance.dtype)
        keep = torch.zeros_like(relevance).scatter_add_(-1, kept, there) != 0
        relevance = subtract_largest(relevance.masked_fill(~keep, -torch.inf))  # KeepTopT(...)
        of_word = keys.layout.sentence_of_token[k] - s.start  # the paper's M
        scores = torch.einsum("qhd,khd->hqk", queries.words[q], keys.words[k]) / root
        scores = scores + relevance.index_select(-1, of_word)  # (h, Lq, Lk)
        nothing = (scores == -torch.inf).all(-1, keepdim=True)
        weights = scores.masked_fill(nothing, 0).softmax(-1).masked_fill(nothing, 0)
        outputs.append(torch.einsum("hqk,khd->qhd", weights, keys.values[k]))
    return torch.cat(outputs)
