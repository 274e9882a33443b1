"""Conditional attention for one decoding step: few queries, texts of few sentences.

Every row compares its query with the sentences of its slot's text, and reads the words of those that it keeps where
they are stored. Its result does not depend on other rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from docnmt.functional.row_lists import RowLists, attend_spans, products, round_up
from docnmt.functional.selection import SelectionPolicy, in_float32
from docnmt.runtime.transfer import to_device

#: Sentences of a text up to which all are compared here.
FEW = 128


@dataclass(frozen=True, eq=False)
class Choices:
    """The sentences that N slots choose from, filled up to S sentences.

    Attributes:
        keys: (Sk, h, d_k), the keys of all sentences, in float32 at least.
        numbers: (N, S) int64, each slot's sentences.
        begins: (N, S) int64, the word of a table (T, h, d) where a sentence begins.
        lengths: (N, S) int64, its number of words; 0 behind a slot's sentences.
        most: the largest number of sentences of any slot.
    """

    keys: Tensor
    numbers: Tensor
    begins: Tensor
    lengths: Tensor
    most: int
    _lists: dict[int, RowLists] = field(default_factory=dict)

    @classmethod
    def of(
        cls, slots: Sequence[np.ndarray], relevance: Tensor, begins: np.ndarray, lengths: np.ndarray
    ) -> Choices | None:
        """Return the choices of the slots; None where no slot has a sentence.

        Args:
            slots: for each slot the numbers of its sentences, at most `FEW`.
            relevance: (Sk, h, d_k), the keys of all sentences.
            begins, lengths: (Sk,), the first word of each sentence and its number of words.
        """
        counts = np.array([len(slot) for slot in slots])
        most = int(counts.max(initial=0))
        if most == 0:
            return None
        width = round_up(most)
        number, real = np.zeros((len(slots), width), np.int64), np.arange(width) < counts[:, None]
        number[real] = np.concatenate(slots)
        arrays = number, begins[number], np.where(real, lengths[number], 0)
        numbers, begin, length = to_device(arrays, relevance.device)
        return cls(in_float32(relevance).contiguous(), numbers, begin, length, most)

    def lists(self, beam: int) -> RowLists:
        """For each slot, `beam` rows and h heads, the keys of the slot's sentences that have a word."""
        if beam not in self._lists:
            numbers, real = (x.repeat_interleave(beam, 0) for x in (self.numbers, self.lengths > 0))
            self._lists[beam] = RowLists.of_table(numbers, real, self.keys.shape[1])
        return self._lists[beam]


def attend_rows(
    q: Tensor, sentence_q: Tensor, words: Tensor, values: Tensor, choices: Choices, policy: SelectionPolicy, *,
    own: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Return Softmax[q·k/√d_k + kept relevance of the word's sentence] v (equation 7) for each row, without gradient.

    Args:
        q, sentence_q: (R, h, d_k), slot by slot, as many of each.
        words, values: (Tk, h, d_k), (Tk, h, d_v), contiguous.
        policy: a policy that uses neither a tree nor blocks.
        own: (N,) int64, the place of each slot's own sentence among its choices, for `always_own`.

    Returns:
        (R, h, d_v), in the type of `values`; 0 for a row without a word to read.
    """
    slots, scale = len(choices.numbers), q.shape[2] ** -0.5
    lists = choices.lists(len(q) // slots)
    scores = lists.padded(products(in_float32(sentence_q) * scale, choices.keys, lists))  # (R·h, S)
    relevance, place = scores.topk(min(policy.top_t, choices.most), dim=1)  # (R·h, t)
    if policy.always_own and own is not None:
        _read_own(scores, relevance, place, own)
    shape = *q.shape[:2], -1
    begins, lengths = (x.gather(1, place.view(slots, -1)).view(shape) for x in (choices.begins, choices.lengths))
    return attend_spans(q, words, values, begins, lengths, relevance.view(shape))


def _read_own(scores: Tensor, relevance: Tensor, place: Tensor, own: Tensor) -> None:
    """Replace the least relevant kept sentence, the last one, by the slot's own sentence (N,) if that is not kept."""
    own = own.repeat_interleave(len(scores) // len(own))[:, None]  # (R·h, 1)
    value = scores.gather(1, own)
    missing = ~(place == own).any(1, keepdim=True) & (value > -torch.inf)
    place[:, -1:] = torch.where(missing, own, place[:, -1:])
    relevance[:, -1:] = torch.where(missing, value, relevance[:, -1:])
