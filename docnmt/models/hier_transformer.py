"""Hierarchical encoding (002, section 2, figure 1): besides its own sentence, a word attends to sentence summaries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import nn

from docnmt.models.build import Vocabularies, encoder_decoder
from docnmt.models.config import DEFAULT_TARGET_TOP_T, HierTransformerConfig
from docnmt.models.encoder_decoder import EncoderDecoder
from docnmt.modules.context import ContextAttention, SummaryAttention, SummaryEncoder
from docnmt.modules.layers import ContextPlacement
from docnmt.modules.target_context import EarlierSentences, EarlierSummaries
from docnmt.modules.word_dropout import WordDropout

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclass(frozen=True)
class SummaryContext:
    """Makes the context parts of this architecture; the ones that build on it replace single parts."""

    config: HierTransformerConfig

    @property
    def placement(self) -> ContextPlacement:
        c = self.config
        return ContextPlacement.of(c.context_placement, heads=c.heads, context_heads=c.context_heads)

    @property
    def in_encoder(self) -> bool:
        return self.config.context_sides in ("both", "encoder")

    @property
    def in_decoder(self) -> bool:
        return self.config.context_sides in ("both", "decoder")

    @property
    def per_layer(self) -> bool:
        return self.config.summary_input == "layer"

    @property
    def d_head(self) -> int:
        return self.config.embed_dim // self.config.heads

    def attention(self) -> ContextAttention:
        return SummaryAttention(d_model=self.config.embed_dim, heads=self.placement.context_heads, d_head=self.d_head)

    def summarise(self) -> nn.Module:
        return SummaryEncoder(d_model=self.config.embed_dim, heads=self.config.heads)

    def hide(self) -> nn.Module:
        return WordDropout(self.config.context_word_dropout)

    def target_attention(self) -> ContextAttention | None:
        sizes = {"d_model": self.config.embed_dim, "heads": self.config.heads, "d_head": self.d_head}
        if self.config.target_context == "conditional":
            return EarlierSentences(**sizes, top_t=self.config.target_top_t or DEFAULT_TARGET_TOP_T)
        return EarlierSummaries(**sizes) if self.config.target_context == "summaries" else None

    def summarise_target(self) -> nn.Module | None:
        if self.config.target_context == "none":
            return None
        return SummaryEncoder(d_model=self.config.embed_dim, heads=self.config.heads)


class HierTransformer(EncoderDecoder):
    """Source2token summaries of all sentences of the document are the keys and values of a context attention."""

    Config: type[HierTransformerConfig] = HierTransformerConfig
    context: type[SummaryContext] = SummaryContext
    unit = "document"

    @classmethod
    def build(cls, config: HierTransformerConfig, task: Vocabularies) -> Self:
        parts = encoder_decoder(config, task, context=cls.context(config), **config.position_settings)
        return cls(position_count=config.position_count, **parts)
