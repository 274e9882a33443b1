"""Sentence summaries by source2token self-attention, and the Merge functions of ConstructBT.

Equations and sections are those of Trankova and Rykunov, "Hierarchical Encoding and Conditional Attention in NMT".
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from docnmt.functional import source2token
from docnmt.functional.packed import weighted_means
from docnmt.layout import Spans
from docnmt.modules.arguments import check_at_least
from docnmt.modules.sublayer import OwnStart
from docnmt.registry.registry import MERGES


class Source2Token(nn.Module, OwnStart):
    """s_j = Attention(q, S_j W^K, S_j W^V) W^O: one learned query reads the words of each sentence (eq. 2).

    W^V and W^O have biases here, as all projections of values and outputs have; equation 2 has none. They count where
    summaries are read (`SummaryAttention`) or merged. Where the summaries of sentences are only compared with one query
    (eq. 7 without a tree) both add the same to the relevance of every sentence, which the softmax does not see: they
    get no gradient but rounding, and what they are changes nothing.

    Args:
        d_model: width of words and summaries.
        heads: independent queries; their results are concatenated before W^O.

    Raises:
        ValueError: the heads do not divide the width.
    """

    #: Layers that are never called: their weights are multiplied by the query, and by means of words.
    folded = ("key", "value")

    def __init__(self, *, d_model: int, heads: int) -> None:
        if heads < 1 or d_model < 1 or d_model % heads:
            raise ValueError(f"heads: expected a divisor of d_model = {d_model}, got {heads}")
        super().__init__()
        self.heads = heads
        self.query = nn.Parameter(torch.randn(heads, d_model // heads))
        self.key = nn.Linear(d_model, d_model, bias=False)
        self.value = nn.Linear(d_model, d_model)
        self.output = nn.Linear(d_model, d_model)

    def reset_parameters(self) -> None:
        """Start with W^O as the inverse of an orthogonal W^V, so that a summary is a weighted mean of its words."""
        nn.init.orthogonal_(self.value.weight)
        with torch.no_grad():
            self.output.weight.copy_(self.value.weight.t())

    def forward(self, words: Tensor, sentences: Spans) -> Tensor:
        """words (T, d) → summaries (S, d)."""
        return self._project(weighted_means(self._scores(words), words, sentences))

    def of_pairs(self, left: Tensor, right: Tensor) -> Tensor:
        """left, right (P, d), the words of P sentences of two → summaries (P, d)."""
        return self.of_padded(torch.stack([left, right], dim=1))

    def of_padded(self, words: Tensor, real: Tensor | None = None) -> Tensor:
        """words (S, L, d), of which those are padding that are not `real` (S, L) → summaries (S, d)."""
        scores = self._scores(words)  # (S, L, h)
        if real is not None:
            scores = scores.masked_fill(~real[..., None], -torch.inf)
        weights = scores.softmax(1, dtype=torch.promote_types(words.dtype, torch.float32))
        return self._project((weights.to(words.dtype).mT @ words).transpose(0, 1))

    def _scores(self, words: Tensor) -> Tensor:
        """q·(W^K x)/√d_k of words x (..., d) → (..., h)."""
        # As (W^Kᵀ q/√d_k)·x: the query is the same for all words, whose keys are then not needed
        query = self.query.unsqueeze(1) / math.sqrt(self.query.shape[1])
        return F.linear(words, (query @ self.key.weight.unflatten(0, (self.heads, -1))).squeeze(1))

    def _project(self, means: Tensor) -> Tensor:
        """Weighted means of words, (h, S, d) → W^O of W^V of them, (S, d)."""
        # Weights add up to 1: W^V of the mean is the mean of W^V, and costs one product a sentence, not one a word
        values = self.value.weight.unflatten(0, (self.heads, -1)) @ means.mT  # (h, d_k, S)
        summaries: Tensor = self.output(values.flatten(0, 1).T + self.value.bias)
        return summaries


class MultiDimSource2Token(nn.Module):
    """Multi-dimensional source2token (DiSAN): f = W2·ELU(W1 x + b1) + b2, softmax over words feature by feature.

    Raises:
        ValueError: the width is below 1.
    """

    def __init__(self, *, d_model: int) -> None:
        check_at_least(1, d_model=d_model)
        super().__init__()
        self.inner = nn.Linear(d_model, d_model)
        self.scores = nn.Linear(d_model, d_model)

    def forward(self, words: Tensor, sentence_offsets: Tensor) -> Tensor:
        """words (T, d) → summaries (S, d)."""
        scores = self.scores(F.elu(self.inner(words)))  # (T, d)
        query = torch.ones(scores.shape[1], 1, dtype=scores.dtype, device=scores.device)
        # Every feature is a head of width 1 whose key is the score itself.
        summaries: Tensor = source2token(query, scores[..., None], words[..., None], sentence_offsets)[..., 0]
        return summaries


def _pairs(left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    """P pairs as P sentences of two words: (2P, d) and their offsets (P+1,)."""
    words = torch.stack([left, right], dim=1).flatten(0, 1)
    return words, torch.arange(0, len(words) + 1, 2, device=words.device)


class MeanMerge(nn.Module):
    """The mean of both children."""

    def __init__(self, *, d_model: int, heads: int) -> None:
        super().__init__()

    def forward(self, left: Tensor, right: Tensor) -> Tensor:
        """left, right (P, d) → (P, d)."""
        return (left + right) / 2


class PlainSource2TokenMerge(nn.Module):
    """Source2token over the two children, its weights shared by the whole tree (section 3.3.1).

    It is applied to its own results, ten times over for a thousand sentences: a W^O W^V that stretches by three
    stretches the root by 3^10, and training on documents of 400 sentences ended in infinite gradients.
    """

    def __init__(self, *, d_model: int, heads: int) -> None:
        super().__init__()
        self.summarise = Source2Token(d_model=d_model, heads=heads)

    def forward(self, left: Tensor, right: Tensor) -> Tensor:
        """left, right (P, d) → (P, d)."""
        return self.summarise.of_pairs(left, right)


class Source2TokenMerge(PlainSource2TokenMerge):
    """Source2token merge with a layer norm, which the paper does not have: nodes do not grow with the tree's depth."""

    def __init__(self, *, d_model: int, heads: int) -> None:
        super().__init__(d_model=d_model, heads=heads)
        self.norm = nn.LayerNorm(d_model)

    def forward(self, left: Tensor, right: Tensor) -> Tensor:
        """left, right (P, d) → (P, d)."""
        merged: Tensor = self.norm(super().forward(left, right))
        return merged


class MultiDimSource2TokenMerge(nn.Module):
    """Multi-dimensional source2token over the two children, shared by the whole tree."""

    def __init__(self, *, d_model: int, heads: int) -> None:
        super().__init__()
        self.summarise = MultiDimSource2Token(d_model=d_model)

    def forward(self, left: Tensor, right: Tensor) -> Tensor:
        """left, right (P, d) → (P, d)."""
        merged: Tensor = self.summarise(*_pairs(left, right))
        return merged


def build_merge(name: str, *, d_model: int, heads: int) -> nn.Module:
    """The merge registered under `name` (`--merge`)."""
    merge: nn.Module = MERGES.get(name)(d_model=d_model, heads=heads)
    return merge
