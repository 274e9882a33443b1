"""The sentences of long documents in blocks of neighbours, so that blocks can be compared before sentences are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from docnmt.functional.tree import on_device
from docnmt.layout import DocumentLayout

_FIRST = 32  # a document of 32·m² sentences has blocks of m: comparing a block costs less than comparing its members


@dataclass(frozen=True, eq=False)
class SentenceBlocks:
    """The sentences of documents in blocks of m neighbours, m by the length of each document.

    Attributes:
        layout: the blocks as sentences.
        keys: (B, h, d_k), the mean key of each block's sentences that have words.
        members: (B, m) int64, the sentences of each block; where there are fewer, the last one again.
        hidden: (B, m) bool, which members are not there, or without a word.
        columns: (h·B·d_k, m), the members' keys feature by feature.
    """

    layout: DocumentLayout
    keys: Tensor
    members: Tensor
    hidden: Tensor
    columns: Tensor

    @classmethod
    def of(cls, sentence_k: Tensor, layout: DocumentLayout) -> SentenceBlocks:
        """Blocks of sentences with keys (S, h, d_k). A key that is not finite counts as 0."""
        coarse, members, hidden = _blocks(layout)
        k = sentence_k.nan_to_num(0, 0, 0).index_select(0, members.flatten()).unflatten(0, members.shape)
        k = k.masked_fill(hidden[..., None, None], 0)  # (B, m, h, d)
        means = k.sum(1) / (~hidden).sum(1).clamp(min=1)[:, None, None]
        return cls(coarse, means, members, hidden, k.permute(2, 0, 3, 1).reshape(-1, members.shape[1]))


def _blocks(layout: DocumentLayout) -> tuple[DocumentLayout, Tensor, Tensor]:
    """The blocks as a layout of their own, their members and which of these are hidden; made once for a layout."""
    return layout.sentences.derive((_blocks, layout.document_sentences), lambda: _make_blocks(layout))


def _make_blocks(layout: DocumentLayout) -> tuple[DocumentLayout, Tensor, Tensor]:
    lengths, first = layout.document_sentences.lengths, layout.document_sentences.host
    size = 1 << np.ceil(np.log2(np.maximum(lengths / _FIRST, 1)) / 2).astype(np.int64)  # m of each document
    counts = -(-lengths // size)
    offsets = np.concatenate([[0], np.cumsum(counts)])
    number = np.arange(offsets[-1]) - np.repeat(offsets[:-1], counts)  # of a block in its document
    begin = np.repeat(first[:-1], counts) + number * np.repeat(size, counts)
    end = np.minimum(begin + np.repeat(size, counts), np.repeat(first[1:], counts))
    members = begin[:, None] + np.arange(size.max(initial=1))
    hidden = members >= end[:, None]
    members = np.minimum(members, end[:, None] - 1)
    hidden |= layout.sentences.lengths[members] == 0
    device = layout.sentence_offsets.device
    words = np.concatenate([layout.sentences.host[begin], layout.sentences.host[-1:]])
    coarse = DocumentLayout(on_device(words, device), on_device(offsets, device))
    return coarse, on_device(members, device), on_device(hidden, device)
