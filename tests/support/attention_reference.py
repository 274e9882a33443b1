"""The equations of paper 002 once more, query by query and from the text alone, for the tests to compare with."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from hypothesis import strategies
from torch import Tensor

from docnmt.functional import SentenceTree
from docnmt.layout import DocumentLayout

sentence_lengths = strategies.lists(strategies.integers(0, 4), max_size=7)
documents = strategies.lists(sentence_lengths, min_size=1, max_size=4)


class Inputs(NamedTuple):
    q: Tensor
    k: Tensor
    v: Tensor
    sentence_q: Tensor
    sentence_k: Tensor


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
    gradient = torch.randn(out.shape, generator=generator, dtype=out.dtype).to(out.device)
    gradients = torch.autograd.grad(out, inputs, gradient, allow_unused=True)
    return [out.detach()] + [torch.zeros_like(x) if g is None else g for g, x in zip(gradients, inputs, strict=True)]


def assert_same(ours: list[Tensor], theirs: list[Tensor], tolerance: float = 1e-10) -> None:
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, other, rtol=0, atol=tolerance)


def clear_choice(scores: list[Tensor], t: int) -> bool:
    """Whether the t-th and the next of the scores differ enough for rounding not to change the choice."""
    ordered = sorted((float(s.detach()) for s in scores), reverse=True)
    return len(ordered) <= t or ordered[t - 1] - ordered[t] > 1e-9


def eq7(inputs: Inputs, query_layout: DocumentLayout, key_layout: DocumentLayout, t: int, visible: str) -> Tensor:
    """Softmax[Relevance(q, k) + KeepTopT[Relevance(sentence_q, sentence_k), t] M] v with the matrix M spelled out."""
    q, k, v, sentence_q, sentence_k = inputs
    matrix = torch.zeros(key_layout.num_sentences, key_layout.num_tokens, dtype=q.dtype)  # M of eq. 6
    matrix[key_layout.sentence_of_token, torch.arange(key_layout.num_tokens)] = 1
    first = key_layout.document_offsets.tolist()
    offset = query_layout.document_offsets.tolist()
    sizes = key_layout.sentence_offsets.diff().tolist()
    out = []
    for i in range(len(q)):
        document = int(query_layout.document_of_token[i])
        last = first[document + 1]
        if visible == "earlier":
            last = first[document] + int(query_layout.sentence_of_token[i]) - offset[document]
        candidates = [j for j in range(first[document], last) if sizes[j]]
        for head in range(q.shape[1]):
            relevance = {j: sentence_q[i, head] @ sentence_k[j, head] / math.sqrt(q.shape[-1]) for j in candidates}
            assert clear_choice(list(relevance.values()), t)
            kept = sorted(candidates, key=lambda j: -float(relevance[j].detach()))[:t]
            if not kept:
                out.append(0 * v[:, head].sum(0))
                continue
            keep = torch.stack([relevance[j] if j in kept else q.new_zeros(()) for j in range(len(sizes))])
            words = sum(matrix[j] for j in kept).bool()
            scores = k[:, head] @ q[i, head] / math.sqrt(q.shape[-1]) + keep @ matrix
            out.append(scores[words].softmax(-1) @ v[words, head])
    return torch.stack(out).view(len(q), q.shape[1], -1) if out else 0 * v[:0]


def traverse_tree(
    inputs: Inputs, tree: SentenceTree, query_layout: DocumentLayout, key_layout: DocumentLayout, t: int, select_on: str
) -> Tensor:
    """Figure 3, one word and head at a time, through lists of children."""
    q, k, v, sentence_q, node_k = inputs
    children = [[c for c in pair if c >= 0] for pair in tree.index.children.tolist()]
    parents, document_of_node = tree.index.parents.tolist(), tree.index.document_of_node.tolist()
    sentence = {leaf: s for s, leaf in enumerate(tree.index.leaves.tolist())}
    begin = key_layout.sentence_offsets.tolist()

    def words(node: int) -> int:
        if node in sentence:
            return begin[sentence[node] + 1] - begin[sentence[node]]
        return sum(words(child) for child in children[node])

    out = []
    for i in range(len(q)):
        document = int(query_layout.document_of_token[i])
        roots = [n for n, p in enumerate(parents) if p < 0 and document_of_node[n] == document and words(n)]
        for head in range(q.shape[1]):
            own = [sentence_q[i, head] @ node_k[n, head] / math.sqrt(q.shape[-1]) for n in range(len(node_k))]
            level, total = roots, {n: own[n] for n in roots}
            while level and level[0] not in sentence:
                level = [c for n in level for c in children[n] if words(c)]
                total.update({c: total[parents[c]] + own[c] for c in level})
                rank = total if select_on == "cumulative" else own
                assert clear_choice([rank[n] for n in level], t)
                level = sorted(level, key=lambda n: -float(rank[n].detach()))[:t]
            if not level:
                out.append(0 * v[:, head].sum(0))
                continue
            spans = [slice(begin[sentence[n]], begin[sentence[n] + 1]) for n in level]
            scores = [
                k[s, head] @ q[i, head] / math.sqrt(q.shape[-1]) + total[n] for n, s in zip(level, spans, strict=True)
            ]
            out.append(torch.cat(scores).softmax(-1) @ torch.cat([v[s, head] for s in spans]))
    return torch.stack(out).view(len(q), q.shape[1], -1) if out else 0 * v[:0]
