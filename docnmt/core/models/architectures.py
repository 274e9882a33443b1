"""The architectures: from options to modules."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor, nn

from docnmt.core.batch import IGNORE, PackedText, TranslationBatch
from docnmt.core.models.config import (
    DEFAULT_TARGET_TOP_T,
    ConcatConfig,
    CondTransformerConfig,
    ContextOptions,
    CopyTransformerConfig,
    HierCondTransformerConfig,
    HierTransformerConfig,
    JoinedConfig,
    ScaleformerConfig,
    TransformerConfig,
)
from docnmt.core.models.encoder_decoder import Decoder, DecoderState, Encoder, EncoderDecoder, Memory, initialise
from docnmt.core.tokenizer import BOS, EOS
from docnmt.core.units import ReadingPlan
from docnmt.functional.loss import CopiedFeatures
from docnmt.layout import DocumentLayout
from docnmt.modules.attention import CrossAttention, LinearCrossAttention
from docnmt.modules.document_context import (
    ConditionalAttention,
    ContextAttention,
    EarlierContext,
    SourceContext,
    SummaryAttention,
    SummaryEncoder,
    build_merge,
)
from docnmt.modules.fusion import build_fusion
from docnmt.modules.layers import FeedForward, Layer, Residual, Sublayer
from docnmt.modules.pointer import CopyKeys, Earlier, Pointer
from docnmt.modules.positions import (
    AttentionPosition,
    Embedding,
    Position,
    RelativeKeys,
    WordDropout,
    build_position,
    check_fusion,
)
from docnmt.registry import ATTENTIONS, FUSIONS, POSITIONS
from docnmt.runtime.system import UsageError

if TYPE_CHECKING:
    from typing import Self


class Vocabularies(Protocol):
    """The properties of a translation task that determine a model's size."""

    @property
    def source_vocabulary_size(self) -> int: ...  # rows of the source embedding

    @property
    def target_vocabulary_size(self) -> int: ...  # rows of the target embedding and of the output layer

    @property
    def joined(self) -> bool: ...  # do both languages share one vocabulary?


def embeddings(
    config: TransformerConfig, task: Vocabularies, position: Position, of_target: Position | None = None
) -> tuple[Embedding, Embedding, nn.Linear]:
    """The source and target embeddings and the output layer; the configuration says which matrices are shared.
    `position` is that of the source and, unless `of_target` is another, of the target."""
    width = config.embed_dim
    check_fusion(config.position, position, config.position_fusion)
    if config.share_embeddings and not task.joined:
        raise UsageError(
            "--share-embeddings needs one vocabulary for both languages, and the data was preprocessed with "
            "two (--no-joined-dictionary); give --no-share-embeddings"
        )
    source = nn.Embedding(task.source_vocabulary_size, width)
    target = source if config.share_embeddings else nn.Embedding(task.target_vocabulary_size, width)
    for matrix in dict.fromkeys((source, target)):  # in this order, or initial weights would depend on addresses
        nn.init.normal_(matrix.weight, std=width**-0.5)
    output = nn.Linear(width, task.target_vocabulary_size, bias=False)
    if config.tie_output:
        output.weight = target.weight
    else:
        nn.init.normal_(output.weight, std=width**-0.5)
    if config.output_bias:
        output.bias = nn.Parameter(torch.zeros(task.target_vocabulary_size))

    def embedding(tokens: nn.Embedding, position: Position) -> Embedding:
        """Build the embedding of one side, with its positions and a fusion and norm of its own."""
        options = FUSIONS.options(config.position_fusion, config)
        fusion = None if position.input is None else build_fusion(config.position_fusion, width, **options)
        norm = nn.LayerNorm(width) if config.norm_embeddings else None
        scale = None if config.scale_embeddings else 1.0
        return Embedding(
            tokens=tokens, position=position.input, fusion=fusion, dropout=config.dropout, scale=scale, norm=norm
        )

    return embedding(source, position), embedding(target, of_target or position), output


