"""The thread that owns the models: orders in, events of their translations out.

`submit(order)` → [`_take` → `_enter` → `Scheduler.step` → `_finish`] … → `order.tell((number, translation))` … `"done"`
"""

from __future__ import annotations

import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np
import torch

from docnmt.apps.commands.translating import Translating
from docnmt.core.corpus import ParallelCorpus
from docnmt.core.formality import Formality
from docnmt.core.models.encoder_decoder import TranslationTask
from docnmt.core.search.glossary import TermFinder, asked_terms
from docnmt.core.search.scheduler import Encoding, Job, Scheduler
from docnmt.core.search.translate import Translation

if TYPE_CHECKING:
    from docnmt.apps.serve.ask import Sentences

#: The end of a request: all sentences are translated, the translation failed, or the deadline has passed.
Ending = Literal["done", "failed", "late"]
#: An event of a request: a sentence's number and its best translation, or the end of the request.
RequestEvent = tuple[int, Translation] | Ending


class KeptEncoding:
    """The encodings of a document that stays open, of its source as it is and as it was before.

    A segment that is confirmed by one sentence is one sentence, and may be several when this is taken back.
    """

    def __init__(self) -> None:
        self._states: dict[tuple[bytes, ...], dict[tuple[int, int], Encoding]] = {}

    def of(self, corpus: ParallelCorpus) -> dict[tuple[int, int], Encoding]:
        """Return the kept encodings of this source, by ranges of sentences; none if it is new."""
        source = corpus.source
        key = tuple(np.asarray(part).tobytes() for part in (source.tokens, source.offsets, corpus.document_offsets))
        encodings = self._states[key] = self._states.pop(key, {})
        if len(self._states) > 2:
            del self._states[next(iter(self._states))]
        return encodings


@dataclass(frozen=True, eq=False)
class Wishes:
    """The options of a request; None means the service's default: its languages, terms of its glossary, its form."""

    task: TranslationTask | None = None
    terms: TermFinder | None = None
    formality: Formality | None = None


#: No options: the service's defaults.
NO_WISHES = Wishes()


@dataclass(eq=False)
class Order:
    """A request for the search, with its state there.

    Where explanations are wanted, each translation is sent again with its own, when all are there.
    """

    sentences: Sentences
    tell: Callable[[RequestEvent], None]  # called in the worker's thread
    deadline: float  # by `time.monotonic`
    sent: dict[int, Translation] = field(default_factory=dict, init=False)  # by number of the sentence
    job: Job | None = field(default=None, init=False)
    entered: bool = field(default=False, init=False)
    cancelled: bool = field(default=False, init=False)


ResultT = TypeVar("ResultT")


