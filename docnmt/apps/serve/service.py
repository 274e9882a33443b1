"""The service: limits and queue of requests, and the translation of a request's sentences by its deadline."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncGenerator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any

import anyio
from starlette.requests import Request
from starlette.types import Receive

from docnmt.apps.commands.translate import ProtectedText
from docnmt.apps.options import ServeConfig
from docnmt.apps.serve.file_processes import FileProcesses
from docnmt.apps.serve.http import Metrics, Refused, read_body
from docnmt.apps.serve.requests import AskedSentences
from docnmt.apps.serve.search import Models, Order, RequestEvent, Worker
from docnmt.core.data.corpus import ParallelCorpus
from docnmt.core.models.translation_model import TranslationTask
from docnmt.core.search.translate_corpus import Translation
from docnmt.runtime.errors import UserError

#: Seconds after which a client may send a request again if the queue was full.
RETRY_AFTER = "5"
#: A client has at most a share of what all may have: one of so many.
SHARES = 4
#: Seconds after the deadline in which the worker, which may be encoding a long document, must report a late request.
PATIENCE = 5.0


class Service:
    """The worker, the limits of requests, and the number of active ones."""

    def __init__(self, models: Models, config: ServeConfig) -> None:
        self.config, self.task = config, models.loaded.task
        self.worker = Worker(models)
        self.metrics = Metrics(lambda: self.worker.slots)
        self.threads = ThreadPoolExecutor(config.queue_length, "docnmt-file")  # one per document
        memory = config.file_memory * 1_000_000
        self.files = FileProcesses(config.file_processes, memory=memory, seconds=config.file_timeout)
        self.stopping = False
        self._active = 0
        self._of_client: Counter[str] = Counter()

    @property
    def problem(self) -> str | None:
        """The reason why the service takes no requests; None if it takes them."""
        if not self.worker.alive:
            return "the thread that translates has ended"
        return "stopping" if self.stopping else None

    @contextlib.contextmanager
    def place(self, client: str | None) -> Iterator[float]:
        """Hold a place in the queue; yield the deadline.

        It is held from the first byte of the body until the answer is ready, or the last byte of a stream is sent.

        Args:
            client: who asks, as `client_of` says; it gets a share of the places only, unless it is None.

        Raises:
            Refused: the queue or the client's share is full, or the service takes no requests.
        """
        if self.problem is not None:
            raise Refused(503, "stopping", f"this service takes no requests: {self.problem}", {"connection": "close"})
        again, most = {"retry-after": RETRY_AFTER, "connection": "close"}, self.config.queue_length
        if self._active >= most:
            message = f"{self._active} requests are waiting or at work; come again in {RETRY_AFTER} seconds"
            raise Refused(503, "queue_full", message, again)
        if client is not None and self._of_client[client] >= share(most):
            message = f"{self._of_client[client]} requests of your address are waiting or at work (--queue-length)"
            raise Refused(429, "queue_full", f"{message}; come again in {RETRY_AFTER} seconds", again)
        self._active += 1
        self._of_client.update([client] if client is not None else [])
        self.metrics.active.set(self._active)
        try:
            yield time.monotonic() + self.config.request_timeout
        finally:
            self._active -= 1
            if client is not None and not (left := self._of_client[client] - 1):
                del self._of_client[client]
            elif client is not None:
                self._of_client[client] = left
            self.metrics.active.set(self._active)

    @contextlib.contextmanager
    def told_of_the_end(self) -> Iterator[None]:
        """Give a request that is cancelled at shutdown, after `--grace` seconds, an error as its answer.

        Raises:
            Refused: the request is cancelled at shutdown.
        """
        try:
            yield
        except asyncio.CancelledError:
            if not self.stopping:
                raise
            message = "this service has stopped before the answer was complete; send the request again"
            raise Refused(503, "stopping", message, {"connection": "close"}) from None

    async def body(self, request: Request) -> bytes:
        """Return the body of a request, within the service's limits."""
        return await read_body(request, limit=self.config.max_body, seconds=self.config.body_timeout)

    async def small_body(self, request: Request) -> bytes:
        """Return the body of a request that is answered at once; it has a place in the queue only while it is read."""
        with self.place(request.state.client):
            return await self.body(request)

    def accept(
        self, log: dict[str, Any], corpus: ParallelCorpus, given: Sequence[str | None] = (), *, explain: bool = False
    ) -> None:
        """Log the size of a request, check it against the limits, and count its subwords.

        Args:
            given: the known translations of its sentences. explain: True if the request asks for explanations.

        Raises:
            Refused: the request, one of its sentences, or what is known of their translations is too long.
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
        if self.worker.loaded.reads_translations:
            self._accept_given([text for text in given if text])
        if explain and tokens > self.config.max_explain_tokens:
            most = f"at most {self.config.max_explain_tokens:,} (--max-explain-tokens)"
            raise Refused(413, "too_long", f"to be explained the request has {tokens:,} subwords; expected {most}")
        self.metrics.tokens.inc(tokens)

    def _accept_given(self, given: Sequence[str]) -> None:
        """Check known translations that the model reads: they take as much memory as what it translates."""
        lengths = [len(tokens) + 1 for tokens in self.task.target_tokenizer.encode(given)]
        for what, length, most, name in (
            ("the known translations have", sum(lengths), self.config.max_request_tokens, "request"),
            ("the known translation of a sentence has", max(lengths, default=0), self.config.max_sentence_tokens,
             "sentence"),
        ):  # fmt: skip
            if length > most:
                expected = f"expected at most {most:,} (--max-{name}-tokens)"
                raise Refused(413, "too_long", f"{what} {length:,} subwords; {expected}: shorten it")

    async def translations(
        self, asked: AskedSentences, receive: Receive, deadline: float
    ) -> AsyncGenerator[tuple[int, Translation], None]:
        """Yield number and translation of each sentence to be translated, as soon as it is ready, in any order.

        Placeholders and the like come through (`--protect`): sentences that lost some of them come last. With
        `asked.explain`, each is yielded a second time with its explanation.

        Raises:
            Refused: the translation takes too long or fails, or the client has disconnected.
        """
        task = asked.wishes.task or self.task
        protected = await asyncio.to_thread(
            partial(ProtectedText, asked.corpus, asked.given, task, on=self.config.protect)
        )
        for number in sorted(protected.whole):
            yield number, protected.unchanged(number)
        found: dict[int, Translation] = {number: protected.unchanged(number) for number in protected.whole}
        lost, explained = set[int](), dict[int, Translation]()
        searched = self._searched(asked, protected.given, protected.fixed, receive, deadline)
        async with contextlib.aclosing(searched) as events:
            async for number, translation in events:
                again = number in found
                found.setdefault(number, translation)
                if again and number in lost:
                    explained[number] = translation
                elif again or protected.kept(number, translation):
                    yield number, translation
                else:
                    lost.add(number)
        if not lost:
            return
        part = AskedSentences()
        part.corpus, part.given = await asyncio.to_thread(protected.again, sorted(lost), found)
        part.numbers, part.wishes = range(part.corpus.num_sentences), asked.wishes
        pieces = dict[int, Translation]()
        async with contextlib.aclosing(self._searched(part, part.given, None, receive, deadline)) as events:
            async for number, translation in events:
                pieces[number] = translation
        ordered = iter([pieces[number] for number in sorted(pieces)])
        for number in sorted(lost):
            whole = protected.joined(number, ordered)
            yield number, whole
            if number in explained:
                yield number, replace(whole, explanation=explained[number].explanation)

    async def _searched(
        self,
        asked: AskedSentences,
        given: Sequence[str | None] | None,
        fixed: Sequence[Sequence[tuple[int, int]]] | None,
        receive: Receive,
        deadline: float,
    ) -> AsyncGenerator[tuple[int, Translation], None]:
        """Yield what the search finds, as `translations` does; `given` and `fixed` are of each sentence."""
        if given is not None and None not in given:
            return  # there would never be an event
        loop = asyncio.get_running_loop()
        queue: asyncio.Queue[RequestEvent | str] = asyncio.Queue()

        def tell(event: RequestEvent) -> None:
            """Pass an event from the worker's thread to the event loop."""
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(queue.put_nowait, event)

        async def watch() -> None:
            """Wait until the client disconnects, and report it."""
            while (await receive())["type"] != "http.disconnect":
                pass
            queue.put_nowait("gone")

        explain = asked.numbers if asked.explain else None
        order = Order(asked.corpus, given, tell, deadline, explain, asked.wishes, asked.kept, fixed)
        watching = asyncio.ensure_future(watch())
        try:
            await asyncio.to_thread(self.submit, order)
            while True:
                try:
                    with anyio.fail_after(max(deadline + PATIENCE - time.monotonic(), 0)):
                        event = await queue.get()
                except TimeoutError:
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
        """Put an order in the worker's queue; this blocks for a moment.

        Raises:
            Refused: a known translation in the order cannot be used.
        """
        try:
            self.worker.submit(order)
        except UserError as error:
            raise Refused(400, "invalid_text", str(error)) from None

    def refused(self, how: str) -> Refused:
        """Return the error for a request that ended without an answer: late, slow, gone, died or failed."""
        if how == "late":
            return Refused(504, "late", f"no answer within {self.config.request_timeout:g} seconds; send it in parts")
        if how == "gone":
            return Refused(499, "gone", "the client has gone")
        if how == "slow":
            most = f"{self.config.file_timeout:g} seconds (--file-timeout)"
            return Refused(504, "late", f"reading or writing the file takes more than {most}; send it in parts")
        if how == "died":
            return Refused(500, "failed", "the process that read the file has died; the service's log may say why")
        return Refused(500, "failed", "the translation failed; the service's log says why")


def share(most: int) -> int:
    """Return how many of `most` one client may have."""
    return max(1, most // SHARES)


def languages(task: TranslationTask) -> dict[str, str]:
    """Return the codes of the source and the target language."""
    return {"source": task.source_lang, "target": task.target_lang}
