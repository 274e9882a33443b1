"""Sentence encoders: InferLite, bag of words, BiLSTM-max, source2token; hashing of vectors.

tokens (T,) → word vectors, K tables → `WordEncoder` → (S, d) → `SemanticHash` or not → `PairClassifier` → (B, classes)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import PackedSequence

from docnmt.layout import DocumentLayout, Spans
from docnmt.modules.attention import SelfAttention
from docnmt.modules.document_context import Source2Token
from docnmt.modules.layers import Dropout, FeedForward, Reads, Residual, plain_layer
from docnmt.modules.positions import Sinusoidal
from docnmt.other_tasks.options import (
    BagOfWordsConfig,
    BiLstmMaxConfig,
    InferLiteConfig,
    SentencePairConfig,
    Source2TokenEncoderConfig,
)
from docnmt.other_tasks.sentence_vectors.data import PackedSentences, PairBatch

if TYPE_CHECKING:
    from docnmt.other_tasks.sentence_vectors.use import Nli


def span_max(values: Tensor, spans: Spans, rows: Tensor | None = None) -> Tensor:
    """Return the largest value of each feature in each span, (number of spans, d); 0 for a span without tokens.

    Of equal values the first alone gets the gradient. `values` are (T, d), or (R, d) where tokens share `rows` (T,).
    """
    if rows is None:
        rows = torch.arange(len(values), device=values.device)
    tokens = values.index_select(0, rows)
    if values.requires_grad and torch.is_grad_enabled() and values.device.type == "cpu":
        blocks = tokens.split(spans.lengths.tolist())
        zero = values.new_zeros(1, values.shape[1])
        return torch.cat([values[:0], *(block.max(0, keepdim=True).values if len(block) else zero for block in blocks)])
    index = spans.span_of_token[:, None].expand(-1, values.shape[1])
    pooled = values.new_zeros(len(spans), values.shape[1])
    return pooled.scatter_reduce(0, index, tokens, "amax", include_self=False)


def span_mean(values: Tensor, spans: Spans, rows: Tensor | None = None) -> Tensor:
    """Return the mean of each feature in each span; 0 for a span without tokens. Arguments as in `span_max`."""
    tokens = values if rows is None else values.index_select(0, rows)
    total = values.new_zeros(len(spans), values.shape[1]).index_add(0, spans.span_of_token, tokens)
    return total / spans.offsets.diff().clamp(min=1)[:, None].to(values.dtype)


# Semantic hashing: binary codes of sentences, learned together with the task (Kiros and Chan 2018, eq. 8).

#: Rows are multiplied in multiples of this number, and so many that a product has more than `_SMALL` multiplications:
#: BLAS libraries use other kernels, with other rounding, for few rows and for small products, and then a sentence's
#: vector would depend on how many others it is computed with.
ROWS = 64
_SMALL = 4096


class RowLinear(nn.Linear):
    """A linear layer x Wᵀ + b in which each row is bitwise the same whatever the other rows and their number."""

    def reset_parameters(self) -> None:
        """Initialise by He et al. (2015), which keeps the scale in ReLU layers; torch's own weights let it fade."""
        nn.init.kaiming_normal_(self.weight, nonlinearity="relu")
        nn.init.zeros_(self.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Map (T, d_in) to (T, d_out)."""
        rows = ROWS * (1 + _SMALL // (ROWS * self.weight.numel()))
        missing = -len(x) % rows
        return super().forward(F.pad(x, (0, 0, 0, missing)))[: len(x)] if missing else super().forward(x)


class SemanticHash(nn.Module):
    """Semantic hashing: h(s) = σ(LN(W s + b) / τ), thresholded at 0.5 outside training.

    τ falls exponentially from 1 with every batch of training and stays at `minimum`, so it is never 0.

    b is stored as b' - W c, where c is the running mean of s. Max-pooled sentence vectors are close to their mean:
    without c every step of Adam in W moves all of them together by more than their differences, so that all codes are
    alike and learning begins a thousand batches later.
    """

    seen: Tensor
    mean: Tensor

    def __init__(self, *, d_input: int, bits: int, steps: int, minimum: float) -> None:
        super().__init__()
        self.linear = RowLinear(d_input, bits)
        self.norm = nn.LayerNorm(bits)
        self.steps, self.minimum = steps, minimum
        self.register_buffer("mean", torch.zeros(d_input))
        self.register_buffer("seen", torch.zeros((), dtype=torch.int64))  # in the checkpoint: resuming is exact

    @property
    def temperature(self) -> float:
        """The temperature τ of the next training batch, in [minimum, 1]."""
        return max(self.minimum, float(self.minimum ** (int(self.seen) / self.steps)))

    def scores(self, sentences: Tensor) -> Tensor:
        """Compute LN(W s + b) of sentences (S, d): (S, bits). A bit is 1 if its score is positive, for any τ."""
        return self.norm(self.linear(sentences - self.mean.to(sentences.dtype)))  # type: ignore[no-any-return]

    def soft(self, sentences: Tensor) -> Tensor:
        """Compute h(s) at the current τ for (S, d): (S, bits) in [0, 1]."""
        return torch.sigmoid(self.scores(sentences) / self.temperature)

    def forward(self, sentences: Tensor) -> Tensor:
        """Hash (S, d) to (S, bits): soft in training, where batches are also counted; 0 or 1 otherwise."""
        if not self.training:
            return (self.scores(sentences) > 0).to(sentences.dtype)
        with torch.no_grad():  # equal weights for the first hundred batches, 1/100 for later ones
            self.mean.lerp_(sentences.to(self.mean.dtype).mean(0), max(1 / (int(self.seen) + 1), 0.01))
        soft = self.soft(sentences)
        self.seen += 1
        return soft


ConfigT = TypeVar("ConfigT", bound=SentencePairConfig)


class WordEncoder(nn.Module, ABC, Generic[ConfigT]):
    """The base class of encoders of sentences, one by one, from K tables of frozen word vectors: architectures of nli.

    `ConfigT` are the encoder's own options, its `Config`; `d_output` is the width of a sentence vector.
    """

    Config: ClassVar[type[SentencePairConfig]]
    d_output: int

    @abstractmethod
    def __init__(self, config: ConfigT, task: Nli) -> None:
        """Build the encoder that `config` describes, for the embedding types of `task`."""
        super().__init__()

    @classmethod
    def build(cls, config: ConfigT, task: Nli) -> SentencePairModel:
        """Build this encoder and all that follows it, for the labels and embedding types of `task`."""
        return SentencePairModel(encoder=cls(config, task), config=config, task=task)

    @abstractmethod
    def forward(self, tokens: Tensor, tables: Sequence[Tensor], spans: Spans) -> Tensor:
        """Encode tokens (T,) in sentences `spans`, with tables K × (V, d_k), as (S, d_output)."""


def look_up(tables: Sequence[Tensor], tokens: Tensor, dtype: torch.dtype) -> list[Tensor]:
    """Look up tokens (T,) in each of K tables (V, d_k): K × (T, d_k)."""
    return [table.index_select(0, tokens).to(dtype) for table in tables]


class PairClassifier(nn.Module):
    """A classifier of pairs: [u; v; u ∘ v; |u - v|] → two ReLU layers → one score a class (Conneau et al. 2017)."""

    def __init__(self, *, d_input: int, d_hidden: int, classes: int, dropout: float) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(4 * d_input, d_hidden),
            nn.ReLU(),
            Dropout(dropout),
            nn.Linear(d_hidden, d_hidden),
            nn.ReLU(),
            Dropout(dropout),
            nn.Linear(d_hidden, classes),
        )

    def forward(self, u: Tensor, v: Tensor) -> Tensor:
        """Map vectors u, v (B, d) to logits (B, classes)."""
        return self.layers(torch.cat([u, v, u * v, (u - v).abs()], dim=1))  # type: ignore[no-any-return]


class SentencePairModel(nn.Module):
    """A sentence encoder, perhaps a hashing layer, a classifier of pairs; the frozen word vectors are the task's."""

    predicts: ClassVar[str] = "labels"

    def __init__(self, *, encoder: WordEncoder[ConfigT], config: ConfigT, task: Nli) -> None:
        super().__init__()
        for k, table in enumerate(task.embeddings.vectors):
            self.register_buffer(f"table_{k}", torch.as_tensor(table), persistent=False)
        self.types = len(task.embeddings.vectors)
        self.encoder = encoder
        self.hash: SemanticHash | None = None
        if config.hash_bits:
            steps, minimum = config.hash_steps, config.hash_min_temperature
            self.hash = SemanticHash(d_input=encoder.d_output, bits=config.hash_bits, steps=steps, minimum=minimum)
        d_input, dropout = config.hash_bits or encoder.d_output, config.classifier_dropout
        self.classifier = PairClassifier(
            d_input=d_input, d_hidden=config.classifier_dim, classes=len(task.labels), dropout=dropout
        )

    @property
    def tables(self) -> list[Tensor]:
        """The word vectors, K × (V, d_k)."""
        return [self.get_buffer(f"table_{k}") for k in range(self.types)]

    def encode(self, text: PackedSentences) -> Tensor:
        """Return sentence vectors s (S, d)."""
        return self.encoder(text.tokens, self.tables, text.spans)  # type: ignore[no-any-return]

    def forward(self, batch: PairBatch) -> Tensor:
        """Return logits (B, classes)."""
        vectors = self.encode(batch.text)
        return self.classify(vectors if self.hash is None else self.hash(vectors))

    def classify(self, vectors: Tensor) -> Tensor:
        """Return logits (B, classes) of the pairs (i, B + i) among 2B sentence vectors or codes (2B, d)."""
        return self.classifier(*vectors.chunk(2))  # type: ignore[no-any-return]


# The encoders compared with InferLite: bag of words, BiLSTM with max-pooling, self-attention.

#: The constant a of SIF, as published.
SMOOTHING = 1e-3


class BagOfWords(WordEncoder[BagOfWordsConfig]):
    """The mean or maximum of the word vectors, or their mean weighted by a / (a + p(w)) (SIF, Arora et al. 2017)."""

    Config = BagOfWordsConfig
    probability: Tensor

    def __init__(self, config: BagOfWordsConfig, task: Nli) -> None:
        super().__init__(config, task)
        self.pooling, self.d_output = config.bag_pooling, sum(task.embeddings.dims)
        probability = torch.as_tensor(task.probability, dtype=torch.float32)
        self.register_buffer("probability", probability, persistent=False)  # the task keeps it

    def forward(self, tokens: Tensor, tables: Sequence[Tensor], spans: Spans) -> Tensor:
        """Encode tokens (T,) as (S, sum of d_k)."""
        words = torch.cat(look_up(tables, tokens, self.probability.dtype), dim=1)
        if self.pooling == "max":
            return span_max(words, spans)
        if self.pooling == "mean":
            return span_mean(words, spans)
        weight = SMOOTHING / (SMOOTHING + self.probability.index_select(0, tokens))
        return span_mean(words * weight[:, None], spans)


class BiLstmMax(WordEncoder[BiLstmMaxConfig]):
    """A bidirectional LSTM and the maximum over its states (InferSent, Conneau et al. 2017)."""

    Config = BiLstmMaxConfig

    def __init__(self, config: BiLstmMaxConfig, task: Nli) -> None:
        super().__init__(config, task)
        self.d_output = config.output_dim
        self.lstm = nn.LSTM(sum(task.embeddings.dims), self.d_output // 2, bidirectional=True)

    def forward(self, tokens: Tensor, tables: Sequence[Tensor], spans: Spans) -> Tensor:
        """Encode tokens (T,) as (S, d_output)."""
        words = torch.cat(look_up(tables, tokens, next(self.lstm.parameters()).dtype), dim=1)
        # as `PackedSequence` needs them: first words, longest sentence first, then second words …
        lengths, sentence = spans.offsets.diff(), spans.span_of_token
        rank = torch.empty_like(lengths)
        rank[lengths.argsort(descending=True, stable=True)] = torch.arange(len(lengths), device=lengths.device)
        position = torch.arange(len(sentence), device=lengths.device) - spans.offsets[:-1][sentence]
        sizes, order = position.bincount().cpu(), (position * len(lengths) + rank[sentence]).argsort()
        if not len(order):
            return words.new_zeros(len(spans), self.d_output)
        packed = PackedSequence(words.index_select(0, order), sizes)
        with torch.autocast("cpu", enabled=False):  # some processors have no LSTM in bfloat16
            states: Tensor = self.lstm(packed)[0].data
        rows = torch.empty_like(order)
        rows[order] = torch.arange(len(order), device=order.device)
        return span_max(states, spans, rows)


class Source2TokenEncoder(WordEncoder[Source2TokenEncoderConfig]):
    """Self-attention layers, then summaries: eq. 1-2 of Trankova and Rykunov, "Hierarchical Encoding and Conditional
    Attention in NMT", on single sentences.
    """

    Config = Source2TokenEncoderConfig

    def __init__(self, config: Source2TokenEncoderConfig, task: Nli) -> None:
        super().__init__(config, task)
        d_model, heads, dims = config.embed_dim, config.heads, task.embeddings.dims
        self.input = nn.Linear(sum(dims), d_model)
        # Words as large as their positions: torch's own initialisation would leave unit vectors at a tenth of them
        nn.init.normal_(self.input.weight, std=len(dims) ** -0.5)
        nn.init.zeros_(self.input.bias)
        self.position = Sinusoidal(d_model)
        self.layers = nn.ModuleList(
            plain_layer(
                attention=SelfAttention(d_model=d_model, heads=heads, d_head=d_model // heads),
                feed_forward=FeedForward(d_model=d_model, d_inner=config.ffn_dim, activation="relu"),
                residual=lambda: Residual(d_model=d_model, dropout=config.dropout, norm="pre"),
            )
            for _ in range(config.encoder_layers)
        )
        self.norm = nn.LayerNorm(d_model)
        self.summarise = Source2Token(d_model=d_model, heads=heads)
        self.d_output = d_model

    def forward(self, tokens: Tensor, tables: Sequence[Tensor], spans: Spans) -> Tensor:
        """Encode tokens (T,) as (S, d_model). Every sentence needs a word."""
        layout = DocumentLayout(spans.offsets, torch.arange(len(spans) + 1, device=tokens.device))
        position = torch.arange(len(tokens), device=tokens.device) - spans.offsets[:-1][spans.span_of_token]
        x = self.input(torch.cat(look_up(tables, tokens, self.input.weight.dtype), dim=1))
        x = x + self.position(position[:, None])
        for layer in self.layers:
            x = layer(x, Reads(layout))
        return self.summarise(self.norm(x), spans)  # type: ignore[no-any-return]


# InferLite's sentence encoder on packed sentences (Kiros and Chan, "InferLite: Simple Universal Sentence
# Representations from Natural Language Inference Data", 2018, section 3; equation numbers are the paper's).


class PackedConvolution(nn.Module):
    """Convolution over the words of each sentence, zeros beyond its borders, as one matrix product (eq. 2 and 4)."""

    def __init__(self, *, d_in: int, d_out: int, width: int) -> None:
        super().__init__()
        self.reach = width // 2
        self.linear = RowLinear(width * d_in, d_out)

    def forward(self, x: Tensor, spans: Spans) -> Tensor:
        """Map x (T, d_in) to (T, d_out)."""
        if self.reach == 0:
            return self.linear(x)  # type: ignore[no-any-return]
        position = torch.arange(len(x), device=x.device)
        begin, end = (bound[spans.span_of_token] for bound in (spans.offsets[:-1], spans.offsets[1:]))
        columns = []
        for shift in range(-self.reach, self.reach + 1):
            inside = (position + shift >= begin) & (position + shift < end)  # (T,)
            columns.append(x.roll(-shift, 0) * inside[:, None] if shift else x)
        return self.linear(torch.cat(columns, dim=1))  # type: ignore[no-any-return]


def sigmoid(x: Tensor) -> Tensor:
    """Compute σ(x) by tanh: torch's own function rounds the last elements of a tensor differently from the rest."""
    return 0.5 + 0.5 * torch.tanh(0.5 * x)


class ConvolutionStack(nn.Module):
    """A stack of M convolutions, with ReLU between them and another function after the last."""

    def __init__(self, *, d_model: int, layers: int, width: int, last: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(PackedConvolution(d_in=d_model, d_out=d_model, width=width) for _ in range(layers))
        self.last = last

    def forward(self, x: Tensor, spans: Spans) -> Tensor:
        """Map (T, d) to (T, d)."""
        for layer in self.layers[:-1]:
            x = F.relu(layer(x, spans))
        return self.last(self.layers[-1](x, spans))


class InferLiteEncoder(WordEncoder[InferLiteConfig]):
    """Sentence vectors from K types of word vectors: encoder, controller, fusion and reduction (eq. 1-7).

    Without the controller's gates all types count alike; `skip` adds its first layer, which the paper calls crucial.
    """

    Config = InferLiteConfig

    def __init__(self, config: InferLiteConfig, task: Nli) -> None:
        super().__init__(config, task)
        d_model, dims = config.hidden_dim, task.embeddings.dims

        def _stacks(last: Callable[[Tensor], Tensor]) -> nn.ModuleList:
            layers, width = config.conv_layers, config.conv_width
            return nn.ModuleList(ConvolutionStack(d_model=d_model, layers=layers, width=width, last=last) for _ in dims)

        self.width, self.skip, self.pooling = config.conv_width, config.skip, config.pooling
        self.inputs = nn.ModuleList(RowLinear(d, d_model) for d in dims)
        self.encoders = _stacks(torch.tanh)
        self.shared = RowLinear(sum(dims), d_model) if config.gate or config.skip else None
        self.controllers = _stacks(sigmoid) if config.gate else None
        self.output = RowLinear(d_model, config.output_dim)
        self.d_output = config.output_dim

    def gates(self, types: Sequence[Tensor], spans: Spans) -> Tensor:
        """Return the gates G_M^k of each word for types K × (T, d_k): (K, T, d_model)."""
        shared = self._shared(types)
        if self.controllers is None or shared is None:
            raise ValueError("this encoder was made without gates")
        return torch.stack([controller(shared, spans) for controller in self.controllers])

    def _shared(self, types: Sequence[Tensor]) -> Tensor | None:
        """Compute G_0, the controllers' first layer, from K × (T, d_k): (T, d_model)."""
        return None if self.shared is None else F.relu(self.shared(torch.cat(list(types), dim=1)))

    def words(self, types: Sequence[Tensor], spans: Spans) -> Tensor:
        """Compute F of eq. 6, one row per word, from types K × (T, d_k): (T, d_output)."""
        encoded = [
            encoder(F.relu(dense(x)), spans)
            for x, dense, encoder in zip(types, self.inputs, self.encoders, strict=True)
        ]
        shared = self._shared(types)
        if self.controllers is not None:
            encoded = [h * g(shared, spans) for h, g in zip(encoded, self.controllers, strict=True)]
        fused = torch.stack(encoded).sum(0) if len(encoded) > 1 else encoded[0]
        if self.skip and shared is not None:
            fused = fused + shared
        return F.relu(self.output(fused))

    def pool(self, words: Tensor, spans: Spans, rows: Tensor | None = None) -> Tensor:
        """Pool words (R, d) to (S, d) by eq. 7; `rows` (T,) gives each token's row if tokens share rows."""
        return (span_max if self.pooling == "max" else span_mean)(words, spans, rows)

    def forward(self, tokens: Tensor, tables: Sequence[Tensor], spans: Spans) -> Tensor:
        """Encode tokens (T,) with tables K × (V, d_k) as sentence vectors (S, d_output)."""
        dtype = self.output.weight.dtype
        if self.width > 1:
            return self.pool(self.words(look_up(tables, tokens, dtype), spans), spans)
        # Without context a word's row is the same everywhere: compute each once.
        kinds, rows = torch.unique(tokens, return_inverse=True)
        alone = Spans(torch.arange(len(kinds) + 1, device=tokens.device))
        return self.pool(self.words(look_up(tables, kinds, dtype), alone), spans, rows)
