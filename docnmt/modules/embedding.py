"""The embedding of tokens and positions, which is the first layer's input, and the dropout of whole words."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from docnmt.modules.layers import Dropout
from docnmt.modules.positions.position_tables import Indexed


class Embedding(nn.Module):
    """dropout(norm(fusion(sE, P))): token embeddings fused with an encoding of their positions.

    Args:
        tokens: the embedding matrix; may be shared with other embeddings and the output layer.
        position: (T, 4) positions → (T, d), or None for families that act inside attention and for no position.
        fusion: how both are joined; needed when there is a position.
        scale: s; √d when None. norm: applied to the result; None for none.
    """

    def __init__(
        self,
        *,
        tokens: nn.Embedding,
        position: nn.Module | None,
        fusion: nn.Module | None,
        dropout: float,
        scale: float | None = None,
        norm: nn.Module | None = None,
    ) -> None:
        super().__init__()
        if (position is None) != (fusion is None):
            raise ValueError("an embedding has both a position and its fusion, or neither")
        self.tokens, self.position, self.fusion, self.norm = tokens, position, fusion, norm
        self.dropout = Dropout(dropout)
        self.scale = tokens.embedding_dim**0.5 if scale is None else scale

    def forward(
        self, tokens: Tensor, positions: Tensor, offsets: Tensor | None = None, highest: Sequence[int] | None = None
    ) -> Tensor:
        """tokens (T,), positions (T, 4), where each sentence begins (S+1,) → (T, d).

        Args:
            highest: the largest position of each column, where the host knows it.
        """
        x = self.tokens(tokens) * self.scale
        if self.position is not None and self.fusion is not None:
            known = (highest,) if isinstance(self.position, Indexed) else ()
            x = self.fusion(x, self.position(positions, *known).to(x.dtype), offsets)
        if self.norm is not None:
            x = self.norm(x)
        dropped: Tensor = self.dropout(x) if self.training else x
        return dropped


class WordDropout(nn.Module):
    """In training, each word's state is 0 with probability `p`; the others stay as they are, unscaled.

    Raises:
        ValueError: p is not a probability.
    """

    def __init__(self, p: float) -> None:
        if not 0 <= p <= 1:
            raise ValueError(f"p: expected a probability from 0 to 1, got {p}")
        super().__init__()
        self.p = p

    def forward(self, words: Tensor) -> Tensor:
        """(T, d) → (T, d)."""
        if not self.training or not self.p:
            return words
        return words * (torch.rand(len(words), 1, device=words.device) >= self.p)
