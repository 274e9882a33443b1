"""G-Transformer (Bao et al., ACL 2021): a document as one sequence, with attention that stays inside sentences.

Every token has a group tag, the number of its sentence. Group attention sees only what has the query's own tag:

    GroupAttn(Q, K, V, G_Q, G_K) = softmax(Q Kᵀ / √d_k + M(G_Q, G_K)) V,   M = 0 where the tags agree, else −∞.

Tokens of one tag stand together, so no mask is made: on packed rows it is attention between the spans of sentence i of
the target and sentence i of the source. The upper layers mix it with attention over the whole document, feature by
feature: H = g ⊙ H_L + (1 − g) ⊙ H_G, g = σ([H_L, H_G] W + b).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from joined_text import GatedSum, SentenceStartConfig, SourceSentences, by_sentence, read_as
from torch import Tensor, nn

from docnmt.plugin import (
    BOS,
    POSITIONS,
    CrossAttention,
    Decoder,
    DecoderState,
    DocumentLayout,
    DocumentPart,
    Encoder,
    EncoderDecoder,
    FeedForward,
    KeyValueCache,
    Layer,
    Memory,
    PackedKeys,
    PackedText,
    Position,
    ReadingPlan,
    Reads,
    Residual,
    SelfAttention,
    Shelf,
    Slots,
    Step,
    Sublayer,
    TranslationBatch,
    Vocabularies,
    build_position,
    embeddings,
    option,
    register_model,
    register_sizes,
)


@dataclass(frozen=True)
class GTransformerConfig(SentenceStartConfig):
    """Group attention in all layers, combined with global attention in the upper ones."""

    global_layers: int = option(
        2, "top layers that also attend to the whole document; all where there are fewer", between=(0, None)
    )

    def problems(self) -> list[str]:
        other = f"--attention {self.attention}: attention to a sentence and to its document is softmax here"
        return super().problems() + [other] * (self.attention != "softmax")


@dataclass(frozen=True, eq=False)
class Place(Step):
    """Where the rows of a decoding step are in their documents, and in the sentences that they write.

    Attributes:
        in_sentence: the same, counted from the sentence's first token.
        number: (R,) the number of the sentence that each row writes, counted in its document.
    """

    in_sentence: Step
    number: Tensor

    @classmethod
    def of(cls, state: DecoderState) -> Place:
        at = state.next_step()
        in_sentence = Step(state.lengths - state.since, at.sentences, at.table.since(state.since))
        return cls(at.lengths, at.sentences, at.table, in_sentence, state.breaks)


class Global(nn.Module, DocumentPart):
    """Attention over the whole document, which a gate joins with that inside the sentence."""

    def __init__(self, attention: Any, d_model: int, *, opening: bool) -> None:
        super().__init__()
        self.attention = attention
        self.sum = GatedSum(d_model, opening=opening)

    def start_closed(self) -> None:
        """Add nothing at first."""
        self.sum.close()


@dataclass
class Caches:
    """Keys and values of the rows' own tokens, of which `local` reads those of the sentence that a row is writing."""

    local: KeyValueCache
    whole: KeyValueCache | None

    def keep(self, rows: Tensor, slots: Tensor | None) -> None:
        for cache in (self.local, self.whole):
            if cache is not None:
                cache.keep(rows, slots)

    def append(self, other: Caches) -> None:
        self.local.append(other.local)
        if self.whole is not None and other.whole is not None:
            self.whole.append(other.whole)


class GroupSelfAttention(SelfAttention):
    """Self-attention whose queries and keys have the same tags, with `whole` joined with that over the document."""

    def __init__(self, **sizes: Any) -> None:
        super().__init__(**sizes)
        self.whole: Global | None = None

    def forward(self, x: Tensor, reads: Reads) -> Tensor:
        """x (T, d) → (T, d)."""
        local = super().forward(x, reads)
        if self.whole is None:
            return local
        return self.whole.sum(local, self.whole.attention.within(x, reads.layout.documents))

    def begin(self, remembered: None, slots: Slots) -> Caches:
        whole = None if self.whole is None else self.whole.attention.begin(None, slots)
        return Caches(super().begin(None, slots), whole)

    def step(self, x: Tensor, cache: Caches, at: Place) -> Tensor:
        """One new token a row: x (R, d) → (R, d)."""
        local = super().step(x, cache.local, at.in_sentence)
        return local if self.whole is None else self.whole.sum(local, self.whole.attention.step(x, cache.whole, at))


@dataclass
class Source:
    """What the slots read of their source documents: `local` one sentence at a time, `whole` all of it."""

    local: SourceSentences
    whole: Shelf | None

    def keep(self, rows: Tensor, slots: Tensor | None) -> None:
        self.local.keep(rows, slots)
        if self.whole is not None:
            self.whole.keep(rows, slots)

    def append(self, other: Source) -> None:
        self.local.append(other.local)
        if self.whole is not None and other.whole is not None:
            self.whole.append(other.whole)


@dataclass(frozen=True, eq=False)
class Sources:
    """What cross-attention will read of all source documents."""

    sentences: PackedKeys
    documents: PackedKeys | None
    layout: DocumentLayout

    def of(self, units: Tensor) -> Source:
        """For slots that write these documents (N,)."""
        local = SourceSentences.of(self.sentences, self.layout, units)
        return Source(local, self.documents.of(units) if self.documents else None)


