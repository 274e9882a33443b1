"""Groups: sentences of a job that are encoded together, and the slots in which their translations are written."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from docnmt.core.batch import collate_source, join_texts, memory_sentences, sentences_read
from docnmt.core.data.tokenizer import BRK, EOS
from docnmt.core.search.config import SearchConfig
from docnmt.core.search.ensemble import EnsembleState
from docnmt.core.search.glossary import CorpusTerms
from docnmt.core.search.job import Job
from docnmt.core.search.rows import Hypothesis, Slot
from docnmt.core.search.target_history import GivenText
from docnmt.runtime.tuning import INVARIANT_ROWS


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
