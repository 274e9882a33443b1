"""Storage of documents for decoding steps: a document keeps its position while others are added."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from docnmt.functional.attend_rows import FEW, Choices
from docnmt.modules.document_store import ContextKeys
from docnmt.modules.slot_spans import written

#: A document: the keys that hold it, and its number there.
Document = tuple[ContextKeys, int]


class Shelf:
    """The concatenated words of documents, and the keys of their sentences.

    Attributes:
        words, values: (T, h, d_k), (T, h, d_v), with room behind the last one.
    """

    def __init__(self) -> None:
        self.words = self.values = self._relevance = torch.empty(0)
        self._numbers: dict[tuple[int, int], range] = {}
        self._owners: list[ContextKeys] = []  # an `id` is known as long as its owner lives
        self._ends = [0]  # of the sentences, in words

    def put(self, documents: Sequence[Document]) -> np.ndarray:
        """The numbers of all sentences of these documents in order; those that are new are put behind the others."""
        new = dict.fromkeys((keys, number) for keys, number in documents if (id(keys), number) not in self._numbers)
        if new:
            words, sentences = self._ends[-1], len(self._ends) - 1
            parts = [self._enter(*document) for document in new]
            keys, values, relevance = zip(*parts, strict=True)
            self.words = _put(self.words, words, keys)
            self.values = _put(self.values, words, values)
            self._relevance = _put(self._relevance, sentences, relevance)
        return np.concatenate([np.arange(0), *(self._numbers[id(keys), number] for keys, number in documents)])

    def _enter(self, keys: ContextKeys, document: int) -> tuple[Tensor, Tensor, Tensor]:
        """The words, values and sentence keys of a new document, whose sentences get numbers."""
        spans, known = keys.layout.document_sentences.host, len(self._ends) - 1
        first, last = int(spans[document]), int(spans[document + 1])
        bounds = keys.layout.sentences.host[first : last + 1]
        self._ends += (bounds[1:] - bounds[0] + self._ends[-1]).tolist()
        self._numbers[id(keys), document] = range(known, known + last - first)
        self._owners.append(keys)
        words = slice(int(bounds[0]), int(bounds[-1]))
        return keys.keys[words], keys.values[words], keys.selectable().sentences[first:last]

    def choices(self, slots: Sequence[np.ndarray]) -> Choices | None:
        """Return the choices of slots; each slot is an array of sentence numbers from `put`."""
        ends = np.array(self._ends)
        return Choices.of(slots, self._relevance, ends[:-1], np.diff(ends))

    def mostly_left(self, sentences: int) -> bool:
        """Return True if most stored sentences are unused, given that the slots read `sentences` of them."""
        return len(self._ends) > 2 * sentences + FEW


def _put(table: Tensor, begin: int, parts: Sequence[Tensor]) -> Tensor:
    rows = torch.cat(list(parts))
    return written(table if begin else rows[:0], begin, rows)
