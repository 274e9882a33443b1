"""KeepTopT (paper 002, equation 4) and the one routine behind it that every choice of sentences goes through."""

from __future__ import annotations

import torch
from torch import Tensor


def keep_top_t(scores: Tensor, t: int, mask: Tensor | None = None) -> Tensor:
    """Keeps the t largest scores of each row and sets the others to -inf (paper 002, equation 4).

    Ties keep the lowest index, so that exactly min(t, selectable) scores stay. Differentiable in `scores`.

    Args:
        scores: (..., n).
        t: how many stay.
        mask: (..., n) bool, False = not selectable.

    Returns:
        (..., n).

    Raises:
        ValueError: t is below 1, or the mask is not a bool tensor that fits the scores.
    """
    check_t(t)
    selectable = scores.detach()
    if mask is not None:
        if mask.dtype != torch.bool:
            raise ValueError(f"mask: expected a bool tensor, got {mask.dtype}")
        try:
            selectable = selectable.masked_fill(~mask, -torch.inf)
        except RuntimeError:
            raise ValueError(f"mask of shape {tuple(mask.shape)} does not fit scores {tuple(scores.shape)}") from None
        if selectable.shape != scores.shape:
            raise ValueError(f"mask of shape {tuple(mask.shape)} does not fit scores {tuple(scores.shape)}")
    values, indices = top_t(selectable, t)
    kept = torch.zeros_like(scores, dtype=torch.bool).scatter_(-1, indices, values != -torch.inf)
    return scores.masked_fill(~kept, -torch.inf)


def check_t(t: int) -> None:
    if t < 1:
        raise ValueError(f"top t: t must be at least 1, got {t}")


def top_t(scores: Tensor, t: int) -> tuple[Tensor, Tensor]:
    """The min(t, n) largest scores of each row and their indices, ties to the lowest index; in no order within a row.

    Args:
        scores: (..., n) without gradient; -inf = not selectable, to be told by the returned value.
    """
    n = scores.shape[-1]
    if t >= n:
        return scores, torch.arange(n, device=scores.device).expand(scores.shape)
    values, indices = scores.topk(t + 1, dim=-1)
    undecided = (values[..., t - 1] == values[..., t]) & (values[..., t] != -torch.inf)
    values, indices = values[..., :t].contiguous(), indices[..., :t].contiguous()
    if undecided.any():  # `topk` promises nothing about ties; a stable sort does
        ordered, order = scores[undecided].sort(dim=-1, descending=True, stable=True)
        values[undecided], indices[undecided] = ordered[..., :t], order[..., :t]
    return values, indices
