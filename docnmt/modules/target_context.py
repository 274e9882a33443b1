"""Attention of a target word to the earlier sentences of its translation: the model's own text.

Training reads the reference, decoding what has been written; in both it is the decoder's input embeddings of earlier
sentences, so that a finished sentence is projected once and never computed again. With nothing before it a word reads
exactly 0. There is no tree here: its inner nodes would hold later sentences.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor, nn

from docnmt.functional.padded import document_groups
from docnmt.functional.selection import SelectionPolicy
from docnmt.layout import DocumentLayout
from docnmt.modules.context import ConditionalAttention, SummaryAttention
from docnmt.modules.document_store import ContextKeys
from docnmt.modules.record import attended


class EarlierSummaries(SummaryAttention):
    """Multi-head attention to the summaries of the earlier sentences."""

    def __init__(self, *, d_model: int, heads: int, d_head: int) -> None:
        super().__init__(d_model=d_model, heads=heads, d_head=d_head)
        self.output = nn.Linear(heads * d_head, d_model, bias=False)  # nothing read, nothing added

    def forward(self, x: Tensor, keys: ContextKeys, layout: DocumentLayout) -> Tensor:
        """x (T, d) → (T, d), attention to the summaries before the word's own sentence."""
        q = self._heads(self.query(x))
        return self._join(
            attended(self, lambda values: attend_earlier(q, keys.keys, values, layout), keys.values, sentences=True)
        )

    def step(self, x: Tensor, keys: ContextKeys, slot_of_row: Tensor) -> Tensor:
        """One query a row, x (R, d), over all that `keys` hold for its slot, a document there → (R, d)."""
        nothing = (keys.layout.document_offsets.diff() == 0)[slot_of_row]
        return self._join(self._read_documents(x, keys, slot_of_row).masked_fill(nothing[:, None, None], 0))


class EarlierSentences(ConditionalAttention):
    """Conditional attention (eq. 7) to the words of the `top_t` most relevant earlier sentences."""

    def __init__(self, *, d_model: int, heads: int, d_head: int, top_t: int) -> None:
        super().__init__(d_model=d_model, heads=heads, d_head=d_head, top_t=top_t)
        self.policy = SelectionPolicy(top_t, visible="earlier")
        self.output = nn.Linear(heads * d_head, d_model, bias=False)  # nothing read, nothing added

    def step(self, x: Tensor, keys: ContextKeys, slot_of_row: Tensor) -> Tensor:
        """One query a row, x (R, d), over all that `keys` hold for its slot, a document there → (R, d)."""
        return self._step(x, keys, slot_of_row, None)


def attend_earlier(q: Tensor, k: Tensor, v: Tensor, layout: DocumentLayout) -> Tensor:
    """Softmax attention of each word to one key for each earlier sentence of its document; 0 in the first sentence.

    q (T, h, d) follows the layout's words, k and v (S, h, d) its sentences → (T, h, d).
    """
    precise = torch.promote_types(q.dtype, torch.float32)
    mixed = q.new_zeros(*q.shape[:2], 1) + v[:0].sum(0)  # an empty sum is 0 and has a gradient
    for words, sentences in document_groups(layout.documents, layout.document_sentences):
        own = layout.sentence_of_token[words.rows]  # (n, L)
        earlier = (sentences.rows[:, None] < own[..., None]) & sentences.real[:, None]  # (n, L, S)
        scores = torch.matmul(words.gather(q), sentences.gather(k).mT).to(precise) * q.shape[-1] ** -0.5
        nothing = ~earlier.any(-1)[:, None, :, None]
        scores = scores.masked_fill(~earlier[:, None], -torch.inf).masked_fill(nothing, 0)
        weights = scores.softmax(-1).masked_fill(nothing, 0).to(v.dtype)  # (n, h, L, S)
        read = torch.matmul(weights, sentences.gather(v)).transpose(1, 2)  # (n, L, h, d)
        own = read.flatten(0, 1).index_select(0, words.shown)
        mixed = mixed.index_put((words.own,), own.to(mixed.dtype))
    return mixed


@dataclass
class Earlier:
    """What each decoding slot has of its earlier sentences, for one layer.

    Attributes:
        slots: for each slot, the keys of each of its earlier sentences in order, every one a document of its own.
    """

    slots: list[Sequence[ContextKeys]]

    @cached_property
    def keys(self) -> ContextKeys | None:
        """Packed, a slot a document; None where no slot has any."""
        parts = [part for slot in self.slots for part in slot]
        if not parts:
            return None
        device = parts[0].keys.device
        layout = DocumentLayout.from_lengths([[part.layout.num_tokens for part in slot] for slot in self.slots])
        relevance = [part.relevance for part in parts if part.relevance is not None]
        return ContextKeys(
            layout.to(device),
            torch.cat([part.keys for part in parts]),
            torch.cat([part.values for part in parts]),
            torch.cat(relevance) if relevance else None,
        )

    def slot_of_row(self, rows: int, device: torch.device) -> Tensor:
        """(R,) for as many rows a slot."""
        return torch.arange(len(self.slots), device=device).repeat_interleave(rows // max(len(self.slots), 1))

    def select(self, slots: Tensor) -> Earlier:
        """These slots, in that order."""
        return Earlier([self.slots[n] for n in slots.tolist()])

    def append(self, other: Earlier) -> Earlier:
        """The slots of both."""
        return Earlier([*self.slots, *other.slots])
