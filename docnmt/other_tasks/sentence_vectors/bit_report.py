"""A report on how well the bits of binary codes are used."""

from __future__ import annotations

import numpy as np


class BitReport:
    """Counts how often each bit is 1, over all codes so far."""

    def __init__(self, bits: int) -> None:
        self.ones = np.zeros(bits, np.int64)
        self.codes = 0

    def add(self, codes: np.ndarray) -> None:
        """Count more codes, (N, B / 8) uint8."""
        self.ones += np.unpackbits(codes, axis=1).sum(axis=0, dtype=np.int64)
        self.codes += len(codes)

    @property
    def dead(self) -> np.ndarray:
        """The bits that are the same in all codes, so that they carry no information."""
        return np.flatnonzero((self.ones == 0) | (self.ones == self.codes))

    @property
    def balance(self) -> np.ndarray:
        """The share of ones (B,) of each bit; 0.5 is best."""
        return np.asarray(self.ones / max(self.codes, 1))

    @property
    def entropy(self) -> float:
        """The information of a code in bits if its bits were independent; at most B."""
        p = self.balance
        with np.errstate(divide="ignore", invalid="ignore"):
            terms = -(p * np.log2(p) + (1 - p) * np.log2(1 - p))
        return float(np.nan_to_num(terms).sum())

    def __str__(self) -> str:
        bits, dead = len(self.ones), len(self.dead)
        low, middle, high = np.percentile(self.balance, [5, 50, 95])
        return (
            f"{self.codes:,} codes of {bits} bits: {dead} dead ({100 * dead / bits:.1f} %), share of ones "
            f"{low:.2f} / {middle:.2f} / {high:.2f} (5 / 50 / 95 % of the bits), entropy {self.entropy:.0f} bits"
        )
