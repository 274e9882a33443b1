"""The sentences of texts that are one sequence a document: both baselines attend inside them all the same."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from docnmt.plugin import BOS, BRK, EOS, DocumentLayout, PackedKeys, PackedText, Shelf


def by_sentence(text: PackedText, *, begin: bool) -> PackedText:
    """A text of joined sentences with a layout that knows each of them; what was one long "sentence" is a document.

    Args:
        begin: a target, whose sentences begin with `<s>` or `<brk>`; those of a source end in `<brk>` or `</s>`.
    """
    units = text.layout.sentence_offsets  # (U + 1,)
    marks = ((text.tokens == (BOS if begin else EOS)) | (text.tokens == BRK)).nonzero().squeeze(1)  # (S,)
    sentences = torch.cat([marks, units[-1:]]) if begin else torch.cat([units[:1], marks + 1])
    return replace(text, layout=DocumentLayout(sentences, torch.searchsorted(sentences, units)))


@dataclass
class SourceSentences:
    """What the slots of a search read of their source documents, sentence by sentence.

    Attributes:
        keys: of all source sentences. first, last: (N,) those of each slot's document.
    """

    keys: PackedKeys
    first: Tensor
    last: Tensor

    @classmethod
    def of(cls, keys: PackedKeys, layout: DocumentLayout, documents: Tensor) -> SourceSentences:
        """For slots that write these documents (N,) of a layout by sentence."""
        return cls(keys, layout.document_offsets[documents], layout.document_offsets[documents + 1] - 1)

    def keep(self, rows: Tensor, slots: Tensor | None) -> None:
        if slots is not None:
            self.first, self.last = self.first[slots], self.last[slots]

    def append(self, other: SourceSentences) -> None:
        self.first, self.last = torch.cat([self.first, other.first]), torch.cat([self.last, other.last])

    def at(self, number: Tensor) -> Shelf:
        """Sentence `number` (R,) of each row's document, as if each row were a slot of its own."""
        beam = len(number) // max(len(self.first), 1)
        first, last = self.first.repeat_interleave(beam), self.last.repeat_interleave(beam)
        return self.keys.of(torch.minimum(first + number, last))  # a dead row may be anywhere
