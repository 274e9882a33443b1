"""The texts that models write, one by one, as slots of a search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from docnmt.core.data.tokenizer import BRK, EOS
from docnmt.core.search.config import SearchConfig
from docnmt.core.search.hypothesis import Slot
from docnmt.core.search.terms import CorpusTerms
from docnmt.runtime.errors import UserError


def texts_together(written: Sequence[np.ndarray]) -> np.ndarray:
    """(W, 2) the texts that the models write together: the first sentence of each, and the first that is kept.

    Raises:
        UserError: they do not write the same.
    """
    for other in written[1:]:
        if not np.array_equal(written[0], other):
            raise UserError(
                "--path: these models cannot translate together: some write sentence by sentence and others windows or "
                "documents as one text, or their windows differ; give models of one kind"
            )
    return written[0]


def slots_of(
    texts: np.ndarray, end: int, lengths: np.ndarray, search: SearchConfig, given: Mapping[int, Sequence[int]],
    group: int = 0, terms: CorpusTerms | None = None, streams: np.ndarray | None = None,
) -> list[Slot]:  # fmt: skip
    """A slot for each text of `texts` (W, 2), up to sentence `end`, in which something is to be searched and kept; the
    longest first. `group`: whose they are. A sentence may be longer by the `terms` that it must have. `streams` (S,):
    the random stream of a text that begins with each sentence."""
    firsts, kept = texts.T
    ends = np.append(kept, end)[1:]
    total = np.concatenate([[0], np.cumsum(lengths)])
    order = np.argsort(total[firsts] - total[ends], kind="stable")
    slots = [
        _slot(range(firsts[n], ends[n]), int(kept[n]), lengths, search, given, group, terms)
        for n in order
        if any(number not in given for number in range(kept[n], ends[n]))
    ]
    return slots if streams is None else [replace(slot, stream=int(streams[slot.number])) for slot in slots]


def _slot(
    sentences: range, kept: int, lengths: np.ndarray, search: SearchConfig, given: Mapping[int, Sequence[int]],
    group: int, terms: CorpusTerms | None,
) -> Slot:  # fmt: skip
    """The text of these sentences, of which those from `kept` on are kept."""
    own = None if terms is None else terms.of(sentences, given)
    more = [0 if own is None else sum(map(len, own.wanted.get(place, ()))) for place in range(len(sentences))]
    return Slot(
        kept,
        tuple(search.limit(int(lengths[n])) + extra for n, extra in zip(sentences, more, strict=True)),
        before=kept - sentences[0],
        given={
            place: (*given[number], EOS if number == sentences[-1] else BRK)
            for place, number in enumerate(sentences)
            if number in given
        },
        group=group,
        terms=own,
    )
