"""The encoders compared with InferLite: bag of words, BiLSTM with max-pooling, self-attention."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from docnmt.functional.pooling import span_max, span_mean
from docnmt.layout import DocumentLayout, Spans
from docnmt.modules.attention import SelfAttention
from docnmt.modules.document_context import Source2Token
from docnmt.modules.layers import FeedForward, Reads, Residual, check_one_of, plain_layer
from docnmt.modules.positions import Sinusoidal
from docnmt.other_tasks.options import BagOfWordsConfig, BiLstmMaxConfig, Source2TokenEncoderConfig
from docnmt.other_tasks.sentence_vectors.pair_classifier import SentenceTask, WordEncoder, look_up


class BagOfWords(WordEncoder[BagOfWordsConfig]):
    """The mean or maximum of the word vectors, or their mean weighted by a / (a + p(w)) (SIF, Arora et al. 2017).

    Args:
        probability: (V,) p(w) of each word, for `sif`.
        smoothing: a.
    """

    Config = BagOfWordsConfig
    probability: Tensor

    def __init__(
        self, *, dims: Sequence[int], pooling: Literal["mean", "max", "sif"], probability: Tensor,
        smoothing: float = 1e-3,
    ) -> None:  # fmt: skip
        check_one_of(("mean", "max", "sif"), pooling=pooling)
        super().__init__()
        self.pooling, self.smoothing, self.d_output = pooling, smoothing, sum(dims)
        self.register_buffer("probability", probability, persistent=False)  # the task keeps it

    @classmethod
    def of(cls, config: BagOfWordsConfig, task: SentenceTask) -> BagOfWords:
        """Build the encoder that `config` describes."""
        probability = torch.as_tensor(task.probability, dtype=torch.float32)
        return cls(dims=task.embeddings.dims, pooling=config.bag_pooling, probability=probability)

    def forward(self, tokens: Tensor, tables: Sequence[Tensor], spans: Spans) -> Tensor:
        """Encode tokens (T,) as (S, sum of d_k)."""
        words = torch.cat(look_up(tables, tokens, self.probability.dtype), dim=1)
        if self.pooling == "max":
            return span_max(words, spans)
        if self.pooling == "mean":
            return span_mean(words, spans)
        weight = self.smoothing / (self.smoothing + self.probability.index_select(0, tokens))
        return span_mean(words * weight[:, None], spans)


class BiLstmMax(WordEncoder[BiLstmMaxConfig]):
    """A bidirectional LSTM and the maximum over its states (InferSent, Conneau et al. 2017)."""

    Config = BiLstmMaxConfig

    def __init__(self, *, dims: Sequence[int], d_output: int) -> None:
        super().__init__()
        if d_output % 2:
            raise ValueError(f"d_output: expected an even width, half of it a direction, got {d_output}")
        self.lstm = nn.LSTM(sum(dims), d_output // 2, bidirectional=True)
        self.d_output = d_output

    @classmethod
    def of(cls, config: BiLstmMaxConfig, task: SentenceTask) -> BiLstmMax:
        """Build the encoder that `config` describes."""
        return cls(dims=task.embeddings.dims, d_output=config.output_dim)

    def forward(self, tokens: Tensor, tables: Sequence[Tensor], spans: Spans) -> Tensor:
        """Encode tokens (T,) as (S, d_output)."""
        words = torch.cat(look_up(tables, tokens, next(self.lstm.parameters()).dtype), dim=1)
        order, sizes = _time_major(spans)
        if not len(order):
            return words.new_zeros(len(spans), self.d_output)
        packed = PackedSequence(words.index_select(0, order), sizes)
        with torch.autocast("cpu", enabled=False):  # some processors have no LSTM in bfloat16
            states: Tensor = self.lstm(packed)[0].data
        rows = torch.empty_like(order)
        rows[order] = torch.arange(len(order), device=order.device)
        return span_max(states, spans, rows)


def _time_major(spans: Spans) -> tuple[Tensor, Tensor]:
    """Return token indices as `PackedSequence` needs them: first words, longest sentence first, then second words …"""
    lengths = spans.offsets.diff()
    rank = torch.empty_like(lengths)
    rank[lengths.argsort(descending=True, stable=True)] = torch.arange(len(lengths), device=lengths.device)
    sentence = spans.span_of_token
    place = torch.arange(len(sentence), device=lengths.device) - spans.offsets[:-1][sentence]
    sizes = place.bincount().cpu()
    return (place * len(lengths) + rank[sentence]).argsort(), sizes


class Source2TokenEncoder(WordEncoder[Source2TokenEncoderConfig]):
    """Self-attention layers, then the summaries by which document models select sentences.

    Trankova and Rykunov, "Hierarchical Encoding and Conditional Attention in NMT", eq. 1-2, on single sentences.

    Args:
        dims: width d_k of each embedding type; a linear layer brings them to `d_model`.
        heads: of the self-attention, and source2token's independent queries.
    """

    Config = Source2TokenEncoderConfig

    def __init__(
        self, *, dims: Sequence[int], d_model: int, layers: int, heads: int, d_inner: int, dropout: float
    ) -> None:
        super().__init__()
        self.input = nn.Linear(sum(dims), d_model)
        # Words as large as their positions: torch's own initialisation would leave unit vectors at a tenth of them
        nn.init.normal_(self.input.weight, std=len(dims) ** -0.5)
        nn.init.zeros_(self.input.bias)
        self.position = Sinusoidal(d_model)
        self.layers = nn.ModuleList(
            plain_layer(
                attention=SelfAttention(d_model=d_model, heads=heads, d_head=d_model // heads),
                feed_forward=FeedForward(d_model=d_model, d_inner=d_inner, activation="relu"),
                residual=lambda: Residual(d_model=d_model, dropout=dropout, norm="pre"),
            )
            for _ in range(layers)
        )
        self.norm = nn.LayerNorm(d_model)
        self.summarise = Source2Token(d_model=d_model, heads=heads)
        self.d_output = d_model

    @classmethod
    def of(cls, config: Source2TokenEncoderConfig, task: SentenceTask) -> Source2TokenEncoder:
        """Build the encoder that `config` describes."""
        return cls(
            dims=task.embeddings.dims,
            d_model=config.embed_dim,
            layers=config.encoder_layers,
            heads=config.heads,
            d_inner=config.ffn_dim,
            dropout=config.dropout,
        )

    def forward(self, tokens: Tensor, tables: Sequence[Tensor], spans: Spans) -> Tensor:
        """Encode tokens (T,) as (S, d_model). Every sentence needs a word."""
        layout = DocumentLayout(spans.offsets, torch.arange(len(spans) + 1, device=tokens.device))
        place = torch.arange(len(tokens), device=tokens.device) - spans.offsets[:-1][spans.span_of_token]
        x = self.input(torch.cat(look_up(tables, tokens, self.input.weight.dtype), dim=1))
        x = x + self.position(place[:, None])
        for layer in self.layers:
            x = layer(x, Reads(layout))
        return self.summarise(self.norm(x), spans)  # type: ignore[no-any-return]
