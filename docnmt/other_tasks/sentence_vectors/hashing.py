"""Semantic hashing: binary codes of sentences, learned together with the task (Kiros and Chan 2018, eq. 8)."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

#: Rows are multiplied in multiples of this number: BLAS libraries use other kernels, with other rounding, for few
#: rows, and then a sentence's vector would depend on how many others it is computed with.
ROWS = 64


class RowLinear(nn.Linear):
    """A linear layer x Wᵀ + b in which each row is bitwise the same whatever the other rows and their number."""

    def reset_parameters(self) -> None:
        """Initialise by He et al. (2015), which keeps the scale in ReLU layers; torch's own weights let it fade."""
        nn.init.kaiming_normal_(self.weight, nonlinearity="relu")
        nn.init.zeros_(self.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Map (T, d_in) to (T, d_out)."""
        missing = -len(x) % ROWS
        return super().forward(F.pad(x, (0, 0, 0, missing)))[: len(x)] if missing else super().forward(x)


class SemanticHash(nn.Module):
    """Semantic hashing: h(s) = σ(LN(W s + b) / τ), thresholded at 0.5 outside training.

    τ falls exponentially from 1 with every batch of training and stays at `minimum`, so it is never 0.

    b is stored as b' - W c, where c is the running mean of s. Max-pooled sentence vectors are close to their mean:
    without c every step of Adam in W moves all of them together by more than their differences, which LN then scales
    down, so that all codes are alike and learning begins a thousand batches later.

    Args:
        d_input: width of the sentence vectors.
        bits: length of the codes.
        steps: number of batches until τ has fallen to `minimum`.
    """

    seen: Tensor
    mean: Tensor

    def __init__(self, *, d_input: int, bits: int, steps: int, minimum: float) -> None:
        super().__init__()
        if not 0 < minimum <= 1 or steps < 1 or bits < 1:
            raise ValueError(
                f"hashing needs 0 < minimum <= 1, steps >= 1 and bits >= 1, got {minimum}, {steps} and {bits}"
            )
        self.linear = RowLinear(d_input, bits)
        self.norm = nn.LayerNorm(bits)
        self.steps, self.minimum = steps, minimum
        self.register_buffer("mean", torch.zeros(d_input))
        self.register_buffer("seen", torch.zeros((), dtype=torch.int64))  # in the checkpoint: resuming is exact

    @property
    def temperature(self) -> float:
        """The temperature τ of the next training batch, in [minimum, 1]."""
        return max(self.minimum, float(self.minimum ** (int(self.seen) / self.steps)))

    def scores(self, sentences: Tensor) -> Tensor:
        """Compute LN(W s + b) of sentences (S, d): (S, bits). A bit is 1 if its score is positive, for any τ."""
        return self.norm(self.linear(sentences - self.mean.to(sentences.dtype)))  # type: ignore[no-any-return]

    def soft(self, sentences: Tensor) -> Tensor:
        """Compute h(s) at the current τ for (S, d): (S, bits) in [0, 1]."""
        return torch.sigmoid(self.scores(sentences) / self.temperature)

    def forward(self, sentences: Tensor) -> Tensor:
        """Hash (S, d) to (S, bits): soft in training, where batches are also counted; 0 or 1 otherwise."""
        if not self.training:
            return (self.scores(sentences) > 0).to(sentences.dtype)
        with torch.no_grad():  # equal weights for the first hundred batches, 1/100 for later ones
            self.mean.lerp_(sentences.to(self.mean.dtype).mean(0), max(1 / (int(self.seen) + 1), 0.01))
        soft = self.soft(sentences)
        self.seen += 1
        return soft
