"""Conditional attention of few queries to texts of few sentences: a step of decoding, row by row.

Every slot compares its queries with the sentences of its text, and copies the words of those that are kept behind each
other. This takes a few products whatever the documents' lengths are. A row's numbers depend neither on the other rows
nor on their number, as those of `docnmt.modules.softmax_attention.attend` (`docnmt.runtime.row_invariant`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from docnmt.functional.selection import SelectionPolicy, in_float32
from docnmt.runtime.transfer import to_device
from docnmt.runtime.tuning import INVARIANT_KEYS, new_shapes

#: Sentences of a text up to which all are compared here; their keys are copied for each slot.
FEW = 128


@dataclass(frozen=True, eq=False)
class Choices:
    """The sentences that N slots choose from, side by side: S of each, behind them padding.

    Attributes:
        keys: (N, h, S, d_k), by which they are compared, in float32 at least.
        hidden: (N, 1, 1, S) bool, padding and sentences without a word.
        begins: (N, h, 1, S) int64, the row of a (T·h, d) table of words where a sentence begins for a head.
        lengths: (N, 1, 1, S) int64, its words; 0 where `hidden`.
        most: sentences of the slot that has most.
    """

    keys: Tensor
    hidden: Tensor
    begins: Tensor
    lengths: Tensor
    most: int

    @classmethod
    def of(
        cls, slots: Sequence[np.ndarray], relevance: Tensor, begins: np.ndarray, lengths: np.ndarray
    ) -> Choices | None:
        """Of each slot the numbers of its sentences, at most `FEW`; None where no slot has any.

        Args:
            relevance: (Sk, h, d_k), the keys of all sentences. begins, lengths: (Sk,), their words.
        """
        counts, heads = [len(slot) for slot in slots], relevance.shape[1]
        most = max(counts, default=0)
        if most == 0:
            return None
        width = -(-most // INVARIANT_KEYS) * INVARIANT_KEYS
        number, real = np.zeros((len(slots), width), np.int64), np.arange(width) < np.array(counts)[:, None]
        number[real] = np.concatenate(slots)
        length = np.where(real, lengths[number], 0)
        head = np.arange(heads)
        rows = number[:, None] * heads + head[:, None]  # (N, h, S) of a (Sk·h, d) table
        first = begins[number][:, None] * heads + head[:, None]
        at, hide, begin, length_of = to_device([rows, length == 0, first, length], relevance.device)
        keys = relevance.flatten(0, 1).index_select(0, at.flatten()).view(*at.shape, -1)
        return cls(in_float32(keys), hide[:, None, None], begin[:, :, None], length_of[:, None, None], most)


def attend_rows(
    q: Tensor, sentence_q: Tensor, words: Tensor, values: Tensor, choices: Choices, policy: SelectionPolicy, *,
    own: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Softmax[q·k/√d_k + kept relevance of the word's sentence] v (equation 7), one query a row; without gradient.

    Args:
        q, sentence_q: (R, h, d_k), slot by slot, as many of each.
        words, values: (Tk, h, d_k), (Tk, h, d_v), contiguous.
        policy: of a search without a tree and without blocks.
        own: (R,) int64, the place of each row's own sentence among its choices, for `always_own`.

    Returns:
        (R, h, d_v), in the type of `values`; 0 for a row without a word to read.
    """
    slots, heads, _, d_k = choices.keys.shape
    beam, scale = len(q) // slots, d_k**-0.5
    with new_shapes(attention=True):
        asked = in_float32(sentence_q).view(slots, beam, heads, d_k).transpose(1, 2)
        scores = (torch.matmul(asked, choices.keys.mT) * scale).masked_fill_(choices.hidden, -torch.inf)  # (N, h, b, S)
        relevance, place = scores.topk(min(policy.top_t, choices.most), dim=-1)  # (N, h, b, t)
        if policy.always_own and own is not None:
            _read_own(scores, relevance, place, choices, own.view(slots, 1, beam, 1))
        shape = *place.shape[:-1], -1
        ends = choices.lengths.expand(shape).gather(-1, place).cumsum(-1)  # where each kept sentence ends in its row's
        fewest, most = (int(x) for x in ends[..., -1].aminmax())
        if most == 0:
            return values.new_zeros(len(q), heads, values.shape[-1])
        column = torch.arange(-(-most // INVARIANT_KEYS) * INVARIANT_KEYS, device=q.device)
        of = (column >= ends[..., :-1, None]).sum(-2)  # (N, h, b, P), the kept sentence that stands at a column
        begin = choices.begins.expand(shape).gather(-1, place)
        begin[..., 1:] -= ends[..., :-1] * heads
        rows = (begin.gather(-1, of) + column * heads).clamp_(max=words.shape[0] * heads - 1).flatten()
        k, v = (x.flatten(0, 1).index_select(0, rows).view(*of.shape, -1) for x in (words, values))
        query = q.view(slots, beam, heads, 1, d_k).transpose(1, 2)  # (N, h, b, 1, d_k)
        read = torch.matmul(query, k.mT)[..., 0, :].to(relevance.dtype) * scale + relevance.gather(-1, of)
        read = read.masked_fill(column >= ends[..., -1:], -torch.inf)
        if fewest == 0:
            read = read.masked_fill(ends[..., -1:] == 0, 0)
        mixed = torch.matmul(read.softmax(-1).to(v.dtype)[..., None, :], v)[..., 0, :]  # (N, h, b, d_v)
        if fewest == 0:
            mixed = mixed.masked_fill(ends[..., -1:] == 0, 0)
    return mixed.transpose(1, 2).reshape(len(q), heads, -1)


def _read_own(scores: Tensor, relevance: Tensor, place: Tensor, choices: Choices, own: Tensor) -> None:
    """The least relevant sentence, which stands last, gives way to the own one (N, 1, b, 1), if this is not kept."""
    own = own.expand(*scores.shape[:-1], 1)
    value = scores.gather(-1, own)
    missing = ~(place == own).any(-1, keepdim=True) & (value > -torch.inf)
    place[..., -1:] = torch.where(missing, own, place[..., -1:])
    relevance[..., -1:] = torch.where(missing, value, relevance[..., -1:])
