"""Fusion of position encodings with word embeddings: operators of Hallam and Tseng, "Fusion Matters", and controls.

E are the embeddings (times √d where the model says so), P the positions. Every operator is called alike:
`fusion(embeddings, positions, offsets=None)`, both (T, d) packed with sequence `offsets`, or (B, L, d) → same shape.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from torch import Tensor, nn

from docnmt.modules.layers import OwnStart
from docnmt.registry import FUSIONS


class Fusion(nn.Module, ABC):
    """An operator for embeddings of width `d_model`; `combine` is its equation."""

    def __init__(self, d_model: int) -> None:
        super().__init__()

    def forward(self, embeddings: Tensor, positions: Tensor, offsets: Tensor | None = None) -> Tensor:
        """Embeddings and positions, (T, d) packed or (B, L, d) → the same shape.

        `offsets` (B+1,) int64: where each packed sequence begins, for operators that look at neighbours; None: one.
        """
        if embeddings.shape != positions.shape:
            raise ValueError(
                f"fusion: embeddings and positions must have one shape, got {tuple(embeddings.shape)} and "
                f"{tuple(positions.shape)}"
            )
        if offsets is not None and (
            embeddings.dim() != 2 or (offsets.device.type == "cpu" and int(offsets[-1]) != len(embeddings))
        ):  # a GPU would wait
            raise ValueError(
                f"fusion: offsets ending at {int(offsets[-1])} need packed rows (T, d) of that many tokens, got "
                f"{tuple(embeddings.shape)}"
            )
        return self.combine(embeddings, positions, offsets)

    @abstractmethod
    def combine(self, e: Tensor, p: Tensor, offsets: Tensor | None) -> Tensor:
        """The fused embeddings; arguments as for `forward`, already checked."""


class Add(Fusion):
    """H = E + P (eq. 1)."""

    def combine(self, e: Tensor, p: Tensor, offsets: Tensor | None) -> Tensor:
        return e + p


class Multiply(Fusion):
    """H = E ∘ P, from the authors' notebooks."""

    def combine(self, e: Tensor, p: Tensor, offsets: Tensor | None) -> Tensor:
        return e * p


class Ignore(Fusion):
    """H = E: the control without any position."""

    def combine(self, e: Tensor, p: Tensor, offsets: Tensor | None) -> Tensor:
        return e


class Scale(Fusion):
    """H = aE + bP with learned scalars, both 1 at first: the control for the effect of scale in a gate."""

    def __init__(self, d_model: int) -> None:
        super().__init__(d_model)
        self.scales = nn.Parameter(torch.ones(2))

    def combine(self, e: Tensor, p: Tensor, offsets: Tensor | None) -> Tensor:
        return self.scales[0] * e + self.scales[1] * p


class Concat(Fusion):
    """H = W[E; P] + b (eq. 2; the bias is the notebooks')."""

    def __init__(self, d_model: int) -> None:
        super().__init__(d_model)
        self.projection = nn.Linear(2 * d_model, d_model)

    def combine(self, e: Tensor, p: Tensor, offsets: Tensor | None) -> Tensor:
        return self.projection(torch.cat([e, p], dim=-1))  # type: ignore[no-any-return]

    @property
    def matrices(self) -> tuple[Tensor, Tensor]:
        """W_E and W_P, (d, d) each: the output is E W_E^T + P W_P^T + b."""
        words, positions = self.projection.weight.chunk(2, dim=1)
        return words, positions

    def start_as_addition(self) -> None:
        """Set W = [I, I] and b = 0, so that the output is E + P."""
        with torch.no_grad():
            self.projection.weight.copy_(torch.eye(self.projection.out_features).repeat(1, 2))
            self.projection.bias.zero_()


class ConcatAddition(Concat, OwnStart):
    """Concatenation (eq. 2) that begins as addition (eq. 1); not in the paper."""

    def __init__(self, d_model: int) -> None:
        super().__init__(d_model)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        self.start_as_addition()


class Mlp(Fusion):
    """H = W2 ReLU(W1[E; P] + b1) + b2, from the authors' notebooks: a network in place of a gate."""

    def __init__(self, d_model: int) -> None:
        super().__init__(d_model)
        self.network = _network(d_model)

    def combine(self, e: Tensor, p: Tensor, offsets: Tensor | None) -> Tensor:
        return self.network(torch.cat([e, p], dim=-1))  # type: ignore[no-any-return]


def _network(d_model: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(2 * d_model, d_model), nn.ReLU(), nn.Linear(d_model, d_model))


class Gate(Fusion):
    """H = g E + (1 − g) P with g = σ(score) in (0, 1) (eq. 4); subclasses say where the score comes from."""

    def combine(self, e: Tensor, p: Tensor, offsets: Tensor | None) -> Tensor:
        g = self.gate(e, p, offsets)
        return g * e + (1 - g) * p

    def gate(self, embeddings: Tensor, positions: Tensor, offsets: Tensor | None = None) -> Tensor:
        """The gate's values (…, 1), or (…, d) with one gate a feature: 1 is all word, 0 all position."""
        return torch.sigmoid(self.score(embeddings, positions, offsets))

    @abstractmethod
    def score(self, e: Tensor, p: Tensor, offsets: Tensor | None) -> Tensor:
        """The gate's scores before the sigmoid: (…, 1) or (…, d)."""


