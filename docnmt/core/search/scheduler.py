"""From corpora to steps of decoding: who is encoded, who enters when, one step for all rows.
admit → model step → choose (`generators`) → reorder, until every document is translated.
"""

from __future__ import annotations

import itertools
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cached_property, reduce
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from docnmt.core.batch import (
    PackedText,
    collate_source,
    join_texts,
    memory_sentences,
    planned_units,
    searched_texts,
    sentences_read,
    source_costs,
)
from docnmt.core.corpus import ParallelCorpus
from docnmt.core.models.encoder_decoder import AnyTranslationModel, RowState, TranslationTask
from docnmt.core.search.config import GenerationConfig, SearchConfig
from docnmt.core.search.generators import ranking
from docnmt.core.search.glossary import CorpusTerms
from docnmt.core.search.rows import Generator, Hypothesis, Slot
from docnmt.core.tokenizer import BRK, EOS, Tokenizer, tag_of
from docnmt.core.units import Units
from docnmt.registry import GENERATORS
from docnmt.runtime.device import INVARIANT_ROWS
from docnmt.runtime.system import UserError

# Ensembles: several models write one text together, by the average of their probabilities.


@dataclass
class EnsembleState:
    """The decoder states of all models; row r belongs to the same hypothesis in each."""

    states: list[RowState]

    @property
    def any_memory(self) -> bool:
        """True if slots that read another encoding can be appended."""
        return all(getattr(state, "any_memory", False) for state in self.states)

    def reorder(self, rows: Tensor) -> None:
        """Reorder the rows of every model's state."""
        for state in self.states:
            state.reorder(rows)

    def append(self, other: EnsembleState) -> None:
        """Append the rows of another ensemble state, model by model."""
        for mine, theirs in zip(self.states, other.states, strict=True):
            mine.append(theirs)


class Ensemble:
    """Several models behind the interface of one (`encode`, `begin`, `step`); a single model is used unchanged."""

    def __init__(self, models: Sequence[AnyTranslationModel]) -> None:
        if not models:
            raise ValueError("an ensemble needs at least one model")
        self.models = list(models)

    def encode(self, sources: Sequence[PackedText]) -> list[object]:
        """Encode the documents with each model, in that model's own packing."""
        return [model.encode(source) for model, source in zip(self.models, sources, strict=True)]

    def remember(
        self, memories: Sequence[object], sentences: Sequence[int], tokens: Sequence[int], *, given: bool
    ) -> list[object]:
        """Return, for each model, what other sentences read of a translation; None for models that read none.

        Models are those that read their own text or, with `given`, those that read given text. `sentences` has the
        sentence's number in each model's memory.
        """
        reads = [model.reading.given_text if given else model.reading.own_text for model in self.models]
        parts = zip(self.models, memories, sentences, reads, strict=True)
        return [model.remember(memory, n, tokens) if each else None for model, memory, n, each in parts]

    def begin(
        self,
        memories: Sequence[object],
        sentences: Sequence[Tensor],
        beam: int,
        earlier: Sequence[Sequence[list[object]]] = (),
    ) -> EnsembleState:
        """Return the models' state for N new slots.

        Args:
            sentences: for each model (N,), numbered as in its own packed source.
            earlier: for models that read translations, what `remember` returned for the translations that each slot
                reads.
        """
        states = []
        for number, (model, memory, own) in enumerate(zip(self.models, memories, sentences, strict=True)):
            read = [[written[number] for written in slot if written[number] is not None] for slot in earlier]
            states.append(model.begin(memory, own, beam, read))
        return EnsembleState(states)

    def step(self, tokens: Tensor, state: EnsembleState) -> Tensor:
        """Return logits (R, V) for tokens (R,): one model's own, or the log of the summed probabilities of several."""
        logits = [model.step(tokens, own) for model, own in zip(self.models, state.states, strict=True)]
        if len(logits) == 1:
            return logits[0]
        log_probs = torch.stack([torch.log_softmax(each.float(), dim=-1) for each in logits])
        return torch.logsumexp(log_probs, dim=0)


# Given translations: they are not searched, and the sentences written after them read them.


