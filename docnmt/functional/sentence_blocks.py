"""The sentences of long documents in blocks of neighbours, so that blocks can be compared before sentences are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from docnmt.layout import DocumentLayout
from docnmt.runtime.transfer import to_device

_FIRST = 16  # a document of 16·m² sentences has blocks of m: comparing a block costs less than comparing its members


@dataclass(frozen=True, eq=False)
class SentenceBlocks:
    """The sentences of documents in blocks of m neighbours, m by the length of each document.

    Attributes:
        layout: the blocks as sentences.
        keys: (B, h, 2·d_k), by which blocks are compared with `block_queries`.
        first, last: (B,) int64, the sentences at the ends of each block.
        hidden: (B, m) bool, which members are not there, or without a word; None: there is no such.
        columns: (h·B·d_k, m), the members' keys feature by feature.
    """

    layout: DocumentLayout
    keys: Tensor
    first: Tensor
    last: Tensor
    hidden: Tensor | None
    columns: Tensor

    @classmethod
    def of(cls, sentence_k: Tensor, layout: DocumentLayout) -> SentenceBlocks:
        """Make blocks of sentences with keys (S, h, d_k). Non-finite keys count as 0; empty sentences are left out."""
        coarse, first, last, hidden, complete = _blocks(layout)
        members = first[:, None] + torch.arange(hidden.shape[1], device=first.device)
        members = torch.minimum(members, last[:, None])
        k = sentence_k.nan_to_num(0, 0, 0).index_select(0, members.flatten()).unflatten(0, members.shape)
        k = k.masked_fill(hidden[..., None, None], 0)  # (B, m, h, d)
        no_key = hidden[..., None, None] & ~hidden.all(1)[:, None, None, None]
        largest, smallest = k.masked_fill(no_key, -torch.inf).amax(1), k.masked_fill(no_key, torch.inf).amin(1)
        columns = k.permute(2, 0, 3, 1).reshape(-1, hidden.shape[1])
        return cls(coarse, torch.cat([largest, smallest], -1), first, last, None if complete else hidden, columns)


def block_queries(q: Tensor) -> Tensor:
    """Return block queries (…, 2d) for queries (…, d).

    Their product with a block's key, Σ_i max(q_i·largest_i, q_i·smallest_i), is an upper bound of the products of q
    with the keys of the block's sentences.
    """
    return torch.cat([q.clamp(min=0), q.clamp(max=0)], -1)


def _blocks(layout: DocumentLayout) -> tuple[DocumentLayout, Tensor, Tensor, Tensor, bool]:
    """Return the blocks of a layout; they are cached with it.

    Returns:
        the blocks as a layout; their first and last sentences (B,); (B, m) bool, True for hidden members; True if no
        member is hidden.
    """
    return layout.sentences.derive((_blocks, layout.document_sentences), lambda: _make_blocks(layout))


def _make_blocks(layout: DocumentLayout) -> tuple[DocumentLayout, Tensor, Tensor, Tensor, bool]:
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
