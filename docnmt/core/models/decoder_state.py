"""The state of decoding: of source documents, computed once, and of live hypotheses, which are added and reordered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from docnmt.core.batch import PackedText, join_begins
from docnmt.core.data.tokenizer import BRK
from docnmt.modules.document_store import ContextKeys
from docnmt.modules.sublayer import Cache, Slots, Step
from docnmt.modules.token_table import TokenTable

#: For each decoder layer, one translated sentence's keys and values for the attention to earlier sentences.
WrittenSentence = list[ContextKeys]


@dataclass(frozen=True, eq=False)
class Memory:
    """Everything that belongs to source documents and not to hypotheses; computed once, never reordered.

    Attributes:
        source: the packed source.
        layers: per decoder layer and sublayer, its data of the source, in a form of its own.
        begins: (S, n, 4) positions of the first token of each target sentence that a source sentence is translated to:
            n = 1, or the unit's number of sentences if units are joined.
        states: (T, d) encoder states, for models that read finished translations once more.
    """

    source: PackedText
    layers: Sequence[Mapping[str, Any]]
    begins: Tensor
    states: Tensor | None = None

    @classmethod
    def of(cls, source: PackedText, layers: Sequence[Mapping[str, Any]]) -> Memory:
        """Return the memory; the positions at which target sentences begin follow from the source."""
        begins = source.begins
        if begins is None:
            begins = source.positions.index_select(0, source.layout.sentence_offsets[:-1])[:, None]
        return cls(source, layers, begins)

    @cached_property
    def reach(self) -> int:
        """The largest index in `begins`, or more."""
        return max(self.source.highest) if self.source.begins is None else int(self.begins.max())

    def positions(self, sentence: int, length: int) -> Tensor:
        """Return positions (length, 4) of the first `length` words of the translation of sentence `sentence`."""
        positions = self.begins[sentence, 0].repeat(length, 1)
        positions[:, 0] += torch.arange(length, device=positions.device)
        return positions


@dataclass
class DecoderState:
    """Live hypotheses. Rows are ordered slot by slot, `beam` of them each; a slot writes one sentence of the memory.

    Attributes:
        memory: of the source documents; None if the slots read different memories.
        sentences: (N,) each slot's sentence in its memory. begins: (N, n, 4) as in `Memory.begins`.
        lengths: (R,) number of tokens that each row has read.
        breaks: (R,) how many of them were `<brk>`. since: (R,) how many came before the last `<brk>`.
        table: where the tokens that the rows have read are stored.
        layers: per decoder layer, the caches of its sublayers.
        reach: no index in `begins` is larger.
    """

    memory: Memory | None
    beam: int
    sentences: Tensor
    begins: Tensor
    lengths: Tensor
    breaks: Tensor
    since: Tensor
    table: TokenTable
    layers: list[dict[str, Cache]]
    reach: int

    @classmethod
    def begin(cls, memory: Memory, slots: Slots, layers: list[dict[str, Cache]]) -> DecoderState:
        """Return rows that have read nothing yet."""
        sentences, beam = slots.sentences, slots.beam
        zeros = sentences.new_zeros(len(sentences) * beam)
        table = TokenTable.empty(len(zeros), sentences.device)
        begins = memory.begins[sentences]
        return cls(memory, beam, sentences, begins, zeros, zeros, zeros, table, layers, memory.reach)

    def next_step(self) -> Step:
        """Give each row's next token a place, and return what the layers' sublayers need to know of this step."""
        self.table.grow(self.lengths)
        return Step(self.lengths, self.sentences.repeat_interleave(self.beam), self.table)

    def reorder(self, rows: Tensor) -> None:
        """Keep `rows`, in that order: still slot by slot, `beam` each; a slot may be dropped with all its rows."""
        slots = [row // self.beam for row in rows[:: self.beam].tolist()]
        all_stay = slots == list(range(len(self.sentences)))
        kept = None if all_stay else torch.tensor(slots, dtype=torch.int64, device=rows.device)
        self.table.keep(rows)
        for caches in self.layers:
            for cache in caches.values():
                cache.keep(rows, kept)
        if kept is not None:  # otherwise lengths stay, too: the rows of a slot are equally long
            self.sentences, self.begins = self.sentences[kept], self.begins[kept]
            self.lengths = self.lengths[rows]
        if self.joined or kept is not None:
            self.breaks, self.since = self.breaks[rows], self.since[rows]

    @property
    def joined(self) -> bool:
        """True if units may have several sentences, with `<brk>` between them."""
        return self.begins.shape[1] > 1

    @property
    def any_memory(self) -> bool:
        """True if slots of another memory can be appended, which every cache must allow."""
        return all(vars(type(cache)).get("any_memory", False) for caches in self.layers for cache in caches.values())

    def append(self, other: DecoderState) -> None:
        """Append the slots of another state.

        Raises:
            ValueError: the beam sizes differ, or the memories differ and a cache is bound to one memory.
        """
        shared = other.memory is self.memory and self.memory is not None
        if other.beam != self.beam or not (shared or self.any_memory):
            raise ValueError("states can be joined only when they share one memory and one beam size")
        self.memory, self.reach = self.memory if shared else None, max(self.reach, other.reach)
        self.table.append(other.table)
        for mine, theirs in zip(self.layers, other.layers, strict=True):
            for name, cache in mine.items():
                cache.append(theirs[name])
        self.sentences = torch.cat([self.sentences, other.sentences])
        self.begins = join_begins([self.begins, other.begins])
        self.lengths = torch.cat([self.lengths, other.lengths])
        self.breaks = torch.cat([self.breaks, other.breaks])
        self.since = torch.cat([self.since, other.since])

    def positions(self, tokens: Tensor, *, running: bool) -> Tensor:
        """Return positions (R, 4) of the tokens (R,) that the rows read next; `<brk>` begins a unit's next sentence.

        Args:
            running: if true, the word index counts along the whole unit.
        """
        begin, written = self.begins[:, 0].repeat_interleave(self.beam, dim=0), self.lengths  # (R, 4), (R,)
        if self.joined:
            is_break = tokens == BRK
            self.breaks = self.breaks + is_break
            self.since = torch.where(is_break, self.lengths, self.since)
            place = self.breaks.clamp(max=self.begins.shape[1] - 1)  # a dead row may read anything
            slot = torch.arange(len(place), device=place.device) // self.beam
            begin, written = self.begins[slot, place], self.lengths - self.since
        word = self.lengths if running else begin[:, 0] + written
        return torch.cat([word[:, None], begin[:, 1:]], dim=1)
