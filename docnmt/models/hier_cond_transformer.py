"""Hierarchical sentence selection (002, section 3.3): the top t sentences are found by descending a binary tree."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from docnmt.models.cond_transformer import ConditionalContext, CondTransformer
from docnmt.models.config import HierCondTransformerConfig, HierTransformerConfig
from docnmt.models.hier_transformer import SummaryContext
from docnmt.modules.context import ConditionalAttention, ContextAttention, SummaryEncoder
from docnmt.modules.source2token import build_merge


@dataclass(frozen=True)
class TreeContext(ConditionalContext):
    """ConstructBT over the summaries, TraverseTree to choose."""

    config: HierCondTransformerConfig

    def attention(self) -> ContextAttention:
        c = self.config
        return ConditionalAttention(
            d_model=c.embed_dim,
            heads=self.placement.context_heads,
            d_head=self.d_head,
            top_t=c.top_t,
            select_on=c.select_on,
            always_own=c.always_own_sentence,
            read_all_updates=c.read_all_updates,
        )

    def summarise(self) -> nn.Module:
        c = self.config
        merge = build_merge(c.merge, d_model=c.embed_dim, heads=c.heads)
        return SummaryEncoder(d_model=c.embed_dim, heads=c.heads, merge=merge)


class HierCondTransformer(CondTransformer):
    """HierarchicalCondAtt over the whole source document in encoder and decoder."""

    Config: type[HierTransformerConfig] = HierCondTransformerConfig
    context: type[SummaryContext] = TreeContext
