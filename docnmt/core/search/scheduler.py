"""The scheduler: jobs share the rows of one search, and texts of new jobs enter as rows become free."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from docnmt.core.search.config import GenerationConfig, SearchConfig
from docnmt.core.search.ensemble import Ensemble, EnsembleState
from docnmt.core.search.group import Group, begin, encode
from docnmt.core.search.job import Job
from docnmt.core.search.rows import Generator, Hypothesis, Slot
from docnmt.registry.registry import GENERATORS
from docnmt.runtime.tuning import INVARIANT_ROWS

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