class Worker:
    """Starts the search's thread, and passes requests to it at any time; only the thread may use the models."""

    def __init__(self, models: Translating) -> None:
        self.models, self.loaded = models, models.loaded
        self._terms = asked_terms(models.options, models.loaded.task.target_tokenizer)
        self._scheduler = Scheduler(models.loaded.models, models.options, models.search)
        self._changed = threading.Condition()
        self._new: list[Order] = []
        self._calls: list[tuple[Future[Any], Callable[[], Any]]] = []
        self._orders: list[Order] = []  # used by the thread only, as is the next
        self._suspects: list[Order] = []  # were in the search when it failed; each is tried again alone
        self._stopped = self._ended = False
        self._thread = threading.Thread(target=self._run, name="docnmt-search", daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        """True while the thread runs."""
        return self._thread.is_alive()

    @property
    def slots(self) -> int:
        """The number of texts that are being translated."""
        return self._scheduler.slots

    def submit(self, order: Order) -> None:
        """Add a request. Any thread may call this, but no event loop, because it can block for a moment."""
        sentences = order.sentences
        formality = sentences.wishes.formality or self.models.options.formality
        order.sentences = replace(sentences, corpus=self.loaded.tagged(sentences.corpus, formality, sentences.given))
        order.job = self._job(order)
        with self._changed:
            if self._ended:
                raise _over()
            self._new.append(order)
            self._changed.notify()

    def cancel(self, order: Order) -> None:
        """Cancel a request for which nobody waits any more; no effect if it has ended."""
        with self._changed:
            order.cancelled = True
            self._changed.notify()

    def call(self, function: Callable[[], ResultT]) -> Future[ResultT]:
        """Call a function in the thread, between two steps; the future has an exception if the thread has ended."""
        future: Future[ResultT] = Future()
        with self._changed:
            if self._ended:
                future.set_exception(_over())
            else:
                self._calls.append((future, function))
                self._changed.notify()
        return future

    def stop(self) -> None:
        """End the thread after its current step."""
        with self._changed:
            self._stopped = True
            self._changed.notify()
        self._thread.join()

    def _job(self, order: Order) -> Job:
        def deliver(number: int, best: Translation) -> None:
            if number not in order.sent:  # it is if the order was started again
                order.sent[number] = best
                order.tell((number, best))

        sentences, wishes = order.sentences, order.sentences.wishes
        terms = wishes.terms or self._terms
        job = self.models.job(
            sentences.corpus, sentences.given, deliver, fixed=sentences.fixed, task=wishes.task, terms=terms
        )
        if sentences.kept is not None:
            job.kept = sentences.kept.of(sentences.corpus)
        return job

    def _run(self) -> None:
        try:
            with torch.inference_mode():
                while self._take():
                    self._enter()
                    self._step()
                    self._finish()
        finally:  # no caller may wait for a thread that has ended
            with self._changed:
                self._ended = True
                calls, self._calls = self._calls, []
            for future, _ in calls:
                future.set_exception(_over())
            self._end([*self._orders, *self._new], "failed")

    def _take(self) -> bool:
        """Wait for work, take new requests, drop cancelled and late ones; return False if the thread is to end."""
        with self._changed:
            while not (self._new or self._orders or self._calls or self._stopped):
                self._changed.wait()
            new, self._new = self._new, []
            calls, self._calls = self._calls, []
            stopped = self._stopped
        for future, function in calls:
            try:
                future.set_result(function())
            except Exception as error:
                future.set_exception(error)
        self._orders += new
        gone = [order for order in self._orders if order.cancelled]
        late = [order for order in self._orders if not order.cancelled and order.deadline < time.monotonic()]
        for order in gone + late:
            assert order.job is not None
            self._scheduler.remove(order.job)
        self._end(gone, None)
        self._end(late, "late")
        return not stopped

    def _enter(self) -> None:
        """Put waiting requests into the search; as long as there are suspects, only one of them at a time."""
        if self._suspects and self._scheduler.jobs:
            return
        for order in self._suspects[:1] or self._orders:
            if not order.entered and order.job is not None:
                order.entered = True
                self._scheduler.submit(order.job)

    def _step(self) -> None:
        """Run a step of the search; if it fails, its requests start again, each alone, so that only the cause fails."""
        try:
            self._scheduler.step()
        except Exception:
            traceback.print_exc(file=sys.stderr)
            self._scheduler.reset()
            failed = [order for order in self._orders if order.entered and order.job is not None and order.job.left]
            if len(failed) == 1:
                self._end(failed, "failed")
                return
            for order in failed:
                try:
                    order.entered, order.job = False, self._job(order)
                except Exception:  # for instance because memory is short
                    traceback.print_exc(file=sys.stderr)
                    self._end([order], "failed")
                else:
                    self._suspects.append(order)

    def _finish(self) -> None:
        """End the requests that have left the search; if an explanation fails, only its own request fails."""
        at_work = set(self._scheduler.jobs)
        for order in [order for order in self._orders if order.entered and order.job not in at_work]:
            try:
                if order.sentences.explain is not None and order.sent and not (order.job and order.job.left):
                    self._explain(order)
            except Exception:
                traceback.print_exc(file=sys.stderr)
                self._end([order], "failed")
            else:
                self._end([order], "done")

    def _explain(self, order: Order) -> None:
        """Send the explanation of each sentence; all other requests wait meanwhile."""
        sentences = order.sentences
        pieces = [order.sent[n].pieces if n in order.sent else () for n in range(sentences.corpus.num_sentences)]
        explanations = self.models.explanations(
            sentences.corpus, pieces, sentences.given, numbers=sentences.explain, task=sentences.wishes.task
        )
        for number, explanation in enumerate(explanations):
            if explanation is not None:
                order.tell((number, replace(order.sent[number], explanation=explanation)))

    def _end(self, orders: Sequence[Order], how: Ending | None) -> None:
        """Remove requests, and send them how they ended; None: nobody listens."""
        self._orders = [order for order in self._orders if order not in orders]
        self._suspects = [order for order in self._suspects if order not in orders]
        for order in orders:
            if how is not None:
                order.tell(how if how != "done" or (order.job and not order.job.left) else "failed")


def _over() -> RuntimeError:
    return RuntimeError("the search has ended")
