"""Conditional context aggregation (002, section 3, eq. 7): a word reads the words of its top t sentences."""

from __future__ import annotations

from dataclasses import dataclass

from docnmt.models.config import CondTransformerConfig, HierTransformerConfig
from docnmt.models.hier_transformer import HierTransformer, SummaryContext
from docnmt.modules.context import ConditionalAttention, ContextAttention


@dataclass(frozen=True)
class ConditionalContext(SummaryContext):
    """The summaries only route; the words of the chosen sentences carry the content."""

    config: CondTransformerConfig

    def attention(self) -> ContextAttention:
        return ConditionalAttention(
            d_model=self.config.embed_dim,
            heads=self.placement.context_heads,
            d_head=self.d_head,
            top_t=self.config.top_t,
            always_own=self.config.always_own_sentence,
            read_all_updates=self.config.read_all_updates,
        )


class CondTransformer(HierTransformer):
    """ConditionalAttention over the whole source document in encoder and decoder."""

    Config: type[HierTransformerConfig] = CondTransformerConfig
    context: type[SummaryContext] = ConditionalContext
