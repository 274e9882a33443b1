"""One search that all requests share: texts of new requests enter beside those at work, as rows become free."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial

from docnmt.core.search.config import GenerationConfig, SearchConfig
from docnmt.core.search.decode import Decoding, Search, refill
from docnmt.core.search.ensemble import Ensemble, EnsembleState
from docnmt.core.search.hypothesis import Hypothesis, Slot
from docnmt.core.search.work import Group, Work, begin, encode
from docnmt.registry.registry import GENERATORS
from docnmt.runtime.tuning import INVARIANT_ROWS

#: Steps of the search between two encodings, three times as many while texts wait for free rows: what arrives meanwhile
#: is encoded together. Each encoding is a memory of its own, and models that read documents attend to one memory after
#: the other.
ENCODE_EVERY = 8


class Job:
    """A request's sentences on their way.

    Args:
        work: all of them. deliver: is told of each sentence that is done: its number, and its hypotheses, best first.

    Attributes:
        ranges: what is not encoded yet. ready: slots that can be written. live: how many are at work.
        left: sentences that are not done. turn: the lowest is encoded first, of those that have equally few at work.
    """

    def __init__(self, work: Work, deliver: Callable[[int, list[Hypothesis]], None]) -> None:
        self.work, self.deliver = work, deliver
        self.ranges = deque(each for each in work.ranges() if work.has_to_read(*each))
        self.ready: deque[Slot] = deque()
        self.live = self.turn = 0
        self.left = work.corpus.num_sentences - len(work.given)

    @property
    def encodable(self) -> bool:
        """There is something to encode, and whatever it reads is written."""
        return bool(self.ranges) and not self.ready and not (self.live and self.work.continues(self.ranges[0][0]))

    @property
    def cost(self) -> int:
        """Source subwords of what is encoded next."""
        return int(self.work.costs[slice(*self.ranges[0])].sum())


class SharedSearch:
    """What the worker's thread owns. Nothing here is safe for several threads."""

    def __init__(self, ensemble: Ensemble, options: GenerationConfig, search: SearchConfig) -> None:
        self._ensemble, self._options, self._config = ensemble, options, search
        self._device = next(ensemble.models[0].parameters()).device
        self.jobs: list[Job] = []
        self.reset()

    def reset(self) -> None:
        """Forget everything, after an error."""
        self.jobs.clear()
        self._groups: dict[int, Group] = {}
        self._owners: dict[int, Job] = {}
        self._names = self._since = self._encoded = 0
        generator: Search = GENERATORS.get(self._options.generator)(self._config, self._device)
        self._capacity = self._options.texts_at_once(generator.width)
        start = partial(begin, self._ensemble, self._groups, generator.width)
        self._decoding: Decoding[EnsembleState] = Decoding(
            self._ensemble.step, start, generator, least_rows=INVARIANT_ROWS
        )

    @property
    def slots(self) -> int:
        """Texts at work."""
        return sum(job.live for job in self.jobs)

    def add(self, job: Job) -> None:
        """A new request, with something to do."""
        self.jobs.append(job)
        self._queue(job)

    def remove(self, job: Job) -> None:
        """A request goes, done or not; its rows are free."""
        if job not in self.jobs:
            return
        self.jobs.remove(job)
        self._forget(name for name, owner in self._owners.items() if owner is job)

    def step(self) -> None:
        """Encode and admit what there is room for, and write one token more of every text at work.

        A job with nothing left is no longer among `jobs`, nor is one that cannot be written; that one has some left.
        """
        self._since += 1
        filled = any(job.ready for job in self.jobs)
        if self._since >= ENCODE_EVERY * (3 if filled else 1) or not self._decoding.busy:
            self._encode()
        entering = self._entering()
        if not entering and not self._decoding.busy:
            return
        done = []
        for slot, hypotheses in self._decoding.advance(entering):
            if slot.group not in self._owners:
                continue
            job, group = self._owners[slot.group], self._groups[slot.group]
            if not hypotheses:
                print("a search ended without </s>; its request is given up", file=sys.stderr)
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
            if not (job.left and (job.live or job.ready or job.ranges)):
                self.jobs.remove(job)
        self._forget(done)

    def _forget(self, names: Iterable[int]) -> None:
        """Groups go, with the rows that are still at work for them: copies, or of a request that was cancelled."""
        gone = set(names)
        if gone:
            self._decoding.leave(lambda slot: slot.group in gone)
            for name in gone:  # a job that was removed in this step has none any more
                self._groups.pop(name, None)
                self._owners.pop(name, None)

    def _queue(self, job: Job) -> None:
        """Its turn: how many subwords would be encoded by then if all jobs shared the work from now on. So short texts
        overtake long ones, but no more of them than would then be through: nobody waits for ever."""
        if job.ranges:
            job.turn = self._encoded + job.cost * len(self.jobs)

    def _encode(self) -> None:
        """Encode the next sentences of the jobs that have least at work; of these those whose turn it is. A book is
        encoded by itself."""
        state, slots = self._decoding.state, self._decoding.search.slots
        alone = state is not None and not state.any_memory
        if alone and (slots or any(job.ready for job in self.jobs)):
            return
        ahead = sum(len(job.ready) for job in self.jobs)  # or rows would stay free until the next encoding
        room = 2 * self._capacity - len(slots) - ahead
        chosen: list[tuple[Job, tuple[Work, int, int]]] = []
        tokens = 0
        for job in sorted((job for job in self.jobs if job.encodable), key=_turn):
            tokens += job.cost
            if room <= 0 or (chosen and tokens > self._options.max_tokens):
                break
            self._encoded += job.cost
            first, last = job.ranges.popleft()
            self._queue(job)
            room -= last - first
            chosen.append((job, (job.work, first, last)))
        if not chosen:
            return
        self._since = 0
        names = range(self._names, self._names + len(chosen))
        self._names += len(chosen)
        for (job, _), name, group in zip(chosen, names, encode([piece for _, piece in chosen], names), strict=True):
            if group.left:  # it is no group of given sentences alone, that later ones read
                self._groups[name], self._owners[name] = group, job
                job.ready.extend(group.ready)

    def _entering(self) -> list[Slot]:
        """The slots that enter now, those of one memory side by side: one of each job in turn, who has fewest at work
        first. A job that has none at work need not wait until enough slots are free."""
        room = self._capacity - len(self._decoding.search.slots)
        waiting = [job for job in self.jobs if job.ready]
        fresh = any(not job.live for job in waiting)
        if self._decoding.busy and room < (1 if fresh else refill(self._capacity)):
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
