"""Conditional attention for one decoding step: few queries, texts of few sentences.

Every slot compares its queries with the sentences of its text and concatenates the words of those that one of its rows
keeps; its other rows do not see them. This takes a few products whatever the documents' lengths are. The results of a
slot's rows depend neither on other slots nor on their number, as in `docnmt.modules.softmax_attention.attend`
(`docnmt.runtime.row_invariant`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from docnmt.functional.selection import SelectionPolicy, in_float32
from docnmt.runtime.transfer import to_device
from docnmt.runtime.tuning import INVARIANT_KEYS, new_shapes

#: Sentences of a text up to which all are compared here; their keys are copied for each slot.
FEW = 128
#: In heads narrower than this, the bits of a product with transposed keys depend on their number, so they are copied.
NARROW = 32


@dataclass(frozen=True, eq=False)
class Choices:
    """The sentences that N slots choose from, for each slot and head, padded to S sentences.

    Attributes:
        keys: (N·h, d_k, S), the sentences' keys, in float32 at least.
        hidden: (N·h, 1, S), -inf for padding and for sentences without a word, else 0.
        begins: (N·h, S) int64, the row of a (T·h, d) table of words where a sentence begins for a head.
        lengths: (N·h, S) int64, the number of words of a sentence; 0 where `hidden`.
        heads: h. most: the largest number of sentences of any slot.
    """

    keys: Tensor
    hidden: Tensor
    begins: Tensor
    lengths: Tensor
    heads: int
    most: int

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
        counts, heads = np.array([len(slot) for slot in slots]), relevance.shape[1]
        most = int(counts.max(initial=0))
        if most == 0:
            return None
        width = -(-most // INVARIANT_KEYS) * INVARIANT_KEYS
        number, real = np.zeros((len(slots), width), np.int64), np.arange(width) < counts[:, None]
        number[real] = np.concatenate(slots)
        length = np.where(real, lengths[number], 0)
        rows, first = (
            (x[:, None] * heads + np.arange(heads)[:, None]).reshape(-1, width) for x in (number, begins[number])
        )
        arrays = (rows, first, length.repeat(heads, 0))
        at, begin, length_of = to_device(arrays, relevance.device)  # (N·h, S) each
        keys = in_float32(relevance.flatten(0, 1).index_select(0, at.flatten())).view(*at.shape, -1)
        empty = length_of == 0
        hidden = keys.new_zeros(empty.shape).masked_fill_(empty, -torch.inf)[:, None]
        keys = keys.masked_fill_(empty[..., None], 0)
        keys = keys.mT.contiguous()  # else the bits of a product depend on S, in narrow heads
        return cls(keys, hidden, begin, length_of, heads, most)


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
    both, heads, d_k, t = len(choices.keys), choices.heads, q.shape[-1], min(policy.top_t, choices.most)
    beam, scale = len(q) * heads // both, d_k**-0.5
    asked, query = (x.view(-1, beam, heads, d_k).transpose(1, 2).reshape(both, beam, d_k) for x in (sentence_q, q))
    with new_shapes(attention=True):
        scores = torch.bmm(in_float32(asked) * scale, choices.keys).add_(choices.hidden)  # (N·h, b, S)
        relevance, place = scores.topk(t, dim=-1)  # (N·h, b, t)
        if policy.always_own and own is not None:
            _read_own(scores, relevance, place, own)
        kept = torch.full_like(scores, -torch.inf).scatter_(2, place, relevance)  # (N·h, b, S)
        length = choices.lengths.masked_fill(~(kept > -torch.inf).any(1), 0)  # 0 if no row of the slot keeps it
        ends = length.cumsum(1)  # (N·h, S); the words of all kept sentences are concatenated
        most = int(ends[:, -1].max())
        if most == 0:
            return values.new_zeros(len(q), heads, values.shape[-1])
        column, step = _columns(-(-most // INVARIANT_KEYS) * INVARIANT_KEYS, heads, q.device)
        of = torch.searchsorted(ends, column.repeat(both, 1), right=True)  # (N·h, C) sentences; S after the last word
        begin = functional.pad(choices.begins - heads * (ends - length), (0, 1))
        rows = begin.gather(1, of).add_(step).clamp_(max=len(words) * heads - 1).flatten()
        k, v = (x.flatten(0, 1).index_select(0, rows).view(*of.shape, -1) for x in (words, values))
        added = functional.pad(kept, (0, 1), value=-torch.inf).gather(2, of[:, None].expand(-1, beam, -1))
        read = torch.bmm(query, k.mT if d_k >= NARROW else k.mT.contiguous())  # (N·h, b, C)
        weights = (read.to(added.dtype) * scale + added).softmax(-1)
        nothing = (kept == -torch.inf).all(-1, keepdim=True)
        mixed = torch.bmm(weights.masked_fill_(nothing, 0).to(v.dtype), v)
    return mixed.view(-1, heads, beam, mixed.shape[-1]).transpose(1, 2).reshape(len(q), heads, -1)


@lru_cache(maxsize=256)
def _columns(number: int, step: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return 0, 1, … and 0, step, 2·step, …, `number` of each."""
    column = torch.arange(number, device=device)
    return column, column * step


def _read_own(scores: Tensor, relevance: Tensor, place: Tensor, own: Tensor) -> None:
    """Replace the least relevant kept sentence, the last one, by the slot's own sentence (N,) if that is not kept."""
    own = own.repeat_interleave(len(scores) // len(own))[:, None, None].expand(*scores.shape[:-1], 1)
    value = scores.gather(-1, own)
    missing = ~(place == own).any(-1, keepdim=True) & (value > -torch.inf)
    place[..., -1:] = torch.where(missing, own, place[..., -1:])
    relevance[..., -1:] = torch.where(missing, value, relevance[..., -1:])
