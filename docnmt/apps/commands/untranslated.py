"""The sentences of a corpus that remain to be translated if some translations are given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from docnmt.apps.commands.output import sentences_of_lines
from docnmt.core.data.corpus import ParallelCorpus
from docnmt.core.data.store import TextArray
from docnmt.core.scoring.align_lines import LineLayout


@dataclass(frozen=True, eq=False)
class Rest:
    """The sentences of a corpus without given translations.

    Attributes:
        numbers: (R,) their numbers in the corpus, in order.
    """

    corpus: ParallelCorpus
    numbers: np.ndarray

    @classmethod
    def of(cls, corpus: ParallelCorpus, given: Sequence[str | None] | None) -> Rest:
        """Select the sentences for which `given` has no translation; None selects all."""
        if given is None:
            return cls(corpus, np.arange(corpus.num_sentences))
        return cls(corpus, np.array([n for n, text in enumerate(given) if text is None], dtype=np.int64))

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def document_offsets(self) -> np.ndarray:
        """The place (D+1,) where each document begins in the rest; one that is given entirely has no sentence there."""
        return np.searchsorted(self.numbers, self.corpus.document_offsets)

    def texts(self, side: TextArray) -> list[str]:
        """Return these sentences of one side."""
        return [side[int(number)] for number in self.numbers]

    def lines(self) -> list[int]:
        """Return the lines of the source file without given sentences: 1, or 0 for an empty one."""
        left = np.zeros(self.corpus.num_sentences, dtype=bool)
        left[self.numbers] = True
        sentences = iter(left.tolist())
        return [count for count in sentences_of_lines(self.corpus) if not count or next(sentences)]

    def layout(self, path: Path) -> LineLayout:
        """Return the layout of these lines, and so of all translations; messages call it `path`."""
        lines = [count > 0 for count in self.lines()]
        sentences = iter(self.texts(self.corpus.source_text))
        rows = tuple(next(sentences) if line else "" for line in lines)
        return LineLayout(path, rows, tuple(self.document_offsets.tolist()), tuple(lines))
