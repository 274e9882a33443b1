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

from docnmt.functional.attend_padded import document_groups
from docnmt.functional.attend_rows import FEW, Choices
from docnmt.functional.selection import SelectionPolicy
from docnmt.layout import DocumentLayout
from docnmt.modules.context_attention import ConditionalAttention, SummaryAttention
from docnmt.modules.document_store import ContextKeys
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
    """What the slots have of the translations before their sentences, as one layer reads them.

    Args:
        slots: for each slot, the keys of each of its earlier sentences in order, every one a document of its own.
    """

    any_memory = True

    def __init__(self, slots: Sequence[Sequence[ContextKeys]]) -> None:
        self._texts = list(slots)
        self._numbers: list[np.ndarray | None] = [None] * len(slots)
        self._shelf: _Shelf | None = None
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
        self._packed: ContextKeys | None = None
        self._choices: Choices | None = None

    @property
    def longest(self) -> int:
        """Sentences of the slot that has most."""
        return max(map(len, self._texts), default=0)

    def keys(self) -> ContextKeys | None:
        """Packed, a text a document; None where no slot has any."""
        if self._packed is None and (parts := [part for text in self._texts for part in text]):
            self._packed = _packed(self._texts, parts)
        return self._packed

    def choices(self) -> tuple[Tensor, Tensor, Choices] | None:
        """Words (T, h, d_k), values (T, h, d_v), and what the slots choose of them; None where no slot has any text."""
        if not self.longest:
            return None
        if self._shelf is None or self._shelf.mostly_left(self._texts):
            self._shelf, self._numbers = _Shelf(), [None] * len(self._texts)
        if self._choices is None:
            self._numbers = [
                self._shelf.put(text) if known is None else known
                for text, known in zip(self._texts, self._numbers, strict=True)
            ]
            self._choices = self._shelf.choices([known for known in self._numbers if known is not None])
        return self._shelf.keys, self._shelf.values, self._choices

    def document_of_row(self, rows: int, device: torch.device) -> Tensor:
        """(R,) the document of `keys` that each row reads, for as many rows a slot."""
        return torch.arange(len(self._texts), device=device).repeat_interleave(rows // max(len(self._texts), 1))


class _Shelf:
    """Written sentences of a layer, each in the place where it was put first.

    Attributes:
        keys, values: (T, h, d_k), (T, h, d_v), words; there is room behind them.
    """

    def __init__(self) -> None:
        self._place: dict[int, int] = {}
        self._parts: list[ContextKeys] = []  # whose `id` is known must live
        self._ends = [0]
        self.keys = self.values = self._relevance = torch.empty(0)

    def put(self, text: Sequence[ContextKeys]) -> np.ndarray:
        """The numbers of these sentences, of which the new ones are put behind the others."""
        new = [part for part in text if id(part) not in self._place]
        if new:
            words, sentences = self._ends[-1], len(self._parts)
            for part in new:
                self._place[id(part)] = len(self._parts)
                self._parts.append(part)
                self._ends.append(self._ends[-1] + part.layout.num_tokens)
            self.keys = _written(self.keys, words, [part.keys for part in new])
            self.values = _written(self.values, words, [part.values for part in new])
            relevance = [part.relevance for part in new if part.relevance is not None]
            self._relevance = _written(self._relevance, sentences, relevance)
        return np.array([self._place[id(part)] for part in text], dtype=np.int64)

    def choices(self, slots: Sequence[np.ndarray]) -> Choices:
        """Of slots with sentences of these numbers."""
        ends = np.array(self._ends)
        choices = Choices.of(slots, self._relevance, ends[:-1], np.diff(ends))
        assert choices is not None  # a slot has some
        return choices

    def mostly_left(self, texts: Sequence[Sequence[ContextKeys]]) -> bool:
        """Most of what stands here is of slots that have gone."""
        return len(self._parts) > 2 * sum(map(len, texts)) + FEW


def _written(table: Tensor, begin: int, parts: Sequence[Tensor]) -> Tensor:
    """The rows of `parts` from row `begin` on, in a larger table where this one is full."""
    rows = torch.cat(list(parts))
    if begin + len(rows) > len(table):
        wider = rows.new_zeros(2 * (begin + len(rows)), *rows.shape[1:])
        if begin:
            wider[:begin] = table[:begin]
        table = wider
    table[begin : begin + len(rows)] = rows
    return table


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
