"""What a model reads: packed text, and pairs of it. Tensors only; `docnmt.batching` makes them of a corpus."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from docnmt.layout import DocumentLayout

#: A label that no loss counts.
IGNORE = -100


@dataclass(frozen=True, eq=False)
class PackedText:
    """Documents in one row.

    Attributes:
        tokens: (T,) int64.
        layout: the spans that attention sees. Usually its "sentences" are the corpus's sentences; architectures that
            write several sentences as one sequence have one long "sentence" a unit here.
        positions: (T, 4) int64, the index of each token's word, sentence, paragraph and section, each counted inside
            its parent (or from the document's start, as the model asks); -1 where a level is unknown.
        begins: of a source whose units are joined to one long "sentence" each: (S, n, 4) positions of the first tokens
            of the n target sentences that "sentence" s is to become, the last repeated where there are fewer. None
            where each sentence becomes one, which begins where its source does.
    """

    tokens: Tensor
    layout: DocumentLayout
    positions: Tensor
    begins: Tensor | None = None

    def to(self, device: torch.device | str) -> PackedText:
        """The same text on `device`."""
        begins = None if self.begins is None else self.begins.to(device)
        return PackedText(self.tokens.to(device), self.layout.to(device), self.positions.to(device), begins)


@dataclass(frozen=True, eq=False)
class TranslationBatch:
    """Source documents and what the decoder reads and must predict.

    Attributes:
        source: the source side; every sentence ends in `</s>`.
        target: the decoder's input, every sentence beginning with `<s>`; one sentence for each of the source's.
        labels: (T,) int64, the next token of each of `target.tokens`, `</s>` at a sentence's end;
            `IGNORE` where nothing is to be learned.
        units: (U,) int64, which units of the dataset these are (for messages and for putting results in order).
    """

    source: PackedText
    target: PackedText
    labels: Tensor
    units: Tensor

    @property
    def num_tokens(self) -> int:
        """Real target tokens: what the loss is normalised by."""
        return int((self.labels != IGNORE).sum())

    def to(self, device: torch.device | str) -> TranslationBatch:
        """The same batch on `device`; `units` stay on the host."""
        return replace(
            self, source=self.source.to(device), target=self.target.to(device), labels=self.labels.to(device)
        )


def join_batches(batches: Sequence[TranslationBatch]) -> TranslationBatch:
    """The documents of all batches in one, in their order; `units` are the batches' own numbers."""
    if len(batches) == 1:
        return batches[0]
    return TranslationBatch(
        source=_join([batch.source for batch in batches]),
        target=_join([batch.target for batch in batches]),
        labels=torch.cat([batch.labels for batch in batches]),
        units=torch.cat([batch.units for batch in batches]),
    )


def _join(texts: Sequence[PackedText]) -> PackedText:
    layout = DocumentLayout(
        _joined_offsets([text.layout.sentence_offsets for text in texts]),
        _joined_offsets([text.layout.document_offsets for text in texts]),
    )
    begins = [text.begins for text in texts if text.begins is not None]
    return PackedText(
        torch.cat([text.tokens for text in texts]),
        layout,
        torch.cat([text.positions for text in texts]),
        _joined_begins(begins) if begins else None,
    )


def _joined_offsets(parts: Sequence[Tensor]) -> Tensor:
    """[0, 2, 3] and [0, 4] → [0, 2, 3, 7]."""
    return torch.cat([parts[0][:1], torch.cat([part.diff() for part in parts]).cumsum(0)])


def _joined_begins(begins: Sequence[Tensor]) -> Tensor:
    """(S, n, 4) each, their last position repeated to the largest n."""
    most = max(each.shape[1] for each in begins)
    return torch.cat([each[:, torch.arange(most).clamp(max=each.shape[1] - 1)] for each in begins])
