"""What a model reads: packed text, and pairs of it. Tensors only; how they were made is `docnmt.data`'s matter."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from docnmt.layout import DocumentLayout


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
        return replace(
            self, source=self.source.to(device), target=self.target.to(device), labels=self.labels.to(device)
        )


#: A label that no loss counts.
IGNORE = -100
