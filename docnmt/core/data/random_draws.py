"""Random numbers that depend only on their seeds and on the numbers they are drawn for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def uniform(seeds: Sequence[int], *numbers: np.ndarray) -> np.ndarray:
    """Draw a number in [0, 1) for each tuple of `numbers` (n,), a function of it and the seeds alone (splitmix64)."""
    state = np.random.SeedSequence(list(seeds)).generate_state(1, np.uint64)
    for number in numbers:
        state = state ^ number.astype(np.uint64)
        state = state + np.uint64(0x9E3779B97F4A7C15)
        state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        state = state ^ (state >> np.uint64(31))
    draws: np.ndarray = (state >> np.uint64(11)) * 2.0**-53
    return draws
