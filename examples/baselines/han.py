"""Hierarchical Attention Networks (Miculicich et al., EMNLP 2018): a word reads the sentences before its own.

For a word's hidden state h_t and the words h^j_i of the K sentences before (j = 1 … K), in the paper's notation:

    s^j = MultiHead_i(f_w(h_t), h^j_i)            one vector for each sentence: what of it matters to this word
    d_t = FFN(MultiHead_j(f_s(h_t), s^j))         one vector for all of them
    λ_t = σ(W_h h_t + W_p d_t),   h̃_t = λ_t ∘ h_t + (1 − λ_t) ∘ d_t

The states are the encoder's (source sentences before) and the decoder's (the model's own translations before).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from joined_text import GatedSum, SentenceStartConfig, SourceSentences, by_sentence, read_as
from torch import Tensor, nn

from docnmt.plugin import (
    BOS,
    POSITIONS,
    Decoder,
    DecoderState,
    DocumentLayout,
    DocumentPart,
    Encoder,
    EncoderDecoder,
    FeedForward,
    KeyValueCache,
    Memory,
    PackedKeys,
    PackedText,
    ReadingPlan,
    RowLists,
    Slots,
    Spans,
    Step,
    TokenTable,
    TranslationBatch,
    Vocabularies,
    attend_listed,
    encoder_decoder,
    option,
    packed_attention,
    register_model,
    register_sizes,
)


@dataclass(frozen=True)
class HanEncoderConfig(SentenceStartConfig):
    """Hierarchical attention over the sentences before."""

    position: str = option("sinusoidal", "position family", choices=POSITIONS.names)
    previous_sentences: int = option(3, "sentences before its own that a word reads", metavar="K", between=(1, None))


@dataclass(frozen=True)
class HanConfig(HanEncoderConfig):
    """Hierarchical attention over source sentences and over the model's own translations."""

    han_sides: Literal["both", "decoder"] = option("both", "where it stands; han_encoder is for the encoder alone")

    def problems(self) -> list[str]:
        linear = "--attention linear: a decoder that goes on to the next sentence keeps sums of both; use softmax"
        return super().problems() + ([linear] if self.attention == "linear" else [])


@dataclass
class Written:
    """What a decoding step knows of the rows' earlier words: keys and values, and the sentence (K,) of each."""

    cache: KeyValueCache
    sentence: Tensor

    def keep(self, rows: Tensor, slots: Tensor | None) -> None:
        self.cache.keep(rows, slots)

    def append(self, other: Written) -> None:
        self.cache.append(other.cache)
        self.sentence = torch.cat([self.sentence, other.sentence])


