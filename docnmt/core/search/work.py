"""What is translated, and groups of it: documents that are encoded together and written text by text."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, reduce

import numpy as np
import torch
from torch import Tensor

from docnmt.core.batch import join_texts
from docnmt.core.batching.collate import collate_source, source_costs
from docnmt.core.batching.planned_units import memory_sentences, planned_units, searched_texts, sentences_read
from docnmt.core.data.corpus import ParallelCorpus
from docnmt.core.models.translation_model import AnyTranslationModel, TranslationTask
from docnmt.core.search.config import GenerationConfig, SearchConfig
from docnmt.core.search.ensemble import Ensemble, EnsembleState
from docnmt.core.search.hypothesis import Hypothesis, Slot
from docnmt.core.search.mbr import ranking
from docnmt.core.search.target_history import GivenText, OwnText
from docnmt.core.search.terms import CorpusTerms
from docnmt.core.search.texts import slots_of, texts_together
from docnmt.core.units import Units
from docnmt.runtime.tuning import INVARIANT_ROWS


class Work:
    """A corpus and what translates it.

    Args:
        given: the tokens of the sentences whose translations are given.
        window: a sentence is read with at most so many of its document before it and after it.
        terms: that translations must have.
        streams: (S,) the random stream of a text that begins with each sentence; None: the sentence's number.
        asked: (S,) whether each sentence is of the text that is translated, not of a memory; None: all are.
        progress: called with a number of source subwords (`</s>` included) of such sentences whenever they are done.
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
    ) -> None:
        self.corpus, self.options, self.search, self.given, self.terms = corpus, options, search, given, terms
        self.streams, self.ranked = streams, ranking(search, task.target_tokenizer)
        self._progress = progress or (lambda done: None)
        self.device, self.ensemble = next(models[0].parameters()).device, Ensemble(models)
        self.lengths = source_lengths(corpus)
        self._counted = self.lengths if asked is None else np.where(asked, self.lengths, 0)
        self.plans = [model.reading for model in models]
        self.units = [planned_units(plan, corpus, limit=task.max_doc_tokens, window=window) for plan in self.plans]
        pairs = list(zip(self.plans, self.units, strict=True))
        self.texts = texts_together([searched_texts(*pair, corpus.num_sentences) for pair in pairs])
        own = [units for plan, units in pairs if plan.own_text]
        self.own_text = OwnText(own[0]) if own else None

    def done(self, numbers: Iterable[int]) -> None:
        """Tell `progress` that these sentences are done."""
        self._progress(sum(int(self._counted[number]) for number in numbers))

    @cached_property
    def costs(self) -> np.ndarray:
        """(S,) source subwords that have to be read for each unit, at its first sentence that is kept."""
        return np.asarray(np.max([_costs(self.corpus, each) for each in self.units], axis=0))

    def ranges(self) -> Iterator[tuple[int, int]]:
        """The sentences to encode at once, as many as `--max-tokens` allows."""
        return groups([each.kept for each in self.units], self.costs, self.options.max_tokens)

    def continues(self, first: int) -> bool:
        """Whether the sentences from `first` on read what was written of those before it."""
        return self.own_text is not None and first < len(self.lengths) and self.own_text.follows(first)

    def has_to_read(self, first: int, last: int) -> bool:
        """Whether there is anything to do in a range: something to write, or what is given and later ones read."""
        return self.continues(last) or any(number not in self.given for number in range(first, last))

    def chains(self) -> list[list[tuple[int, int]]]:
        """The ranges, those together that must be translated one after the other."""
        chains: list[list[tuple[int, int]]] = []
        for first, last in self.ranges():
            if self.continues(first):
                chains[-1].append((first, last))
            else:
                chains.append([(first, last)])
        return chains


