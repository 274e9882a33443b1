"""A request from its body to its answer: read, put in the queue, told of each sentence, given up when it is late."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from starlette.requests import Request
from starlette.types import Receive

from docnmt.apps.documents.segment import Segment
from docnmt.apps.serve.config import ServeConfig
from docnmt.apps.serve.counters import Metrics
from docnmt.apps.serve.http_error import Refused
from docnmt.apps.serve.order import Order, RequestEvent
from docnmt.apps.serve.request_body import read_body
from docnmt.apps.serve.requests import AskedSentences
from docnmt.apps.serve.worker import Models, Worker
from docnmt.core.data.corpus import ParallelCorpus
from docnmt.core.models.translation_model import TranslationTask
from docnmt.core.search.translate_corpus import Translation
from docnmt.runtime.errors import UserError

#: Seconds after which a client that found the queue full may come again.
RETRY_AFTER = "5"
#: Seconds beyond its deadline in which the worker, which may be encoding a book, has to say that a request is late.
PATIENCE = 5.0


class Service:
    """The worker, its limits, and how many requests it has."""

    def __init__(self, models: Models, config: ServeConfig) -> None:
        self.config, self.task = config, models.loaded.task
        self.worker = Worker(models)
        self.metrics = Metrics(lambda: self.worker.slots)
        self.threads = ThreadPoolExecutor(config.queue_length, "docnmt-file")  # files wait for their translations
        self.stopping = False
        self._active = 0

    @property
    def problem(self) -> str | None:
        """Why no request should come, if there is a reason."""
        if not self.worker.alive:
            return "the thread that translates has ended"
        return "stopping" if self.stopping else None

    @property
    def reads_translations(self) -> bool:
        """Whether what is written for a sentence may depend on the translations of others of its document."""
        return self.reads_own_text or any(model.reading.given_text for model in self.worker.loaded.models)

    @property
    def reads_own_text(self) -> bool:
        """Whether it may depend on what the models themselves wrote for others."""
        plans = [model.reading for model in self.worker.loaded.models]
        return any(plan.own_text or (plan.joined and plan.written != 1) for plan in plans)

    @contextlib.contextmanager
    def place(self) -> Iterator[float]:
        """A place in the queue, from the first byte of a body to the last one of the answer; its deadline.

        Raises:
            Refused: there is none.
        """
        if self.problem is not None:
            raise Refused(503, "stopping", f"this service takes no requests: {self.problem}", {"connection": "close"})
        if self._active >= self.config.queue_length:
            message = f"{self._active} requests are waiting or at work; come again in {RETRY_AFTER} seconds"
            raise Refused(503, "queue_full", message, {"retry-after": RETRY_AFTER, "connection": "close"})
        self._active += 1
        self.metrics.active.set(self._active)
        try:
            with self.told_of_the_end():
                yield time.monotonic() + self.config.request_timeout
        finally:
            self._active -= 1
            self.metrics.active.set(self._active)

    @contextlib.contextmanager
    def told_of_the_end(self) -> Iterator[None]:
        """Inside, a request that is broken off because the time to finish it (`--grace`) is over ends with an answer.

        Raises:
            Refused: it is broken off so.
        """
        try:
            yield
        except asyncio.CancelledError:
            if not self.stopping:
                raise
            message = "this service has stopped before the answer was complete; send the request again"
            raise Refused(503, "stopping", message, {"connection": "close"}) from None

    async def body(self, request: Request) -> bytes:
        """The request's body, within limits."""
        return await read_body(request, limit=self.config.max_body, seconds=self.config.body_timeout)

    async def small_body(self, request: Request) -> bytes:
        """The same of a request that is answered at once: it has a place in the queue only while it is read."""
        with self.place():
            return await self.body(request)

    def accept(self, log: dict[str, Any], corpus: ParallelCorpus, *, explain: bool = False) -> None:
        """Put what is asked for into the log, and count it.

        Raises:
            Refused: it is too much.
        """
        sentences, tokens = corpus.num_sentences, len(corpus.source.tokens) + corpus.num_sentences
        log.update(sentences=sentences, tokens=tokens)
        if tokens > self.config.max_request_tokens:
            most = f"at most {self.config.max_request_tokens:,} (--max-request-tokens)"
            raise Refused(413, "too_long", f"the request has {tokens:,} subwords; expected {most}: send it in parts")
        longest = int(corpus.source.lengths().max(initial=0)) + 1
        if longest > self.config.max_sentence_tokens:
            most = f"at most {self.config.max_sentence_tokens:,} (--max-sentence-tokens)"
            raise Refused(413, "too_long", f"a sentence has {longest:,} subwords; expected {most}: divide it")
        if explain and tokens > self.config.max_explain_tokens:
            most = f"at most {self.config.max_explain_tokens:,} (--max-explain-tokens)"
            raise Refused(413, "too_long", f"to be explained the request has {tokens:,} subwords; expected {most}")
        self.metrics.tokens.inc(tokens)

    def accept_segments(self, segments: Sequence[Segment]) -> None:
        """Before a file's segments, each of which has a subword at least, are divided into sentences.

        Raises:
            Refused: there are too many, or their text is longer than a body may be: packed files grow.
        """
        count, size = len(segments), sum(len(segment.text) for segment in segments)
        if count > self.config.max_request_tokens:
            most = f"at most {self.config.max_request_tokens:,} subwords (--max-request-tokens)"
            raise Refused(413, "too_long", f"the file has {count:,} segments; expected {most}: send it in parts")
        if size > self.config.max_body:
            most = f"at most {self.config.max_body:,} (--max-body)"
            raise Refused(
                413, "too_long", f"the file has {size:,} characters of text; expected {most}: send it in parts"
            )

    async def translations(
        self, asked: AskedSentences, receive: Receive, deadline: float
    ) -> AsyncGenerator[tuple[int, Translation], None]:
        """Each sentence that is to be translated, as it is ready, in any order; with `asked.explain` again, explained.

        Raises:
            Refused: it takes too long, goes wrong, or the client has gone.
        """
        loop = asyncio.get_running_loop()
        queue: asyncio.Queue[RequestEvent | str] = asyncio.Queue()

        def tell(event: RequestEvent) -> None:
            """Of the worker's thread, to this one."""
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(queue.put_nowait, event)

        async def watch() -> None:
            """Notice that the client goes."""
            while (await receive())["type"] != "http.disconnect":
                pass
            queue.put_nowait("gone")

        explain = asked.numbers if asked.explain else None
        order = Order(asked.corpus, asked.given, tell, deadline, explain, asked.wishes, asked.kept)
        watching = asyncio.ensure_future(watch())
        try:
            await asyncio.to_thread(self.submit, order)
            while True:
                try:
                    event = await asyncio.wait_for(queue.get(), max(deadline + PATIENCE - time.monotonic(), 0))
                except asyncio.TimeoutError:
                    event = "late"
                if isinstance(event, tuple):
                    self.metrics.sentences.inc(event[1].explanation is None)
                    yield event
                elif event == "done":
                    return
                else:
                    raise self.refused(event)
        finally:
            self.worker.cancel(order)
            watching.cancel()

    def submit(self, order: Order) -> None:
        """Put an order in the worker's queue; it takes a moment.

        Raises:
            Refused: what is given in it has no place there.
        """
        try:
            self.worker.submit(order)
        except UserError as error:
            raise Refused(400, "invalid_text", str(error)) from None

    def refused(self, how: str) -> Refused:
        """Why a request ended without its answer."""
        if how == "late":
            return Refused(504, "late", f"no answer within {self.config.request_timeout:g} seconds; send it in parts")
        if how == "gone":
            return Refused(499, "gone", "the client has gone")
        return Refused(500, "failed", "the translation failed; the service's log says why")


def languages(task: TranslationTask) -> dict[str, str]:
    """From which to which."""
    return {"source": task.source_lang, "target": task.target_lang}
