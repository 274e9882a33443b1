"""Places in the queue, limits and deadlines; translations of sentences and of documents."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import re
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, groupby
from typing import Any, Literal, NamedTuple

import anyio
from starlette.requests import Request
from starlette.types import Receive

from docnmt.apps.commands.translate import corpus_of, read_document
from docnmt.apps.commands.translating import ProtectedText, Translating
from docnmt.apps.documents.fragments import Fragments
from docnmt.apps.documents.kinds import KINDS
from docnmt.apps.documents.projection import Span
from docnmt.apps.documents.sentences import SegmentSentence
from docnmt.apps.explain.attention import ReadPair, aligned, beginnings, read_pairs
from docnmt.apps.options import ServeConfig
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
from docnmt.apps.serve.http import Metrics, Refused, read_body, too_many
from docnmt.apps.serve.requests import CHARACTERS, AskedSentences, check_sizes
from docnmt.apps.serve.search import NO_WISHES, Order, RequestEvent, Wishes, Worker
from docnmt.core.corpus import ParallelCorpus, UnknownText
from docnmt.core.lines import half_character, is_blank
from docnmt.core.models.encoder_decoder import TranslationTask
from docnmt.core.search.translate import Translation
from docnmt.runtime.languages import joined, one_line
from docnmt.runtime.system import UserError

# The service: limits and queue of requests, and the translation of a request's sentences by its deadline.


#: Seconds after which a client may send a request again if the queue was full.
RETRY_AFTER = "5"
#: A client has at most a share of what all may have: one of so many.
SHARES = 4
#: Seconds after the deadline in which the worker, which may be encoding a long document, must report a late request.
PATIENCE = 5.0


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
        part.corpus, part.given, _ = await asyncio.to_thread(protected.again, sorted(lost), found)
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


# The search that all requests share, with the interface of a model for one document.


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


# Translation of a document as a sequence of events: its sentences, each translation, and the translated file.


async def document_events(
    service: Service,
    log: dict[str, Any],
    source: FileSource | FragmentsSource,
    deadline: float,
    *,
    client: str | None,
    receive: Receive | None = None,
    wishes: Wishes = NO_WISHES,
    whole: bool = False,
) -> AsyncGenerator[dict[str, Any], None]:
    """Translate a document of any kind, which a process of its own reads and writes, and yield events.

    The events are the sentences of the source, then each translation, and last the file as `content`, with the places
    that stay `untranslated` (the document's `left` and `notes`), and a message about `unknown` text, if there is any.

    Args:
        client: who asks. receive: ASGI's, to notice that the client disconnects. whole: lines are not split.

    Raises:
        Refused: the document cannot be read, is too long, or is not translated in time.
    """
    loop = asyncio.get_running_loop()
    waiting: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()

    def told(event: dict[str, Any] | None) -> None:
        """Pass an event from the document's thread to the event loop; None: there are no more."""
        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(waiting.put_nowait, event)

    config, unknown = service.config, UnknownText(service.task.source_tokenizer)
    model = SharedModel(service, deadline, lambda *read: service.accept(log, *read), told, wishes)
    request = FileRequest(client, deadline)
    rules = "" if whole else config.splitter
    most = config.max_request_tokens
    task = FileTask(
        source, service.task.languages, rules, most, min(config.max_body, most * CHARACTERS), config.protect
    )

    def opened(texts: list[str]) -> None:
        unknown.count(ParallelCorpus.from_lines([texts], service.task.source_tokenizer))

    def work() -> Written:
        try:
            done = service.files.translate(task, request, model, opened)
        except UserError as error:
            raise Refused(400, "invalid_file", str(error)) from None
        except Unread as unread:
            raise service.refused(unread.how) from None
        finally:
            told(None)
        if isinstance(done, Failed):
            raise Refused(done.status, done.code, done.message)
        return done

    def leave() -> None:
        model.leave()
        service.files.leave(request)

    working = loop.run_in_executor(service.threads, work)
    watching = None if receive is None else asyncio.ensure_future(_gone(receive, leave))
    try:
        while (event := await waiting.get()) is not None:
            if "score" in event:  # the document did not already have this translation
                service.metrics.sentences.inc()
            yield event
        done = await working
        note = {"unknown": unknown.message} if unknown.message else {}
        yield {"content": done.content, "untranslated": done.left, **note}
    finally:
        if watching is not None:
            watching.cancel()
        leave()
        working.add_done_callback(lambda done: done.cancelled() or done.exception())  # else asyncio may log it


def file_events(
    service: Service, log: dict[str, Any], name: str, kind: str, content: bytes, deadline: float, *,
    client: str | None, receive: Receive | None = None, wishes: Wishes = NO_WISHES,
) -> AsyncGenerator[dict[str, Any], None]:  # fmt: skip
    """Translate a file as `docnmt-translate` does; arguments, events and errors are as for `document_events`."""
    plugin = KINDS[kind].place.partition(":")[0]
    source = FileSource(content, kind, name.encode(errors="replace").decode(), plugin)
    return document_events(service, log, source, deadline, client=client, receive=receive, wishes=wishes)


async def _gone(receive: Receive, leave: Callable[[], None]) -> None:
    """Wait until the client disconnects, then stop the translation."""
    while (await receive())["type"] != "http.disconnect":
        pass
    leave()


# The texts of a request in any form, and their translation.
#
# The APIs of other services (`deepl`, `libretranslate`, `openai`) and the sessions have requests and answers of their
# own. All convert a request to `RequestTexts`, which become sentences of one document for the search that all share.


#: A line break; in answers it is `\n`.
BREAK = re.compile(r"\r\n?|\n")
#: The splitting of a text: at line breaks and ends of sentences, at ends of sentences only, or not at all.
Splits = Literal["lines", "sentences", "none"]


class Passage(NamedTuple):
    """A text of a document. If it is `wanted`, it is translated; else it is context, with its translation if known."""

    source: str
    translation: str | None = None
    wanted: bool = False


class Answered(NamedTuple):
    """The translation of a text; it is `limited` if a sentence of it ends at the length limit, or, in a text with tags,
    a sentence of the document."""

    text: str
    limited: bool = False

    @property
    def mark(self) -> dict[str, bool]:
        """The mark of a limited translation in an answer of any form."""
        return {"limited": True} if self.limited else {}


@dataclass(frozen=True)
class Tags:
    """The rules for tags in texts.

    Attributes:
        kind: the markup language. kept: elements that are not translated. parting: in XML, elements that end a
            sentence.
    """

    kind: Literal["xml", "html"]
    kept: tuple[str, ...] = ()
    parting: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class RequestTexts:
    """The texts of a request, which are one document.

    Attributes:
        passages: the texts in order. tags: None: the texts have no tags, and `<` is a character of the text.
        wishes: the options of the request. name: the name of the texts in the client's request.
    """

    passages: Sequence[Passage]
    splits: Splits = "lines"
    tags: Tags | None = None
    wishes: Wishes = NO_WISHES
    name: str = "text"

    def check(self, most: int) -> None:
        """Check the numbers of texts, lines and elements, and the characters.

        Raises:
            Refused: a text has a forbidden character, or there are more than `most`; an empty line counts.
        """
        if (count := len(self.passages)) > most:
            raise too_many(self.name, count, most)
        sources = [passage.source for passage in self.passages]
        if self.tags is None:
            check_sizes(sources, self.name, most, lines=self.splits == "lines")
        elif (elements := sum(source.count("<") for source in sources)) > most:  # words are counted without markup
            raise too_many(f"{self.name}, elements", elements, most)
        for passage in self.passages:
            check_text(passage.source, self.name)
            check_text(passage.translation or "", "translation")


class AskedTexts(AskedSentences):
    """The sentences of texts without tags, split as `docnmt-translate` splits the lines of a document.

    Attributes:
        text_of: number of a sentence to be translated → number of its text among the wanted ones.

    Raises:
        UserError: a text has a forbidden character.
    """

    def __init__(self, texts: RequestTexts, service: Service) -> None:
        apart = [_lines(passage, texts.splits) for passage in texts.passages]
        lines = [line for passage in apart for line in passage]
        read = read_document(
            "".join(f"{line}\n" for line, _ in lines).encode(),
            [given for _, given in lines],
            service.config.splitter,
            service.task,
            name=texts.name,
            whole=texts.splits == "none",
        )
        counts = [sum(row) for row in read.form.rows]
        numbers = iter([range(a, a + n) for a, n in zip(accumulate(counts, initial=0), counts, strict=False)])
        found = [[next(numbers) for _ in passage] for passage in apart]
        self._texts = [own for own, passage in zip(found, texts.passages, strict=True) if passage.wanted]
        self.text_of = {n: place for place, text in enumerate(self._texts) for line in text for n in line}
        self.corpus, self.numbers = read.corpus, range(read.corpus.num_sentences)
        self.wishes = texts.wishes
        self.given = list(read.given)
        if not service.worker.loaded.reads_translations:  # the model would not read translations of context
            self.given = [each if n in self.text_of else each or "" for n, each in enumerate(self.given)]

    def answer(self, found: Mapping[int, Translation]) -> list[Answered]:
        """Return the translation of each wanted text, given the translations of its sentences."""
        return [Answered(self.text(place, found), self.limited(place, found)) for place in range(len(self._texts))]

    def text(self, place: int, found: Mapping[int, Translation]) -> str:
        """Return the translation of one wanted text, by its number among them."""
        lines = self._texts[place]
        return "\n".join(joined(found[number].text for number in line) for line in lines)

    def limited(self, place: int, found: Mapping[int, Translation]) -> bool:
        """Return True if the translation of a wanted text ends at the length limit somewhere."""
        return any(found[number].limited for line in self._texts[place] for number in line)

    def parts(self) -> Iterator[tuple[str, int | None]]:
        """Yield what is before each sentence of the wanted texts, in order, and its number; None at the end.

        It is line breaks, or a space where sentences of a line are joined.
        """
        before = ""
        for number, line in enumerate(line for text in self._texts for line in text):
            before += "\n" if number else ""
            for sentence in line:
                yield before, sentence
                before = " "
            before = "" if line else before
        yield before, None


async def translations(
    service: Service, request: Request, asked: AskedTexts, deadline: float
) -> AsyncGenerator[tuple[int, Translation], None]:
    """Yield number and translation of each wanted sentence as soon as it is ready; others are not waited for.

    Raises:
        Refused: as for `Service.accept` and `Service.translations`.
    """
    await asyncio.to_thread(service.accept, request.state.log, asked.corpus, asked.given or ())
    left = len(asked.text_of)
    if not left:
        return
    async with contextlib.aclosing(service.translations(asked, request.receive, deadline)) as events:
        async for number, translation in events:
            if number in asked.text_of:
                yield number, translation
                left -= 1
                if not left:
                    return


async def asked_texts(service: Service, texts: RequestTexts) -> AskedTexts:
    """Return the sentences of texts without tags, ready for the search.

    Raises:
        Refused: a text has a forbidden character, or there are too many texts.
    """
    await asyncio.to_thread(texts.check, service.config.max_request_tokens)
    try:
        return await asyncio.to_thread(AskedTexts, texts, service)
    except UserError as error:
        raise Refused(400, "invalid_text", str(error)) from None


async def translate(service: Service, request: Request, texts: RequestTexts, deadline: float) -> list[Answered]:
    """Return the translation of each wanted text.

    Raises:
        Refused: a text has a forbidden character, the texts are too long, or they are not translated in time.
    """
    if texts.tags is not None:
        return await _with_tags(service, request, texts, texts.tags, deadline)
    asked = await asked_texts(service, texts)
    async with contextlib.aclosing(translations(service, request, asked, deadline)) as events:
        return asked.answer({number: translation async for number, translation in events})


async def _with_tags(
    service: Service, request: Request, texts: RequestTexts, tags: Tags, deadline: float
) -> list[Answered]:
    """Translate texts with tags; the tags enclose the corresponding words of the translation, as in documents."""
    await asyncio.to_thread(texts.check, service.config.max_request_tokens)
    source = FragmentsSource(
        [_fragment(each, f"{texts.name} {n}", tags, texts.splits) for n, each in enumerate(texts.passages, 1)],
        texts.name,
    )
    events = document_events(
        service, request.state.log, source, deadline, client=request.state.client, receive=request.receive,
        wishes=texts.wishes, whole=texts.splits == "none",
    )  # fmt: skip
    async with contextlib.aclosing(events):
        *sentences, last = [event async for event in events]
    found = Fragments.apart(last["content"])
    limited = any(event.get("limited") for event in sentences)
    return [Answered(text, limited) for text, passage in zip(found, texts.passages, strict=False) if passage.wanted]


def _fragment(passage: Passage, name: str, tags: Tags, splits: Splits) -> Fragment:
    """Return a text with its tags as part of a document; a text that is only context is read without tags."""
    if not passage.wanted:
        return Fragment(BREAK.sub("\n", passage.source), name)
    return Fragment(passage.source, name, tags.kind, tags.parting, tags.kept, splits == "lines")


def check_text(text: str, name: str) -> None:
    """Check the characters of a text; the error message calls it `name`.

    Raises:
        Refused: it has half a character, or a NUL character.
    """
    if problem := half_character(text) or ("a NUL character" if "\0" in text else None):
        raise Refused(400, "invalid_text", f"{name}: has {problem}; remove it")


def _lines(passage: Passage, splits: Splits) -> list[tuple[str, str]]:
    """Return the lines of a text, each with its known translation or "".

    It is one line if line breaks do not end sentences, or if the translation has another number of lines.
    """
    lines, given = (BREAK.split(text) for text in (passage.source, passage.translation or ""))
    if splits != "lines" or (passage.translation and len(given) != len(lines)):
        lines, given = [one_line(passage.source)], [one_line(passage.translation or "")]
    given = given if passage.translation else [""] * len(lines)
    return [(line, "" if is_blank(line) else own) for line, own in zip(lines, given, strict=True)]
