"""Batches filled up to one of a few shapes, so that what a GPU does for one of them serves for others, too."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from docnmt.core.batch import IGNORE, PackedText, TranslationBatch
from docnmt.layout import BoundedLayout
from docnmt.runtime.graphs import power_of_two

#: Shapes of rows in a batch of `--max-tokens`: filling costs half of a step, a thirty-second, on average.
STEPS = 16
#: Rows are a multiple of this; sentences, and the bound of their length, are a power of two that is no less.
_ROWS, _SENTENCES, _LENGTH = 64, 64, 32


@dataclass(frozen=True)
class Shape:
    """The shape of a filled batch.

    Attributes:
        source, target: rows. sentences, documents: of each side.
        longest, longest_document: no sentence and no document of either side is longer.
        most: no document has more sentences. reach: no position is larger.
    """

    source: int
    target: int
    sentences: int
    documents: int
    longest: int
    longest_document: int
    most: int
    reach: int

    @classmethod
    def of(cls, batch: TranslationBatch, step: int) -> Shape:
        """The smallest shape for a batch whose rows are filled up to multiples of `step`."""
        layouts = batch.source.layout, batch.target.layout
        source, target = (layout.sentences for layout in layouts)
        rows = [max(1, -(-side.num_tokens // step)) * step for side in (source, target)]
        longest = power_of_two(max(source.max_length, target.max_length), _LENGTH)
        filled = max(rows[0] - source.num_tokens, rows[1] - target.num_tokens)
        sentences = power_of_two(len(source) - (-filled // longest), _SENTENCES)
        return cls(
            source=rows[0],
            target=rows[1],
            sentences=sentences,
            documents=power_of_two(layouts[0].num_documents + sentences - len(source), _SENTENCES),
            longest=longest,
            longest_document=power_of_two(max(layout.documents.max_length for layout in layouts), longest),
            most=power_of_two(layouts[0].document_sentences.max_length, 1),
            reach=power_of_two(1 + max(*batch.source.highest, *batch.target.highest), longest) - 1,
        )


def row_step(max_tokens: int) -> int:
    """The step of rows for batches of at most `max_tokens`."""
    return -(-max_tokens // (STEPS * _ROWS)) * _ROWS


@dataclass(frozen=True, eq=False)
class FilledBatch:
    """A batch of a shape: sentences without labels fill it up. The host knows the shape only.

    Attributes as those of `TranslationBatch`; `num_tokens` is a tensor () of the device.
    """

    source: PackedText
    target: PackedText
    labels: Tensor
    num_tokens: Tensor


def fill(batch: TranslationBatch, shape: Shape) -> list[Tensor]:
    """The arrays of a batch on the host, filled up to a shape, as `filled_batch` takes them."""
    labels = batch.labels.new_full((shape.target,), IGNORE)
    labels[: len(batch.labels)] = batch.labels
    source, target = _filled(batch.source, shape.source, shape), _filled(batch.target, shape.target, shape)
    offsets = batch.source.layout.document_offsets
    more = torch.arange(1, shape.documents - len(offsets) + 2) + offsets[-1]  # what fills up, a sentence each
    documents = torch.cat([offsets, more.clamp(max=shape.sentences)])
    return [*source, *target, documents, labels, torch.tensor(batch.num_tokens)]


def _filled(text: PackedText, rows: int, shape: Shape) -> list[Tensor]:
    """Tokens, offsets and positions; the sentences that fill up are as long as they may be, and at last empty."""
    offsets = text.layout.sentence_offsets
    more = torch.arange(1, shape.sentences - len(offsets) + 2) * shape.longest + len(text.tokens)
    tokens, positions = text.tokens.new_zeros(rows), text.positions.new_zeros(rows, text.positions.shape[1])
    tokens[: len(text.tokens)], positions[: len(text.tokens)] = text.tokens, text.positions
    return [tokens, torch.cat([offsets, more.clamp(max=rows)]), positions]


def filled_batch(arrays: list[Tensor], shape: Shape) -> FilledBatch:
    """The batch of arrays on a device. What layers derive of its layout is computed anew for each call."""
    *texts, documents, labels, number = arrays
    source, target = (
        _text(of, documents, rows, shape) for of, rows in ((texts[:3], shape.source), (texts[3:], shape.target))
    )
    return FilledBatch(source, target, labels, number)


def _text(arrays: list[Tensor], documents: Tensor, rows: int, shape: Shape) -> PackedText:
    tokens, offsets, positions = arrays
    layout = BoundedLayout(offsets, documents, rows, shape.longest, shape.longest_document, shape.most)
    text = PackedText(tokens, layout, positions)
    text.__dict__["highest"] = (shape.reach,) * positions.shape[1]
    return text
