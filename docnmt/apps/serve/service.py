"""The service: places in the queue, limits and deadlines; `Call`, a request that has a place, and its translations.

`Ask` → `Sentences` → `Order` → the search's thread → events → texts; with tags, and files: → a process that reads the
document (`file_processes`) → `SharedModel` → `Order` → … → the written document
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from typing import Any

import anyio
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from docnmt.apps.commands.translate import corpus_of
from docnmt.apps.commands.translating import ProtectedText, Translating
from docnmt.apps.documents.fragments import Fragments
from docnmt.apps.documents.kinds import KINDS
from docnmt.apps.documents.projection import Span
from docnmt.apps.documents.sentences import SegmentSentence
from docnmt.apps.explain.attention import ReadPair, aligned, beginnings, read_pairs
from docnmt.apps.options import ServeConfig
from docnmt.apps.serve.ask import BREAK, CHARACTERS, Ask, Sentences, event_of
from docnmt.apps.serve.file_processes import (
    Failed,
    FileProcesses,
    FileRequest,
    FileSource,
    FileTask,
    Fragment,
    FragmentsSource,
    Unread,
    Written,
)
from docnmt.apps.serve.http import Metrics, Refused, Stream, read_body
from docnmt.apps.serve.search import NO_WISHES, Order, RequestEvent, Wishes, Worker
from docnmt.core.corpus import ParallelCorpus, UnknownText
from docnmt.core.search.translate import Translation
from docnmt.runtime.system import UserError

#: Seconds after which a client may send a request again if the queue was full.
RETRY_AFTER = "5"
#: A client has at most a share of what all may have: one of so many.
SHARES = 4
#: What a document or a stream yields, and the search.
Events = AsyncGenerator[dict[str, Any], None]
Translated = AsyncGenerator[tuple[int, Translation], None]
#: Seconds after the deadline in which the worker, which may be encoding a long document, must report a late request.
PATIENCE = 5.0


def share(most: int) -> int:
    """Return how many of `most` one client may have."""
    return max(1, most // SHARES)


class Service:
    """The worker, the limits of requests, and the number of active ones."""

    def __init__(self, models: Translating, config: ServeConfig) -> None:
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
        """Hold a place in the queue until the answer is ready, or the last byte of a stream sent; yield the deadline.

        A `client`, as `client_of` says, gets a share of the places only, unless it is None.
        """
        if self.problem is not None:
            raise Refused(503, "stopping", f"this service takes no requests: {self.problem}", {"connection": "close"})
        headers, most = {"retry-after": RETRY_AFTER, "connection": "close"}, self.config.queue_length
        if self._active >= most:
            message = f"{self._active} requests are waiting or at work; come again in {RETRY_AFTER} seconds"
            raise Refused(503, "queue_full", message, headers)
        if client is not None and self._of_client[client] >= share(most):
            message = f"{self._of_client[client]} requests of your address are waiting or at work (--queue-length)"
            raise Refused(429, "queue_full", f"{message}; come again in {RETRY_AFTER} seconds", headers)
        own = Counter([] if client is None else [client])
        self._active += 1
        self._of_client += own
        self.metrics.active.set(self._active)
        try:
            yield time.monotonic() + self.config.request_timeout
        finally:
            self._active -= 1
            self._of_client -= own
            self.metrics.active.set(self._active)

    @contextlib.contextmanager
    def until_the_end(self) -> Iterator[None]:
        """Give a request that is cancelled at shutdown, after `--grace` seconds, an error as its answer."""
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

    def submit(self, order: Order) -> None:
        """Give an order to the worker; this blocks for a moment."""
        try:
            self.worker.submit(order)
        except UserError as error:  # a known translation cannot be used
            raise Refused(400, "invalid_text", str(error)) from None

    def refused(self, how: str) -> Refused:
        """Return the error for a request that ended without an answer: late, slow, gone, died or failed."""
        seconds = f"{self.config.request_timeout:g} seconds"
        most = f"{self.config.file_timeout:g} seconds (--file-timeout)"
        errors = {
            "late": (504, "late", f"no answer within {seconds}; send it in parts"),
            "gone": (499, "gone", "the client has gone"),
            "slow": (504, "late", f"reading or writing the file takes more than {most}; send it in parts"),
            "died": (500, "failed", "the process that read the file has died; the service's log may say why"),
        }
        return Refused(*errors.get(how, (500, "failed", "the translation failed; the service's log says why")))


async def _nobody() -> Message:
    return await asyncio.get_running_loop().create_future()  # type: ignore[no-any-return]  # never: nobody can leave


@dataclass(eq=False)
class Call:
    """A request that has a place in the queue, and what it may do with it."""

    service: Service
    client: str | None
    deadline: float  # by `time.monotonic`
    receive: Receive = _nobody  # ASGI's, to notice that the client disconnects
    log: dict[str, Any] = field(default_factory=dict)

    def accept(self, sentences: Sentences) -> None:
        """Log the size of a request, and count its subwords; refuse what is too long, also of what is given."""
        config, corpus = self.service.config, sentences.corpus
        tokens = len(corpus.source.tokens) + corpus.num_sentences
        longest = int(corpus.source.lengths().max(initial=0)) + 1
        self.log.update(sentences=corpus.num_sentences, tokens=tokens)
        reads_given = self.service.worker.loaded.reads_translations
        texts = [text for text in sentences.given or () if text and reads_given]
        known = [len(pieces) + 1 for pieces in self.service.task.target_tokenizer.encode(texts)] if texts else [0]
        explained = 0 if sentences.explain is None else tokens
        for what, length, option, advice in (
            ("the request has", tokens, "request", ": send it in parts"),
            ("a sentence has", longest, "sentence", ": divide it"),
            ("the known translations have", sum(known), "request", ": shorten it"),
            ("the known translation of a sentence has", max(known), "sentence", ": shorten it"),
            ("to be explained the request has", explained, "explain", ""),
        ):
            if length > (most := getattr(config, f"max_{option}_tokens")):
                expected = f"expected at most {most:,} (--max-{option}-tokens)"
                raise Refused(413, "too_long", f"{what} {length:,} subwords; {expected}{advice}")
        self.service.metrics.tokens.inc(tokens)

    async def sentences(self, ask: Ask) -> Sentences:
        """Return the sentences of texts without tags, ready for the search."""
        config, loaded = self.service.config, self.service.worker.loaded

        def split() -> Sentences:
            ask.check(config.max_request_tokens)
            return Sentences.of(ask, config.splitter, loaded)

        return await asyncio.to_thread(split)

    async def texts(self, ask: Ask) -> list[tuple[str, bool]]:
        """Return the translation of each wanted text, and whether one in it (with tags: in any) is `limited`.

        Tags enclose the corresponding words, as in documents.
        """
        if ask.tags is None:
            sentences = await self.sentences(ask)
            await self.ready(sentences)
            return [(sentences.text(index), sentences.limited(index)) for index in range(len(sentences.texts))]
        await asyncio.to_thread(ask.check, self.service.config.max_request_tokens)
        (passages,), tags, lines = ask.documents, ask.tags, ask.splits == "lines"
        parts = [
            Fragment(passage.source, f"{ask.name} {n}", tags.kind, tags.parting, tags.kept, lines)
            if passage.wanted
            else Fragment(
                BREAK.sub("\n", passage.source), f"{ask.name} {n}"
            )  # it is only context, and read without tags
            for n, passage in enumerate(passages, 1)
        ]
        source = FragmentsSource(parts, ask.name)
        async with contextlib.aclosing(self.document(source, ask.wishes, whole=ask.splits == "none")) as events:
            *translated, last = [event async for event in events]
        limited, texts = any(event.get("limited") for event in translated), Fragments.apart(last["content"])
        return [(text, limited) for text, passage in zip(texts, passages, strict=False) if passage.wanted]

    async def ready(self, sentences: Sentences) -> None:
        """Wait until all wanted sentences are translated."""
        await asyncio.to_thread(self.accept, sentences)
        async with contextlib.aclosing(self.translated(sentences)) as events:
            async for _ in events:
                pass

    async def translated(self, sentences: Sentences) -> Translated:
        """Yield number and translation of each sentence as soon as it is ready, in any order; `ready` has them, too.

        Those that are not wanted are not waited for. Where explanations are wanted, all are yielded again with theirs.
        """
        left = set(sentences.text_of())
        if not left:
            return
        async with contextlib.aclosing(self._protected(sentences)) as events:
            async for number, translation in events:
                sentences.ready[number] = translation
                left.discard(number)
                yield number, translation
                if not left and sentences.explain is None:
                    return

    async def _protected(self, sentences: Sentences) -> Translated:
        """Yield the translations, in which placeholders and the like come through; those that lost some come last."""
        task, on = sentences.wishes.task or self.service.task, self.service.config.protect
        protected = await asyncio.to_thread(lambda: ProtectedText(sentences.corpus, sentences.given, task, on=on))
        for number, translation in [*protected.translations.items()]:
            yield number, translation
        explained: dict[int, Translation] = {}
        searched = self._searched(replace(sentences, given=protected.given, fixed=protected.fixed))
        async with contextlib.aclosing(searched) as events:
            async for number, translation in events:
                if translation.explanation is not None and number in protected.lost:
                    explained[number] = translation
                elif translation.explanation is not None or protected.take(number, translation):
                    yield number, translation
        if not protected.lost:
            return
        corpus, given, _ = await asyncio.to_thread(protected.again)
        async with contextlib.aclosing(self._searched(Sentences(corpus, [], sentences.wishes, given))) as events:
            pieces = {number: translation async for number, translation in events}
        for number, whole in protected.mended(iter([pieces[number] for number in sorted(pieces)])):
            yield number, whole
            if number in explained:
                yield number, replace(whole, explanation=explained[number].explanation)

    async def _searched(self, sentences: Sentences) -> Translated:
        """Yield what the search finds."""
        if sentences.given is not None and None not in sentences.given:
            return  # there would never be an event
        loop, waiting = asyncio.get_running_loop(), asyncio.Queue[RequestEvent | str]()

        def tell(event: RequestEvent) -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(waiting.put_nowait, event)

        order = Order(sentences, tell, self.deadline)
        watching = self._watch(lambda: waiting.put_nowait("gone"))
        try:
            await asyncio.to_thread(self.service.submit, order)
            while True:
                try:
                    with anyio.fail_after(max(self.deadline + PATIENCE - time.monotonic(), 0)):
                        event = await waiting.get()
                except TimeoutError:
                    event = "late"
                if isinstance(event, tuple):
                    self.service.metrics.sentences.inc(event[1].explanation is None)
                    yield event
                elif event == "done":
                    return
                else:
                    raise self.service.refused(event)
        finally:
            self.service.worker.cancel(order)
            watching.cancel()

    def _watch(self, leave: Callable[[], None]) -> asyncio.Future[None]:
        """Call `leave` when the client disconnects."""

        async def watch() -> None:
            while (await self.receive())["type"] != "http.disconnect":
                pass
            leave()

        return asyncio.ensure_future(watch())

    def file(self, name: str, kind: str, content: bytes, wishes: Wishes = NO_WISHES) -> Events:
        """Translate a file as `docnmt-translate` does; the events are those of `document`."""
        plugin = KINDS[kind].place.partition(":")[0]
        return self.document(FileSource(content, kind, name.encode(errors="replace").decode(), plugin), wishes)

    async def document(
        self, source: FileSource | FragmentsSource, wishes: Wishes = NO_WISHES, *, whole: bool = False
    ) -> Events:
        """Translate a document of any kind, which a process of its own reads and writes, and yield events.

        They are the source's sentences, each translation, and last the file as `content`, with the places that stay
        `untranslated`, and a message about `unknown` text, if there is any. With `whole`, lines are not split.
        """
        service, config, loop = self.service, self.service.config, asyncio.get_running_loop()
        waiting, unknown = asyncio.Queue[dict[str, Any] | None](), UnknownText(service.task.source_tokenizer)

        def tell(event: dict[str, Any] | None) -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(waiting.put_nowait, event)

        model, request = SharedModel(self, tell, wishes), FileRequest(self.client, self.deadline)
        rules, most = "" if whole else config.splitter, config.max_request_tokens
        characters = min(config.max_body, most * CHARACTERS)
        task = FileTask(source, service.task.languages, rules, most, characters, config.protect)

        def opened(texts: list[str]) -> None:
            unknown.count(ParallelCorpus.from_lines([texts], service.task.source_tokenizer))

        def work() -> Written:
            try:
                reply = service.files.translate(task, request, model, opened)
            except UserError as error:
                raise Refused(400, "invalid_file", str(error)) from None
            except Unread as unread:
                raise service.refused(unread.how) from None
            finally:
                tell(None)
            if isinstance(reply, Failed):
                raise Refused(reply.status, reply.code, reply.message)
            return reply

        def leave() -> None:
            model.leave()
            service.files.leave(request)

        working = loop.run_in_executor(service.threads, work)
        watching = self._watch(leave)
        try:
            while (event := await waiting.get()) is not None:
                service.metrics.sentences.inc("score" in event)  # the document did not already have this translation
                yield event
            written = await working
            note = {"unknown": unknown.message} if unknown.message else {}
            yield {"content": written.content, "untranslated": written.left, **note}
        finally:
            watching.cancel()
            leave()
            working.add_done_callback(lambda done: done.cancelled() or done.exception())  # else asyncio may log it


#: The number of sentence pairs that are aligned between two steps of the search.
PAIRS = 8


class SharedModel:
    """Translates the sentences of one document in the search that all requests share; used by the document's thread.

    `tell` receives the source's sentences, and each translation as soon as it is ready.
    """

    def __init__(self, call: Call, tell: Callable[[dict[str, Any]], None], wishes: Wishes = NO_WISHES) -> None:
        self._call, self._service, self._tell, self._wishes = call, call.service, tell, wishes
        self._events: queue.SimpleQueue[RequestEvent | str] = queue.SimpleQueue()
        self._begun = self._gone = False

    def leave(self) -> None:
        """Stop the translation, because nobody waits for it any more."""
        self._gone = True
        self._events.put("gone")

    def __call__(self, sentences: Sequence[SegmentSentence]) -> Iterator[str]:
        """Yield the translation of each sentence without a given one, in order."""
        given, fixed = [sentence.given for sentence in sentences], [sentence.fixed for sentence in sentences]
        request_sentences = Sentences(corpus_of(sentences, self._service.task), [], self._wishes, given, fixed)
        first, self._begun = not self._begun, True
        if first:  # later calls only translate parts of the same text again
            self._call.accept(request_sentences)
            places = self._open(sentences)
        if None not in given:
            return  # there would never be an event
        order = Order(request_sentences, self._events.put, self._call.deadline)
        self._service.submit(order)
        ready: dict[int, Translation] = {}
        try:
            for number, sentence in enumerate(sentences):
                while sentence.given is None and number not in ready:
                    event = self._wait()
                    if self._gone or not isinstance(event, tuple):
                        raise self._service.refused("gone" if self._gone else str(event))
                    ready[event[0]] = event[1]
                    if first:
                        self._tell(event_of(places[event[0]], event[1]))
                if sentence.given is None:
                    yield ready[number].text
        finally:
            self._service.worker.cancel(order)
        end = self._wait()
        if end != "done":
            raise self._service.refused(end) if isinstance(end, str) else AssertionError("a sentence too many")

    def align(self, pairs: Sequence[tuple[str, str]]) -> list[list[Span]]:
        """Align pairs as `DocumentModel.align` does, a few at a time, in the thread that owns the model."""
        worker, read = self._service.worker, list[ReadPair]()
        for first in range(0, len(pairs), PAIRS):
            if self._gone:
                raise self._service.refused("gone")
            if time.monotonic() > self._call.deadline:
                raise self._service.refused("late")
            few = partial(read_pairs, worker.loaded.models[0], worker.loaded.task, pairs[first : first + PAIRS])
            read += worker.call(few).result()
        return [*map(beginnings, aligned(read))]

    def _open(self, sentences: Sequence[SegmentSentence]) -> list[dict[str, int]]:
        """Send the source's sentences, by segments, and given translations; return the position of each sentence."""
        lines = [list(group) for _, group in groupby(sentences, lambda sentence: sentence.segment)]
        self._tell({"source": [[sentence.text for sentence in line] for line in lines]})
        places = [{"line": n, "sentence": m} for n, line in enumerate(lines) for m in range(len(line))]
        for sentence, place in zip(sentences, places, strict=True):
            if sentence.given is not None:
                self._tell({**place, "text": sentence.given})
        return places

    def _wait(self) -> RequestEvent | str:
        try:
            return self._events.get(timeout=max(self._call.deadline + PATIENCE - time.monotonic(), 0))
        except queue.Empty:
            return "late"


