"""Batches of several corpora as one."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from docnmt.batch import PackedText, TranslationBatch
from docnmt.layout import DocumentLayout


def join_batches(batches: Sequence[TranslationBatch]) -> TranslationBatch:
    """The documents of all batches in one, in their order; `units` are the batches' own numbers."""
    if len(batches) == 1:
        return batches[0]
    return TranslationBatch(
        source=_join([batch.source for batch in batches]),
        target=_join([batch.target for batch in batches]),
        labels=torch.cat([batch.labels for batch in batches]),
        units=torch.cat([batch.units for batch in batches]),
    )


def _join(texts: Sequence[PackedText]) -> PackedText:
    layout = DocumentLayout(
        _joined_offsets([text.layout.sentence_offsets for text in texts]),
        _joined_offsets([text.layout.document_offsets for text in texts]),
    )
    begins = [text.begins for text in texts if text.begins is not None]
    return PackedText(
        torch.cat([text.tokens for text in texts]),
        layout,
        torch.cat([text.positions for text in texts]),
        _joined_begins(begins) if begins else None,
    )


def _joined_offsets(parts: Sequence[Tensor]) -> Tensor:
    """[0, 2, 3] and [0, 4] → [0, 2, 3, 7]."""
    return torch.cat([parts[0][:1], torch.cat([part.diff() for part in parts]).cumsum(0)])


def _joined_begins(begins: Sequence[Tensor]) -> Tensor:
    """(S, n, 4) each, their last position repeated to the largest n."""
    most = max(each.shape[1] for each in begins)
    return torch.cat([each[:, torch.arange(most).clamp(max=each.shape[1] - 1)] for each in begins])
