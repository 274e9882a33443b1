"""Packed text, which models read, and batches of it. Tensors only; `docnmt.core.batching` makes them from a corpus."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from docnmt.layout import DocumentLayout
from docnmt.runtime.transfer import to_device

#: The label that no loss counts.
IGNORE = -100


@dataclass(frozen=True, eq=False)
class PackedText:
    """Several documents concatenated to one sequence of tokens.

    Attributes:
        tokens: (T,) int64.
        layout: the spans that attention sees. Usually its "sentences" are the corpus's sentences; architectures that
            write several sentences as one sequence have one long "sentence" a unit here.
        positions: (T, 4) int64, the index of each token's word, sentence, paragraph and section, each counted inside
            its parent (or from the document's start, as the model requires); -1 if a level is unknown.
        begins: for a source whose units are joined to one long "sentence" each: (S, n, 4) positions of the first tokens
            of the n target sentences for "sentence" s, the last repeated if there are fewer. None
            if each sentence becomes one, which begins where its source does.
    """

    tokens: Tensor
    layout: DocumentLayout
    positions: Tensor
    begins: Tensor | None = None

    @cached_property
    def highest(self) -> tuple[int, ...]:
        """The largest position of each level, on the host; -1 without tokens."""
        return tuple(self.positions.amax(0).tolist()) if len(self.positions) else (-1,) * self.positions.shape[1]

    def to(self, device: torch.device | str) -> PackedText:
        """Return the same text on `device`."""
        return self.moved(to_device(self.parts, device))

    @property
    def parts(self) -> list[Tensor]:
        """All tensors, in the order that `moved` expects."""
        layout, begins = self.layout, [] if self.begins is None else [self.begins]
        return [self.tokens, layout.sentence_offsets, layout.document_offsets, self.positions, *begins]

    def moved(self, parts: Sequence[Tensor]) -> PackedText:
        """Return the text with these copies of its tensors on another device; values known on the host are kept."""
        tokens, sentence_offsets, document_offsets, positions, *begins = parts
        layout = self.layout.moved(sentence_offsets, document_offsets)
        moved = PackedText(tokens, layout, positions, *begins)
        moved.__dict__["highest"] = self.highest
        return moved


@dataclass(frozen=True, eq=False)
class TranslationBatch:
    """Source documents with the decoder's input and labels.

    Attributes:
        source: the source side; every sentence ends in `</s>`.
        target: the decoder's input, every sentence beginning with `<s>`; one sentence for each of the source's.
        labels: (T,) int64, the next token of each of `target.tokens`, `</s>` at a sentence's end;
            `IGNORE` for tokens that are not predicted.
        units: (U,) int64, the dataset's numbers of these units (for messages and for the order of results).
    """

    source: PackedText
    target: PackedText
    labels: Tensor
    units: Tensor

    @cached_property
    def num_tokens(self) -> int:
        """The number of target tokens with a label, by which the loss is normalised."""
        return int((self.labels != IGNORE).sum())

    def to(self, device: torch.device | str) -> TranslationBatch:
        """Return the same batch on `device`, moved in one copy; `units` stay on the host."""
        if torch.device(device) == self.labels.device:
            return self
        source, target = self.source.parts, self.target.parts
        arrived = to_device([*source, *target, self.labels], device)
        texts = self.source.moved(arrived[: len(source)]), self.target.moved(arrived[len(source) : -1])
        batch = TranslationBatch(*texts, arrived[-1], self.units)
        batch.__dict__["num_tokens"] = self.num_tokens
        return batch


def join_batches(batches: Sequence[TranslationBatch]) -> TranslationBatch:
    """Join the documents of all batches, in order; `units` are the batches' own numbers."""
    if len(batches) == 1:
        return batches[0]
    return TranslationBatch(
        source=join_texts([batch.source for batch in batches]),
        target=join_texts([batch.target for batch in batches]),
        labels=torch.cat([batch.labels for batch in batches]),
        units=torch.cat([batch.units for batch in batches]),
    )


def join_texts(texts: Sequence[PackedText]) -> PackedText:
    """Join the documents of all texts, in order."""
    if len(texts) == 1:
        return texts[0]
    layout = DocumentLayout.joined([text.layout for text in texts])
    begins = [text.begins for text in texts if text.begins is not None]
    return PackedText(
        torch.cat([text.tokens for text in texts]),
        layout,
        torch.cat([text.positions for text in texts]),
        join_begins(begins) if begins else None,
    )


def join_begins(begins: Sequence[Tensor]) -> Tensor:
    """Concatenate positions (S, n, 4), the last one repeated to the largest n."""
    most = max(each.shape[1] for each in begins)
    return torch.cat([each[:, torch.arange(most).clamp(max=each.shape[1] - 1)] for each in begins])
