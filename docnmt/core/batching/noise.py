"""Noise on training text. Every draw is a function of its seeds and its place only, not of other text in the batch."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from docnmt.core.batch import PackedText, TranslationBatch
from docnmt.core.batching.collate import read_sentences
from docnmt.core.data.corpus import ParallelCorpus
from docnmt.core.data.random_draws import uniform
from docnmt.core.data.store import TextArray, TokenArray, offsets_of, ranges
from docnmt.core.data.subword_sampling import SubwordSampler
from docnmt.core.data.tokenizer import MASK, Tokenizer
from docnmt.core.units import Units
from docnmt.layout import DocumentLayout
from docnmt.runtime.progress import Progress

#: Lines whose subwords are drawn together; no draw depends on it.
CHUNK = 4096


@dataclass(frozen=True)
class HiddenWords:
    """Replaces source words by `<mask>`.

    Attributes:
        own: probability in sentences that the unit translates. context: probability in those that it only reads.
        seeds: of the draws, which also depend on the unit's number and the word's place in it.
        breaks: True if a token separates the sentences of a unit (`ReadingPlan.source_breaks`).
        kept: entries that are never hidden, besides the ends of sentences: `Tokenizer.marks`.
    """

    own: float
    context: float
    seeds: tuple[int, ...]
    breaks: bool = True
    kept: tuple[int, ...] = ()

    def hide(self, text: PackedText, corpus: ParallelCorpus, units: Units, chosen: np.ndarray) -> PackedText:
        """Hide words in the source side of the units `chosen`; the ends of sentences are kept."""
        if not self.own and not self.context:
            return text
        sentences, written = read_sentences(units, chosen)
        lengths = np.diff(corpus.source.offsets)[sentences] + 1  # with the sentence's end token
        own = np.repeat(written, lengths)
        reads = (units.source_last - units.source_first)[chosen]
        unit_tokens = np.add.reduceat(lengths, offsets_of(reads)[:-1])
        draws = uniform(self.seeds, np.repeat(chosen, unit_tokens), ranges(np.zeros_like(unit_tokens), unit_tokens))
        hidden = draws < np.where(own, self.own, self.context)
        ends = np.cumsum(lengths) - 1
        hidden[ends] = False
        if not self.breaks:
            hidden = np.delete(hidden, np.delete(ends, np.cumsum(reads) - 1))
        hidden &= ~np.isin(text.tokens.numpy(), self.kept)
        return replace(text, tokens=text.tokens.masked_fill(torch.from_numpy(hidden), MASK))


@dataclass(frozen=True)
class DroppedContexts:
    """Removes the context of units.

    Attributes:
        share: of the units. seeds: of the draws, which also depend on the unit's number.
    """

    share: float
    seeds: tuple[int, ...]

    def drop(self, batch: TranslationBatch, chosen: np.ndarray) -> TranslationBatch:
        """Make every sentence of the drawn units a document by itself; `chosen` are the units of the batch."""
        if not self.share:
            return batch
        dropped = uniform(self.seeds, chosen) < self.share
        return replace(batch, source=_alone(batch.source, dropped), target=_alone(batch.target, dropped))


def _alone(text: PackedText, dropped: np.ndarray) -> PackedText:
    """Make every sentence of the documents `dropped` (D,) a document; tokens and positions stay."""
    documents = text.layout.document_sentences
    sentences = np.flatnonzero(np.repeat(dropped, documents.lengths))
    offsets = torch.from_numpy(np.union1d(documents.host, sentences))
    return replace(text, layout=DocumentLayout(text.layout.sentence_offsets, offsets))


def resegmented(
    corpus: ParallelCorpus, tokenizers: tuple[Tokenizer, Tokenizer], alpha: float, seeds: Sequence[int]
) -> ParallelCorpus:
    """Return the corpus with newly drawn subwords of the same text on both sides (Kudo 2018)."""
    texts = (corpus.source_text, corpus.references[0])
    with Progress(2 * corpus.num_sentences, "drawing subwords", unit="lines") as bar:
        source, target = (
            _drawn(text, _sampler(tokenizer, alpha), [*seeds, side], bar)
            for side, (text, tokenizer) in enumerate(zip(texts, tokenizers, strict=True))
        )
    return replace(corpus, source=source, target=target)


@functools.lru_cache(maxsize=2)
def _sampler(tokenizer: Tokenizer, alpha: float) -> SubwordSampler:
    """Return the sampler of a side, cached because it learns words that the next epoch needs."""
    return SubwordSampler(tokenizer, alpha)


def _drawn(text: TextArray, sampler: SubwordSampler, seeds: Sequence[int], bar: Progress) -> TokenArray:
    parts = []
    for first in range(0, len(text), CHUNK):
        parts.append(sampler.draw(text[first : first + CHUNK], first, seeds))
        bar.update(len(parts[-1]))
    lengths = np.concatenate([part.lengths() for part in parts])
    return TokenArray(np.concatenate([part.tokens for part in parts]), offsets_of(lengths))
