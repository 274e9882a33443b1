"""The translation architectures: each defines how much text is read at once, and the sublayers of its layers."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, TypedDict

from docnmt.core.models.build_model import DocumentContext, Vocabularies, encoder_decoder
from docnmt.core.models.config import TransformerConfig
from docnmt.core.models.context_config import CondTransformerConfig, HierCondTransformerConfig, HierTransformerConfig
from docnmt.core.models.encoder_decoder import EncoderDecoder
from docnmt.core.models.sequence_config import ConcatConfig, JoinedConfig, ScaleformerConfig
from docnmt.core.reading import ReadingPlan
from docnmt.modules.context_attention import ConditionalAttention, SummaryAttention

if TYPE_CHECKING:
    from typing_extensions import Self


class Transformer(EncoderDecoder):
    """The Transformer, sentence by sentence (Vaswani et al. 2017): the baseline for every document model."""

    Config = TransformerConfig

    @classmethod
    def build(cls, config: TransformerConfig, task: Vocabularies) -> Self:
        """The model with random weights."""
        return cls(**encoder_decoder(config, task, reading=ReadingPlan(written=1), levels=1))


class ConcatTransformer(EncoderDecoder):
    """A few sentences as one sequence (Tiedemann and Scherrer 2017): 2-to-1, 2-to-2, k-to-k.

    It reads K + 1 source sentences with break tokens between them and translates the last J of them. A document is cut
    into windows of J sentences, in training as in decoding: without overlap, or sliding by `--window-stride` sentences,
    where search keeps what a window has beyond the one before it.
    """

    Config = ConcatConfig

    @classmethod
    def build(cls, config: ConcatConfig, task: Vocabularies) -> Self:
        """The model with random weights."""
        reading = ReadingPlan(
            written=config.target_window,
            earlier=config.source_context + 1 - config.target_window,
            stride=config.window_stride or config.target_window,
            joined=True,
            source_breaks=config.source_breaks,
            positions=config.joined_count,
            masked_context=config.context_word_dropout,
        )
        return cls(**encoder_decoder(config, task, reading=reading, **config.position_settings))


class DocTransformer(EncoderDecoder):
    """The whole document as one sequence (Trankova and Rykunov, section 1.3.1), with break tokens between sentences and
    multi-level positions. Every word attends to all words of its document: exact, in quadratic time."""

    Config = JoinedConfig

    @classmethod
    def build(cls, config: JoinedConfig, task: Vocabularies) -> Self:
        """The model with random weights."""
        reading = ReadingPlan(
            written=None, joined=True, source_breaks=config.source_breaks, positions=config.joined_count
        )
        return cls(**encoder_decoder(config, task, reading=reading, **config.position_settings))


class Scaleformer(DocTransformer):
    """A document transformer with kernelised attention and relative positions, in the encoder, in the decoder and
    between them (Favier and Dal'Maz Silva). Time and memory grow linearly with the document; the decoder's cache of its
    own text has a constant size."""

    Config = ScaleformerConfig


class HierTransformer(EncoderDecoder):
    """Hierarchical encoding (Trankova and Rykunov, section 2, figure 1): besides its own sentence, a word attends to
    the source2token summaries of all sentences of its document."""

    Config = HierTransformerConfig

    @classmethod
    def build(cls, config: HierTransformerConfig, task: Vocabularies) -> Self:
        """The model with random weights."""
        return cls(**encoder_decoder(config, task, context=DocumentContext(config, SummaryAttention)))


class SelectionOptions(TypedDict):
    """The options of conditional attention that determine which sentences it selects."""

    top_t: int
    always_own: bool
    read_all_updates: int


def _selection(config: CondTransformerConfig) -> SelectionOptions:
    return {
        "top_t": config.top_t,
        "always_own": config.always_own_sentence,
        "read_all_updates": config.read_all_updates,
    }


class CondTransformer(EncoderDecoder):
    """Conditional context aggregation (Trankova and Rykunov, section 3, eq. 7): a word reads the words of its top t
    sentences. Summaries only route; the words of the chosen sentences carry the content."""

    Config = CondTransformerConfig

    @classmethod
    def build(cls, config: CondTransformerConfig, task: Vocabularies) -> Self:
        """The model with random weights."""
        attention = partial(ConditionalAttention, **_selection(config))
        return cls(**encoder_decoder(config, task, context=DocumentContext(config, attention)))


class HierCondTransformer(EncoderDecoder):
    """Hierarchical sentence selection (Trankova and Rykunov, section 3.3): the top t sentences of a long document are
    found through blocks of neighbours, ranked by an upper bound of their relevances; with a merge, by descending a
    binary tree of their summaries (ConstructBT, TraverseTree)."""

    Config = HierCondTransformerConfig

    @classmethod
    def build(cls, config: HierCondTransformerConfig, task: Vocabularies) -> Self:
        """The model with random weights."""
        attention = partial(
            ConditionalAttention,
            **_selection(config),
            select_on=config.select_on,
            count_copies=config.count_copies,
            by_blocks=config.merge is None,
        )
        return cls(**encoder_decoder(config, task, context=DocumentContext(config, attention, merge=config.merge)))