class HierarchicalAttention(nn.Module, DocumentPart):
    """Word-level attention to each of the K sentences before, sentence-level attention over them, FFN, gated sum.

    A word with nothing before it keeps its state.
    """

    def __init__(
        self, *, d_model: int, heads: int, d_inner: int, activation: str, dropout: float, previous: int,
        opening: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        self.heads, self.previous = heads, previous
        self.queries = nn.Linear(d_model, 2 * d_model)  # f_w and f_s, each with the queries' projection behind it
        self.word_keys, self.word_output = nn.Linear(d_model, 2 * d_model), nn.Linear(d_model, d_model)
        self.sentence_keys, self.sentence_output = nn.Linear(d_model, 2 * d_model), nn.Linear(d_model, d_model)
        self.feed_forward = FeedForward(d_model=d_model, d_inner=d_inner, activation=activation)
        self.dropout = nn.Dropout(dropout)
        self.sum = GatedSum(d_model, opening=opening)  # its gate is W_h and W_p

    def start_closed(self) -> None:
        """Keep the state of every word at first."""
        self.sum.close()

    def _split(self, x: Tensor, parts: int) -> tuple[Tensor, ...]:
        return x.view(*x.shape[:-1], parts, self.heads, -1).unbind(-3)

    def forward(self, h: Tensor, layout: DocumentLayout) -> Tensor:
        """h (T, d) → h̃ (T, d)."""
        word_q, sentence_q = self._split(self.queries(h), 2)  # (T, h, d_h)
        keys, values = self._split(self.word_keys(h), 2)
        vectors, exists = [], []
        for back in range(1, self.previous + 1):
            rows, spans = sentences_before(layout, back)
            mixed = packed_attention(word_q, keys[rows], values[rows], layout.sentences, spans)
            vectors.append(mixed.flatten(1))
            exists.append((spans.offsets.diff() > 0).index_select(0, layout.sentence_of_token))
        return self._join(h, sentence_q, torch.stack(vectors, dim=1), torch.stack(exists, dim=1))

    def _join(self, h: Tensor, sentence_q: Tensor, read: Tensor, exists: Tensor) -> Tensor:
        """What each word read of each sentence, (T, K, d), and whether it was there, (T, K) → h̃ (T, d)."""
        keys, values = self._split(self.sentence_keys(self.word_output(read)), 2)  # (T, K, h, d_h)
        any_exists = exists.any(dim=1, keepdim=True)
        scores = torch.einsum("thd,tkhd->thk", sentence_q, keys) * sentence_q.shape[-1] ** -0.5
        weights = scores.masked_fill(~(exists | ~any_exists)[:, None], float("-inf")).softmax(-1)
        mixed = torch.einsum("thk,tkhd->thd", weights.to(values.dtype), values)
        context = self.dropout(self.feed_forward(self.sentence_output(mixed.flatten(1))))  # d_t
        return torch.where(any_exists, self.sum(h, context), h)

    def begin(self, slots: Slots) -> Written:
        cache = KeyValueCache.empty(self.heads, len(slots.like[0]) // self.heads, slots.like)
        return Written(cache, torch.zeros(0, dtype=torch.int64, device=slots.like.device))

    def step(self, h: Tensor, written: Written, table: TokenTable, sentence: Tensor) -> Tensor:
        """One new word a row, h (R, d), which stands in `sentence` (R,) of its document."""
        word_q, sentence_q = self._split(self.queries(h), 2)  # (R, h, d_h)
        key, value = self._split(self.word_keys(h), 2)
        written.cache.put(key, value, table)
        known = written.sentence[: table.size - len(h)] if table.moved is None else written.sentence[table.moved]
        written.sentence = nn.functional.pad(torch.cat([known, sentence]), (0, table.capacity - table.size))
        past = torch.arange(table.places.shape[1], device=h.device) < table.lengths[:, None]  # (R, L)
        back = sentence[:, None] - written.sentence[table.places]  # sentences before
        numbers = torch.arange(1, self.previous + 1, device=h.device)
        of_sentence = (back[:, None] == numbers[:, None]) & past[:, None]  # (R, K, L) which words are of which sentence
        places = table.places.repeat_interleave(self.previous, 0)  # (R·K, L)
        lists = RowLists.of_table(places, of_sentence.flatten(0, 1), self.heads)
        q = word_q[:, None].expand(-1, self.previous, -1, -1).flatten(0, 1)
        mixed = attend_listed(q, written.cache.keys, written.cache.values, lists)
        return self._join(h, sentence_q, mixed.view(len(h), self.previous, -1), of_sentence.any(dim=2))


def sentences_before(layout: DocumentLayout, back: int) -> tuple[Tensor, Spans]:
    """For each sentence the words of the one `back` sentences before it in its document: their rows, and where those of
    each sentence stand among them; none where there is no such sentence."""
    offsets = layout.sentence_offsets
    number = torch.arange(layout.num_sentences, device=offsets.device)
    exists = number - back >= layout.document_offsets[layout.document_of_sentence]
    other = torch.where(exists, number - back, 0)
    lengths = torch.where(exists, offsets.diff().index_select(0, other), 0)  # (S,)
    spans = Spans(torch.cat([lengths.new_zeros(1), lengths.cumsum(0)]))
    shift = offsets[other] - spans.offsets[:-1]
    return torch.arange(spans.num_tokens, device=offsets.device) + shift[spans.span_of_token], spans


class ReadingEncoder(Encoder):
    """The encoder of a sentence model, and the source sentences before."""

    def __init__(self, *, han: HierarchicalAttention, **parts: Any) -> None:
        super().__init__(**parts)
        self.han = han

    def forward(self, source: PackedText) -> Tensor:
        """(T, d) encoder states of the packed source."""
        states: Tensor = self.han(super().forward(source), source.layout)
        return states


class ReadingDecoder(Decoder):
    """The decoder of a sentence model, and its own translations before."""

    def __init__(self, *, han: HierarchicalAttention, **parts: Any) -> None:
        super().__init__(**parts)
        self.han = han

    def forward(self, target: PackedText, states: Tensor, source_layout: DocumentLayout) -> Tensor:
        """(Tq, d) features of the packed target."""
        features: Tensor = self.han(super().forward(target, states, source_layout), target.layout)
        return features


def reading(part: Any, kind: type, config: HanEncoderConfig) -> Any:
    """An encoder or decoder with hierarchical attention behind its last layer; its parameters keep their names."""
    han = HierarchicalAttention(
        d_model=config.embed_dim, heads=config.heads, d_inner=config.ffn_dim, activation=config.activation,
        dropout=config.dropout, previous=config.previous_sentences, opening=config.sentence_start,
    )  # fmt: skip
    save = part.checkpoint_activations
    return kind(
        han=han, embedding=part.embedding, layers=list(part.layers), norm=part.norm, checkpoint_activations=save
    )


@register_model("han_encoder")
class HanEncoder(EncoderDecoder):
    """hierarchical attention to the source sentences before, in the encoder"""

    Config = HanEncoderConfig

    @classmethod
    def build(cls, config: HanEncoderConfig, task: Vocabularies) -> HanEncoder:
        plan = ReadingPlan(written=None, positions=config.position_count)
        parts = encoder_decoder(config, task, reading=plan, **config.position_settings)
        parts["encoder"] = reading(parts["encoder"], ReadingEncoder, config)
        return cls(**parts)


@dataclass(frozen=True, eq=False)
class Documents:
    """Keys and values of all source sentences, and which document each is of."""

    keys: PackedKeys
    layout: DocumentLayout

    def of(self, units: Tensor) -> SourceSentences:
        """For slots that write these documents (N,)."""
        return SourceSentences.of(self.keys, self.layout, units)


@register_model("han")
class Han(EncoderDecoder):
    """hierarchical attention to the source sentences before and to the model's own translations of them

    A document is one sequence, so that what a sentence reads has been written; the layers under the hierarchical
    attention see its sentences one by one.
    """

    Config = HanConfig
    config: HanConfig
    decoder: ReadingDecoder

    @classmethod
    def build(cls, config: HanConfig, task: Vocabularies) -> Han:
        plan = ReadingPlan(written=None, joined=True, positions=config.position_count)
        parts = encoder_decoder(config, task, reading=plan, **config.position_settings)
        parts["decoder"] = reading(parts["decoder"], ReadingDecoder, config)
        if config.han_sides == "both":
            parts["encoder"] = reading(parts["encoder"], ReadingEncoder, config)
        model = cls(**parts)
        model.config = config
        return model

    def forward(self, batch: TranslationBatch) -> Tensor:
        """Features (T, d) of the packed target tokens."""
        source = by_sentence(batch.source, begin=False, config=self.config)
        target = by_sentence(batch.target, begin=True, config=self.config)
        return super().forward(replace(batch, source=source, target=target))

    def encode(self, source: PackedText) -> Memory:
        apart = by_sentence(source, begin=False, config=self.config)
        layers = self.decoder.remember(apart, self.encoder(apart))
        return Memory.of(source, [{**layer, "cross": Documents(layer["cross"], apart.layout)} for layer in layers])

    def begin(self, memory: Memory, sentences: Tensor, beam: int, earlier: Any = ()) -> DecoderState:
        state = super().begin(memory, sentences, beam)
        slots = Slots(sentences, beam, (), self.output.weight)
        state.layers.append({"han": self.decoder.han.begin(slots)})
        return state

    def step(self, tokens: Tensor, state: DecoderState) -> Tensor:
        """Every row reads one token (R,) → scores of the next one (R, V). A layer reads the sentence that a row is
        writing, and `han` those before."""
        positions = state.positions(tokens, running=False)
        x = self.decoder.embedding(read_as(tokens, BOS, self.config), positions)
        whole, number = state.next_step(), state.breaks
        at = Step(state.lengths - state.since, number, whole.table.since(state.since))
        *layers, last = state.layers
        for layer, caches in zip(self.decoder.stack, layers, strict=True):
            x = layer.step(x, {**caches, "cross": caches["cross"].at(number)}, at)
        x = self.decoder.han.step(self.decoder.norm(x), last["han"], whole.table, number)
        state.lengths = state.lengths + 1
        logits: Tensor = self.output(x)
        return logits


register_sizes("han_encoder")
register_sizes("han")
