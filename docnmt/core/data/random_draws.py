"""Random numbers that are functions of their seeds and of what they fall on, and of nothing else."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def uniform(seeds: Sequence[int], *numbers: np.ndarray) -> np.ndarray:
    """(n,) in [0, 1): a draw for each tuple of `numbers` (n,), a function of it and of the seeds alone (splitmix64)."""
    state = np.random.SeedSequence(list(seeds)).generate_state(1, np.uint64)
    for number in numbers:
        state = state ^ number.astype(np.uint64)
        state = state + np.uint64(0x9E3779B97F4A7C15)
        state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        state = state ^ (state >> np.uint64(31))
    draws: np.ndarray = (state >> np.uint64(11)) * 2.0**-53
    return draws