def given_tokens(given: Sequence[str | None] | None, sentences: int, tokenizer: Tokenizer) -> dict[int, list[int]]:
    """Return the tokens of the given target sentences by sentence number.

    Args:
        given: for each sentence its translation or None; None instead of a list gives no translation at all.
        sentences: the number of sentences of the corpus.

    Raises:
        ValueError: `given` has another length.
    """
    if given is None:
        return {}
    if len(given) != sentences:
        raise ValueError(f"given: expected an entry for each of {sentences} sentences, got {len(given)}")
    texts = {number: text for number, text in enumerate(given) if text is not None}
    return dict(zip(texts, tokenizer.encode(list(texts.values())), strict=True))


def first_of_documents(references: Sequence[str], document_offsets: Sequence[int], share: float) -> list[str | None]:
    """Return the first floor(share * n) references of each document of n sentences; None for others and empty ones."""
    given: list[str | None] = [None] * len(references)
    for begin, end in pairwise(document_offsets):
        last = begin + int(Decimal(str(share)) * (end - begin))  # 0.29 of 100 is 29; of floats it would be 28
        given[begin:last] = [text or None for text in references[begin:last]]
    return given


# Target history: the translations that a sentence reads, which are earlier ones or given ones.


class GivenText:
    """Given translations, for models that read no other translations of their document.

    Args:
        units: those of such a model; a sentence reads the given translations of its unit, later ones included.
        written: the given translations in the units that are encoded together, by sentence.
    """

    def __init__(self, units: Units, written: Mapping[int, list[object]]) -> None:
        self._units, self._written = units, written

    def earlier(self, sentence: int) -> list[list[object]]:
        """Return the given translations of the sentence's unit, in order."""
        unit = int(np.searchsorted(self._units.first, sentence, side="right")) - 1
        numbers = range(int(self._units.source_first[unit]), int(self._units.source_last[unit]))
        return [self._written[number] for number in numbers if number in self._written]


class OwnText:
    """Written translations, and which sentences must be written before others, for `--target-context`.

    Args:
        units: those of a model that reads its own text; a sentence reads the earlier ones of its unit's source context.
    """

    def __init__(self, units: Units) -> None:
        self._first = np.repeat(units.source_first, units.last - units.first)  # (S,)
        self._written: dict[int, list[object]] = {}

    def earlier(self, sentence: int) -> list[list[object]]:
        """Return the kept translations that a sentence reads, in order.

        Some may be forgotten if the sentence is already written and only its copies are still decoded.
        """
        numbers = range(int(self._first[sentence]), sentence)
        return [self._written[number] for number in numbers if number in self._written]

    def follows(self, sentence: int) -> bool:
        """Return True if the sentence reads the one before it."""
        return bool(self._first[sentence] < sentence)

    def waits(self, sentence: int) -> bool:
        """Return True if a sentence that it reads is not written yet."""
        return any(number not in self._written for number in range(int(self._first[sentence]), sentence))

    def ready(self, slots: Sequence[Slot]) -> list[Slot]:
        """Return the slots that can be written now; those that the most sentences follow come first."""
        if not slots:
            return []
        ready = sorted((slot for slot in slots if not self.waits(slot.number)), key=lambda slot: slot.number)
        ends = [slot.number for slot in ready[1:]] + [max(slot.number for slot in slots) + 1]
        chain = {slot.number: end - slot.number for slot, end in zip(ready, ends, strict=True)}
        return sorted(ready, key=lambda slot: -chain[slot.number])

    def keep(self, sentence: int, written: list[object]) -> None:
        """Keep a written sentence and forget those that no later one reads."""
        self._written[sentence] = written
        needed = int(self._first[sentence + 1]) if sentence + 1 < len(self._first) else sentence + 1
        for number in range(int(self._first[sentence]), needed):
            self._written.pop(number, None)


# A job of the search: a corpus, the models that translate it, and its progress.


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


# Groups: sentences of a job that are encoded together, and the slots in which their translations are written.


@dataclass(frozen=True, eq=False)
class Encoding:
    """The models' encodings of sentences of a job; another job with the same source may reuse it.

    Attributes:
        memories: one of each model. places: for each model, the number of each text's sentence in its memory.
        read: for each model, numbers in its memory by sentence of the corpus, including sentences that it only reads.
        written: of a kept encoding, by sentence and whether it was given, the last translation and what is read of it.
    """

    memories: list[object]
    places: list[Tensor]
    read: Sequence[Mapping[int, int]]
    written: dict[tuple[int, bool], tuple[tuple[int, ...], list[object]]] = field(default_factory=dict)


