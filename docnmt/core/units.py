"""What is translated together: `ReadingPlan`, and the units that it makes of a corpus.
Training, search and scoring know a model's units by its plan alone, so that no architecture is a special case.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import get_args

import numpy as np

from docnmt.core.data_options import PositionCount


@dataclass(frozen=True, kw_only=True)
class ReadingPlan:
    """The division of a model's documents into units."""

    written: int | None  # the number of sentences that a unit translates; None: the whole document
    earlier: int = 0  # source sentences that it also reads, right before those
    stride: int | None = None  # sentences from the beginning of a unit to the next; None: `written`, no overlap
    joined: bool = False  # a unit's sentences are one sequence with `<brk>`, one text of the search; else one each
    source_breaks: bool = True  # if not, joined source sentences have no `<brk>`, and only positions tell them apart
    around: int | None = None  # the most other sentences read on each side, of whole documents not joined; None: all
    own_text: bool = False  # a sentence reads the translations of those before it, which must be written first
    given_text: bool = False  # a sentence reads given translations of its document, none that the model writes
    positions: PositionCount = "unit"  # the origin of positions
    dropped_context: float = 0.0  # how often in training each sentence of a unit reads only itself
    masked_context: float = 0.0  # how often in training a word that is only read is replaced by `<mask>`

    def __post_init__(self) -> None:
        for name, least in (("written", 1), ("earlier", 0), ("stride", 1), ("around", 0)):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < least):
                raise ValueError(f"ReadingPlan: {name} must be a whole number of at least {least}, got {value!r}")
        if self.positions not in get_args(PositionCount):
            raise ValueError(f"ReadingPlan: positions must be one of {get_args(PositionCount)}, got {self.positions!r}")
        for name in ("dropped_context", "masked_context"):
            if not 0 <= (share := getattr(self, name)) < 1:
                raise ValueError(f"ReadingPlan: {name} must be in [0, 1), got {share}")
        apart = self.written is None and not self.joined
        demanding = {"own_text": self.own_text, "given_text": self.given_text, "dropped_context": self.dropped_context}
        for name, value in {**demanding, f"around {self.around}": self.around is not None}.items():
            if value and not apart:
                raise ValueError(f"ReadingPlan: {name} is for whole documents whose sentences are not joined")
        if not self.source_breaks and not self.joined:
            raise ValueError("ReadingPlan: source_breaks is for units whose sentences are joined")
        if self.own_text and self.given_text:
            raise ValueError("ReadingPlan: own_text reads given translations, too; give one of own_text and given_text")
        if self.earlier and not (self.joined and self.written):
            raise ValueError(f"ReadingPlan: earlier {self.earlier} is for joined units of a number of sentences")
        if self.stride is not None and (self.written is None or self.stride > self.written):
            raise ValueError(f"ReadingPlan: stride {self.stride} leaves sentences out of units of {self.written}")

    @property
    def reads_translations(self) -> bool:
        """True if a sentence reads translations of others, so that training needs those beside its own."""
        return self.own_text or self.given_text

    @property
    def whole_documents(self) -> bool:
        """True if a unit is a document, however long."""
        return self.written is None

    @property
    def reads_context(self) -> bool:
        """True if a unit's translation may depend on other sentences of its document."""
        return self.written != 1 or self.earlier > 0

    @property
    def noun(self) -> str:
        """The name of a unit in messages."""
        alone = not self.reads_context and not self.joined
        return "document" if self.written is None else "sentence" if alone else "window"

    def within(self, window: int | None) -> ReadingPlan:
        """Return the plan with at most `window` sentences of context. Texts of several sentences then have `window` +
        1, even if the model was trained with fewer: k-to-k stays k-to-k, k-to-1 still writes one, and they overlap by
        as many sentences as before."""
        if window is not None and window < 0:
            raise ValueError(f"window: must be at least 0, got {window}")
        if window is None or (self.written == 1 and not self.joined):
            return self
        if not self.joined:
            return replace(self, around=window)
        if self.written is None:
            return replace(self, written=window + 1)
        written = min(self.written, window + 1) if self.earlier else window + 1
        overlap = self.written - (self.stride or self.written)
        return replace(self, written=written, earlier=window + 1 - written, stride=max(1, written - overlap))


