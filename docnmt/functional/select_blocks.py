"""The search for the t most relevant sentences through blocks of neighbouring sentences, for long documents.

A block is ranked by an upper bound of its sentences' relevances (Tang et al. 2024, Quest), which does not miss a single
very relevant sentence, as a mean over the block would. Then the sentences of the best 2t blocks are compared. Both
steps take O(√n) products per query.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from docnmt.functional import packed as costs
from docnmt.functional.select_all import at_once, top_sentences
from docnmt.functional.selection import Keys, Queries, Selection, SelectionPolicy
from docnmt.functional.sentence_blocks import SentenceBlocks, block_queries
from docnmt.functional.tree import on_device
from docnmt.layout import DocumentLayout

_FEW = 2048  # sentences of a document up to which all are compared: hardly dearer in a pass, twice as dear in a step
_LEAST = 512  # and so many times t
_WIDER = 2  # blocks that are looked into, for each sentence that is kept


def many_sentences(layout: DocumentLayout, t: int) -> np.ndarray:
    """(D,) bool on the host: the documents in which t sentences are found through blocks."""
    many: np.ndarray = layout.document_sentences.lengths > _compared(t)
    return many


def _compared(t: int) -> int:
    """The number of sentences of a document up to which all are compared."""
    return max(_FEW, _LEAST * t)


def find_sentences(queries: Queries, keys: Keys, policy: SelectionPolicy) -> Selection:
    """Return the top t sentences; in a long document, only those of the 2t most relevant blocks are compared."""
    if keys.layout.document_sentences.max_length <= _compared(policy.top_t):
        return top_sentences(queries, keys, policy)
    many = many_sentences(keys.layout, policy.top_t)
    found = _through_blocks(queries, keys, policy.top_t)
    if many.all():
        return found
    every = top_sentences(queries, keys, policy)
    key = (many_sentences, policy.top_t)
    device = found.sentences.device
    many_documents = keys.layout.document_sentences.derive(key, lambda: on_device(many, device))
    choose = many_documents[queries.layout.document_of_token, None]  # (Tq, 1)
    return Selection(
        torch.where(choose, found.sentences, every.sentences), torch.where(choose, found.relevance, every.relevance)
    )


def _through_blocks(queries: Queries, keys: Keys, t: int) -> Selection:
    blocks = SentenceBlocks.of(keys.sentences, keys.layout) if keys.blocks is None else keys.blocks
    coarse = Keys(keys.words, keys.values, blocks.keys, blocks.layout)
    asked = replace(queries, sentences=block_queries(queries.sentences))
    best = top_sentences(asked, coarse, SelectionPolicy(_WIDER * t))
    heads, width = queries.sentences.shape[1:]
    q = (queries.sentences / math.sqrt(width)).transpose(0, 1).flatten(0, 1)  # (h·Tq, d)
    head = torch.arange(heads, device=q.device)[:, None, None] * len(blocks.keys)
    block, rows = best.sentences.flatten(0, 1), (best.sentences + head).flatten(0, 1)  # (h·Tq, 2t)
    size = blocks.columns.shape[1]
    missing = (best.relevance == -torch.inf).flatten(0, 1)
    selection = Selection.empty(queries.sentences, t)
    sentences, relevance = selection.sentences.flatten(0, 1), selection.relevance.flatten(0, 1)  # views
    step = max(1, at_once(q.device, costs.BLOCK_PRODUCTS) // (rows.shape[1] * width))
    for start in range(0, len(q), step):
        part = slice(start, start + step)
        scores = _scores(q[part], blocks.columns, rows[part])  # (step, 2t, m)
        if blocks.hidden is not None:
            scores.masked_fill_(blocks.hidden[block[part]], -torch.inf)
        scores = scores.masked_fill_(missing[part, :, None], -torch.inf).flatten(1)
        relevance[part], place = scores.topk(t)
        chosen = block[part].gather(1, place // size)
        sentences[part] = torch.minimum(blocks.first[chosen] + place % size, blocks.last[chosen])
    return selection


def _scores(q: Tensor, columns: Tensor, rows: Tensor) -> Tensor:
    """q (n, d) · the members of blocks `rows` (n, w) → (n, w, m).

    A product with a block is the sum of the rows of its (d, m) columns, weighted by the query: `embedding_bag` reads
    them where they stand. Gathering the keys first takes twice as long.
    """
    width, (n, blocks) = q.shape[1], rows.shape
    feature = torch.arange(width, dtype=torch.int32, device=q.device)
    index = (rows * width).to(torch.int32)[..., None] + feature  # (n, w, d)
    begin = torch.arange(0, index.numel(), width, dtype=torch.int32, device=q.device)
    weights = q[:, None].expand(-1, blocks, -1).reshape(-1)
    scores = functional.embedding_bag(index.flatten(), columns, begin, mode="sum", per_sample_weights=weights)
    return scores.view(n, blocks, -1)