class Group:
    """Sentences of a job that were encoded together, perhaps with those of other jobs.

    Args:
        name: the number by which its slots refer to it.

    Attributes:
        ready: the slots that can be written now, in the order in which they should be.
        left: the number of texts that have not ended.
        cost: the number of source subwords that were read.
    """

    def __init__(self, job: Job, first: int, last: int, encoding: Encoding, name: int) -> None:
        self.job, self._last, self.encoding = job, last, encoding
        self.cost = int(job.costs[first:last].sum())
        self.memories, self.places, self._read = encoding.memories, encoding.places, encoding.read
        self._ensemble, self._given, self._own_text = job.ensemble, job.given, job.own_text
        texts = job.texts[slice(*np.searchsorted(job.texts[:, 1], [first, last]))]
        self.begins = texts[:, 1]
        slots = slots_of(texts, last, job.lengths, job.search, job.given, name, job.terms, job.streams, job.tag)
        job.tell_progress(number for number in range(first, last) if number in job.given)
        self._waiting = {slot.number: slot for slot in slots}
        self.ready, self.left = slots, len(slots)
        self._given_text = self._what_is_given()
        if self._own_text is not None:
            for number in self.begins.tolist():  # translations before the first are already known
                if number in job.given and (number == first or not self._own_text.follows(number)):
                    self._keep(number, job.given[number])
            self.ready = self._own_text.ready(slots)

    def _what_is_given(self) -> GivenText | None:
        """Return the given translations in the units of the models that read given text only."""
        for plan, units, read in zip(self.job.plans, self.job.units, self._read, strict=True):
            if plan.given_text:  # all such models have the same units
                numbers = [number for number in read if number in self._given]
                return GivenText(units, {n: self._remember(n, self._given[n], given=True) for n in numbers})
        return None

    def place(self, number: int) -> list[Tensor]:
        """Return, for each model, the number () in its memory of the sentence from which text `number` is written."""
        here = np.searchsorted(self.begins, number)
        return [place[here] for place in self.places]

    def earlier(self, number: int) -> list[list[object]]:
        """Return the translations that the text `number` reads, in each model's own representation."""
        return [
            each for read in (self._own_text, self._given_text) if read is not None for each in read.earlier(number)
        ]

    def finish(self, slot: Slot, hypotheses: list[Hypothesis]) -> tuple[dict[int, list[Hypothesis]], list[Slot]]:
        """Return the hypotheses of an ended text's kept, searched sentences, and the slots that waited for it."""
        self.left -= 1
        apart = [hypothesis.sentences(self.job.search.lenpen, slot.tag) for hypothesis in hypotheses]
        found = {}
        for number, sentence in enumerate(range(slot.before, len(slot.limits)), slot.number):
            if number not in self._given:
                limit = slot.limits[sentence]
                marked = (replace(each[sentence], limited=1 < limit == len(each[sentence].tokens)) for each in apart)
                found[number] = self.job.ranked(list(marked))
        self.job.tell_progress(found)
        if self._own_text is None:
            return found, []
        after = self._waiting.get(self._keep(slot.number, found[slot.number][0].tokens[:-1]))
        return found, [] if after is None or after in self.ready else [after]

    def _keep(self, number: int, tokens: Sequence[int]) -> int:
        """Keep a translation for later sentences, then the given ones right after it. Returns the number after the last
        sentence kept."""
        assert self._own_text is not None
        while True:
            self._own_text.keep(number, self._remember(number, tokens, given=False))
            number += 1
            if number == self._last or number not in self._given or not self._own_text.follows(number):
                return number
            tokens = self._given[number]

    def _remember(self, number: int, tokens: Sequence[int], *, given: bool) -> list[object]:
        """Return what other sentences read of a translation (see `Ensemble.remember`)."""
        written, own = self.encoding.written, tuple(tokens)
        if (kept := written.get((number, given))) is not None and kept[0] == own:
            return kept[1]
        places = [read.get(number, -1) for read in self._read]  # -1: a model that reads no translations
        found = self._ensemble.remember(self.memories, places, own, given=given)
        if self.job.kept is not None:
            written[number, given] = own, found
        return found