class Group:
    """Sentences of a work that were encoded together, perhaps with those of others.

    Args:
        memories: of each model. places: for each model, which sentence of its memory each text is.
        read: for each model, by a sentence of the corpus, which of its memory it is; also of those that it only reads.
        name: what its slots call it.

    Attributes:
        ready: the slots that can be written at once, in the order in which they should.
        left: texts that have not ended.
    """

    def __init__(
        self, work: Work, first: int, last: int, memories: list[object], places: list[Tensor],
        read: Sequence[Mapping[int, int]], name: int,
    ) -> None:  # fmt: skip
        self._work, self.memories, self.places, self._read, self._last = work, memories, places, read, last
        self._ensemble, self._given, self._own_text = work.ensemble, work.given, work.own_text
        texts = work.texts[slice(*np.searchsorted(work.texts[:, 1], [first, last]))]
        self.begins = texts[:, 1]
        slots = slots_of(texts, last, work.lengths, work.search, work.given, name, work.terms, work.streams)
        work.done(number for number in range(first, last) if number in work.given)
        self._waiting = {slot.number: slot for slot in slots}
        self.ready, self.left = slots, len(slots)
        self._given_text = self._what_is_given()
        if self._own_text is not None:
            for number in self.begins.tolist():  # what stands before the first is written
                if number in work.given and (number == first or not self._own_text.follows(number)):
                    self._keep(number, work.given[number])
            self.ready = self._own_text.ready(slots)

    def _what_is_given(self) -> GivenText | None:
        """What is given in the units of the models that read nothing else of translations."""
        for plan, units, read in zip(self._work.plans, self._work.units, self._read, strict=True):
            if plan.given_text:  # all such models have the same units
                numbers = [number for number in read if number in self._given]
                return GivenText(units, {n: self._remember(n, self._given[n], given=True) for n in numbers})
        return None

    def place(self, number: int) -> list[Tensor]:
        """For each model, which sentence () of its memory the text `number` is."""
        here = np.searchsorted(self.begins, number)
        return [place[here] for place in self.places]

    def earlier(self, number: int) -> list[list[object]]:
        """The translations that the text `number` reads, as each model remembers them."""
        return [
            each for read in (self._own_text, self._given_text) if read is not None for each in read.earlier(number)
        ]

    def finish(self, slot: Slot, hypotheses: list[Hypothesis]) -> tuple[dict[int, list[Hypothesis]], list[Slot]]:
        """A text has ended: its sentences that were searched and are kept, and the slots that had to wait for it."""
        self.left -= 1
        apart = [hypothesis.sentences(self._work.search.lenpen) for hypothesis in hypotheses]
        found = {}
        for number, sentence in enumerate(range(slot.before, len(slot.limits)), slot.number):
            if number not in self._given:
                found[number] = self._work.ranked([each[sentence] for each in apart])
        self._work.done(found)
        if self._own_text is None:
            return found, []
        after = self._waiting.get(self._keep(slot.number, found[slot.number][0].tokens[:-1]))
        return found, [] if after is None or after in self.ready else [after]

    def _keep(self, number: int, tokens: Sequence[int]) -> int:
        """Later sentences will read this one, and the given ones of the group that follow it. Returns the number after
        them."""
        assert self._own_text is not None
        while True:
            self._own_text.keep(number, self._remember(number, tokens, given=False))
            number += 1
            if number == self._last or number not in self._given or not self._own_text.follows(number):
                return number
            tokens = self._given[number]

    def _remember(self, number: int, tokens: Sequence[int], *, given: bool) -> list[object]:
        """What other sentences read of a translation (`Ensemble.remember`)."""
        places = [read.get(number, -1) for read in self._read]  # -1: of a model that reads none
        return self._ensemble.remember(self.memories, places, tokens, given=given)


def encode(pieces: Sequence[tuple[Work, int, int]], names: Sequence[int] = (0,)) -> list[Group]:
    """Sentences `first` to `last` of one work or of several, encoded together; a group each."""
    sentences = sum(last - first for _, first, last in pieces)
    copies = -(-INVARIANT_ROWS // sentences)  # few rows take other kernels, whose sums differ in the last bit
    ensemble, device = pieces[0][0].ensemble, pieces[0][0].device
    sources, places, reads = [], [], []
    for model in range(len(ensemble.models)):
        texts, of_text, read, before = [], [], [], 0
        for work, first, last in pieces:
            plan, units = work.plans[model], work.units[model]
            own = np.arange(*np.searchsorted(units.kept, [first, last]))
            text = collate_source(work.corpus, units, np.tile(own, copies), plan)
            texts.append(text)
            of_text.append(torch.from_numpy(memory_sentences(plan, units, own) + before).to(device))
            read.append(sentences_read(units, own, before) if plan.reads_translations else {})
            before += text.layout.num_sentences
        sources.append(join_texts(texts).to(device))
        places.append(of_text)
        reads.append(read)
    memories = ensemble.encode(sources)
    return [
        Group(*piece, memories, [of_text[n] for of_text in places], [read[n] for read in reads], name)
        for n, (piece, name) in enumerate(zip(pieces, names, strict=True))
    ]


def begin(ensemble: Ensemble, groups: Mapping[int, Group], width: int, entering: Iterable[Slot]) -> EnsembleState:
    """The models' state for slots that enter, `width` rows each; those of one memory stand side by side.

    Args:
        groups: by the names that the slots have of them.
    """
    state: EnsembleState | None = None
    for _, together in itertools.groupby(entering, lambda slot: id(groups[slot.group].memories)):
        slots = [(groups[slot.group], slot.number) for slot in together]
        places = zip(*(group.place(number) for group, number in slots), strict=True)
        earlier = [group.earlier(number) for group, number in slots]
        fresh = ensemble.begin(slots[0][0].memories, [torch.stack(each) for each in places], width, earlier)
        if state is None:
            state = fresh
        else:
            state.append(fresh)
    assert state is not None  # something enters
    return state


def source_lengths(corpus: ParallelCorpus) -> np.ndarray:
    """(S,) subwords of each source sentence, `</s>` included."""
    return np.diff(np.asarray(corpus.source.offsets)) + 1


def _costs(corpus: ParallelCorpus, units: Units) -> np.ndarray:
    """(S,) source subwords that have to be read for each unit, at its first sentence that is kept."""
    costs = np.zeros(corpus.num_sentences, dtype=np.int64)
    costs[units.kept] = source_costs(corpus, units)
    return costs


def groups(starts: Sequence[np.ndarray], lengths: np.ndarray, max_tokens: int) -> Iterator[tuple[int, int]]:
    """Ranges of sentences to encode at once: whole units of every model, as many as `max_tokens` allows, at least one.

    Args:
        starts: for each model, the first sentence (U,) of each unit that is kept.
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
