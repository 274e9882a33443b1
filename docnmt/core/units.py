"""Units: the text that a model reads and writes at once, as ranges of a corpus's sentences.

Training, search and scoring know only units, so that no architecture is a special case.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np


@dataclass(frozen=True)
class Units:
    """A table of units, one per row; arrays (U,) int64 of sentence numbers, `last` exclusive.

    Attributes:
        source_first, source_last: the source sentences that the unit reads, including those that it translates.
        first, last: the target sentences that it writes.
        document: the number of its document.
        kept: the first sentence whose translation counts; earlier ones also belong to the unit before. From there on
            units in order write every sentence once. In training all that a unit writes counts (`counting_all`).
    """

    source_first: np.ndarray
    first: np.ndarray
    last: np.ndarray
    document: np.ndarray
    source_last: np.ndarray
    kept: np.ndarray

    @classmethod
    def of(cls, first: np.ndarray, last: np.ndarray, document: np.ndarray) -> Units:
        """Return units that read only what they translate."""
        return cls(first, first, last, document, last, first)

    def __len__(self) -> int:
        return len(self.first)

    def __getitem__(self, chosen: np.ndarray) -> Units:
        """Return the chosen units."""
        return Units(*(getattr(self, field.name)[chosen] for field in fields(self)))

    def counting_all(self) -> Units:
        """Return units in which every sentence written counts, those of overlapping units several times."""
        return replace(self, kept=self.first)


def document_units(document_offsets: np.ndarray) -> Units:
    """Return one unit for every document that has sentences."""
    offsets = np.asarray(document_offsets, dtype=np.int64)
    document = np.flatnonzero(np.diff(offsets) > 0)
    return Units.of(offsets[document], offsets[document + 1], document)


def cut_units(units: Units, costs: np.ndarray, limit: int) -> Units:
    """Cut units of more than `limit` tokens at sentence ends; the units must read only what they write.

    Args:
        costs: (S,) tokens of each sentence.
        limit: a piece has as many sentences as fit, and at least one.
    """
    total = np.concatenate([[0], np.cumsum(costs, dtype=np.int64)])
    long = total[units.last] - total[units.first] > limit
    pieces: list[tuple[int, int, int]] = []
    for begin, end, number in zip(units.first[long], units.last[long], units.document[long], strict=True):
        while begin < end:
            fits = int(np.searchsorted(total, total[begin] + limit, side="right")) - 1
            stop = min(max(fits, int(begin) + 1), int(end))
            pieces.append((int(begin), stop, int(number)))
            begin = stop
    cut = np.array(pieces, dtype=np.int64).reshape(-1, 3)
    rows = np.concatenate([np.stack([units.first, units.last, units.document], axis=1)[~long], cut])
    rows = rows[np.argsort(rows[:, 0], kind="stable")]
    return Units.of(*rows.T)


def resolution_units(
    document_offsets: np.ndarray, resolutions: Sequence[int], costs: np.ndarray | None = None, limit: int | None = None
) -> Units:
    """Return every document once for each of `resolutions`, in pieces of that many sentences; 0 is the whole document.

    A piece that several resolutions share, such as a document of one sentence, occurs once.

    Args:
        costs, limit: cut longer pieces, as `cut_units` does.
    """
    tables = [
        window_units(document_offsets, size, 0) if size else document_units(document_offsets) for size in resolutions
    ]
    if costs is not None and limit is not None:
        tables = [cut_units(units, costs, limit) for units in tables]
    rows = np.concatenate([np.stack([units.first, units.last, units.document], axis=1) for units in tables])
    return Units.of(*np.unique(rows, axis=0).T)  # in order of their first sentence, then of their last


def window_units(document_offsets: np.ndarray, size: int, context: int, stride: int | None = None) -> Units:
    """Return every document in windows of `size` sentences, each `stride` after the one before it (None: `size`,
    without overlap); the last one may be shorter. Each also reads up to `context` source sentences of its document
    before it. A sentence of two windows is kept from the first of them."""
    offsets = np.asarray(document_offsets, dtype=np.int64)
    stride = size if stride is None else stride
    lengths = np.diff(offsets)
    counts = np.where(lengths > 0, 1 - np.minimum(size - lengths, 0) // stride, 0)  # windows of each document
    document = np.repeat(np.arange(len(counts), dtype=np.int64), counts)
    place = np.arange(len(document), dtype=np.int64) - np.repeat(np.cumsum(counts) - counts, counts)
    first = offsets[document] + stride * place
    source_first = np.maximum(first - context, offsets[document])
    last = np.minimum(first + size, offsets[document + 1])
    kept = np.where(place > 0, first - stride + size, first)
    return Units(source_first, first, last, document, last, kept)


def last_units(first: np.ndarray, last: np.ndarray, size: int | np.ndarray, context: int) -> Units:
    """Return one unit for each document [first, last): its last `size` sentences, read with `context` before them."""
    begin = np.maximum(last - size, first)
    return replace(Units.of(begin, last, np.arange(len(first))), source_first=np.maximum(begin - context, first))


def context_units(documents: Units, window: int | None, size: int = 1) -> Units:
    """Return documents in pieces of `size` sentences (0: whole), each read with at most `window` sentences of its
    document before it and after it (None: with all)."""
    lengths = documents.last - documents.first
    size = size or int(lengths.max(initial=1))
    counts = -(-lengths // size)  # pieces of each document
    row = np.repeat(np.arange(len(documents)), counts)
    begin, end = documents.first[row], documents.last[row]
    first = begin + size * (np.arange(len(row)) - (np.cumsum(counts) - counts)[row])
    last = np.minimum(first + size, end)
    reach = int(lengths.max(initial=0)) if window is None else window
    source_first, source_last = np.maximum(first - reach, begin), np.minimum(last + reach, end)
    return Units(source_first, first, last, documents.document[row], source_last, first)
