"""Conversion of the recorded reads of one unit's pass into what each of its words read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from docnmt.apps.explain.explanation import Attention, Explanation
from docnmt.core.batch import TranslationBatch
from docnmt.core.data.corpus import ParallelCorpus
from docnmt.core.data.store import offsets_of
from docnmt.core.models.translation_model import AnyTranslationModel, TranslationTask
from docnmt.core.units import Units
from docnmt.modules.record_reads import Note, ReadFunction

#: Number of keys whose weights are computed at once.
_COLUMNS = 64
#: The most single words kept for a head.
_WORDS = 64
_NAME = re.compile(r"(?:(encoder|decoder)\.layers\.(\d+)\.(\w+)(?:\.\w+)*|(pointer))")


@dataclass(frozen=True, eq=False)
class UnitSide:
    """One side of a unit: the numbers (n,) of its sentences in the corpus, and where in the row each begins (n+1,)."""

    numbers: np.ndarray
    offsets: np.ndarray

    @property
    def sentence(self) -> np.ndarray:
        """The place among `numbers` (T,) of each word's sentence."""
        return np.repeat(np.arange(len(self.numbers)), np.diff(self.offsets))

    def rows(self, number: int) -> slice:
        """Return the words of a sentence."""
        place = int(np.searchsorted(self.numbers, number))
        return slice(int(self.offsets[place]), int(self.offsets[place + 1]))


@dataclass(frozen=True, eq=False)
class UnitNotes:
    """One unit, the only one of its batch, and the division of its rows into sentences of the corpus."""

    corpus: ParallelCorpus
    source: UnitSide
    target: UnitSide
    names: dict[nn.Module, str]
    joined: bool

    @classmethod
    def of(cls, model: AnyTranslationModel, corpus: ParallelCorpus, units: Units, batch: TranslationBatch) -> UnitNotes:
        """Build the notes of a batch of one unit."""
        assert corpus.target is not None
        read = np.arange(units.source_first[0], units.source_last[0])
        ends = np.ones(len(read), dtype=np.int64)
        if not model.reading.source_breaks:
            ends[:-1] = 0  # only the last sentence has an end token
        source = UnitSide(read, offsets_of(corpus.source.lengths()[read] + ends))
        if model.reading.joined:
            written = np.arange(units.first[0], units.last[0])
            target = UnitSide(written, offsets_of(corpus.target.lengths()[written] + 1))
        else:
            target = UnitSide(read, batch.target.layout.sentences.host)
        modules = model.named_modules() if isinstance(model, nn.Module) else []
        return cls(corpus, source, target, {module: name for name, module in modules}, model.reading.joined)

    def block(self, note: Note) -> str | None:
        """Return the name of the block that recorded a note."""
        match = _NAME.fullmatch(self.names.get(note.module, ""))
        return None if match is None else match[3] or match[4]

    def attention(self, note: Note, model: int) -> tuple[str, Attention] | None:
        """Return the side and the attention of all words of the unit in a note; None for unknown modules."""
        match = _NAME.fullmatch(self.names.get(note.module, ""))
        if match is None:
            return None
        side, layer, block = match[1] or "decoder", int(match[2] or 0), match[3] or match[4]
        keys = self.target if block in ("target", "pointer") else self.source
        if block in ("context", "target"):
            groups = np.arange(len(keys.numbers)) if note.sentences else keys.sentence
            index, weights = strongest(note.read, note.values, groups, len(keys.numbers))
            sentences, places = keys.numbers[index], None
        else:
            word, within = np.arange(keys.offsets[-1]), not self.joined and block == "cross"
            groups = word - keys.offsets[keys.sentence] if within else word
            most = int(np.diff(keys.offsets).max(initial=1))
            index, weights = strongest(
                note.read, note.values, groups, int(groups.max(initial=0)) + 1, max(most, _WORDS)
            )
            if within:  # a place in the word's own source sentence
                own = np.searchsorted(keys.numbers, self.target.numbers[self.target.sentence])[:, None, None]
                index = np.minimum(index + keys.offsets[own], keys.offsets[-1] - 1)
            sentences, places = keys.numbers[keys.sentence[index]], index - keys.offsets[keys.sentence[index]]
        share = None if note.share is None else note.share.cpu().numpy()
        return side, Attention(block, layer, model, sentences, weights, places, share, note.tree)

    def explanation(self, number: int, found: Sequence[tuple[str, Attention]], task: TranslationTask) -> Explanation:
        """Return the explanation of one sentence of the unit."""
        assert self.corpus.target is not None
        rows = {"encoder": self.source.rows(number), "decoder": self.target.rows(number)}
        encoder, decoder = (tuple(_part(a, rows[side]) for name, a in found if name == side) for side in rows)
        return Explanation(
            number=number,
            source=tuple(task.source_tokenizer.pieces(self.corpus.source[number].tolist())),
            target=tuple(task.target_tokenizer.pieces(self.corpus.target[number].tolist())),
            leaves=tuple(self.source.numbers.tolist()) if any(each.tree for _, each in found) else (),
            decoder=decoder,
            encoder=encoder,
        )


def _part(attention: Attention, rows: slice) -> Attention:
    """Return the attention of some words only, no wider than they need."""
    weights = attention.weights[rows]
    width = int((weights > 0).sum(-1).max(initial=0))

    def _cut(values: np.ndarray) -> np.ndarray:
        return np.array(values[rows, :, :width])

    return Attention(
        attention.block,
        attention.layer,
        attention.model,
        _cut(attention.sentences),
        _cut(attention.weights),
        None if attention.places is None else _cut(attention.places),
        None if attention.share is None else attention.share[rows].copy(),
        attention.tree,
    )


def strongest(
    read: ReadFunction, values: Tensor, groups: np.ndarray, count: int, limit: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the weights of groups of keys, the strongest first: attention's output for values that are 1 in one group.

    Args:
        values: of the attention, for their shape (keys, h, d) and type. groups: (keys,) the group of each, below
            `count`.
        limit: the most groups to keep for each query and head; None: all.

    Returns:
        Groups and their weights, (queries, h, k) each.
    """
    of_key = torch.from_numpy(groups).to(values.device)
    weights, index = values.new_zeros(0), of_key[:0]
    for first in range(0, max(count, 1), _COLUMNS):
        here = torch.arange(first, min(first + _COLUMNS, count), device=values.device)
        ones = (of_key[:, None] == here).to(values.dtype)[:, None].expand(-1, values.shape[1], -1)
        part = read(ones.contiguous())  # (queries, h, columns)
        new = here.expand_as(part)
        weights, index = (torch.cat([weights, part], -1), torch.cat([index, new], -1)) if first else (part, new)
        weights, order = weights.sort(stable=True, dim=-1, descending=True)
        index = index.gather(-1, order)[..., :limit]
        weights = weights[..., :limit]
    return index.cpu().numpy(), weights.float().cpu().numpy()