def encoder_decoder(
    config: TransformerConfig, task: Vocabularies, *, reading: ReadingPlan | None = None,
    **position_settings: int | float | bool,
) -> dict[str, Any]:  # fmt: skip
    """Build the parts of an `EncoderDecoder`, by the plan and the positions of its options; or by others, which then
    have no context attention."""
    context = None
    if reading is None:
        reading, position_settings = config.reading, config.position_settings
        context = config if isinstance(config, HierTransformerConfig) else None

    def build() -> Position:
        return build_position(
            config.position, config.embed_dim, options=POSITIONS.options(config.position, config),
            sinusoids=config.sinusoids, max_distance=config.horizon or 16, max_positions=config.max_positions,
            **position_settings,
        )  # fmt: skip

    def hide() -> nn.Module | None:
        return None if context is None else WordDropout(context.context_word_dropout)

    position = build()
    source, target, output = embeddings(config, task, position, position if config.share_positions else build())
    in_encoder = context if context is not None and context.context_sides != "decoder" else None
    in_decoder = context if context is not None and context.context_sides != "encoder" else None
    own_text = context if reading.own_text else None
    summaries_once = in_encoder is not None and in_encoder.summary_input == "embeddings"
    encoder = Encoder(
        embedding=source,
        layers=[_encoder_layer(config, position, in_encoder) for _ in range(config.encoder_layers)],
        norm=_final_norm(config),
        summarise=_summaries(in_encoder) if in_encoder is not None and summaries_once else None,
        hide=None if in_encoder is None else hide(),
        checkpoint_activations=config.checkpoint_activations,
    )
    decoder = Decoder(
        embedding=target,
        layers=[_decoder_layer(config, position, in_decoder, own_text) for _ in range(config.decoder_layers)],
        norm=_final_norm(config),
        summarise=None if in_decoder is None else _summaries(in_decoder),
        summarise_target=None if own_text is None else SummaryEncoder(d_model=config.embed_dim, heads=config.heads),
        hide=hide(),
        checkpoint_activations=config.checkpoint_activations,
    )
    return {"encoder": encoder, "decoder": decoder, "output": output, "reading": reading}


def _encoder_layer(config: TransformerConfig, position: Position, context: HierTransformerConfig | None) -> Layer:
    heads = config.heads if context is None else context.heads_beside_context
    sublayers: dict[str, Sublayer] = {}
    if heads:
        sublayers["attention"] = _self_attention(config, position, causal=False, heads=heads)
    sublayers["feed_forward"] = _feed_forward(config)
    if context is None:
        return _layer(config, sublayers, [("attention",), ("feed_forward",)])
    attention = _context_attention(context)
    summarise = _summaries(context) if context.summary_input == "layer" else None
    sublayers["context"] = SourceContext(attention, summarise=summarise, hide=WordDropout(context.context_word_dropout))
    return _layer(config, sublayers, [*_beside_context(context, "attention"), ("feed_forward",)])


