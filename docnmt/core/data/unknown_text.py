"""Warnings about text that a vocabulary cannot represent, which models translate into something invented."""

from __future__ import annotations

import sys

import numpy as np

from docnmt.core.data.corpus import ParallelCorpus
from docnmt.core.data.tokenizer import SPECIAL, UNK, Tokenizer
from docnmt.runtime.errors import printable

#: Number of sentences that are searched for examples.
_LOOKED_AT = 100


class UnknownText:
    """Counts the unknown subwords of a text that comes in parts; warns at the first, and at the end of later ones.

    Attributes:
        unknown, subwords: numbers of subwords. in_sentences, sentences: numbers of sentences.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self.unknown = self.subwords = self.in_sentences = self.sentences = self._said = 0
        self._examples: list[str] = []

    def add(self, corpus: ParallelCorpus) -> None:
        """Count the next part; warn on stderr if it is the first with unknown subwords."""
        self.count(corpus)
        if not self._said:
            self.warn()

    def count(self, corpus: ParallelCorpus) -> None:
        """Count the next part without a warning."""
        places = np.flatnonzero(corpus.source.tokens == UNK)
        sentences = np.unique(np.searchsorted(corpus.source.offsets, places, side="right") - 1)
        self.unknown += len(places)
        self.subwords += len(corpus.source.tokens)
        self.in_sentences += len(sentences)
        self.sentences += len(corpus.source)
        if len(places) and not self._examples:
            texts = [corpus.source_text[int(n)] for n in sentences[:_LOOKED_AT]]
            self._examples = unknown_characters(texts, self._tokenizer)[:10]

    def warn(self) -> None:
        """Warn on stderr of all unknown subwords, unless the last warning was up to date."""
        if self.unknown == self._said:
            return
        self._said = self.unknown
        print(f"warning: {self.message}", file=sys.stderr)

    @property
    def message(self) -> str:
        """The warning with numbers and examples; empty if no subword was unknown."""
        if not self.unknown:
            return ""
        shown = f" ({' '.join(map(printable, self._examples))})" if self._examples else ""
        return (
            f"{self.unknown:,} of {self.subwords:,} subwords, in {self.in_sentences:,} of {self.sentences:,} "
            f"sentences, are unknown to the model{shown}; what it writes for them is invented"
        )


def unknown_characters(lines: list[str], tokenizer: Tokenizer) -> list[str]:
    """Return the characters of some lines that are in no entry, in the order of their first occurrence."""
    known = set("".join(entry for entry in tokenizer.vocabulary() if entry not in SPECIAL))
    normal = "".join(tokenizer.normalize(lines))
    return [character for character in dict.fromkeys(normal) if character not in known and not character.isspace()]
