"""Noise on training text. Every draw is a function of its seeds and of what it falls on, whatever stands beside it."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from docnmt.batch import PackedText
from docnmt.batching.collate import ranges
from docnmt.data.corpus import ParallelCorpus
from docnmt.data.draws import uniform
from docnmt.data.sampling import SubwordSampler
from docnmt.data.store import TextArray, TokenArray, offsets_of
from docnmt.data.tokenizer import MASK, Tokenizer
from docnmt.progress import Progress
from docnmt.units import Units

#: Lines whose subwords are drawn at a time; no draw depends on it.
CHUNK = 4096


@dataclass(frozen=True)
class HiddenWords:
    """How often a source word is replaced by `<mask>`.

    Attributes:
        own: in the sentences that the unit translates. context: in those that it only reads.
        seeds: of the draws; each also depends on the unit's number and the word's place in it.
    """

    own: float
    context: float
    seeds: tuple[int, ...]

    def hide(self, text: PackedText, corpus: ParallelCorpus, units: Units, chosen: np.ndarray) -> PackedText:
        """The source side of the units `chosen` with words hidden; the end of a sentence stays."""
        if not self.own and not self.context:
            return text
        first, last = units.source_first[chosen], units.source_last[chosen]
        sentences = ranges(first, last)
        lengths = np.diff(corpus.source.offsets)[sentences] + 1  # with the token that ends each
        own = np.repeat(sentences >= np.repeat(units.first[chosen], last - first), lengths)
        unit_tokens = np.add.reduceat(lengths, offsets_of(last - first)[:-1])
        draws = uniform(self.seeds, np.repeat(chosen, unit_tokens), ranges(np.zeros_like(unit_tokens), unit_tokens))
        hidden = draws < np.where(own, self.own, self.context)
        hidden[np.cumsum(lengths) - 1] = False
        return replace(text, tokens=text.tokens.masked_fill(torch.from_numpy(hidden), MASK))


def resegmented(
    corpus: ParallelCorpus, tokenizers: tuple[Tokenizer, Tokenizer], alpha: float, seeds: Sequence[int]
) -> ParallelCorpus:
    """The corpus with other subwords of the same text on both sides, drawn anew (Kudo 2018)."""
    texts = (corpus.source_text, corpus.references[0])
    with Progress(2 * corpus.num_sentences, "drawing subwords", unit="lines") as bar:
        source, target = (
            _drawn(text, _sampler(tokenizer, alpha), [*seeds, side], bar)
            for side, (text, tokenizer) in enumerate(zip(texts, tokenizers, strict=True))
        )
    return replace(corpus, source=source, target=target)


@functools.lru_cache(maxsize=2)
def _sampler(tokenizer: Tokenizer, alpha: float) -> SubwordSampler:
    """The sampler of a side, which learns words: the next epoch goes on with it."""
    return SubwordSampler(tokenizer, alpha)


def _drawn(text: TextArray, sampler: SubwordSampler, seeds: Sequence[int], bar: Progress) -> TokenArray:
    parts = []
    for first in range(0, len(text), CHUNK):
        parts.append(sampler.draw(text[first : first + CHUNK], first, seeds))
        bar.update(len(parts[-1]))
    lengths = np.concatenate([part.lengths() for part in parts])
    return TokenArray(np.concatenate([part.tokens for part in parts]), offsets_of(lengths))
