"""Attention of a target word to the earlier sentences of its translation: the model's own text.

Training reads the reference, decoding what has been written; in both it is the decoder's input embeddings of earlier
sentences, so that a finished sentence is projected once and never computed again. With nothing before it a word reads
exactly 0. There is no tree here: its inner nodes would hold later sentences.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from docnmt.functional.conditional import document_groups
from docnmt.functional.decoding import Choices, ContextKeys, Shelf
from docnmt.functional.selection import SelectionPolicy
from docnmt.layout import DocumentLayout
from docnmt.modules.context_attention import ConditionalAttention, SummaryAttention
from docnmt.modules.record_reads import attended


class EarlierSummaries(SummaryAttention):
    """Multi-head attention to the summaries of the earlier sentences."""

    def __init__(self, *, d_model: int, heads: int, d_head: int, equal_start: bool = True) -> None:
        super().__init__(d_model=d_model, heads=heads, d_head=d_head, equal_start=equal_start)
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

    def __init__(self, *, d_model: int, heads: int, d_head: int, top_t: int, equal_start: bool = True) -> None:
        super().__init__(d_model=d_model, heads=heads, d_head=d_head, top_t=top_t, equal_start=equal_start)
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


class EarlierText:
    """The translations before each slot's sentence, as keys of one layer.

    Args:
        slots: for each slot, the keys of each of its earlier sentences in order, every one a document of its own.
    """

    any_memory = True

    def __init__(self, slots: Sequence[Sequence[ContextKeys]]) -> None:
        self._texts = list(slots)
        self._numbers: list[np.ndarray | None] = [None] * len(slots)  # on the shelf
        self._shelf = Shelf()
        self._changed()

    def keep(self, rows: Tensor, slots: Tensor | None) -> None:
        """Only these slots stay, in that order."""
        if slots is not None:
            stay = slots.tolist()
            self._texts, self._numbers = [self._texts[n] for n in stay], [self._numbers[n] for n in stay]
            self._changed()

    def append(self, other: EarlierText) -> None:
        """Put the other slots behind."""
        self._texts, self._numbers = [*self._texts, *other._texts], [*self._numbers, *[None] * len(other._texts)]
        self._changed()

    def _changed(self) -> None:
        self.longest = max(map(len, self._texts), default=0)  # sentences of the slot that has most
        self._packed: ContextKeys | None = None
        self._choices: Choices | None = None

    def keys(self) -> ContextKeys | None:
        """Return the keys packed, each slot's text as a document; None if no slot has any text."""
        if self._packed is None and (parts := [part for text in self._texts for part in text]):
            self._packed = _packed(self._texts, parts)
        return self._packed

    def choices(self) -> tuple[Shelf, Choices] | None:
        """Return the shelf that holds the texts and the slots' choices there; None if no slot has any text."""
        if self._choices is None and self.longest:
            if self._shelf.mostly_left(sum(map(len, self._texts))):
                self._shelf, self._numbers = Shelf(), [None] * len(self._texts)
            texts = zip(self._texts, self._numbers, strict=True)
            numbers = [self._shelf.put([(part, 0) for part in text]) if n is None else n for text, n in texts]
            self._numbers, self._choices = [*numbers], self._shelf.choices(numbers)
        return None if self._choices is None else (self._shelf, self._choices)

    def document_of_row(self, rows: int, device: torch.device) -> Tensor:
        """(R,) the document of `keys` that each row reads, for as many rows a slot."""
        return torch.arange(len(self._texts), device=device).repeat_interleave(rows // max(len(self._texts), 1))


def _packed(texts: Sequence[Sequence[ContextKeys]], parts: Sequence[ContextKeys]) -> ContextKeys:
    """`parts`, all of all texts, with a text a document."""
    layout = DocumentLayout.from_lengths([[part.layout.num_tokens for part in text] for text in texts])
    relevance = [part.relevance for part in parts if part.relevance is not None]
    return ContextKeys(
        layout.to(parts[0].keys.device),
        torch.cat([part.keys for part in parts]),
        torch.cat([part.values for part in parts]),
        torch.cat(relevance) if relevance else None,
    )
