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

import torch
from torch import Tensor, nn

from docnmt.batch import PackedText, TranslationBatch
from docnmt.builtin import SIZES
from docnmt.config import option
from docnmt.layout import DocumentLayout
from docnmt.models.build import Vocabularies, embeddings
from docnmt.models.config import StructuredConfig
from docnmt.models.encoder_decoder import Decoder, DecoderState, Encoder, EncoderDecoder, Memory
from docnmt.models.joined import SourceSentences, by_sentence
from docnmt.modules.attention import CrossAttention, CrossKeys, KeyValueCache, PackedKeys, SelfAttention
from docnmt.modules.layers import DecoderLayer, EncoderLayer, FeedForward, LayerState, Residual
from docnmt.modules.positions import Position, build_position
from docnmt.registry import ARCHITECTURES, Architecture, register_model


@dataclass(frozen=True)
class GTransformerConfig(StructuredConfig):
    """Group attention in all layers, combined with global attention in the upper ones."""

    global_layers: int = option(2, "top layers that also attend to the whole document; all where there are fewer")

    def problems(self) -> list[str]:
        found = super().problems()
        if self.global_layers < 0:
            found.append(f"--global-layers: must be at least 0, got {self.global_layers}")
        if self.attention == "linear":
            found.append(
                "--attention linear: its decoder cannot forget a sentence when the next one begins; use softmax"
            )
        return found


@dataclass(frozen=True)
class Place:
    """Where the rows of a decoding step stand.

    Attributes:
        sentence: (R,) the number of the sentence that each row writes, counted in its document.
        word: (R,) place of the token it reads in that sentence. token: (R,) place in the document.
        last_word, last_token: their maxima.
    """

    sentence: Tensor
    word: Tensor
    token: Tensor
    last_word: int
    last_token: int

    @classmethod
    def of(cls, state: DecoderState) -> Place:
        word = state.lengths - state.since
        return cls(state.breaks, word, state.lengths, int(word.max()), int(state.lengths.max()))


class Combined(nn.Module):
    """Attention inside the sentence; with `whole` also over the document, mixed by a gate (GateSum)."""

    def __init__(self, d_model: int, attention: Callable[[], nn.Module], *, whole: bool) -> None:
        super().__init__()
        self.local: Any = attention()
        self.whole: Any = attention() if whole else None
        self.gate = nn.Linear(2 * d_model, d_model) if whole else None

    def mix(self, local: Tensor, whole: Tensor | None) -> Tensor:
        """H_L, H_G (T, d) → (T, d)."""
        if self.gate is None or whole is None:
            return local
        gate = torch.sigmoid(self.gate(torch.cat([local, whole], dim=-1)))
        return gate * local + (1 - gate) * whole


@dataclass
class Caches:
    """Keys and values of the rows' own tokens. `local` holds the sentence that a row is writing: the next one is
    written over it, and of what it leaves behind its own length nothing is read."""

    local: KeyValueCache
    whole: KeyValueCache | None

    def select(self, rows: Tensor) -> Caches:
        return Caches(self.local.select(rows), self.whole.select(rows) if self.whole else None)

    def append(self, other: Caches) -> Caches:
        whole = self.whole.append(other.whole) if self.whole and other.whole else None
        return Caches(self.local.append(other.local), whole)


class GroupSelfAttention(Combined):
    """Self-attention whose queries and keys have the same tags."""

    def forward(self, x: Tensor, layout: DocumentLayout) -> Tensor:
        """x (T, d) → (T, d)."""
        local = self.local(x, layout.sentences)
        return self.mix(local, self.whole(x, layout.documents) if self.whole else None)

    def begin(self, rows: int, like: Tensor) -> Caches:
        return Caches(self.local.begin(rows, like), self.whole.begin(rows, like) if self.whole else None)

    def step(self, x: Tensor, caches: Caches, place: Place) -> Tensor:
        """One new token a row: x (R, d) → (R, d)."""
        local = self.local.step(x, caches.local, place.word, place.last_word)
        whole = self.whole.step(x, caches.whole, place.token, place.last_token) if self.whole else None
        return self.mix(local, whole)


@dataclass
class Source:
    """What the slots read of their source documents: `local` one sentence at a time, `whole` all of it."""

    local: SourceSentences
    whole: CrossKeys | None

    def select(self, slots: Tensor) -> Source:
        return Source(self.local.select(slots), self.whole.select(slots) if self.whole else None)

    def append(self, other: Source) -> Source:
        whole = self.whole.append(other.whole) if self.whole and other.whole else None
        return Source(self.local.append(other.local), whole)


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


class GroupCrossAttention(Combined):
    """Attention to the source sentence whose tag is that of the target word."""

    def forward(self, x: Tensor, source: Tensor, layout: DocumentLayout, source_layout: DocumentLayout) -> Tensor:
        """x (Tq, d), source (Tk, d) → (Tq, d)."""
        local = self.local(x, source, layout.sentences, source_layout.sentences)
        whole = self.whole(x, source, layout.documents, source_layout.documents) if self.whole else None
        return self.mix(local, whole)

    def remember(self, source: Tensor, layout: DocumentLayout) -> Sources:
        sentences = self.local.remember(source, layout.sentences)
        return Sources(sentences, self.whole.remember(source, layout.documents) if self.whole else None, layout)

    def step(self, x: Tensor, source: Source, place: Place) -> Tensor:
        """One query a row: x (R, d) → (R, d)."""
        local = self.local.step(x, source.local.at(place.sentence), place.word)
        return self.mix(local, self.whole.step(x, source.whole, place.token) if self.whole else None)