@dataclass(frozen=True)
class Units:
    """A table of units, one per row; arrays (U,) int64 of sentence numbers, `last` exclusive."""

    source_first: np.ndarray  # of the source sentences that the unit reads, including those that it translates
    first: np.ndarray  # of the target sentences that it writes
    last: np.ndarray
    document: np.ndarray
    source_last: np.ndarray
    kept: np.ndarray  # the first that counts; from there on units in order write every sentence once

    @classmethod
    def of(cls, first: np.ndarray, last: np.ndarray, document: np.ndarray) -> Units:
        """Return units that read only what they translate."""
        return cls(first, first, last, document, last, first)

    def __len__(self) -> int:
        return len(self.first)

    def __getitem__(self, chosen: np.ndarray) -> Units:
        """Return the chosen units."""
        return Units(*(getattr(self, field.name)[chosen] for field in fields(self)))


def document_units(document_offsets: np.ndarray) -> Units:
    """Return one unit for every document that has sentences."""
    offsets = np.asarray(document_offsets, dtype=np.int64)
    document = np.flatnonzero(np.diff(offsets) > 0)
    return Units.of(offsets[document], offsets[document + 1], document)


def cut_units(units: Units, costs: np.ndarray | None, limit: int | None) -> Units:
    """Cut units of more than `limit` tokens (None: none) at sentence ends; the units must read only what they write. A
    piece has as many sentences as fit, and at least one; `costs` (S,) are the tokens of each sentence."""
    if limit is None or costs is None:
        return units
    total = np.concatenate([[0], np.cumsum(costs, dtype=np.int64)])
    long = total[units.last] - total[units.first] > limit
    pieces: list[tuple[int, int, int]] = []
    for begin, end, number in zip(units.first[long], units.last[long], units.document[long], strict=True):
        while begin < end:
            fits = int(np.searchsorted(total, total[begin] + limit, side="right")) - 1
            stop = min(max(fits, int(begin) + 1), int(end))
            pieces.append((int(begin), stop, int(number)))
            begin = stop
    whole = np.stack([units.first, units.last, units.document], axis=1)[~long]
    table = np.concatenate([whole, np.array(pieces, dtype=np.int64).reshape(-1, 3)])
    return Units.of(*table[np.argsort(table[:, 0], kind="stable")].T)


def resolution_units(
    document_offsets: np.ndarray, resolutions: Sequence[int], costs: np.ndarray | None = None, limit: int | None = None
) -> Units:
    """Return every document once for each of `resolutions`, in pieces of that many sentences; 0 is the whole document.
    A piece that several resolutions share, such as a document of one sentence, occurs once. With `costs` and `limit`,
    longer pieces are cut as `cut_units` does."""
    tables = [
        cut_units(window_units(document_offsets, size, 0) if size else document_units(document_offsets), costs, limit)
        for size in resolutions
    ]
    table = np.concatenate([np.stack([units.first, units.last, units.document], axis=1) for units in tables])
    return Units.of(*np.unique(table, axis=0).T)  # in order of their first sentence, then of their last


def window_units(document_offsets: np.ndarray, size: int, context: int, stride: int | None = None) -> Units:
    """Return every document in windows of `size` sentences, each `stride` after the one before it (None: `size`,
    without overlap); the last one may be shorter. Each also reads up to `context` source sentences of its document
    before it. A sentence of two windows is kept from the first of them."""
    offsets = np.asarray(document_offsets, dtype=np.int64)
    stride = size if stride is None else stride
    lengths = np.diff(offsets)
    counts = np.where(lengths > 0, 1 - np.minimum(size - lengths, 0) // stride, 0)  # windows of each document
    document = np.repeat(np.arange(len(counts), dtype=np.int64), counts)
    number = np.arange(len(document), dtype=np.int64) - np.repeat(np.cumsum(counts) - counts, counts)
    first = offsets[document] + stride * number
    source_first = np.maximum(first - context, offsets[document])
    last = np.minimum(first + size, offsets[document + 1])
    kept = np.where(number > 0, first - stride + size, first)
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
    longest = int(lengths.max(initial=0))
    reach = longest if window is None else min(window, longest)
    source_first, source_last = np.maximum(first - reach, begin), np.minimum(last + reach, end)
    return Units(source_first, first, last, documents.document[row], source_last, first)
