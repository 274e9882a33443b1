"""Position families that act inside softmax attention, between the words of one span. One module a layer.

Both hooks are consumed by attention over a word's own span (self-attention): `rotate` before the products,
`distance_scores` by `docnmt.functional.packed_attention`.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from docnmt.modules.layers import check_at_least


class AttentionPosition(nn.Module):
    """What a family may do inside attention; each does one of the two."""

    def rotate(self, q: Tensor, k: Tensor, q_positions: Tensor, k_positions: Tensor) -> tuple[Tensor, Tensor]:
        """Queries (Tq, h, d) and keys (Tk, h, d) with the positions (Tq,), (Tk,) of their words inside their spans."""
        return q, k

    def distance_scores(self, q: Tensor, max_distance: int) -> Tensor | None:
        """What is added to the scaled scores by distance: (h, 2r+1) or (T, h, 2r+1), or None for nothing.

        Column r + clip(j − i, −r, r) for query i and key j of a span. `max_distance`: at least the greatest
        |j − i| of the batch.
        """
        return None


class Rotary(AttentionPosition):
    """Rotary positions (Su et al. 2021): pairs of features turn by angles that grow with the position.

    Feature f is paired with f + d/2 (the paper pairs neighbours: the same up to an order of the features, which the
    projections learn).
    """

    def rotate(self, q: Tensor, k: Tensor, q_positions: Tensor, k_positions: Tensor) -> tuple[Tensor, Tensor]:
        """Queries and keys turned by their positions."""
        return rotated(q, q_positions), rotated(k, k_positions)


def rotated(x: Tensor, positions: Tensor) -> Tensor:
    """x (T, h, d) turned by `positions` (T,): features (f, f + d/2) by the angle position / 10000^(2f / d).

    Raises:
        ValueError: d is odd.
    """
    half, odd = divmod(x.shape[-1], 2)
    if odd:
        raise ValueError(f"rotary positions need an even width of a head, got {x.shape[-1]}")
    precise = torch.promote_types(x.dtype, torch.float32)
    frequencies = 10000.0 ** (-torch.arange(half, device=x.device, dtype=precise) / half)
    angles = positions.to(precise)[:, None, None] * frequencies  # (T, 1, d / 2)
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    first, second = x[..., :half], x[..., half:]
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)


class RelativeKeys(AttentionPosition):
    """Relative positions (Shaw et al. 2018, eq. 4): the score of key j is q·(k_j + a_clip(j−i, −r, r)) / √d.

    One table shared by the heads, for keys only (Shaw et al. found the values' table to add nothing, section 4.3).

    Args:
        d_head: width d of a head.
        max_distance: r; farther keys share the farthest embedding.

    Raises:
        ValueError: a width below 1 or a distance below 0.
    """

    def __init__(self, d_head: int, max_distance: int = 16) -> None:
        check_at_least(1, d_head=d_head)
        check_at_least(0, max_distance=max_distance)
        super().__init__()
        self.weight = nn.Parameter(torch.empty(2 * max_distance + 1, d_head).normal_(std=d_head**-0.5))

    def distance_scores(self, q: Tensor, max_distance: int) -> Tensor:
        """q·a/√d for each distance, (T, h, 2r+1)."""
        return torch.matmul(q * q.shape[-1] ** -0.5, self.weight.t())  # (T, h, 2r+1)


class Alibi(AttentionPosition):
    """ALiBi (Press et al. 2022): −slope·|j − i| on each score, slopes geometric over the heads; no parameters.

    The paper's masked attention sees the past only; the symmetric form serves both directions. The table reaches as far
    as the batch's longest span, so no distance is clipped.

    Args:
        heads: number of heads; for a count that is no power of two the missing slopes are every other one of the next
            power's, as the authors do.

    Raises:
        ValueError: there is no head.
    """

    slopes: Tensor

    def __init__(self, heads: int) -> None:
        check_at_least(1, heads=heads)
        super().__init__()
        self.register_buffer("slopes", alibi_slopes(heads), persistent=False)

    def distance_scores(self, q: Tensor, max_distance: int) -> Tensor:
        """−slope·|distance|, (h, 2r+1)."""
        distance = torch.arange(-max_distance, max_distance + 1, device=q.device).abs()
        precise = torch.promote_types(q.dtype, torch.float32)
        return -self.slopes.to(precise)[:, None] * distance.to(precise)  # (h, 2r+1)


def alibi_slopes(heads: int) -> Tensor:
    """(heads,) float32: 2^(−8/n), 2^(−16/n), … for n heads, a power of two; else completed from 2n."""
    power = 1 << (heads.bit_length() - 1)
    slopes = [2 ** (-8 * (i + 1) / power) for i in range(power)]
    slopes += [2 ** (-8 * (i + 1) / (2 * power)) for i in range(0, 2 * (heads - power), 2)]
    return torch.tensor(slopes)
