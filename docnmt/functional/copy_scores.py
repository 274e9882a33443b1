"""Scores of the copy pointer: similarities of a word's state to states of earlier sentences, and the copied labels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from docnmt.functional import packed as costs
from docnmt.layout import DocumentLayout

#: The similarity of hidden words; finite, so that rows which read nothing have gradients of 0 and not NaN.
NOTHING = -1e9


def similarities(q: Tensor, k: Tensor) -> Tensor:
    """Return −|q − k|² in float32 at least, for q (..., N, d), k (..., M, d): (..., N, M)."""
    precise = torch.promote_types(q.dtype, torch.float32)
    with torch.autocast(q.device.type, enabled=False):
        q, k = q.to(precise), k.to(precise)
        distances = q.square().sum(-1)[..., :, None] + k.square().sum(-1)[..., None, :] - 2 * torch.matmul(q, k.mT)
    return -distances


def copied_labels(
    q: Tensor, k: Tensor, labels: Tensor, layout: DocumentLayout, window: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Return log p of each label under the pointer: softmax(−|q − k|²) over words of earlier sentences.

    A word reads the last `window` words before its sentence, in its own document. Each key votes for its own label,
    the token that followed it.

    Args:
        q, k: (T, d) of the words of `layout`. labels: (T,); negative ones are not copied.

    Returns:
        log p(label) under the pointer, the similarity of the nearest key, and the logarithm of the sum of all
        exponentials, (T,) each; `NOTHING` or less where there is nothing to read.
    """
    parts: list[Sequence[Tensor]] = [[similarities(q[:0], k[:0]).sum(1)] * 3]
    for rows, keys, scores in _scored(q, k, labels, layout, window):
        if not scores.shape[1]:
            parts.append([scores.sum(1) + NOTHING] * 3)
            continue
        same = scores.masked_fill(labels[keys] != labels[rows, None], NOTHING)
        total = scores.logsumexp(1)
        parts.append((same.logsumexp(1) - total, scores.amax(1), total))
    log_p, nearest, total = (torch.cat(column) for column in zip(*parts, strict=True))
    return log_p, nearest, total


def copied_values(q: Tensor, k: Tensor, values: Tensor, labels: Tensor, layout: DocumentLayout, window: int) -> Tensor:
    """Return the means of values (T, d) under the pointer's weights, (T, d); 0 where there is nothing to read."""
    parts = [values[:0]]
    for _, keys, scores in _scored(q, k, labels, layout, window):
        weights = scores.softmax(1).masked_fill(scores <= NOTHING / 2, 0)
        parts.append(weights.to(values.dtype) @ values[keys])
    return torch.cat(parts)


def _scored(
    q: Tensor, k: Tensor, labels: Tensor, layout: DocumentLayout, window: int
) -> Iterator[tuple[slice, slice, Tensor]]:
    """Yield blocks of N query words in order, a range of M key words, and the similarities (N, M).

    A similarity is `NOTHING` where a word does not read a key.
    """
    sentence, bounds = layout.sentence_of_token, layout.sentences.host
    starts = layout.sentence_offsets[:-1].index_select(0, sentence)  # (T,) where a word's own sentence begins
    for first, begin, end in _blocks(layout, window):
        stop = max(int(bounds[np.searchsorted(bounds, end) - 1]), first)  # where the last word's sentence begins
        rows, keys = slice(begin, end), slice(first, stop)
        index = torch.arange(keys.start, keys.stop, device=q.device)
        own = starts[rows, None]
        read = (index < own) & (index >= own - window) & (labels[keys] >= 0)  # (N, M)
        yield rows, keys, similarities(q[rows], k[keys]).masked_fill(~read, NOTHING)


def _blocks(layout: DocumentLayout, window: int) -> Iterator[tuple[int, int, int]]:
    """Yield (first word read, first query, end) of blocks of whole sentences, each from one document.

    A block has at least `costs.COPY_QUERIES` queries, unless its document ends.
    """
    sentences, documents = layout.sentences.host, layout.document_sentences.host
    for first, last in zip(documents[:-1].tolist(), documents[1:].tolist(), strict=True):
        begin = first
        for number in range(first + 1, last + 1):
            if number == last or sentences[number] - sentences[begin] >= costs.COPY_QUERIES:
                start = max(int(sentences[first]), int(sentences[begin]) - window)
                if sentences[number] > sentences[begin]:
                    yield start, int(sentences[begin]), int(sentences[number])
                begin = number
