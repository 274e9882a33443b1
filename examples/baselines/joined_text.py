"""What both baselines share: the sentences of texts that are one sequence a document, and a gated sum.

With `--sentence-start` they can start from a sentence model (`--finetune-from-model`), as their papers train them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from docnmt.plugin import (
    BOS,
    BRK,
    EOS,
    DocumentLayout,
    PackedKeys,
    PackedText,
    Shelf,
    StructuredConfig,
    UsageError,
    option,
)


@dataclass(frozen=True)
class SentenceStartConfig(StructuredConfig):
    """How a model of documents begins."""

    sentence_start: bool = option(
        False,
        "for --finetune-from-model: a learned factor, 0 at first, on what the other sentences change; and <brk> is "
        "read as the <s> and </s> that a sentence model knows",
    )


class GatedSum(nn.Module):
    """λ ∘ h + (1 − λ) ∘ c with λ = σ([h, c] W + b); with `opening` it is h at first.

    The same sum is h + (1 − λ) ∘ (c − h). `opening`, a learned factor for each feature (as in ReZero, Bachlechner et
    al. 2021), stands before what is added to h: 1, or 0 where training starts from a sentence model. A gate alone
    cannot begin so: where σ is 1 it has no gradient.
    """

    def __init__(self, d_model: int, *, opening: bool) -> None:
        super().__init__()
        self.gate = nn.Linear(2 * d_model, d_model)
        self.opening = nn.Parameter(torch.ones(d_model)) if opening else None

    def close(self) -> None:
        """Begin with h."""
        if self.opening is None:
            raise UsageError("--finetune-from-model: give --sentence-start, or a gate is open from the start")
        nn.init.zeros_(self.opening)

    def forward(self, h: Tensor, c: Tensor) -> Tensor:
        """(T, d), (T, d) → (T, d)."""
        gate = torch.sigmoid(self.gate(torch.cat([h, c], dim=-1)))
        if self.opening is None:
            return gate * h + (1 - gate) * c
        return h + self.opening * (1 - gate) * (c - h)


def by_sentence(text: PackedText, *, begin: bool, config: SentenceStartConfig | None = None) -> PackedText:
    """A text of joined sentences with a layout that knows each of them; what was one long "sentence" is a document.

    Args:
        begin: a target, whose sentences begin with `<s>` or `<brk>`; those of a source end in `<brk>` or `</s>`.
    """
    units = text.layout.sentence_offsets  # (U + 1,)
    marks = ((text.tokens == (BOS if begin else EOS)) | (text.tokens == BRK)).nonzero().squeeze(1)  # (S,)
    sentences = torch.cat([marks, units[-1:]]) if begin else torch.cat([units[:1], marks + 1])
    tokens = text.tokens if config is None else read_as(text.tokens, BOS if begin else EOS, config)
    return replace(text, tokens=tokens, layout=DocumentLayout(sentences, torch.searchsorted(sentences, units)))


def read_as(tokens: Tensor, mark: int, config: SentenceStartConfig) -> Tensor:
    """The tokens that a model reads: with `--sentence-start` this mark, which a sentence model knows, for `<brk>`."""
    return tokens.masked_fill(tokens == BRK, mark) if config.sentence_start else tokens


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
