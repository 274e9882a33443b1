"""Whole words hidden from those who read them as context."""

from __future__ import annotations

import torch
from torch import Tensor, nn


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
