"""Classification of a pair of sentence vectors (Conneau et al. 2017; InferLite, section 3)."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class PairClassifier(nn.Module):
    """[u; v; u ∘ v; |u - v|] → two hidden ReLU layers → one score a class."""

    def __init__(self, *, d_input: int, d_hidden: int, classes: int, dropout: float) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(4 * d_input, d_hidden), nn.ReLU(), nn.Dropout(dropout),
            nn.Linear(d_hidden, d_hidden), nn.ReLU(), nn.Dropout(dropout),
            nn.Linear(d_hidden, classes),
        )  # fmt: skip

    def forward(self, u: Tensor, v: Tensor) -> Tensor:
        """u, v (B, d) → logits (B, classes)."""
        logits: Tensor = self.layers(torch.cat([u, v, u * v, (u - v).abs()], dim=1))
        return logits