class GroupCrossAttention(CrossAttention):
    """Attention to the source sentence whose tag is that of the target word, with `whole` joined as above."""

    def __init__(self, **sizes: Any) -> None:
        super().__init__(**sizes)
        self.whole: Global | None = None

    def forward(self, x: Tensor, reads: Reads) -> Tensor:
        """x (Tq, d) → (Tq, d), reading the encoder's states (Tk, d)."""
        local = super().forward(x, reads)
        if self.whole is None:
            return local
        source, layout = reads.of_source
        return self.whole.sum(local, self.whole.attention.between(x, source, reads.layout.documents, layout.documents))

    def remember(self, reads: Reads) -> Sources:
        source, layout = reads.of_source
        whole = None if self.whole is None else self.whole.attention.keys_of(source, layout.documents)
        return Sources(super().remember(reads), whole, layout)

    def begin(self, remembered: Sources, slots: Slots) -> Source:
        return remembered.of(slots.sentences)

    def step(self, x: Tensor, cache: Source, at: Place) -> Tensor:
        """One query a row: x (R, d) → (R, d)."""
        local = super().step(x, cache.local.at(at.number), at.in_sentence)
        return local if self.whole is None else self.whole.sum(local, self.whole.attention.step(x, cache.whole, at))


@dataclass(frozen=True)
class Parts:
    """Makes the layers."""

    config: GTransformerConfig
    position: Position

    @property
    def sizes(self) -> dict[str, int]:
        width, heads = self.config.embed_dim, self.config.heads
        return {"d_model": width, "heads": heads, "d_head": width // heads}

    def joined(self, local: Any, attention: Callable[[], Any], whole: bool) -> Any:
        if whole:
            local.whole = Global(attention(), self.config.embed_dim, opening=self.config.sentence_start)
        return local

    def self_attention(self, causal: bool, whole: bool) -> Any:
        def attention(kind: type[SelfAttention]) -> SelfAttention:
            heads, d_head = self.sizes["heads"], self.sizes["d_head"]
            inside = self.position.attention(heads, d_head) if self.position.attention else None
            return kind(**self.sizes, causal=causal, position=inside)

        return self.joined(attention(GroupSelfAttention), partial(attention, SelfAttention), whole)

    def cross_attention(self, whole: bool) -> Any:
        return self.joined(GroupCrossAttention(**self.sizes), partial(CrossAttention, **self.sizes), whole)

    def layer(self, attentions: dict[str, Sublayer]) -> Layer:
        """These attentions and a feed-forward block, each a block of its own."""
        c = self.config
        feed_forward = FeedForward(d_model=c.embed_dim, d_inner=c.ffn_dim, activation=c.activation)
        sublayers = {**attentions, "feed_forward": feed_forward}
        residual = partial(Residual, d_model=c.embed_dim, dropout=c.dropout, norm=c.norm)
        return Layer(sublayers, [(name,) for name in sublayers], residual=residual)

    def encoder_layer(self, whole: bool) -> Layer:
        return self.layer({"attention": self.self_attention(False, whole)})

    def decoder_layer(self, whole: bool) -> Layer:
        return self.layer({"attention": self.self_attention(True, whole), "cross": self.cross_attention(whole)})

    def stack(self, layer: Callable[[bool], Any], count: int) -> dict[str, Any]:
        """What an encoder or decoder of `count` layers is made of, besides its embedding."""
        return {
            "layers": [layer(count - n <= self.config.global_layers) for n in range(count)],
            "norm": nn.LayerNorm(self.config.embed_dim) if self.config.norm == "pre" else nn.Identity(),
            "checkpoint_activations": self.config.checkpoint_activations,
        }


@register_model("g_transformer")
class GTransformer(EncoderDecoder):
    """a document as one sequence, group attention by sentence, global attention in the top layers"""

    Config = GTransformerConfig
    config: GTransformerConfig

    @classmethod
    def build(cls, config: GTransformerConfig, task: Vocabularies) -> GTransformer:
        horizon = {"max_distance": config.horizon or 16}
        options = POSITIONS.options(config.position, config)
        position = build_position(
            config.position, config.embed_dim, options=options, **horizon, **config.position_settings
        )
        source, target, output = embeddings(config, task, position)
        parts = Parts(config, position)
        encoder = Encoder(embedding=source, **parts.stack(parts.encoder_layer, config.encoder_layers))
        decoder = Decoder(embedding=target, **parts.stack(parts.decoder_layer, config.decoder_layers))
        reading = ReadingPlan(written=None, joined=True, positions=config.joined_count)
        model = cls(encoder=encoder, decoder=decoder, output=output, reading=reading)
        model.config = config
        return model

    def forward(self, batch: TranslationBatch) -> Tensor:
        """Features (T, d) of the packed target tokens."""
        source = by_sentence(batch.source, begin=False, config=self.config)
        target = by_sentence(batch.target, begin=True, config=self.config)
        return super().forward(replace(batch, source=source, target=target))

    def encode(self, source: PackedText) -> Memory:
        grouped = by_sentence(source, begin=False, config=self.config)
        return Memory.of(source, self.decoder.remember(grouped, self.encoder(grouped)))

    def step(self, tokens: Tensor, state: DecoderState) -> Tensor:
        """Every row reads one token (R,) → scores of the next one (R, V)."""
        positions = state.positions(tokens, running=self.reading.positions == "sequence")
        x = self.decoder.embedding(read_as(tokens, BOS, self.config), positions)
        at = Place.of(state)
        for layer, caches in zip(self.decoder.stack, state.layers, strict=True):
            x = layer.step(x, caches, at)
        state.lengths = state.lengths + 1
        logits: Tensor = self.output(self.decoder.norm(x))
        return logits


register_sizes("g_transformer")
