"""The search that all requests share, with the interface of a model for one document."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import Any

from docnmt.apps.commands.translate import corpus_of
from docnmt.apps.documents.projection import Span
from docnmt.apps.documents.sentences import SegmentSentence
from docnmt.apps.explain.attention import ReadPair, aligned, beginnings, read_pairs
from docnmt.apps.serve.search import NO_WISHES, Order, RequestEvent, Wishes
from docnmt.apps.serve.service import PATIENCE, Service
from docnmt.core.search.translate_corpus import Translation

#: The number of sentence pairs that are aligned between two steps of the search.
PAIRS = 8
#: A function that receives the events of a document; None: there are no more.
Told = Callable[[dict[str, Any] | None], None]


class SharedModel:
    """Translates the sentences of one document in the search that all requests share; used by the document's thread.

    Args:
        accept: raises an error if a corpus, or what is known of its translations, is too long.
        told: receives the source's sentences, and each translation as soon as it is ready.
    """

    def __init__(
        self, service: Service, deadline: float, accept: Callable[[Any, Sequence[str | None]], None], told: Told,
        wishes: Wishes = NO_WISHES,
    ) -> None:  # fmt: skip
        self._service, self._deadline, self._accept, self._told = service, deadline, accept, told
        self._wishes = wishes
        self._events: queue.SimpleQueue[RequestEvent | str] = queue.SimpleQueue()
        self._begun = self._gone = False
        self.languages: tuple[str, str] = service.task.languages

    def leave(self) -> None:
        """Stop the translation, because nobody waits for it any more."""
        self._gone = True
        self._events.put("gone")

    def __call__(self, sentences: Sequence[SegmentSentence]) -> Iterator[str]:
        """Yield the translation of each sentence without a given one, in order."""
        corpus, given = corpus_of(sentences, self._service.task), [sentence.given for sentence in sentences]
        first, self._begun = not self._begun, True
        if first:  # later calls only translate parts of the same text again
            self._accept(corpus, given)
            places = self._open(sentences)
        if all(sentence.given is not None for sentence in sentences):
            return  # there would never be an event
        fixed = [sentence.fixed for sentence in sentences]
        order = Order(corpus, given, self._events.put, self._deadline, wishes=self._wishes, fixed=fixed)
        self._service.submit(order)
        found: dict[int, Translation] = {}
        try:
            for number, sentence in enumerate(sentences):
                while sentence.given is None and number not in found:
                    ready, translation = self._next()
                    found[ready] = translation
                    if first:
                        told = {"text": translation.text, "score": translation.score}
                        self._told({**places[ready], **told, **({"limited": True} if translation.limited else {})})
                if sentence.given is None:
                    yield found[number].text
        finally:
            self._service.worker.cancel(order)
        event = self._wait()
        if event != "done":
            raise self._service.refused(event) if isinstance(event, str) else AssertionError("a sentence too many")

    def align(self, pairs: Sequence[tuple[str, str]]) -> list[list[Span]]:
        """Align pairs as `DocumentModel.align` does, a few at a time, in the thread that owns the model."""
        worker, found = self._service.worker, list[ReadPair]()
        for first in range(0, len(pairs), PAIRS):
            if self._gone:
                raise self._service.refused("gone")
            if time.monotonic() > self._deadline:
                raise self._service.refused("late")
            few = partial(read_pairs, worker.loaded.models[0], worker.loaded.task, pairs[first : first + PAIRS])
            found += worker.call(few).result()
        return [*map(beginnings, aligned(found))]

    def _open(self, sentences: Sequence[SegmentSentence]) -> list[dict[str, int]]:
        """Send the source's sentences, by segments, and given translations; return the position of each sentence."""
        lines = [list(group) for _, group in groupby(sentences, lambda sentence: sentence.segment)]
        self._told({"source": [[sentence.text for sentence in line] for line in lines]})
        places = [{"line": n, "sentence": m} for n, line in enumerate(lines) for m in range(len(line))]
        for sentence, place in zip(sentences, places, strict=True):
            if sentence.given is not None:
                self._told({**place, "text": sentence.given})
        return places

    def _next(self) -> tuple[int, Translation]:
        event = self._wait()
        if self._gone or not isinstance(event, tuple):
            raise self._service.refused("gone" if self._gone else str(event))
        return event

    def _wait(self) -> RequestEvent | str:
        try:
            return self._events.get(timeout=max(self._deadline + PATIENCE - time.monotonic(), 0))
        except queue.Empty:
            return "late"
