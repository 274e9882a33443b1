"""The document encoder on single sentences: self-attention layers, then source2token summaries (002, eq. 1-2)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from docnmt.layout import DocumentLayout, Spans
from docnmt.modules.attention import SelfAttention
from docnmt.modules.layers import FeedForward, Residual, plain_layer
from docnmt.modules.positions import Sinusoidal
from docnmt.modules.source2token import Source2Token
from docnmt.modules.sublayer import Reads
from docnmt.sentence_vectors.modules.inferlite import look_up


class Source2TokenEncoder(nn.Module):
    """Sentence vectors as the document models summarise sentences, here from K tables of frozen word vectors.

    Args:
        dims: width d_k of each embedding type; a linear layer brings them to `d_model`.
        heads: of the self-attention, and source2token's independent queries.
    """

    def __init__(
        self, *, dims: Sequence[int], d_model: int, layers: int, heads: int, d_inner: int, dropout: float
    ) -> None:
        super().__init__()
        self.input = nn.Linear(sum(dims), d_model)
        # Words as large as their positions: torch's own weights would leave vectors of unit length at a tenth of them
        nn.init.normal_(self.input.weight, std=len(dims) ** -0.5)
        nn.init.zeros_(self.input.bias)
        self.position = Sinusoidal(d_model)
        self.layers = nn.ModuleList(
            plain_layer(
                attention=SelfAttention(d_model=d_model, heads=heads, d_head=d_model // heads),
                feed_forward=FeedForward(d_model=d_model, d_inner=d_inner, activation="relu"),
                residual=lambda: Residual(d_model=d_model, dropout=dropout, norm="pre"),
            )
            for _ in range(layers)
        )
        self.norm = nn.LayerNorm(d_model)
        self.summarise = Source2Token(d_model=d_model, heads=heads)
        self.d_output = d_model

    def forward(self, tokens: Tensor, tables: Sequence[Tensor], spans: Spans) -> Tensor:
        """(T,) → (S, d_model). Every sentence needs a word."""
        layout = DocumentLayout(spans.offsets, torch.arange(len(spans) + 1, device=tokens.device))
        place = torch.arange(len(tokens), device=tokens.device) - spans.offsets[:-1][spans.span_of_token]
        x = self.input(torch.cat(look_up(tables, tokens, self.input.weight.dtype), dim=1))
        x = x + self.position(place[:, None])
        for layer in self.layers:
            x = layer(x, Reads(layout))
        summaries: Tensor = self.summarise(self.norm(x), spans)
        return summaries
