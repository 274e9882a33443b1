"""The encoders that InferLite is compared with: bag of words, BiLSTM with max-pooling.

Both read K tables of frozen word vectors, side by side: tokens (T,), tables K × (V, d_k), spans → (S, d_output).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from docnmt.functional.pooling import span_max, span_mean
from docnmt.layout import Spans
from docnmt.sentence_vectors.modules.inferlite import look_up


class BagOfWords(nn.Module):
    """The mean or maximum of the word vectors, or their mean weighted by a / (a + p(w)) (SIF, Arora et al. 2017).

    Args:
        probability: (V,) p(w) of each word, for `sif`.
        smoothing: a.
    """

    probability: Tensor

    def __init__(
        self,
        *,
        dims: Sequence[int],
        pooling: Literal["mean", "max", "sif"],
        probability: Tensor,
        smoothing: float = 1e-3,
    ) -> None:
        super().__init__()
        self.pooling, self.smoothing, self.d_output = pooling, smoothing, sum(dims)
        self.register_buffer("probability", probability, persistent=False)  # the task keeps it

    def forward(self, tokens: Tensor, tables: Sequence[Tensor], spans: Spans) -> Tensor:
        """(T,) → (S, sum of d_k)."""
        words = torch.cat(look_up(tables, tokens, self.probability.dtype), dim=1)
        if self.pooling == "max":
            return span_max(words, spans)
        if self.pooling == "mean":
            return span_mean(words, spans)
        weight = self.smoothing / (self.smoothing + self.probability.index_select(0, tokens))
        return span_mean(words * weight[:, None], spans)


class BiLstmMax(nn.Module):
    """A bidirectional LSTM and the maximum over its states (InferSent, Conneau et al. 2017)."""

    def __init__(self, *, dims: Sequence[int], d_output: int) -> None:
        super().__init__()
        if d_output % 2:
            raise ValueError(f"both directions are equally wide, so the output is even, got {d_output}")
        self.lstm = nn.LSTM(sum(dims), d_output // 2, bidirectional=True)
        self.d_output = d_output

    def forward(self, tokens: Tensor, tables: Sequence[Tensor], spans: Spans) -> Tensor:
        """(T,) → (S, d_output)."""
        words = torch.cat(look_up(tables, tokens, next(self.lstm.parameters()).dtype), dim=1)
        order, sizes = _time_major(spans)
        if not len(order):
            return words.new_zeros(len(spans), self.d_output)
        packed = PackedSequence(words.index_select(0, order), sizes)
        states: Tensor = self.lstm(packed)[0].data
        rows = torch.empty_like(order)
        rows[order] = torch.arange(len(order), device=order.device)
        return span_max(states, spans, rows)


def _time_major(spans: Spans) -> tuple[Tensor, Tensor]:
    """Token indices as `PackedSequence` wants them: all first words, longest sentence first, then all second words …"""
    lengths = spans.offsets.diff()
    rank = torch.empty_like(lengths)
    rank[lengths.argsort(descending=True, stable=True)] = torch.arange(len(lengths), device=lengths.device)
    sentence = spans.span_of_token
    place = torch.arange(len(sentence), device=lengths.device) - spans.offsets[:-1][sentence]
    sizes = place.bincount().cpu()
    return (place * len(lengths) + rank[sentence]).argsort(), sizes
