"""From a configuration to the modules of an encoder-decoder: the parts that all architectures have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from torch import nn

from docnmt.errors import UsageError
from docnmt.models.config import TransformerConfig
from docnmt.models.encoder_decoder import Decoder, Encoder
from docnmt.modules.attention import CrossAttention, SelfAttention
from docnmt.modules.context import ContextAttention
from docnmt.modules.embedding import Embedding
from docnmt.modules.fusion import build_fusion
from docnmt.modules.layers import ContextPlacement, DecoderLayer, EncoderLayer, FeedForward, Residual
from docnmt.modules.linear_attention import LinearCrossAttention, LinearSelfAttention
from docnmt.modules.positions import AttentionPosition, Position, RelativeKeys, build_position
from docnmt.registry import FUSIONS, POSITIONS


class Vocabularies(Protocol):
    """What a model must know of a translation task."""

    source_vocabulary_size: int
    target_vocabulary_size: int
    joined: bool


class ContextParts(Protocol):
    """An architecture's context attention: how it is made, and where."""

    @property
    def placement(self) -> ContextPlacement: ...

    @property
    def in_encoder(self) -> bool: ...

    @property
    def in_decoder(self) -> bool: ...

    @property
    def per_layer(self) -> bool:
        """Every encoder layer summarises its own input."""

    def attention(self) -> ContextAttention:
        """One layer's context attention."""

    def summarise(self) -> nn.Module:
        """A summary encoder."""

    def hide(self) -> nn.Module:
        """What is done to words before they are context."""

    def target_attention(self) -> ContextAttention | None:
        """One decoder layer's attention to earlier target sentences, or None without it."""

    def summarise_target(self) -> nn.Module | None:
        """A summary encoder of target sentences, or None."""


def embeddings(
    config: TransformerConfig, task: Vocabularies, position: Position
) -> tuple[Embedding, Embedding, nn.Linear]:
    """Source and target embeddings and the output layer, their matrices shared as the configuration says.

    Raises:
        UsageError: sharing was asked for and the vocabularies differ.
    """
    width = config.embed_dim
    if config.share_embeddings and not task.joined:
        raise UsageError(
            "--share-embeddings needs one vocabulary for both languages, and the data was preprocessed with "
            "--no-joined-dictionary; give --no-share-embeddings"
        )
    source = nn.Embedding(task.source_vocabulary_size, width)
    target = source if config.share_embeddings else nn.Embedding(task.target_vocabulary_size, width)
    for matrix in dict.fromkeys((source, target)):  # in this order, or initial weights would depend on addresses
        nn.init.normal_(matrix.weight, std=width**-0.5)
    output = nn.Linear(width, task.target_vocabulary_size, bias=False)
    output.weight = target.weight

    def embedding(tokens: nn.Embedding) -> Embedding:
        fused = FUSIONS.options(config.position_fusion, config)
        fusion = None if position.input is None else build_fusion(config.position_fusion, width, **fused)
        return Embedding(tokens=tokens, position=position.input, fusion=fusion, dropout=config.dropout)

    return embedding(source), embedding(target), output


def encoder_decoder(
    config: TransformerConfig, task: Vocabularies, *, context: ContextParts | None = None, **position_settings: Any
) -> dict[str, Any]:
    """The modules of an `EncoderDecoder` as its keyword arguments."""
    lengths = {"max_distance": config.horizon or 16, "max_positions": config.max_positions}
    options = POSITIONS.options(config.position, config)
    position = build_position(config.position, config.embed_dim, options=options, **lengths, **position_settings)
    source, target, output = embeddings(config, task, position)
    in_encoder = context if context is not None and context.in_encoder else None
    in_decoder = context if context is not None and context.in_decoder else None
    once = in_encoder is not None and not in_encoder.per_layer
    return {
        "encoder": Encoder(
            embedding=source,
            layers=[_encoder_layer(config, position, in_encoder) for _ in range(config.encoder_layers)],
            norm=_final_norm(config),
            summarise=in_encoder.summarise() if in_encoder is not None and once else None,
            hide=None if in_encoder is None else in_encoder.hide(),
            checkpoint_activations=config.checkpoint_activations,
        ),
        "decoder": Decoder(
            embedding=target,
            layers=[_decoder_layer(config, position, in_decoder, context) for _ in range(config.decoder_layers)],
            norm=_final_norm(config),
            summarise=None if in_decoder is None else in_decoder.summarise(),
            summarise_target=None if context is None else context.summarise_target(),
            hide=None if context is None else context.hide(),
            checkpoint_activations=config.checkpoint_activations,
        ),
        "output": output,
    }


def _encoder_layer(config: TransformerConfig, position: Position, context: ContextParts | None) -> EncoderLayer:
    heads = None if context is None else context.placement.self_heads
    return EncoderLayer(
        attention=_self_attention(config, position, causal=False, heads=heads),
        feed_forward=_feed_forward(config),
        residual=_residual(config),
        context=None if context is None else context.attention(),
        summarise=context.summarise() if context is not None and context.per_layer else None,
        own_block=context is None or context.placement.own_block,
        hide=None if context is None else context.hide(),
    )


def _decoder_layer(
    config: TransformerConfig, position: Position, context: ContextParts | None, target: ContextParts | None
) -> DecoderLayer:
    cross_heads = config.heads if context is None else context.placement.self_heads
    return DecoderLayer(
        attention=_self_attention(config, position, causal=True, heads=None),
        cross=_cross_attention(config, cross_heads),
        feed_forward=_feed_forward(config),
        residual=_residual(config),
        context=None if context is None else context.attention(),
        own_block=context is None or context.placement.own_block,
        target=None if target is None else target.target_attention(),
    )


def _self_attention(
    config: TransformerConfig, position: Position, *, causal: bool, heads: int | None
) -> SelfAttention | LinearSelfAttention:
    heads, d_head = heads or config.heads, config.embed_dim // config.heads
    kind = LinearSelfAttention if config.attention == "linear" else SelfAttention
    inside: AttentionPosition | None = None
    if position.attention is not None:
        inside = position.attention(heads, d_head)
    elif config.horizon:
        inside = RelativeKeys(d_head, config.horizon)
    return kind(d_model=config.embed_dim, heads=heads, d_head=d_head, causal=causal, position=inside)


def _cross_attention(config: TransformerConfig, heads: int) -> CrossAttention | LinearCrossAttention:
    width, d_head = config.embed_dim, config.embed_dim // config.heads
    if config.attention == "softmax":
        return CrossAttention(d_model=width, heads=heads, d_head=d_head)
    relative = RelativeKeys(d_head, config.horizon) if config.horizon else None
    return LinearCrossAttention(d_model=width, heads=heads, d_head=d_head, position=relative)


def _feed_forward(config: TransformerConfig) -> FeedForward:
    return FeedForward(d_model=config.embed_dim, d_inner=config.ffn_dim, activation=config.activation)


def _residual(config: TransformerConfig) -> Callable[[], Residual]:
    return lambda: Residual(d_model=config.embed_dim, dropout=config.dropout, norm=config.norm)


def _final_norm(config: TransformerConfig) -> nn.Module:
    return nn.LayerNorm(config.embed_dim) if config.norm == "pre" else nn.Identity()
