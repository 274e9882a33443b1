"""What decoding keeps: of source documents, made once, and of live hypotheses, which come, go and are reordered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from docnmt.core.batch import PackedText, join_begins
from docnmt.core.data.tokenizer import BRK
from docnmt.modules.document_store import ContextKeys
from docnmt.modules.sublayer import Cache

#: For each decoder layer, one translated sentence as its attention to earlier sentences reads it.
WrittenSentence = list[ContextKeys]


@dataclass(frozen=True, eq=False)
class Memory:
    """Everything that belongs to source documents and not to hypotheses; made once, never reordered.

    Attributes:
        source: the packed source.
        layers: per decoder layer and sublayer, what it reads of the source; each sublayer keeps what it likes.
        begins: (S, n, 4) positions of the first token of each target sentence that a sentence of the source becomes:
            one, but as many as the unit has where units are joined.
        states: (T, d) of the encoder, for models that read finished translations once more.
    """

    source: PackedText
    layers: Sequence[Mapping[str, Any]]
    begins: Tensor
    states: Tensor | None = None

    @classmethod
    def of(cls, source: PackedText, layers: Sequence[Mapping[str, Any]]) -> Memory:
        """Where each sentence of a target begins follows from the source."""
        begins = source.begins
        if begins is None:
            begins = source.positions.index_select(0, source.layout.sentence_offsets[:-1])[:, None]
        return cls(source, layers, begins)

    def positions(self, sentence: int, length: int) -> Tensor:
        """(length, 4) positions of the first words of what sentence `sentence` becomes."""
        positions = self.begins[sentence, 0].repeat(length, 1)
        positions[:, 0] += torch.arange(length, device=positions.device)
        return positions


@dataclass
class DecoderState:
    """Live hypotheses. Rows stand slot by slot, `beam` of them each; a slot writes one sentence of the memory.

    Attributes:
        memory: of the source documents; None where slots of several stand together.
        sentences: (N,) which sentence of its memory each slot writes. begins: (N, n, 4) as `Memory.begins` has it.
        lengths: (R,) tokens that each row has read so far.
        breaks: (R,) how many of them were `<brk>`. since: (R,) how many stand before the last of those.
        layers: per decoder layer, the caches of its sublayers.
    """

    memory: Memory | None
    beam: int
    sentences: Tensor
    begins: Tensor
    lengths: Tensor
    breaks: Tensor
    since: Tensor
    layers: list[dict[str, Cache]]

    @classmethod
    def begin(cls, memory: Memory, beam: int, sentences: Tensor, layers: list[dict[str, Cache]]) -> DecoderState:
        """Rows that have read nothing yet."""
        zeros = sentences.new_zeros(len(sentences) * beam)
        return cls(memory, beam, sentences, memory.begins[sentences], zeros, zeros, zeros, layers)

    def reorder(self, rows: Tensor) -> None:
        """Keep `rows`, in that order: still slot by slot, `beam` each; a slot may vanish with all its rows."""
        slots = rows[:: self.beam] // self.beam
        all_stay = len(slots) == len(self.sentences) and bool((slots.diff() == 1).all())
        for caches in self.layers:
            for cache in caches.values():
                cache.keep(rows, None if all_stay else slots)
        self.sentences, self.begins, self.lengths = self.sentences[slots], self.begins[slots], self.lengths[rows]
        self.breaks, self.since = self.breaks[rows], self.since[rows]

    @property
    def any_memory(self) -> bool:
        """Slots of another memory can stand behind these: every cache says so."""
        return all(vars(type(cache)).get("any_memory", False) for caches in self.layers for cache in caches.values())

    def append(self, other: DecoderState) -> None:
        """Add the slots of another state behind this one's.

        Raises:
            ValueError: they have another beam size, or another memory and a cache that is of one memory only.
        """
        shared = other.memory is self.memory and self.memory is not None
        if other.beam != self.beam or not (shared or self.any_memory):
            raise ValueError("states can be joined only when they share one memory and one beam size")
        self.memory = self.memory if shared else None
        for mine, theirs in zip(self.layers, other.layers, strict=True):
            for name, cache in mine.items():
                cache.append(theirs[name])
        self.sentences = torch.cat([self.sentences, other.sentences])
        self.begins = join_begins([self.begins, other.begins])
        self.lengths = torch.cat([self.lengths, other.lengths])
        self.breaks = torch.cat([self.breaks, other.breaks])
        self.since = torch.cat([self.since, other.since])

    def positions(self, tokens: Tensor, *, running: bool) -> Tensor:
        """(R, 4) where the tokens (R,) stand that the rows read next; `<brk>` opens the next sentence of a unit.

        Args:
            running: the word index counts along the whole unit.
        """
        is_break = tokens == BRK
        self.breaks = self.breaks + is_break
        self.since = torch.where(is_break, self.lengths, self.since)
        begins = self.begins.repeat_interleave(self.beam, dim=0)  # (R, n, 4)
        place = self.breaks.clamp(max=begins.shape[1] - 1)  # a dead row may read anything
        begin = begins[torch.arange(len(place), device=place.device), place]
        word = self.lengths if running else begin[:, 0] + self.lengths - self.since
        return torch.cat([word[:, None], begin[:, 1:]], dim=1)
