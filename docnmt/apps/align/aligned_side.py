"""One side of an alignment: sentences, their lengths, and the beginnings of sections and paragraphs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

#: The unit that begins at a sentence.
NOTHING, PARAGRAPH, SECTION = 0, 1, 2


@dataclass(frozen=True)
class AlignedSide:
    """The sentences of a document, as one side of an alignment.

    Attributes:
        texts: the sentences, none empty. units: for each the labels of its section and its paragraph.
    """

    texts: Sequence[str]
    units: Sequence[tuple[str, str]]

    @cached_property
    def lengths(self) -> np.ndarray:
        """The number of characters (n,) of each sentence."""
        return np.array([len(text) for text in self.texts], dtype=np.float64)

    @cached_property
    def begins(self) -> np.ndarray:
        """The unit (n,), int8, that begins at each sentence; nothing begins at the first."""
        found = np.zeros(len(self.texts), dtype=np.int8)
        for n, (before, own) in enumerate(zip(self.units, self.units[1:], strict=False), 1):
            found[n] = SECTION if before[0] != own[0] else PARAGRAPH if before != own else NOTHING
        return found