def _decoder_layer(
    config: TransformerConfig, position: Position, context: HierTransformerConfig | None,
    own_text: HierTransformerConfig | None,
) -> Layer:  # fmt: skip
    heads = config.heads if context is None else context.heads_beside_context
    sublayers: dict[str, Sublayer] = {"attention": _self_attention(config, position, causal=True, heads=config.heads)}
    if heads:
        sizes = {"d_model": config.embed_dim, "heads": heads, "d_head": config.embed_dim // config.heads}
        if config.attention == "linear":
            between = config.horizon if config.cross_relative else 0
            relative = RelativeKeys(sizes["d_head"], between) if between else None
            sublayers["cross"] = LinearCrossAttention(**sizes, position=relative)
        else:
            sublayers["cross"] = CrossAttention(**sizes)
    sublayers["feed_forward"] = _feed_forward(config)
    blocks: list[tuple[str, ...]] = [("attention",), ("cross",)]
    if context is not None:
        sublayers["context"] = SourceContext(_context_attention(context))
        blocks = [("attention",), *_beside_context(context, "cross")]
    if own_text is not None:
        sublayers["target"] = EarlierContext(_context_attention(own_text, earlier=True))
        blocks.append(("target",))
    return _layer(config, sublayers, [*blocks, ("feed_forward",)])


def _layer(config: TransformerConfig, sublayers: dict[str, Sublayer], blocks: list[tuple[str, ...]]) -> Layer:
    of_document = config.context_norm if isinstance(config, ContextOptions) and config.norm == "post" else config.norm
    residual = partial(Residual, d_model=config.embed_dim, dropout=config.dropout)
    make, make_of_document = partial(residual, norm=config.norm), partial(residual, norm=of_document)
    return Layer(sublayers, blocks, residual=make, document_residual=make_of_document)


def _self_attention(config: TransformerConfig, position: Position, *, causal: bool, heads: int) -> Sublayer:
    d_head = config.embed_dim // config.heads
    inside: AttentionPosition | None = None
    if position.attention is not None:
        inside = position.attention(heads, d_head)
    elif config.horizon:
        inside = RelativeKeys(d_head, config.horizon)
    sizes = {"d_model": config.embed_dim, "heads": heads, "d_head": d_head}
    options = ATTENTIONS.options(config.attention, config)
    return ATTENTIONS.get(config.attention)(**sizes, causal=causal, position=inside, **options)


def _final_norm(config: TransformerConfig) -> nn.Module:
    return nn.LayerNorm(config.embed_dim) if config.norm == "pre" else nn.Identity()


def _feed_forward(config: TransformerConfig) -> FeedForward:
    return FeedForward(d_model=config.embed_dim, d_inner=config.ffn_dim, activation=config.activation)


# The context attention of an architecture: how its words read their document.


def _beside_context(config: HierTransformerConfig, sublayer: str) -> list[tuple[str, ...]]:
    """The blocks of a sublayer and the context attention: after it, beside it, or alone with all heads."""
    if config.context_placement == "block":
        return [(sublayer,), ("context",)]
    return [(sublayer, "context")] if config.heads_beside_context else [("context",)]


def _context_attention(config: HierTransformerConfig, *, earlier: bool = False) -> ContextAttention:
    """The attention to the document, or to its `earlier` target sentences."""
    options: dict[str, Any] = {"d_model": config.embed_dim, "d_head": config.embed_dim // config.heads}
    options |= {"heads": config.heads if earlier else config.heads_of_context, "equal_start": config.equal_start}
    if earlier and config.target_context == "conditional":
        return ConditionalAttention(**options, earlier=True, top_t=config.target_top_t or DEFAULT_TARGET_TOP_T)
    if earlier or not isinstance(config, CondTransformerConfig):
        return SummaryAttention(**options, earlier=earlier)
    options |= {"always_own": config.always_own_sentence, "read_all_updates": config.read_all_updates}
    if isinstance(config, HierCondTransformerConfig):
        options |= {"select_on": config.select_on, "count_copies": config.count_copies}
        options["by_blocks"] = config.merge is None
    return ConditionalAttention(**options, top_t=config.top_t)


def _summaries(config: HierTransformerConfig) -> SummaryEncoder:
    """The encoder of the sentences' source2token summaries, with the tree over them."""
    sizes = {"d_model": config.embed_dim, "heads": config.heads}
    name = config.merge if isinstance(config, HierCondTransformerConfig) else None
    return SummaryEncoder(**sizes, merge=None if name is None else build_merge(name, **sizes))


# The architectures.


class Transformer(EncoderDecoder):
    """The Transformer, sentence by sentence (Vaswani et al. 2017): the baseline for every document model."""

    Config: type[TransformerConfig] = TransformerConfig

    @classmethod
    def build(cls, config: TransformerConfig, task: Vocabularies) -> Self:
        return cls(**encoder_decoder(config, task))


class ConcatTransformer(Transformer):
    """A few sentences as one sequence (Tiedemann and Scherrer 2017): 2-to-1, 2-to-2, k-to-k.

    It reads K + 1 source sentences with break tokens between them and translates the last J of them. A document is cut
    into windows of J sentences, in training as in decoding: without overlap, or sliding by `--window-stride` sentences,
    where search keeps what a window has beyond the one before it.
    """

    Config = ConcatConfig


class DocTransformer(Transformer):
    """The whole document as one sequence (Trankova and Rykunov, section 1.3.1), with break tokens between sentences and
    multi-level positions. Every word attends to all words of its document: exact, in quadratic time."""

    Config: type[JoinedConfig] = JoinedConfig


class Scaleformer(DocTransformer):
    """A document transformer with kernelised attention and relative positions, in the encoder, in the decoder and
    between them (Favier and Dal'Maz Silva). Time and memory grow linearly with the document; the decoder's cache of its
    own text has a constant size."""

    Config = ScaleformerConfig


class HierTransformer(Transformer):
    """Hierarchical encoding (Trankova and Rykunov, section 2, figure 1): besides its own sentence, a word attends to
    the source2token summaries of all sentences of its document."""

    Config: type[HierTransformerConfig] = HierTransformerConfig


class CondTransformer(HierTransformer):
    """Conditional context aggregation (Trankova and Rykunov, section 3, eq. 7): a word reads the words of its top t
    sentences. Summaries only route; the words of the chosen sentences carry the content."""

    Config: type[CondTransformerConfig] = CondTransformerConfig


class HierCondTransformer(CondTransformer):
    """Hierarchical sentence selection (Trankova and Rykunov, section 3.3): the top t sentences of a long document are
    found through blocks of neighbours, ranked by an upper bound of their relevances; with a merge, by descending a
    binary tree of their summaries (ConstructBT, TraverseTree)."""

    Config = HierCondTransformerConfig


class CopyTransformer(EncoderDecoder):
    """The Transformer, sentence by sentence, with a `Pointer` to the given translations of its document.

    Training reads the references before each sentence. Decoding reads given translations, never the model's own text,
    whose errors the pointer would trust like a reference. Without given translations, or with the pointer closed, it is
    the sentence model.
    """

    Config = CopyTransformerConfig

    def __init__(self, *, pointer: Pointer, **parts: Any) -> None:
        super().__init__(**parts)
        self.pointer = pointer
        initialise(pointer)

    @classmethod
    def build(cls, config: CopyTransformerConfig, task: Vocabularies) -> Self:
        parts = encoder_decoder(config, task)
        return cls(pointer=Pointer(d_model=config.embed_dim, window=config.copy_window), **parts)

    def forward(self, batch: TranslationBatch) -> CopiedFeatures:  # type: ignore[override]  # a criterion knows both
        """Return the features (T, d) and the probabilities of copying the labels."""
        features, target = super().forward(batch), batch.target
        # what follows each token, also in sentences that are only read; nothing where there is the first token alone
        offsets, followed = target.layout.sentence_offsets, target.tokens
        followed = followed.roll(-1).index_fill(0, offsets[1:] - 1, EOS) if len(followed) else followed
        alone = (offsets.diff() == 1).index_select(0, target.layout.sentence_of_token)
        followed = torch.where(batch.labels >= 0, batch.labels, followed.masked_fill(alone, IGNORE))
        return CopiedFeatures(features, self.pointer(features, followed, target.layout))

    def encode(self, source: PackedText) -> Memory:
        """Encode packed documents; the states are kept because `remember` reads them."""
        states = self.encoder(source)
        return Memory.of(source, self.decoder.remember(source, states), states)

    def begin(  # type: ignore[override]  # what is kept of a written sentence is this model's own
        self, memory: Memory, sentences: Tensor, beam: int, earlier: Sequence[Sequence[CopyKeys]] = ()
    ) -> DecoderState:
        state = super().begin(memory, sentences, beam)
        state.layers.append({"pointer": Earlier(earlier or [[] for _ in sentences], self.pointer.window)})
        return state

    def remember(self, memory: Memory, sentence: int, tokens: Sequence[int]) -> CopyKeys:  # type: ignore[override]
        """Return the decoder's states of a finished translation, computed in one more pass over it."""
        assert memory.states is not None
        begin, end = memory.source.layout.sentences.host[sentence : sentence + 2].tolist()
        device = memory.states.device
        text = torch.tensor([BOS, *tokens, EOS], device=device)
        layout = DocumentLayout.from_lengths([[len(text) - 1]]).to(device)
        target = PackedText(text[:-1], layout, memory.positions(sentence, len(text) - 1))
        source = DocumentLayout.from_lengths([[end - begin]]).to(device)
        features = self.decoder(target, memory.states[begin:end], source)
        return self.pointer.remember(features, text[1:])

    def step(self, tokens: Tensor, state: DecoderState) -> Tensor:
        """Read one token (R,) in every row; return the log-probabilities of the next one (R, V)."""
        features = self.advance(tokens, state)
        earlier = state.layers[-1]["pointer"]
        assert isinstance(earlier, Earlier)
        return self.pointer.step(features, self.output(features), earlier)