class VectorGate(Gate):
    """score = W[E; P] + b: one gate a feature, from the authors' notebooks."""

    scalar: ClassVar[bool] = False

    def __init__(self, d_model: int) -> None:
        super().__init__(d_model)
        self.projection = nn.Linear(2 * d_model, 1 if self.scalar else d_model)

    def score(self, e: Tensor, p: Tensor, offsets: Tensor | None) -> Tensor:
        return self.projection(torch.cat([e, p], dim=-1))  # type: ignore[no-any-return]


class ScalarGate(VectorGate):
    """score = w·[E; P] + b: one gate a token (eq. 3)."""

    scalar = True


class MlpGate(Gate):
    """score = W2 ReLU(W1[E; P] + b1) + b2: one gate a feature (section 11.1)."""

    def __init__(self, d_model: int) -> None:
        super().__init__(d_model)
        self.network = _network(d_model)

    def score(self, e: Tensor, p: Tensor, offsets: Tensor | None) -> Tensor:
        return self.network(torch.cat([e, p], dim=-1))  # type: ignore[no-any-return]


class ConstantGate(Gate):
    """One learned scalar gate for all tokens, 1/2 at first: the control for a gate that depends on its input."""

    def __init__(self, d_model: int) -> None:
        super().__init__(d_model)
        self.logit = nn.Parameter(torch.zeros(1))

    def score(self, e: Tensor, p: Tensor, offsets: Tensor | None) -> Tensor:
        return self.logit.expand(*e.shape[:-1], 1)


class ContentGate(Gate):
    """H = g E with g = σ(w·E + b): the control in which the gate only weights words and positions are not used."""

    def __init__(self, d_model: int) -> None:
        super().__init__(d_model)
        self.projection = nn.Linear(d_model, 1)

    def combine(self, e: Tensor, p: Tensor, offsets: Tensor | None) -> Tensor:
        return self.gate(e, p, offsets) * e

    def score(self, e: Tensor, p: Tensor, offsets: Tensor | None) -> Tensor:
        return self.projection(e)  # type: ignore[no-any-return]


class ConvolutionGate(Gate):
    """score_i = Σ_{k=−K..K} w_k ∘ P_{i+k} (eq. 5): a depth-wise convolution over P, which is 0 outside the sequence.

    K is `radius`. `scalar`: one gate a token, the sum of the features', as the text around eq. 5 has it.
    """

    def __init__(self, d_model: int, radius: int = 1, scalar: bool = False) -> None:
        super().__init__(d_model)
        if radius < 0:
            raise ValueError(f"gate_conv: radius must not be negative, got {radius}")
        self.scalar = scalar
        bound = (2 * radius + 1) ** -0.5  # as torch initialises a depth-wise convolution
        self.weight = nn.Parameter(torch.empty(2 * radius + 1, d_model).uniform_(-bound, bound))

    def score(self, e: Tensor, p: Tensor, offsets: Tensor | None) -> Tensor:
        radius, length = len(self.weight) // 2, p.shape[-2]
        score = self.weight[radius] * p
        position = torch.arange(length, device=p.device)  # rows of its sequence before a row; `room`: and after it
        room = length - 1 - position
        if offsets is not None:
            numbers = torch.arange(len(offsets) - 1, device=p.device)
            sequence = numbers.repeat_interleave(offsets.diff(), output_size=length)  # of each row
            position, room = position - offsets[sequence], offsets[sequence + 1] - 1 - position
        for k in range(1, min(radius, length - 1) + 1):
            before = nn.functional.pad(p[..., :-k, :], (0, 0, k, 0)) * (position >= k)[:, None]
            after = nn.functional.pad(p[..., k:, :], (0, 0, 0, k)) * (room >= k)[:, None]
            score = score + self.weight[radius - k] * before + self.weight[radius + k] * after
        return score.sum(-1, keepdim=True) if self.scalar else score


class Normed(Fusion):
    """A layer norm after another operator: the control in which no operator can act by the scale of its output."""

    def __init__(self, fusion: Fusion, d_model: int) -> None:
        super().__init__(d_model)
        self.fusion, self.norm = fusion, nn.LayerNorm(d_model)

    def combine(self, e: Tensor, p: Tensor, offsets: Tensor | None) -> Tensor:
        h: Tensor = self.norm(self.fusion(e, p, offsets))
        return h


def build_fusion(name: str, d_model: int, *, norm_after: bool = False, **options: float) -> Fusion:
    """The operator `name` (registry of fusions) with its options (`gate_conv`: `radius`, 1, and `scalar`, False).

    `norm_after`: a layer norm stands behind it.
    """
    operator = FUSIONS.get(name)
    try:
        inspect.signature(operator).bind(d_model, **options)
    except TypeError as error:
        raise ValueError(f"fusion '{name}': {error}") from None
    fusion: Fusion = operator(d_model, **options)
    return Normed(fusion, d_model) if norm_after else fusion
