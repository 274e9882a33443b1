"""KeepTopT, and `take_top_t`, the routine behind it that flat selection uses, too."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional


def keep_top_t(scores: Tensor, t: int, mask: Tensor | None = None) -> Tensor:
    """Keeps the t largest scores of each row and sets the others to -inf.

    Trankova and Rykunov, "Hierarchical Encoding and Conditional Attention in NMT", equation 4. Ties keep the lowest
    index, so that exactly min(t, selectable) scores stay. Differentiable in `scores`.

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
    if mask is not None and (mask.dtype != torch.bool or not _fits(mask, scores)):
        raise ValueError(
            f"mask: expected bool of shape {tuple(scores.shape)}, got {mask.dtype} of shape {tuple(mask.shape)}"
        )
    selectable = scores if mask is None else scores.masked_fill(~mask, -torch.inf)
    if scores.numel() == 0:
        return selectable
    n = scores.shape[-1]
    columns = selectable.detach().reshape(-1, n).T  # (n, rows): `take_top_t` works on columns
    columns = columns.double() if columns.dtype == torch.float64 else columns.float()
    if torch.isposinf(columns).any():  # infinities must be comparable by subtraction: ranks will do
        columns = torch.where(
            columns == -torch.inf, -torch.inf, columns.unique(return_inverse=True)[1].to(columns.dtype)
        )
    columns = functional.pad(columns, (0, 0, 0, padding(n)), value=-torch.inf)
    values, indices = take_top_t(columns, min(t, n))
    kept = kept_mask(values, indices, columns)[:n].T.reshape(scores.shape)
    return selectable.masked_fill(~kept, -torch.inf)


def kept_mask(values: Tensor, indices: Tensor, like: Tensor) -> Tensor:
    """Bool tensor in the shape of `like`, True at the indices along the last axis but one whose value is not -inf."""
    return torch.zeros_like(like).scatter_add_(-2, indices, (values != -torch.inf).to(like.dtype)) != 0


def check_t(t: int, name: str = "t") -> None:
    """Raise ValueError where fewer than one score would stay."""
    if t < 1:
        raise ValueError(f"{name}: must be at least 1, got {t}")


def _fits(mask: Tensor, scores: Tensor) -> bool:
    try:
        return mask.broadcast_to(scores.shape) is not None
    except RuntimeError:
        return False


def padding(n: int) -> int:
    """Return the number of rows of -inf to append to n candidates for `take_top_t`."""
    return -n % _group(n) if _group(n) > 1 else 0


def _group(n: int) -> int:
    """Return the number of candidates in a group of the tournament; 1 if searching all of them is faster."""
    return 1 if n <= 64 else 8 if n <= 256 else 16 if n <= 1024 else 32


def take_top_t(scores: Tensor, t: int) -> tuple[Tensor, Tensor]:
    """Return the t largest of n candidates for many queries at once; ties keep the lowest index. Overwrites `scores`.

    A tournament: groups of candidates keep their maximum, groups of groups theirs. The winner is found from the top
    down and taken out, and only the maxima above it are computed anew. All of it is plain arithmetic along the queries,
    which are neighbours in memory: several times faster than sorting each query's candidates.

    Args:
        scores: (..., n, R) contiguous float, of R queries, n including `padding`; -inf = not selectable.
        t: at most n.

    Returns:
        values and indices (int64), (..., t, R), largest first; the value is -inf where nothing was left.
    """
    levels, group = [scores], _group(scores.shape[-2])
    while group > 1 and levels[-1].shape[-2] > 2 * group and levels[-1].shape[-2] % group == 0:
        levels.append(levels[-1].unflatten(-2, (-1, group)).amax(-2))
    within = torch.arange(group, device=scores.device).unsqueeze(-1)
    values, indices = [], []
    for taken in range(t):
        best = levels[-1].amax(-2, keepdim=True)
        path = [_first(levels[-1], best)]
        members = []
        for level in levels[-2::-1]:
            members.append(level.gather(-2, path[-1] * group + within))
            path.append(path[-1] * group + _first(members[-1], best))
        values.append(best)
        indices.append(path[-1])
        if taken + 1 < t:
            _remove_winner(levels, path, members, group)
    return torch.cat(values, -2), torch.cat(indices, -2)


def _first(scores: Tensor, best: Tensor) -> Tensor:
    """Index of the first score that equals the best: (..., n, R), (..., 1, R) → (..., 1, R).

    Where the best is NaN, or nothing is left, any valid index. The sign of the difference is 0 there and -1 elsewhere;
    on a CPU comparing and selecting would be four times slower. On a card it is the calls that take the time.
    """
    if scores.device.type != "cpu":
        return scores.argmax(-2, keepdim=True)
    n = scores.shape[-2]
    countdown = torch.arange(n - 1, -1, -1, dtype=scores.dtype, device=scores.device).unsqueeze(-1)
    found = (scores - best).sign_().mul_(n).add_(countdown).amax(-2, keepdim=True)
    return (n - 1 - found).long().clamp_(0, n - 1)  # -inf minus -inf is NaN


def _remove_winner(levels: list[Tensor], path: list[Tensor], members: list[Tensor], group: int) -> None:
    """Removes the winner at the end of `path` and renews the maxima above it."""
    gone = torch.full_like(levels[-1][..., :1, :], -torch.inf)
    for level, index, siblings in zip(levels[:-1], path[:0:-1], members[::-1], strict=True):
        level.scatter_(-2, index, gone)
        gone = siblings.scatter_(-2, index % group, gone).amax(-2, keepdim=True)
    levels[-1].scatter_(-2, path[0], gone)
