"""R-Drop (Liang et al. 2021): two passes with other dropout should predict the same."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from docnmt.batch import IGNORE

#: Labels whose scores of the whole vocabulary are held at a time; the backward pass computes them again.
CHUNK = 1024


def symmetric_divergence(first: Tensor, second: Tensor, labels: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Σ ½(KL(P₁‖P₂) + KL(P₂‖P₁)) over the labels that count, in nats.

    Args:
        first, second: features (T, d) of the same tokens. labels: (T,), of which only `IGNORE` matters.
        weight, bias: of the output layer, (V, d) and (V,).
    """
    counted = labels != IGNORE
    total = first.new_zeros((), dtype=torch.promote_types(first.dtype, torch.float32))
    for one, other in zip(first[counted].split(CHUNK), second[counted].split(CHUNK), strict=True):
        total = total + checkpoint(_of_chunk, one, other, weight, bias, use_reentrant=False)
    return total


def _of_chunk(first: Tensor, second: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    precise = torch.promote_types(first.dtype, torch.float32)
    one, other = (F.log_softmax(F.linear(x, weight, bias).to(precise), dim=-1) for x in (first, second))  # (C, V)
    return ((one.exp() - other.exp()) * (one - other)).sum() / 2