# Requests with a place, and their answers.


class Streamed:
    """An answer that is sent while `events` come; the event with "done" is the last."""

    def __init__(self, events: Events, headers: Mapping[str, str] | None = None, kind: type[Stream] = Stream) -> None:
        self._events, self._headers, self._kind = events, headers, kind

    async def send(self, call: Call, scope: Scope, send: Send) -> None:
        """Send all events; an error comes as the last one."""
        stream, last = self._kind(send, call.deadline), None
        await stream.begin(self._headers)
        try:
            with call.service.until_the_end():
                async with contextlib.aclosing(self._events) as events:
                    async for event in events:
                        if "done" in event:
                            last = event
                        else:
                            await stream.write(event)
        except Refused as refused:
            call.log["error"] = refused.code
            last = refused.content(scope)[1]
        await stream.end(last)


class Placed:
    """An ASGI application: a route whose requests have a place in the queue."""

    def __init__(self, service: Service, answer: Callable[[Call, Request], Awaitable[Response | Streamed]]) -> None:
        self._service, self._answer = service, answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; a stream keeps the place until its last byte is sent."""
        request = Request(scope, receive)
        client, log = request.state.client, request.state.log
        with self._service.place(client) as deadline:
            call = Call(self._service, client, deadline, receive, log)
            response = await self._answer(call, request)
            if isinstance(response, Streamed):
                await response.send(call, scope, send)
                return
        await response(scope, receive, send)
