"""The service: the search's thread, places in the queue, limits and deadlines; `Call`, a request that has a place.

`Ask` → `Sentences` → `Order` → `Worker`, the search's thread → events → texts; with tags, and files: → a process that
reads the document (`file_processes`) → questions → `Order` → … → answers → the written document
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from typing import Any, Literal, TypeVar

import anyio
import msgspec
import torch
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from docnmt.apps.commands.translate import corpus_of
from docnmt.apps.commands.translating import ProtectedText, Translating
from docnmt.apps.documents.fragments import Fragments
from docnmt.apps.documents.kinds import KINDS
from docnmt.apps.documents.projection import Span
from docnmt.apps.explain.attention import ReadPair, aligned, beginnings, read_pairs
from docnmt.apps.options import ServeConfig
from docnmt.apps.serve.ask import BREAK, CHARACTERS, NO_WISHES, Ask, Sentences, Wishes, event_of
from docnmt.apps.serve.file_processes import (
    Answer,
    Failed,
    FileProcesses,
    FileRequest,
    FileSource,
    FileTask,
    FragmentsSource,
    Question,
    Unread,
)
from docnmt.apps.serve.http import EVENTS, LINES, Metrics, Refused, read_body
from docnmt.core.corpus import ParallelCorpus, UnknownText
from docnmt.core.search.generators import Hypothesis
from docnmt.core.search.glossary import asked_terms
from docnmt.core.search.scheduler import Job, Scheduler
from docnmt.core.search.translate import Translation, job_of
from docnmt.core.search.translate import translation as translation_of
from docnmt.runtime.system import UserError

#: Seconds after which a client may send a request again if the queue was full.
RETRY_AFTER = "5"
#: A client has at most a share of what all may have: one of so many.
SHARES = 4
#: What a document or a stream yields, and the search.
Events = AsyncGenerator[dict[str, Any], None]
Translated = AsyncGenerator[tuple[int, Translation], None]
#: The number of sentence pairs that are aligned between two steps of the search.
PAIRS = 8
#: Seconds after the deadline in which the worker, which may be encoding a long document, must report a late request.
PATIENCE = 5.0


# The thread that owns the models: orders in, events of their translations out.

#: The end of a request: all sentences are translated, the translation failed, or the deadline has passed.
Ending = Literal["done", "failed", "late"]
#: An event of a request: a sentence's number and its best translation, or the end of the request.
RequestEvent = tuple[int, Translation] | Ending


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
        models, sentences, wishes = self.models, order.sentences, order.sentences.wishes
        task = wishes.task or self.loaded.task

        def deliver(index: int, hypotheses: list[Hypothesis]) -> None:
            number = int(numbers[index])
            if number not in order.sent:  # it is if the order was started again
                prefix = job.prefixes.get(index)
                order.sent[number] = translation_of(hypotheses[0], task.target_tokenizer, prefix)
                order.tell((number, order.sent[number]))

        job, numbers = job_of(
            self.loaded.models, task, sentences.corpus, models.options, models.search,
            finder=wishes.terms or self._terms, given=sentences.given, prefixes=sentences.prefixes,
            fixed=sentences.fixed, memory=models.memory, window=models.window, deliver=deliver,
        )  # fmt: skip
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
                if future.set_running_or_notify_cancel():
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
            if not future.set_running_or_notify_cancel():  # nobody waits any more
                continue
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


# Places in the queue, limits and deadlines.


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
        taken = Counter([] if client is None else [client])
        self._active += 1
        self._of_client += taken
        self.metrics.active.set(self._active)
        try:
            yield time.monotonic() + self.config.request_timeout
        finally:
            self._active -= 1
            self._of_client -= taken
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
        """Log the size of a request, and count its subwords; refuse what is too long, also of known text."""
        config, corpus = self.service.config, sentences.corpus
        tokens = len(corpus.source.tokens) + corpus.num_sentences
        longest = int(corpus.source.lengths().max(initial=0)) + 1
        self.log.update(sentences=corpus.num_sentences, tokens=tokens)
        reads_given = self.service.worker.loaded.reads_translations
        texts = [text for text in sentences.given or () if text and reads_given]
        begun = [text for text in sentences.prefixes or () if text]
        prefixes = [len(pieces) for pieces in self.service.task.target_tokenizer.encode(begun)] if begun else [0]
        known = [len(pieces) + 1 for pieces in self.service.task.target_tokenizer.encode(texts)] if texts else [0]
        explained = 0 if sentences.explain is None else tokens
        for subject, length, option, advice in (
            ("the request has", tokens, "request", ": send it in parts"),
            ("a sentence has", longest, "sentence", ": divide it"),
            ("the known translations have", sum(known), "request", ": shorten it"),
            ("the known translation of a sentence has", max(known), "sentence", ": shorten it"),
            ("the prefix has", max(prefixes), "sentence", ": shorten it"),
            ("to be explained the request has", explained, "explain", ""),
        ):
            if length > (most := getattr(config, f"max_{option}_tokens")):
                expected = f"expected at most {most:,} (--max-{option}-tokens)"
                raise Refused(413, "too_long", f"{subject} {length:,} subwords; {expected}{advice}")
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
        (passages,), lines = ask.documents, ask.splits == "lines"
        texts = [passage.source if passage.wanted else BREAK.sub("\n", passage.source) for passage in passages]
        source = FragmentsSource(texts, [passage.wanted for passage in passages], ask.tags, lines, ask.name)
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
        corpus, given, prefixes = sentences.corpus, sentences.given, sentences.prefixes
        protected = await asyncio.to_thread(lambda: ProtectedText(corpus, given, task, prefixes=prefixes, on=on))
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
        corpus, given, prefixes = await asyncio.to_thread(protected.again)
        again = Sentences(corpus, [], sentences.wishes, given, prefixes)
        async with contextlib.aclosing(self._searched(again)) as events:
            pieces = {number: translation async for number, translation in events}
        for number, whole in protected.mended(iter([pieces[number] for number in sorted(pieces)])):
            yield number, whole
            if number in explained:
                yield number, replace(whole, explanation=explained[number].explanation)

    async def _searched(self, sentences: Sentences, *, counts: bool = True) -> Translated:
        """Yield what the search finds; whether it `counts` in the metrics."""
        if sentences.given is not None and None not in sentences.given:
            return  # there would never be an event
        loop, waiting = asyncio.get_running_loop(), asyncio.Queue[RequestEvent | str]()

        def tell(event: RequestEvent) -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(waiting.put_nowait, event)

        order = Order(sentences, tell, self.deadline)
        watching = self._watch(lambda: waiting.put_nowait("gone"))
        try:
            try:
                await asyncio.to_thread(self.service.worker.submit, order)
            except UserError as error:  # a known translation cannot be used
                raise Refused(400, "invalid_text", str(error)) from None
            while True:
                try:
                    with anyio.fail_after(max(self.deadline + PATIENCE - time.monotonic(), 0)):
                        event = await waiting.get()
                except TimeoutError:
                    event = "late"
                if isinstance(event, tuple):
                    self.service.metrics.sentences.inc(counts and event[1].explanation is None)
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
        rules, most = "" if whole else config.splitter, config.max_request_tokens
        characters = min(config.max_body, most * CHARACTERS)
        task = FileTask(source, service.task.languages, rules, most, characters, config.protect)
        request, answers = FileRequest(self.client, self.deadline), list[Answer]()
        unknown = UnknownText(service.task.source_tokenizer)

        def opened(question: Question) -> Sentences:
            given, fixed = ([getattr(segment, name) for segment in question.sentences] for name in ("given", "fixed"))
            sentences = Sentences(corpus_of(question.sentences, service.task), [], wishes, given, fixed=fixed)
            if not answers:  # later questions are about parts of the same text
                unknown.count(ParallelCorpus.from_lines([question.texts], service.task.source_tokenizer))
                self.accept(sentences)
            return sentences

        watching = self._watch(lambda: service.files.leave(request))
        try:
            while True:
                reply = await loop.run_in_executor(service.threads, service.files.ask, task, answers, request)
                if not isinstance(reply, Question):
                    break
                if reply.pairs:
                    answers.append(Answer(spans=await self._aligned(reply.pairs, request)))
                    continue
                sentences, ready = await asyncio.to_thread(opened, reply), dict[int, Translation]()
                lines = [list(group) for _, group in groupby(reply.sentences, lambda sentence: sentence.segment)]
                positions = [{"line": n, "sentence": m} for n, line in enumerate(lines) for m in range(len(line))]
                if not answers:
                    yield {"source": [[sentence.text for sentence in line] for line in lines]}
                    for sentence, position in zip(reply.sentences, positions, strict=True):
                        if sentence.given is not None:
                            yield {**position, "text": sentence.given}
                async with contextlib.aclosing(self._searched(sentences, counts=not answers)) as events:
                    async for number, translation in events:
                        ready[number] = translation
                        if not answers:
                            yield event_of(positions[number], translation)
                answers.append(Answer(texts=[ready[number].text for number in sorted(ready)]))
            if isinstance(reply, Failed):
                raise Refused(reply.status, reply.code, reply.message)
            note = {"unknown": unknown.message} if unknown.message else {}
            yield {"content": reply.content, "untranslated": reply.left, **note}
        except UserError as error:
            raise Refused(400, "invalid_file", str(error)) from None
        except Unread as unread:
            raise service.refused(unread.how) from None
        finally:
            watching.cancel()
            service.files.leave(request)

    async def _aligned(self, pairs: Sequence[tuple[str, str]], request: FileRequest) -> list[list[Span]]:
        """Align pairs as `DocumentModel.align` does, a few at a time, in the thread that owns the model."""
        worker, read = self.service.worker, list[ReadPair]()
        for first in range(0, len(pairs), PAIRS):
            if request.gone or time.monotonic() > self.deadline:
                raise self.service.refused("gone" if request.gone else "late")
            few = partial(read_pairs, worker.loaded.models[0], worker.loaded.task, pairs[first : first + PAIRS])
            read += await asyncio.wrap_future(worker.call(few))
        return [*map(beginnings, aligned(read))]


# Requests with a place, and their answers.


class Streamed:
    """An answer that is sent while `events` come, the one with "done" last: a line of JSON each.

    With `as_events` they are server-sent events, the last of which is `[DONE]`, which is no JSON.
    """

    def __init__(self, events: Events, headers: Mapping[str, str] | None = None, *, as_events: bool = False) -> None:
        self._events, self._headers, self._as_events = events, headers or {}, as_events

    async def send(self, call: Call, scope: Scope, send: Send) -> None:
        """Send all events; an error comes as the last one. A client that has not read until the deadline is gone."""
        before, behind = (b"data: ", b"\n\n") if self._as_events else (b"", b"\n")
        kind, last = EVENTS if self._as_events else LINES, None

        async def sent(message: Message) -> None:
            try:
                # asyncio.wait_for would lose a cancellation that comes with the end of a write, before Python 3.12
                with anyio.fail_after(max(call.deadline - time.monotonic(), 1)):
                    await send(message)
            except TimeoutError:
                raise Refused(499, "gone", "the client does not read") from None

        async def write(content: bytes, *, more: bool = True) -> None:
            await sent({"type": "http.response.body", "body": before + content + behind, "more_body": more})

        headers = {"content-type": kind, "x-accel-buffering": "no", **self._headers}
        encoded = [(name.encode(), value.encode()) for name, value in headers.items()]
        await sent({"type": "http.response.start", "status": 200, "headers": encoded})
        try:
            with call.service.until_the_end():
                async with contextlib.aclosing(self._events) as events:
                    async for event in events:
                        if "done" in event:
                            last = event
                        else:
                            await write(msgspec.json.encode(event))
        except Refused as refused:
            call.log["error"] = refused.code
            last = refused.content(scope)[1]
        with contextlib.suppress(Refused):  # there is no error if the client does not read the end
            if not self._as_events or last is not None:
                await write(msgspec.json.encode(last or {"done": True}), more=self._as_events)
            if self._as_events:
                await write(b"[DONE]", more=False)


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
