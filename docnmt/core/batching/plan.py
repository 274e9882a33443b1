"""The division of units into batches: a pure function of sizes, limits and (seed, epoch)."""

from __future__ import annotations

import numpy as np

#: Units are sorted by size · (1 + NOISE · u), u uniform in [0, 1): those of a batch have similar, not equal size.
NOISE = 0.25


def plan_batches(
    sizes: np.ndarray,
    max_tokens: int,
    *,
    seed: int,
    epoch: int,
    shuffle: bool = True,
    max_units: int | None = None,
) -> list[np.ndarray]:
    """Divide units into batches of at most `max_tokens`; every unit is in exactly one batch.

    A unit larger than `max_tokens` is a batch of its own. With `shuffle`, batches combine units of similar size at
    random and come in random order, both drawn from (seed, epoch) alone; without, units keep their order.

    Args:
        sizes: (U,) the cost of each unit.
        max_tokens: limit on the summed size of a batch.
        max_units: limit on the number of units of a batch.

    Returns:
        For each batch the int64 indices of its units.

    Raises:
        ValueError: a limit below 1, sizes that are not a vector of whole numbers, or a negative size.
    """
    sizes = np.asarray(sizes)
    if max_tokens < 1 or (max_units is not None and max_units < 1):
        raise ValueError(f"max_tokens and max_units must be at least 1, got {max_tokens} and {max_units}")
    if sizes.ndim != 1 or (len(sizes) and (not np.issubdtype(sizes.dtype, np.integer) or sizes.min() < 0)):
        raise ValueError(f"sizes: expected a vector of whole numbers ≥ 0, got {sizes.dtype} of shape {sizes.shape}")
    if len(sizes) == 0:
        return []
    rng = np.random.default_rng([seed, epoch])
    order = np.arange(len(sizes))
    if shuffle:
        noisy = sizes * (1 + np.float32(NOISE) * rng.random(len(sizes), dtype=np.float32))
        order = np.argsort(noisy + rng.random(len(sizes), dtype=np.float32))  # equal sizes, size 0 too, are mixed
    borders = _fill(sizes[order].astype(np.int64), max_tokens, max_units)
    batches = np.split(order.astype(np.int64), borders[1:-1])
    return [batches[i] for i in rng.permutation(len(batches))] if shuffle else batches


def _fill(sizes: np.ndarray, max_tokens: int, max_units: int | None) -> list[int]:
    """Return the begin of each batch, and the end of the last, if batches are filled greedily in the given order."""
    ends = np.cumsum(sizes)
    begins = ends - sizes
    following = np.searchsorted(ends, begins + max_tokens, side="right")  # the first unit that no longer fits
    following = np.maximum(following, np.arange(1, len(sizes) + 1))
    if max_units is not None:
        following = np.minimum(following, np.arange(len(sizes)) + max_units)
    borders = [0]
    while borders[-1] < len(sizes):
        borders.append(int(following[borders[-1]]))
    return borders