class GroupEncoderLayer(EncoderLayer):
    """Group self-attention, feed-forward."""

    attention: Any

    def forward(self, x: Tensor, layout: DocumentLayout, shared: Any = None) -> Tensor:
        x = self.attention_residual(x, lambda h: self.attention(h, layout))
        out: Tensor = self.feed_forward_residual(x, self.feed_forward)
        return out


class GroupDecoderLayer(DecoderLayer):
    """Group self-attention, group cross-attention, feed-forward."""

    attention: Any
    cross: Any

    def forward(
        self, x: Tensor, layout: DocumentLayout, source: Tensor, source_layout: DocumentLayout, store: Any = None
    ) -> Tensor:
        x = self.attention_residual(x, lambda h: self.attention(h, layout))
        x = self.cross_residual(x, lambda h: self.cross(h, source, layout, source_layout))
        out: Tensor = self.feed_forward_residual(x, self.feed_forward)
        return out

    def write(self, x: Tensor, kept: LayerState, place: Place) -> Tensor:
        """One new token a row: x (R, d) → (R, d)."""
        x = self.attention_residual(x, lambda h: self.attention.step(h, kept.tokens, place))
        x = self.cross_residual(x, lambda h: self.cross.step(h, kept.source, place))
        out: Tensor = self.feed_forward_residual(x, self.feed_forward)
        return out


@dataclass(frozen=True)
class Parts:
    """Makes the layers."""

    config: GTransformerConfig
    position: Position

    def self_attention(self, causal: bool, whole: bool) -> Any:
        width, heads = self.config.embed_dim, self.config.heads

        def attention() -> SelfAttention:
            inside = self.position.attention(heads, width // heads) if self.position.attention else None
            return SelfAttention(d_model=width, heads=heads, d_head=width // heads, causal=causal, position=inside)

        return GroupSelfAttention(width, attention, whole=whole)

    def cross_attention(self, whole: bool) -> Any:
        width, heads = self.config.embed_dim, self.config.heads
        attention = partial(CrossAttention, d_model=width, heads=heads, d_head=width // heads)
        return GroupCrossAttention(width, attention, whole=whole)

    def others(self) -> dict[str, Any]:
        c = self.config
        feed_forward = FeedForward(d_model=c.embed_dim, d_inner=c.ffn_dim, activation=c.activation)
        residual = partial(Residual, d_model=c.embed_dim, dropout=c.dropout, norm=c.norm)
        return {"feed_forward": feed_forward, "residual": residual}

    def encoder_layer(self, whole: bool) -> EncoderLayer:
        return GroupEncoderLayer(attention=self.self_attention(False, whole), **self.others())

    def decoder_layer(self, whole: bool) -> DecoderLayer:
        attention, cross = self.self_attention(True, whole), self.cross_attention(whole)
        return GroupDecoderLayer(attention=attention, cross=cross, **self.others())

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
    unit = "document"
    joined = True

    @classmethod
    def build(cls, config: GTransformerConfig, task: Vocabularies) -> GTransformer:
        horizon = {"max_distance": config.horizon or 16}
        position = build_position(config.position, config.embed_dim, **horizon, **config.position_settings)
        source, target, output = embeddings(config, task, position)
        parts = Parts(config, position)
        encoder = Encoder(embedding=source, **parts.stack(parts.encoder_layer, config.encoder_layers))
        decoder = Decoder(embedding=target, **parts.stack(parts.decoder_layer, config.decoder_layers))
        return cls(encoder=encoder, decoder=decoder, output=output, position_count=config.joined_count)

    def forward(self, batch: TranslationBatch) -> Tensor:
        """Features (T, d) of the packed target tokens."""
        source, target = by_sentence(batch.source, begin=False), by_sentence(batch.target, begin=True)
        return super().forward(replace(batch, source=source, target=target))

    def encode(self, source: PackedText) -> Memory:
        grouped = by_sentence(source, begin=False)
        states = self.encoder(grouped)
        layers: Any = self.decoder.stack
        cross = [layer.cross.remember(states, grouped.layout) for layer in layers]
        assert source.begins is not None
        return Memory(source, cross, [None] * len(cross), source.begins)

    def step(self, tokens: Tensor, state: DecoderState) -> Tensor:
        """Every row reads one token (R,) → scores of the next one (R, V)."""
        x = self.decoder.embedding(tokens, state.positions(tokens, running=self.position_count == "sequence"))
        place = Place.of(state)
        layers: Any = self.decoder.stack
        for layer, kept in zip(layers, state.layers, strict=True):
            x = layer.write(x, kept, place)
        state.lengths = state.lengths + 1
        logits: Tensor = self.output(self.decoder.norm(x))
        return logits


for _suffix, (_layers, _width, _heads, _ffn) in SIZES.items():
    _size = {"encoder_layers": _layers, "decoder_layers": _layers, "embed_dim": _width, "heads": _heads}
    if _suffix:
        _architecture = Architecture("g_transformer", partial(dict, _size, ffn_dim=_ffn))
        _help = f"g_transformer with {_layers}+{_layers} layers, width {_width}"
        ARCHITECTURES.add("g_transformer" + _suffix, _architecture, help=_help)
