"""From corpora to steps of decoding: who is encoded, who enters when, one step for all rows.

corpus → `Job` → `Encoding`, a slot for each text → `Scheduler.step`: admit, step of the models, choose, reorder
           └── texts that waited ←── `Job.finish` ←── ended slots ──┘
"""

from __future__ import annotations

import itertools
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import reduce

import numpy as np
import torch
from torch import Tensor

from docnmt.core.batch import collate_source, join_texts, memory_sentences, planned_units, sentences_read, source_costs
from docnmt.core.corpus import ParallelCorpus
from docnmt.core.models.encoder_decoder import AnyTranslationModel, RowState, TranslationTask
from docnmt.core.search.config import GenerationConfig, SearchConfig
from docnmt.core.search.generators import Generator, Hypothesis, Prefix, Slot, ranking
from docnmt.core.search.glossary import Terms
from docnmt.core.tokenizer import BRK, EOS, tag_of
from docnmt.registry import GENERATORS
from docnmt.runtime.device import INVARIANT_ROWS
from docnmt.runtime.system import UserError

# A job of the search: a corpus, the models that translate it, and its progress.

#: For each model, what other sentences read of a translation; None for a model that reads none.
_Remembered = list[object]


@dataclass(eq=False)
class Job:
    """A corpus being translated, with its models and options."""

    models: Sequence[AnyTranslationModel]
    task: TranslationTask
    corpus: ParallelCorpus
    options: GenerationConfig
    search: SearchConfig
    _: KW_ONLY
    given: Mapping[int, Sequence[int]]  # the tokens of the sentences whose translations are given
    deliver: Callable[[int, list[Hypothesis]], object]  # called with each searched sentence that is done, best first
    prefixes: Mapping[int, Prefix] = field(default_factory=dict)  # with what translations of searched sentences begin
    window: int | None = None  # the most sentences of the document that are read before and after a sentence
    terms: Terms | None = None  # that translations must contain
    streams: np.ndarray | None = None  # (S,) the random stream of the text that begins with each sentence; None: number
    asked: np.ndarray | None = None  # (S,) is the sentence of the text to be translated? Others are of a memory
    progress: Callable[[int], object] | None = None  # called with source subwords (`</s>` included) of it that are done
    #: Encodings of the same source by ranges of sentences, read and extended by `encode`; None: they are not kept.
    kept: dict[tuple[int, int], Encoding] | None = None

    def __post_init__(self) -> None:
        corpus, self.tag = self.corpus, tag_of(self.task.target_tokenizer)
        self.prefixes = {n: prefix for n, prefix in self.prefixes.items() if n not in self.given}
        self._ranked = ranking(self.search, self.task.target_tokenizer)
        self.device = next(self.models[0].parameters()).device
        self.lengths = source_lengths(corpus)
        self._asked_lengths = self.lengths if self.asked is None else np.where(self.asked, self.lengths, 0)
        self.plans = [model.reading for model in self.models]
        limit = self.task.max_doc_tokens
        self.units = [planned_units(plan, corpus, limit=limit, window=self.window) for plan in self.plans]
        sentence_texts = np.repeat(np.arange(corpus.num_sentences)[:, None], 2, axis=1)
        #: (S,) source subwords that must be read for each unit, at the unit's first kept sentence.
        self.costs = np.zeros(corpus.num_sentences, dtype=np.int64)
        #: (S,) models that read their own text read the translations from this sentence on; None: no model does.
        self.own_first: np.ndarray | None = None
        self.given_range: np.ndarray | None = None  # (S, 2) of the given sentences that models of given text read
        for plan, units in zip(self.plans, self.units, strict=True):  # those of one kind have the same units
            texts = np.stack([units.first, units.kept], axis=1) if plan.joined else sentence_texts
            if units is self.units[0]:
                self.texts = texts  # (W, 2) the first sentence of each text written together, and the first kept
            elif not np.array_equal(texts, self.texts):
                raise UserError(
                    "--path: these models cannot translate together: some write sentence by sentence and others "
                    "windows or documents as one text, or their windows differ; give models of one kind"
                )
            self.costs[units.kept] = np.maximum(self.costs[units.kept], source_costs(corpus, units))
            written = units.last - units.first
            if plan.own_text:
                self.own_first = np.repeat(units.source_first, written)
            if plan.given_text:
                self.given_range = np.repeat(np.stack([units.source_first, units.source_last], axis=1), written, axis=0)
        self.written: dict[int, _Remembered] = {}  # translations, as far as a later sentence reads them
        self.waiting: deque[tuple[int, int]] = deque()  # ranges of sentences that are not encoded yet
        self.ready: deque[Slot] = deque()  # that can be written
        self.left = 0  # searched sentences that are not done

    def ranges(self) -> Iterator[tuple[int, int]]:
        """The ranges of sentences to encode at once: whole units of every model, up to `--max-tokens`, at least one."""
        begins = reduce(np.intersect1d, [units.kept for units in self.units])
        total = np.concatenate([[0], np.cumsum(self.costs)])
        ends = np.append(begins, len(self.costs))[1:]
        unit = 0
        while unit < len(begins):
            most = total[begins[unit]] + self.options.max_tokens
            after = max(int(np.searchsorted(total[ends], most, side="right")), unit + 1)
            yield int(begins[unit]), int(ends[after - 1])
            unit = after

    def chains(self) -> list[list[tuple[int, int]]]:
        """The ranges in lists; those of one list must be translated one after the other."""
        chains: list[list[tuple[int, int]]] = []
        for first, last in self.ranges():
            if not self.reads_before(first):
                chains.append([])
            chains[-1].append((first, last))
        return chains

    def reads_before(self, sentence: int) -> bool:
        """True if a sentence reads the translation of the one before it."""
        first = self.own_first
        return first is not None and sentence < len(first) and bool(first[sentence] < sentence)

    def queue(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Append ranges of sentences to `waiting`; ranges without anything to do are reported as done."""
        for first, last in ranges:
            searched = sum(number not in self.given for number in range(first, last))
            self.left += searched
            if searched or self.reads_before(last):
                self.waiting.append((first, last))
            else:
                self.tell_progress(range(first, last))

    @property
    def cost(self) -> int:
        """The number of source subwords of the range that is encoded next."""
        return int(self.costs[slice(*self.waiting[0])].sum())

    def tell_progress(self, numbers: Iterable[int]) -> None:
        if self.progress is not None:
            self.progress(sum(int(self._asked_lengths[number]) for number in numbers))

    def finish(self, slot: Slot, hypotheses: list[Hypothesis]) -> None:
        """Deliver the kept, searched sentences of an ended text; the text that waited for it is ready next."""
        of_sentences = [hypothesis.sentences(self.search.lenpen, slot.tag, slot.prefixes) for hypothesis in hypotheses]
        done: dict[int, list[Hypothesis]] = {}
        for number, n in enumerate(range(slot.before, len(slot.limits)), slot.number):
            if number not in self.given:
                limit, ended = slot.limits[n], [sentences[n] for sentences in of_sentences]
                done[number] = self._ranked([replace(one, limited=1 < limit == len(one.tokens)) for one in ended])
        self.left -= len(done)
        self.tell_progress(done)
        encoding: Encoding = slot.encoding
        encoding.left -= 1
        if self.own_first is not None:
            after = encoding.write(slot.number, done[slot.number][0].tokens[:-1])
            if (waiting := encoding.waiting.pop(after, None)) is not None:
                self.ready.appendleft(waiting)  # others may wait for it, too
        for number, best_first in done.items():
            self.deliver(number, best_first)


def source_lengths(corpus: ParallelCorpus) -> np.ndarray:
    """The number of subwords (S,) of each source sentence, `</s>` included."""
    return np.diff(np.asarray(corpus.source.offsets)) + 1


# Encodings: sentences of a job that were encoded together, and the slots in which their translations are written.


@dataclass(eq=False)
class Encoding:
    """Sentences `first` to `last` of a job, as the models remember them, and the texts that are written from them."""

    job: Job
    first: int
    last: int
    memories: list[object]  # one of each model; encodings that were made together share them
    text_places: list[Tensor]  # for each model, where in its memory the sentence is from which each text is written
    read_places: list[dict[int, int]]  # for each model, where in its memory each sentence is that it reads
    #: By sentence and whether it was given, the last translation of it, and what is read of that.
    remembered: dict[tuple[int, bool], tuple[tuple[int, ...], _Remembered]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        job, first, last = self.job, self.first, self.last
        self.cost = int(job.costs[first:last].sum())
        self.texts = job.texts[slice(*np.searchsorted(job.texts[:, 1], [first, last]))]
        self.ready = self._slots()
        self.left, self.waiting = len(self.ready), dict[int, Slot]()
        job.tell_progress(number for number in range(first, last) if number in job.given)
        self._given: dict[int, _Remembered] = {}
        for plan, places in zip(job.plans, self.read_places, strict=True):
            if plan.given_text and not self._given:
                numbers = [number for number in places if number in job.given]
                self._given = {n: self._remember(n, job.given[n], given=True) for n in numbers}
        if job.own_first is not None:
            for number in self.texts[:, 1].tolist():  # translations before the first are already known
                if number in job.given and (number == first or not job.reads_before(number)):
                    self.write(number, job.given[number])
            slots = {slot.number: slot for slot in self.ready}
            for number, slot in slots.items():
                if any(n not in job.written for n in range(int(job.own_first[number]), number)):
                    self.waiting[number] = slot
            numbers = sorted(slots)
            heads = [number for number in numbers if number not in self.waiting]  # these can be written now
            ends = [*heads[1:], *(number + 1 for number in numbers[-1:])]
            following = {head: end - head for head, end in zip(heads, ends, strict=False)}
            self.ready = [slots[head] for head in sorted(heads, key=lambda head: (-following[head], head))]

    def _slots(self) -> list[Slot]:
        """A slot for each text that has a kept sentence to search; longest first."""
        job, (firsts, kept) = self.job, self.texts.T
        ends = np.append(kept, self.last)[1:]
        total = np.concatenate([[0], np.cumsum(job.lengths)])
        slots = []
        for text in np.argsort(total[firsts] - total[ends], kind="stable"):
            sentences, number = range(firsts[text], ends[text]), int(kept[text])
            if all(sentence in job.given for sentence in range(number, sentences.stop)):
                continue
            terms = None if job.terms is None else job.terms.of(sentences, job.given)
            limits, given, prefixes = list[int](), dict[int, tuple[int, ...]](), dict[int, Prefix]()
            for n, sentence in enumerate(sentences):
                limits.append(job.search.limit(int(job.lengths[sentence])))
                if terms is not None:
                    limits[-1] += sum(map(len, terms.wanted.get(n, ())))
                if sentence in job.prefixes:
                    prefixes[n] = job.prefixes[sentence]
                    limits[-1] += len(prefixes[n].tokens)
                if sentence in job.given:
                    given[n] = (*job.given[sentence], EOS if sentence == sentences[-1] else BRK)
            slots.append(
                Slot(
                    number,
                    tuple(limits),
                    before=number - sentences[0],
                    given=given,
                    prefixes=prefixes,
                    terms=terms,
                    stream=number if job.streams is None else int(job.streams[number]),
                    tag=-1 if job.tag is None else job.tag,
                    encoding=self,
                )
            )
        return slots

    def release(self) -> None:
        """Let go of the job and its slots, which refer to this encoding: memories are freed at once."""
        self.ready, self.waiting = [], {}
        del self.job

    def places_of(self, slot: Slot) -> list[Tensor]:
        """For each model, the number () in its memory of the sentence from which a text is written."""
        text = np.searchsorted(self.texts[:, 1], slot.number)
        return [places[text] for places in self.text_places]

    def read_by(self, slot: Slot) -> list[_Remembered]:
        """The translations that a text reads; some may be forgotten if it is a copy of one that has ended."""
        number, job = slot.number, self.job
        read: list[_Remembered] = []
        if job.own_first is not None:
            read += [job.written[n] for n in range(int(job.own_first[number]), number) if n in job.written]
        if job.given_range is not None:
            read += [self._given[n] for n in range(*job.given_range[number].tolist()) if n in self._given]
        return read

    def write(self, number: int, tokens: Sequence[int]) -> int:
        """Remember a translation, then the given ones right after it, and forget those that no later sentence reads.
        Returns the number after the last sentence remembered."""
        job = self.job
        assert job.own_first is not None
        while True:
            job.written[number] = self._remember(number, tokens, given=False)
            needed = int(job.own_first[number + 1]) if number + 1 < len(job.own_first) else number + 1
            for forgotten in range(int(job.own_first[number]), needed):
                job.written.pop(forgotten, None)
            number += 1
            if number == self.last or number not in job.given or not job.reads_before(number):
                return number
            tokens = job.given[number]

    def _remember(self, number: int, tokens: Sequence[int], *, given: bool) -> _Remembered:
        """Return what others read of a translation for each model that reads its own or, with `given`, given text."""
        translation = tuple(tokens)
        known, read = self.remembered.get((number, given), (None, []))
        if known != translation:
            read = [
                model.remember(memory, places.get(number, -1), translation)
                if (model.reading.given_text if given else model.reading.own_text)
                else None
                for model, memory, places in zip(self.job.models, self.memories, self.read_places, strict=True)
            ]
            if self.job.kept is not None:
                self.remembered[number, given] = translation, read
        return read


def encode(pieces: Sequence[tuple[Job, int, int]]) -> list[Encoding]:
    """Encode sentences `first` to `last` of one or more jobs together; a job that keeps its encodings (`kept`) is
    encoded by itself, or not at all if it was encoded before."""
    encodings = encode_together([piece for piece in pieces if piece[0].kept is None])
    for job, first, last in pieces:
        if job.kept is None:
            continue
        if (known := job.kept.get((first, last))) is None:
            encodings += encode_together([(job, first, last)])
        else:
            shared = known.memories, known.text_places, known.read_places, known.remembered
            encodings.append(Encoding(job, first, last, *shared))
        job.kept[first, last] = encodings[-1]
    return encodings


def encode_together(pieces: Sequence[tuple[Job, int, int]]) -> list[Encoding]:
    if not pieces:
        return []
    sentences = sum(last - first for _, first, last in pieces)
    copies = -(-INVARIANT_ROWS // sentences)  # few rows take other kernels, whose sums differ in the last bit
    device, memories = pieces[0][0].device, list[object]()
    text_places: list[list[Tensor]] = [[] for _ in pieces]
    read_places: list[list[dict[int, int]]] = [[] for _ in pieces]
    for number, model in enumerate(pieces[0][0].models):
        packed, before = [], 0
        for piece, (job, first, last) in enumerate(pieces):
            plan, units = job.plans[number], job.units[number]
            chosen = np.arange(*np.searchsorted(units.kept, [first, last]))
            packed.append(collate_source(job.corpus, units, np.tile(chosen, copies), plan))
            places = torch.from_numpy(memory_sentences(plan, units, chosen) + before)
            text_places[piece].append(places.to(device))
            read_places[piece].append(sentences_read(units, chosen, before) if plan.reads_translations else {})
            before += packed[-1].layout.num_sentences
        memories.append(model.encode(join_texts(packed).to(device)))
    return [Encoding(*piece, memories, text_places[n], read_places[n]) for n, piece in enumerate(pieces)]


# The scheduler: jobs share the rows of one search, and texts of new jobs enter as rows become free.

#: Steps between two encodings, three times as many while texts wait for free rows: sentences that arrive in between
#: are encoded together. Each encoding is a memory of its own, and models that read documents attend to one memory after
#: the other.
_ENCODE_EVERY = 8
#: Upper bound of hypotheses decoded at once, where `--batch-size` texts would have more.
_MOST_AT_WORK = 1024
#: New slots enter only when one row in this many is free: each refill has a cost of its own.
_REFILL = 4
#: So many times `--max-tokens` source subwords of documents are held at once, where each writes one sentence at a time.
_LIVE = 4


class Scheduler:
    """A search shared by jobs: `submit` adds a job, `step` writes one token of every text and delivers finished ones.

    It is not thread-safe. The model never sees fewer than `INVARIANT_ROWS` rows: if there are fewer, copies of one
    slot are decoded beside them, because small matrix products use other kernels, whose sums differ in the last bit.
    """

    def __init__(self, models: Sequence[AnyTranslationModel], options: GenerationConfig, search: SearchConfig) -> None:
        self._models, self._options, self._config = models, options, search
        self._device = next(models[0].parameters()).device
        self._encodings: set[Encoding] = set()  # those with texts that have not ended
        self.reset()

    def reset(self) -> None:
        """Drop all jobs, encodings and rows, after an error."""
        self.jobs: dict[Job, int] = {}  # not done, with their turns: of jobs with as few slots, the lowest is encoded
        while self._encodings:
            self._encodings.pop().release()
        self._steps = self._encoded = 0  # steps since the last encoding, and subwords encoded so far
        self._generator: Generator = GENERATORS.get(self._options.generator)(self._config, self._device)
        self._states: list[RowState] = []  # of each model; row r belongs to the same hypothesis in each
        self._capacity = max(1, min(self._options.batch_size, _MOST_AT_WORK // self._generator.width))

    @property
    def slots(self) -> int:
        return sum(slot.wanted for slot in self._generator.slots)

    def submit(self, job: Job, ranges: Iterable[tuple[int, int]] | None = None) -> None:
        """Add a job, or only these ranges of its sentences; a job with nothing to do is done at once."""
        job.queue(job.ranges() if ranges is None else ranges)
        if job.left:
            self.jobs[job] = 0
            self._set_turn(job)

    def _set_turn(self, job: Job) -> None:
        """Set the turn: the subwords encoded when the job is due if all take equal shares, so none waits for ever."""
        if job.waiting:
            self.jobs[job] = self._encoded + job.cost * len(self.jobs)

    def remove(self, job: Job) -> None:
        """Remove a job, done or not, and free its rows."""
        if self.jobs.pop(job, None) is not None:
            self._forget({encoding for encoding in self._encodings if encoding.job is job})

    def step(self) -> None:
        """Encode and admit as much as fits, and write one more token of every text.

        A finished job leaves `jobs`, as does one that cannot be written; the latter has sentences left.
        """
        self._steps += 1
        live, filled = self._live(), any(job.ready for job in self.jobs)
        due = len(self.jobs) > 1 and self._steps >= _ENCODE_EVERY * (3 if filled else 1)  # a single job need not wait
        if due or not live or self._rows_wait(live):
            self._encode(live)
        entering = self._entering(live)
        if not entering and not live:
            return
        ended = [(slot.encoding.job, slot, hypotheses) for slot, hypotheses in self._advance(entering)]
        for job, slot, hypotheses in ended:
            if not hypotheses and job in self.jobs:
                print("a search ended without </s>; its text is given up", file=sys.stderr)
                self.remove(job)
            elif job in self.jobs:
                job.finish(slot, hypotheses)
        live = self._live()
        for job in {job for job, _, _ in ended} & self.jobs.keys():
            if not (job.left and (live[job] or job.ready or job.waiting)):
                del self.jobs[job]
        self._forget({slot.encoding for _, slot, _ in ended if not slot.encoding.left})

    def _live(self) -> Counter[Job]:
        return Counter(slot.encoding.job for slot in self._generator.slots if slot.wanted)

    def _forget(self, gone: set[Encoding]) -> None:
        """Drop encodings, and their rows that are still decoded: copies, or those of a cancelled request."""
        gone &= self._encodings  # those of a job that was removed in this step are gone already
        if not gone:
            return
        self._encodings -= gone
        leaving = [number for number, slot in enumerate(self._generator.slots) if slot.encoding in gone]
        if leaving:
            rows = self._generator.leave(leaving)
            for state in self._states:
                state.reorder(rows)
        if not self._generator.slots:
            self._states = []  # they hold the encoding of whole documents
        for encoding in gone:
            encoding.release()

    def _advance(self, entering: Sequence[Slot]) -> list[tuple[Slot, list[Hypothesis]]]:
        """Admit slots and write one token in every row; return the ended slots with their hypotheses, best first."""
        generator, new = self._generator, list(entering)
        missing = -(-INVARIANT_ROWS // generator.width) - len(generator.slots) - len(new)
        new += [replace((new or generator.slots)[0], wanted=False)] * missing
        if not generator.slots:
            self._states = []
        for _, together in itertools.groupby(new, lambda slot: id(slot.encoding.memories)):
            slots = list(together)
            places = zip(*(slot.encoding.places_of(slot) for slot in slots), strict=True)
            read_by = [slot.encoding.read_by(slot) for slot in slots]
            fresh = []
            of_models = zip(self._models, slots[0].encoding.memories, places, strict=True)
            for number, (model, memory, sentences) in enumerate(of_models):
                earlier = [[read[number] for read in slot if read[number] is not None] for slot in read_by]
                fresh.append(model.begin(memory, torch.stack(sentences), generator.width, earlier))
            for state, of_new in zip(self._states, fresh, strict=False):
                state.append(of_new)
            self._states = self._states or fresh
        if new:
            generator.admit(new)
        advance = generator.advance(next_scores(self._models, generator.tokens, self._states))
        if advance.rows is not None:
            for state in self._states:
                state.reorder(advance.rows)
        return [(slot, hypotheses) for slot, hypotheses in advance.finished if slot.wanted]

    def _encode(self, live: Counter[Job]) -> None:
        """Encode the next sentences of the jobs with the fewest live slots and, among these, the lowest turns."""
        large = not all(getattr(state, "any_memory", False) for state in self._states)  # no other slots can join it
        if large and (self._generator.slots or any(job.ready for job in self.jobs)):
            return
        ahead = sum(len(job.ready) for job in self.jobs)  # or rows would stay free until the next encoding
        room = 2 * self._capacity - live.total() - ahead
        chosen: list[tuple[Job, int, int]] = []
        tokens = 0
        encodable = (job for job in self.jobs if _encodable(job, live))
        for job in sorted(encodable, key=lambda job: (live[job], self.jobs[job])):
            tokens += job.cost
            if room <= 0 or (chosen and tokens > self._options.max_tokens):
                break
            self._encoded += job.cost
            first, last = job.waiting.popleft()
            self._set_turn(job)
            room -= last - first
            chosen.append((job, first, last))
        if chosen:
            self._steps = 0
            for encoding in encode(chosen):
                if encoding.left:
                    self._encodings.add(encoding)
                    encoding.job.ready.extend(encoding.ready)
                else:  # it consists of given sentences alone, that later ones read
                    encoding.release()

    def _rows_wait(self, live: Counter[Job]) -> bool:
        """Rows are free while models that read their own text write each document in one row after the other."""
        costs = [job.cost for job in self.jobs if job.own_first is not None and _encodable(job, live)]
        if not costs or self._capacity - live.total() < -(-self._capacity // _REFILL):
            return False
        encoded = sum(encoding.cost for encoding in self._encodings)
        return encoded + min(costs) <= _LIVE * self._options.max_tokens

    def _entering(self, live: Counter[Job]) -> list[Slot]:
        """Return the slots that enter now, sorted by memory; each is taken from the job with the fewest live slots."""
        room, after = self._capacity - live.total(), live.copy()
        waiting = [job for job in self.jobs if job.ready]
        fresh = any(not live[job] for job in waiting)  # such a job need not wait until enough slots are free
        if live and room < (1 if fresh else -(-self._capacity // _REFILL)):
            return []
        entering: list[Slot] = []
        while waiting and len(entering) < max(room, 1):
            job = min(waiting, key=after.__getitem__)
            entering.append(job.ready.popleft())
            after[job] += 1
            waiting = [job for job in waiting if job.ready]
        return sorted(entering, key=lambda slot: id(slot.encoding.memories))


def next_scores(models: Sequence[AnyTranslationModel], tokens: Tensor, states: Sequence[RowState]) -> Tensor:
    """Logits (R, V) after tokens (R,): one model's own, or the log of the summed probabilities of several, which write
    one text together."""
    logits = [model.step(tokens, state) for model, state in zip(models, states, strict=True)]
    if len(logits) == 1:
        return logits[0]
    log_probs = torch.stack([torch.log_softmax(of_model.float(), dim=-1) for of_model in logits])
    return torch.logsumexp(log_probs, dim=0)


def _encodable(job: Job, live: Counter[Job]) -> bool:
    """True if a range of a job waits and the translations that it reads are written."""
    return bool(job.waiting) and not job.ready and not (live[job] and job.reads_before(job.waiting[0][0]))
