"""The texts that models write, one by one, as slots of a search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from docnmt.data.tokenizer import BRK, EOS
from docnmt.errors import UserError
from docnmt.search.config import SearchConfig
from docnmt.search.hypothesis import Slot


def texts_together(written: Sequence[np.ndarray]) -> np.ndarray:
    """(W, 2) the texts that the models write together: the first sentence of each, and the first that is kept.

    Raises:
        UserError: they do not write the same.
    """
    for other in written[1:]:
        if not np.array_equal(written[0], other):
            raise UserError(
                "--path: these models cannot translate together: some write sentence by sentence and others windows or "
                "documents as one text; give models of one kind"
            )
    return written[0]


def slots_of(
    texts: np.ndarray, end: int, lengths: np.ndarray, search: SearchConfig, given: Mapping[int, Sequence[int]]
) -> list[Slot]:
    """A slot for each text of `texts` (W, 2), up to sentence `end`, in which something is to be searched and kept; the
    longest first."""
    firsts, kept = texts.T
    ends = np.append(kept, end)[1:]
    total = np.concatenate([[0], np.cumsum(lengths)])
    order = np.argsort(total[firsts] - total[ends], kind="stable")
    return [
        _slot(range(firsts[n], ends[n]), int(kept[n]), lengths, search, given)
        for n in order
        if any(number not in given for number in range(kept[n], ends[n]))
    ]


def _slot(
    sentences: range, kept: int, lengths: np.ndarray, search: SearchConfig, given: Mapping[int, Sequence[int]]
) -> Slot:
    """The text of these sentences, of which those from `kept` on are kept."""
    return Slot(
        kept,
        tuple(search.limit(int(lengths[number])) for number in sentences),
        before=kept - sentences[0],
        given={
            place: (*given[number], EOS if number == sentences[-1] else BRK)
            for place, number in enumerate(sentences)
            if number in given
        },
    )