def encode(pieces: Sequence[tuple[Job, int, int]], names: Sequence[int]) -> list[Group]:
    """Encode sentences `first` to `last` of one or more jobs together; return one group for each, with these names.

    A job that keeps its encodings (`kept`) is encoded by itself, or not at all if it was encoded before.
    """
    together = [place for place, (job, _, _) in enumerate(pieces) if job.kept is None]
    groups = encode_together([pieces[place] for place in together], [names[place] for place in together])
    found = dict(zip(together, groups, strict=True))
    for place, (job, first, last) in enumerate(pieces):
        if job.kept is not None:
            if (first, last) not in job.kept:
                (group,) = encode_together([(job, first, last)], [names[place]])
                job.kept[first, last] = group.encoding
            found[place] = Group(job, first, last, job.kept[first, last], names[place])
    return [found[place] for place in range(len(pieces))]


def encode_together(pieces: Sequence[tuple[Job, int, int]], names: Sequence[int]) -> list[Group]:
    """Encode pieces of jobs together as `encode` does, without looking at kept encodings."""
    if not pieces:
        return []
    sentences = sum(last - first for _, first, last in pieces)
    copies = -(-INVARIANT_ROWS // sentences)  # few rows take other kernels, whose sums differ in the last bit
    ensemble, device = pieces[0][0].ensemble, pieces[0][0].device
    sources, places, reads = [], [], []
    for model in range(len(ensemble.models)):
        texts, of_text, read, before = [], [], [], 0
        for job, first, last in pieces:
            plan, units = job.plans[model], job.units[model]
            own = np.arange(*np.searchsorted(units.kept, [first, last]))
            text = collate_source(job.corpus, units, np.tile(own, copies), plan)
            texts.append(text)
            of_text.append(torch.from_numpy(memory_sentences(plan, units, own) + before).to(device))
            read.append(sentences_read(units, own, before) if plan.reads_translations else {})
            before += text.layout.num_sentences
        sources.append(join_texts(texts).to(device))
        places.append(of_text)
        reads.append(read)
    memories = ensemble.encode(sources)
    return [
        Group(*piece, Encoding(memories, [of_text[n] for of_text in places], [read[n] for read in reads]), name)
        for n, (piece, name) in enumerate(zip(pieces, names, strict=True))
    ]


def begin(groups: Mapping[int, Group], width: int, entering: Iterable[Slot]) -> EnsembleState:
    """Return the models' state for entering slots, `width` rows each; slots of one memory must be neighbours.

    Args:
        groups: the groups by their names, which the slots hold.
    """
    state: EnsembleState | None = None
    for _, together in itertools.groupby(entering, lambda slot: id(groups[slot.group].memories)):
        slots = [(groups[slot.group], slot.number) for slot in together]
        places = zip(*(group.place(number) for group, number in slots), strict=True)
        earlier = [group.earlier(number) for group, number in slots]
        first = slots[0][0]
        sentences = [torch.stack(each) for each in places]
        fresh = first.job.ensemble.begin(first.memories, sentences, width, earlier)
        if state is None:
            state = fresh
        else:
            state.append(fresh)
    assert state is not None  # something enters
    return state


def slots_of(
    texts: np.ndarray, end: int, lengths: np.ndarray, search: SearchConfig, given: Mapping[int, Sequence[int]],
    group: int = 0, terms: CorpusTerms | None = None, streams: np.ndarray | None = None, tag: int | None = None,
) -> list[Slot]:  # fmt: skip
    """Return a slot for each text of `texts` (W, 2), up to sentence `end`, that has a kept sentence to search; longest
    first. `group`: name of the slots' group. `terms`: required terms, which lengthen a sentence's limit. `streams`
    (S,): the random stream of the text that begins with each sentence. `tag`: the token that each sentence begins
    with."""
    firsts, kept = texts.T
    ends = np.append(kept, end)[1:]
    total = np.concatenate([[0], np.cumsum(lengths)])
    order = np.argsort(total[firsts] - total[ends], kind="stable")
    slots = [
        _slot(range(firsts[n], ends[n]), int(kept[n]), lengths, search, given, group, terms)
        for n in order
        if any(number not in given for number in range(kept[n], ends[n]))
    ]
    if tag is not None:
        slots = [replace(slot, tag=tag) for slot in slots]
    return slots if streams is None else [replace(slot, stream=int(streams[slot.number])) for slot in slots]


def _slot(
    sentences: range, kept: int, lengths: np.ndarray, search: SearchConfig, given: Mapping[int, Sequence[int]],
    group: int, terms: CorpusTerms | None,
) -> Slot:  # fmt: skip
    """Return the slot of a text of these sentences, of which those from `kept` on are kept."""
    own = None if terms is None else terms.of(sentences, given)
    more = [0 if own is None else sum(map(len, own.wanted.get(place, ()))) for place in range(len(sentences))]
    return Slot(
        kept,
        tuple(search.limit(int(lengths[n])) + extra for n, extra in zip(sentences, more, strict=True)),
        before=kept - sentences[0],
        given={
            place: (*given[number], EOS if number == sentences[-1] else BRK)
            for place, number in enumerate(sentences)
            if number in given
        },
        group=group,
        terms=own,
    )


# The scheduler: jobs share the rows of one search, and texts of new jobs enter as rows become free.


#: Steps between two encodings, three times as many while texts wait for free rows: sentences that arrive in between
#: are encoded together. Each encoding is a memory of its own, and models that read documents attend to one memory after
#: the other.
ENCODE_EVERY = 8
#: New slots enter only when one row in this many is free: each refill has a cost of its own.
REFILL = 4
#: So many times `--max-tokens` source subwords of documents are held at once, where each writes one sentence at a time.
LIVE = 4


class Scheduler:
    """A search shared by jobs: `submit` adds a job, `step` writes one token of every text and delivers finished ones.

    It is not thread-safe. The model never sees fewer than `INVARIANT_ROWS` rows: if there are fewer, copies of one
    slot are decoded beside them, because small matrix products use other kernels, whose sums differ in the last
    bit.
    """

    def __init__(self, ensemble: Ensemble, options: GenerationConfig, search: SearchConfig) -> None:
        self._ensemble, self._options, self._config = ensemble, options, search
        self._device = next(ensemble.models[0].parameters()).device
        self.jobs: list[Job] = []
        self.reset()

    def reset(self) -> None:
        """Drop all jobs, groups and rows, after an error."""
        self.jobs.clear()
        self._groups: dict[int, Group] = {}
        self._names = self._since = self._encoded = 0
        self._generator: Generator = GENERATORS.get(self._options.generator)(self._config, self._device)
        self._state: EnsembleState | None = None
        self._capacity = self._options.texts_at_once(self._generator.width)

    @property
    def slots(self) -> int:
        """The number of texts being decoded."""
        return sum(job.live for job in self.jobs)

    @property
    def busy(self) -> bool:
        """True if a text whose result is wanted is being decoded."""
        return any(slot.wanted for slot in self._generator.slots)

    def submit(self, job: Job, ranges: Iterable[tuple[int, int]] | None = None) -> None:
        """Add a job, or only these ranges of its sentences; a job with nothing to do is done at once."""
        job.queue(job.ranges() if ranges is None else ranges)
        if job.left:
            self.jobs.append(job)
            self._set_turn(job)

    def remove(self, job: Job) -> None:
        """Remove a job, done or not, and free its rows."""
        if job not in self.jobs:
            return
        self.jobs.remove(job)
        self._forget(name for name, group in self._groups.items() if group.job is job)

    def step(self) -> None:
        """Encode and admit as much as fits, and write one more token of every text.

        A finished job leaves `jobs`, as does one that cannot be written; the latter has sentences left.
        """
        self._since += 1
        filled = any(job.ready for job in self.jobs)
        due = len(self.jobs) > 1 and self._since >= ENCODE_EVERY * (3 if filled else 1)  # a single job need not wait
        if due or not self.busy or self._rows_wait():
            self._encode()
        entering = self._entering()
        if not entering and not self.busy:
            return
        done = []
        for slot, hypotheses in self._advance(entering):
            if slot.group not in self._groups:
                continue
            group = self._groups[slot.group]
            job = group.job
            if not hypotheses:
                print("a search ended without </s>; its text is given up", file=sys.stderr)
                self.remove(job)
                continue
            sentences, after = group.finish(slot, hypotheses)
            job.ready.extendleft(after)  # others may wait for it, too
            job.live -= 1
            job.left -= len(sentences)
            for number, found in sentences.items():
                job.deliver(number, found)
            if not group.left:
                done.append(slot.group)
            if not (job.left and (job.live or job.ready or job.waiting)):
                self.jobs.remove(job)
        self._forget(done)

    def _forget(self, names: Iterable[int]) -> None:
        """Drop groups, and their rows that are still decoded: copies, or those of a cancelled request."""
        gone = set(names)
        if gone:
            self._leave(lambda slot: slot.group in gone)
            for name in gone:  # a job that was removed in this step has none any more
                self._groups.pop(name, None)

    def _advance(self, entering: Sequence[Slot]) -> list[tuple[Slot, list[Hypothesis]]]:
        """Admit slots and write one token in every row; return the ended slots with their hypotheses, best first."""
        generator, new = self._generator, list(entering)
        missing = -(-INVARIANT_ROWS // generator.width) - len(generator.slots) - len(new)
        new += [replace((new or generator.slots)[0], wanted=False)] * missing
        if new:
            fresh = begin(self._groups, generator.width, new)
            if self._state is None or not generator.slots:
                self._state = fresh
            else:
                self._state.append(fresh)
            generator.admit(new)
        assert self._state is not None  # the first slots have entered
        advance = generator.advance(self._ensemble.step(generator.tokens, self._state))
        if advance.rows is not None:
            self._state.reorder(advance.rows)
        return [(slot, found) for slot, found in advance.finished if slot.wanted]

    def _leave(self, gone: Callable[[Slot], bool]) -> None:
        """End the slots for which `gone` is true without a result."""
        places = [place for place, slot in enumerate(self._generator.slots) if gone(slot)]
        if places and self._state is not None:
            self._state.reorder(self._generator.leave(places))
        if not self._generator.slots:
            self._state = None  # it holds the encoding of whole documents

    def _set_turn(self, job: Job) -> None:
        """Set the job's turn: the number of subwords encoded when it is due, if all jobs took equal shares from now on.
        So short texts overtake long ones, but only a bounded number of them: no job waits for ever."""
        if job.waiting:
            job.turn = self._encoded + job.cost * len(self.jobs)

    def _encode(self) -> None:
        """Encode the next sentences of the jobs with the fewest live slots and, among these, the lowest turns.
        A large memory, which no other slots can join, is encoded alone."""
        state, slots = self._state, self._generator.slots
        alone = state is not None and not state.any_memory
        if alone and (slots or any(job.ready for job in self.jobs)):
            return
        ahead = sum(len(job.ready) for job in self.jobs)  # or rows would stay free until the next encoding
        room = 2 * self._capacity - self.slots - ahead
        chosen: list[tuple[Job, int, int]] = []
        tokens = 0
        for job in sorted((job for job in self.jobs if job.encodable), key=_turn):
            tokens += job.cost
            if room <= 0 or (chosen and tokens > self._options.max_tokens):
                break
            self._encoded += job.cost
            first, last = job.waiting.popleft()
            self._set_turn(job)
            room -= last - first
            chosen.append((job, first, last))
        if not chosen:
            return
        self._since = 0
        names = range(self._names, self._names + len(chosen))
        self._names += len(chosen)
        for name, group in zip(names, encode(chosen, names), strict=True):
            if group.left:  # it is no group of given sentences alone, that later ones read
                self._groups[name] = group
                group.job.ready.extend(group.ready)

    def _rows_wait(self) -> bool:
        """Rows are free, and no document that is encoded has a sentence for them: each of a model that reads its own
        text is written by one row after the other. So many subwords are encoded that most rows have a document."""
        room = self._capacity - self.slots
        chains = [job for job in self.jobs if job.own_text is not None and job.encodable]
        if not chains or room < -(-self._capacity // REFILL):
            return False
        held = sum(group.cost for group in self._groups.values())
        return held + min(job.cost for job in chains) <= LIVE * self._options.max_tokens

    def _entering(self) -> list[Slot]:
        """Return the slots that enter now, sorted by memory; each is taken from the job with the fewest live slots.
        A job that has none need not wait until enough slots are free."""
        room = self._capacity - self.slots
        waiting = [job for job in self.jobs if job.ready]
        fresh = any(not job.live for job in waiting)
        if self.busy and room < (1 if fresh else -(-self._capacity // REFILL)):
            return []
        entering: list[Slot] = []
        while waiting and len(entering) < max(room, 1):
            job = min(waiting, key=lambda job: job.live)
            entering.append(job.ready.popleft())
            job.live += 1
            waiting = [job for job in waiting if job.ready]
        return sorted(entering, key=lambda slot: id(self._groups[slot.group].memories))


def _turn(job: Job) -> tuple[int, int]:
    return job.live, job.turn
