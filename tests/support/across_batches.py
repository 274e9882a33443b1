"""What may be asked of translations of one text in two batches: their bits, where the processor gives the same ones.

Tests that ask it are marked `across_batches`, and run once more with an emulated processor (`uneven_rows`).
"""

from __future__ import annotations

from docnmt.core.search.translate import Translation
from docnmt.runtime.device import row_invariant

#: What the contract allows a score to differ by.
NEAR = 1e-4


def same_translation(one: Translation, other: Translation) -> bool:
    """Equal to the last bit, or equally good where products depend on the batch."""
    return one == other if row_invariant() else abs(one.score - other.score) <= NEAR
