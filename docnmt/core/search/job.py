"""A job of the search: a corpus, the models that translate it, and its progress."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, reduce
from typing import TYPE_CHECKING

import numpy as np

from docnmt.core.batch import planned_units, searched_texts, source_costs
from docnmt.core.corpus import ParallelCorpus
from docnmt.core.data.tokenizer import tag_of
from docnmt.core.models.encoder_decoder import AnyTranslationModel, TranslationTask
from docnmt.core.search.config import GenerationConfig, SearchConfig
from docnmt.core.search.ensemble import Ensemble
from docnmt.core.search.generators import ranking
from docnmt.core.search.glossary import CorpusTerms
from docnmt.core.search.rows import Hypothesis, Slot
from docnmt.core.search.target_history import OwnText
from docnmt.core.units import Units
from docnmt.runtime.errors import UserError

if TYPE_CHECKING:
    from docnmt.core.search.group import Encoding


class Job:
    """A corpus being translated, with its models and options.

    Args:
        given: the tokens of the sentences whose translations are given.
        window: the most sentences of the document that are read before and after a sentence.
        terms: terms that translations must contain.
        streams: (S,) the random stream of the text that begins with each sentence; None: the sentence's number.
        asked: (S,) True for sentences of the text to be translated, False for those of a memory; None: all True.
        progress: called with a number of source subwords (`</s>` included) of the former whenever they are done.
        deliver: called with each searched sentence that is done: its number, and its hypotheses, best first.

    Attributes:
        waiting: ranges of sentences that are not encoded yet. ready: slots that can be written.
        live: number of slots being decoded. left: number of searched sentences that are not done.
        kept: encodings of the same source by ranges of sentences, read and extended by `encode`;
            None: encodings are not kept.
        turn: among jobs with equally few live slots, the one with the lowest turn is encoded first.
    """

    def __init__(
        self,
        models: Sequence[AnyTranslationModel],
        task: TranslationTask,
        corpus: ParallelCorpus,
        options: GenerationConfig,
        search: SearchConfig,
        *,
        given: Mapping[int, Sequence[int]],
        window: int | None = None,
        terms: CorpusTerms | None = None,
        streams: np.ndarray | None = None,
        asked: np.ndarray | None = None,
        progress: Callable[[int], object] | None = None,
        deliver: Callable[[int, list[Hypothesis]], object],
    ) -> None:
        self.corpus, self.options, self.search, self.given, self.terms = corpus, options, search, given, terms
        self.streams, self.ranked = streams, ranking(search, task.target_tokenizer)
        self.tag = tag_of(task.target_tokenizer)
        self.kept: dict[tuple[int, int], Encoding] | None = None
        self._progress, self.deliver = progress or (lambda done: None), deliver
        self.device, self.ensemble = next(models[0].parameters()).device, Ensemble(models)
        self.lengths = source_lengths(corpus)
        self._counted = self.lengths if asked is None else np.where(asked, self.lengths, 0)
        self.plans = [model.reading for model in models]
        self.units = [planned_units(plan, corpus, limit=task.max_doc_tokens, window=window) for plan in self.plans]
        pairs = list(zip(self.plans, self.units, strict=True))
        self.texts = texts_together([searched_texts(*pair, corpus.num_sentences) for pair in pairs])
        own = [units for plan, units in pairs if plan.own_text]
        self.own_text = OwnText(own[0]) if own else None
        self.waiting: deque[tuple[int, int]] = deque()
        self.ready: deque[Slot] = deque()
        self.live = self.turn = self.left = 0

    def queue(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Append ranges of sentences to `waiting`; ranges without anything to do are reported as done."""
        for first, last in ranges:
            numbers = range(first, last)
            self.left += sum(number not in self.given for number in numbers)
            if self.continues(last) or any(number not in self.given for number in numbers):
                self.waiting.append((first, last))
            else:
                self.tell_progress(numbers)

    @property
    def encodable(self) -> bool:
        """True if a range waits and the translations that it reads are written."""
        return bool(self.waiting) and not self.ready and not (self.live and self.continues(self.waiting[0][0]))

    @property
    def cost(self) -> int:
        """The number of source subwords of the range that is encoded next."""
        return int(self.costs[slice(*self.waiting[0])].sum())

    def tell_progress(self, numbers: Iterable[int]) -> None:
        """Report these sentences to `progress` as done."""
        self._progress(sum(int(self._counted[number]) for number in numbers))

    @cached_property
    def costs(self) -> np.ndarray:
        """Source subwords (S,) that must be read for each unit, at the unit's first kept sentence."""
        return np.asarray(np.max([_costs(self.corpus, each) for each in self.units], axis=0))

    def ranges(self) -> Iterator[tuple[int, int]]:
        """Yield the ranges of sentences to encode at once, each as large as `--max-tokens` allows."""
        return groups([each.kept for each in self.units], self.costs, self.options.max_tokens)

    def continues(self, first: int) -> bool:
        """Return True if the sentences from `first` on read translations of those before them."""
        return self.own_text is not None and first < len(self.lengths) and self.own_text.follows(first)

    def chains(self) -> list[list[tuple[int, int]]]:
        """Return the ranges in lists; those of one list must be translated one after the other."""
        chains: list[list[tuple[int, int]]] = []
        for first, last in self.ranges():
            if self.continues(first):
                chains[-1].append((first, last))
            else:
                chains.append([(first, last)])
        return chains


def texts_together(written: Sequence[np.ndarray]) -> np.ndarray:
    """Return the texts (W, 2) that the models write together: the first sentence of each, and the first one kept.

    Raises:
        UserError: the models' texts differ.
    """
    for other in written[1:]:
        if not np.array_equal(written[0], other):
            raise UserError(
                "--path: these models cannot translate together: some write sentence by sentence and others windows or "
                "documents as one text, or their windows differ; give models of one kind"
            )
    return written[0]


def source_lengths(corpus: ParallelCorpus) -> np.ndarray:
    """Return the number of subwords (S,) of each source sentence, `</s>` included."""
    return np.diff(np.asarray(corpus.source.offsets)) + 1


def _costs(corpus: ParallelCorpus, units: Units) -> np.ndarray:
    """Return the source subwords (S,) that must be read for each unit, at the unit's first kept sentence."""
    costs = np.zeros(corpus.num_sentences, dtype=np.int64)
    costs[units.kept] = source_costs(corpus, units)
    return costs


def groups(starts: Sequence[np.ndarray], lengths: np.ndarray, max_tokens: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of sentences to encode at once: whole units of every model, up to `max_tokens` but at least one.

    Args:
        starts: for each model, the first kept sentence (U,) of each unit.
        lengths: (S,) tokens to read for each sentence.
    """
    begins = reduce(np.intersect1d, starts)
    total = np.concatenate([[0], np.cumsum(lengths)])
    ends = np.append(begins, len(lengths))[1:]
    place = 0
    while place < len(begins):
        fits = int(np.searchsorted(total[ends], total[begins[place]] + max_tokens, side="right"))
        after = max(fits, place + 1)
        yield int(begins[place]), int(ends[after - 1])
        place = after
