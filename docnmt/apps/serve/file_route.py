"""POST /translate/file: a document of any kind that docnmt-translate reads, and the same kind back."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import queue
import re
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from functools import partial
from itertools import groupby
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from docnmt.apps.commands.translate_files import corpus_of, source_text, translate_document
from docnmt.apps.documents import Document, kind_of, read
from docnmt.apps.documents.document_sentences import Sentence
from docnmt.apps.documents.project_marks import Span
from docnmt.apps.explain.attention_alignment import ReadPair, aligned, beginnings, read_pairs
from docnmt.apps.serve.http_error import Refused
from docnmt.apps.serve.json_lines import Stream, wanted
from docnmt.apps.serve.order import Event, Order
from docnmt.apps.serve.request_body import media_type, parameters
from docnmt.apps.serve.service import PATIENCE, Service
from docnmt.core.data.unknown_text import UnknownText
from docnmt.core.formats.address import Form
from docnmt.core.search.terms import TermFinder
from docnmt.core.search.translate_corpus import Translation
from docnmt.runtime.errors import UserError

_CHARSET = re.compile(r"charset\s*=\s*\"?([^\";\s]*)", re.IGNORECASE)
#: Sentences that are aligned before the search goes on.
PAIRS = 8
#: What is told of a document on its way; None: there is nothing more.
Told = Callable[[dict[str, Any] | None], None]


class SharedModel:
    """What translates the sentences of one document in the search that all share; used by a thread of its own.

    Args:
        accept: refuses what is too long. told: hears the sentences, and each translation as it is ready.
        terms: finds those that are wanted. formality: the form of address that is wanted.
    """

    def __init__(
        self, service: Service, deadline: float, accept: Callable[[Any], None], told: Told,
        terms: TermFinder | None = None,
        formality: Form | None = None,
    ) -> None:  # fmt: skip
        self._service, self._deadline, self._accept, self._told = service, deadline, accept, told
        self._terms, self._formality = terms, formality
        self._events: queue.SimpleQueue[Event | str] = queue.SimpleQueue()
        self._begun = self._gone = False
        self.languages: tuple[str, str] = service.task.languages

    def leave(self) -> None:
        """Nobody waits any more."""
        self._gone = True
        self._events.put("gone")

    def __call__(self, sentences: Sequence[Sentence]) -> Iterator[str]:
        """The translation of each sentence that is not given, in order."""
        corpus, given = corpus_of(sentences, self._service.task), [sentence.given for sentence in sentences]
        first, self._begun = not self._begun, True
        if first:  # what cannot be translated so is translated once more in parts
            self._accept(corpus)
            places = self._open(sentences)
        if all(sentence.given is not None for sentence in sentences):
            return  # nothing would ever answer
        order = Order(corpus, given, self._events.put, self._deadline, terms=self._terms, formality=self._formality)
        self._service.submit(order)
        found: dict[int, Translation] = {}
        try:
            for number, sentence in enumerate(sentences):
                while sentence.given is None and number not in found:
                    ready, translation = self._next()
                    found[ready] = translation
                    if first:
                        self._told({**places[ready], "text": translation.text, "score": translation.score})
                if sentence.given is None:
                    yield found[number].text
        finally:
            self._service.worker.cancel(order)
        event = self._wait()
        if event != "done":
            raise self._service.refused(event) if isinstance(event, str) else AssertionError("a sentence too many")

    def align(self, pairs: Sequence[tuple[str, str]]) -> list[list[Span]]:
        """As `DocumentModel.align`, in the thread that owns the model, which goes on for others between a few pairs."""
        worker, found = self._service.worker, list[ReadPair]()
        for first in range(0, len(pairs), PAIRS):
            if self._gone:
                raise self._service.refused("gone")
            if time.monotonic() > self._deadline:
                raise self._service.refused("late")
            few = partial(read_pairs, worker.loaded.models[0], worker.loaded.task, pairs[first : first + PAIRS])
            found += worker.call(few).result()
        return [*map(beginnings, aligned(found))]

    def _open(self, sentences: Sequence[Sentence]) -> list[dict[str, int]]:
        """Tell what is read, by segments; where each sentence stands."""
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

    def _wait(self) -> Event | str:
        try:
            return self._events.get(timeout=max(self._deadline + PATIENCE - time.monotonic(), 0))
        except queue.Empty:
            return "late"


class TranslateFile:
    """The route."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        service, request = self._service, Request(scope, receive)
        with service.place() as deadline:
            name, kind, content = await self._file(request)
            streamed = Stream(send, deadline) if wanted(request) else None
            log = request.state.log
            events = file_events(service, log, name, kind, content, deadline, receive=request.receive)
            if streamed is None:
                *_, file = [event async for event in events]
                headers = {"content-disposition": f"attachment; filename*=UTF-8''{quote(name, safe='')}"}
                headers |= _told(file["untranslated"], file.get("unknown", ""))
                await Response(file["content"], headers=headers, media_type=TYPES[kind])(scope, receive, send)
                return
            await streamed.begin()
            last: dict[str, Any] = {}
            try:
                with service.told_of_the_end():
                    async for event in events:
                        if "content" in event:
                            whole = base64.b64encode(event["content"]).decode()
                            last = {"done": True, "file": {**event, "name": name, "content": whole}}
                        else:
                            await streamed.write(event)
            except Refused as refused:
                request.state.log["error"] = refused.code
                last = refused.content
            await streamed.end(last)

    async def _file(self, request: Request) -> tuple[str, str, bytes]:
        """The file's name, which is never opened, its kind and its content."""
        asked = parameters(request, "name", "kind")
        name, kind = asked.get("name", ""), asked.get("kind")
        body = await self._service.body(request)
        if media_type(request) == "multipart/form-data":
            name, body, _ = await form_file(request, body)
        try:
            kind = kind_of(name) if kind is None else kind_of(f"document.{kind}")
        except UserError as error:
            raise Refused(415, "unknown_kind", f"{error}; say it with ?name=letter.docx or ?kind=docx") from None
        return PurePath(name.replace("\\", "/")).name or f"document.{kind}", kind, body


async def document_events(
    service: Service,
    log: dict[str, Any],
    opened: Callable[[], Document],
    written: Callable[[Document, SharedModel], bytes],
    deadline: float,
    *,
    receive: Receive | None = None,
    terms: TermFinder | None = None,
    formality: Form | None = None,
) -> AsyncGenerator[dict[str, Any], None]:
    """A document of any kind, translated in a thread of its own.

    It yields what is read, each translation, and last the `content`, with what is `untranslated` (`left`) or
    `unknown`.

    Args:
        opened: reads it. written: translates it with a model. receive: of the client, to notice that it goes.

    Raises:
        Refused: it cannot be read, is too much, or is not translated in time.
    """
    loop = asyncio.get_running_loop()
    waiting: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()

    def told(event: dict[str, Any] | None) -> None:
        """Of the document's thread, to this one."""
        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(waiting.put_nowait, event)

    model = SharedModel(service, deadline, lambda corpus: service.accept(log, corpus), told, terms, formality)

    def work() -> tuple[bytes, list[int | str], str]:
        """All of it."""
        try:
            document = opened()
            service.accept_segments(document.segments)
            unknown = UnknownText(service.task.source_tokenizer)
            unknown.count(source_text(document, service.task))
            return written(document, model), [*document.left], unknown.message
        except UserError as error:
            raise Refused(400, "invalid_file", str(error)) from None
        finally:
            told(None)

    working = loop.run_in_executor(service.threads, work)
    watching = None if receive is None else asyncio.ensure_future(_gone(receive, model))
    try:
        while (event := await waiting.get()) is not None:
            if "score" in event:  # it was not given
                service.metrics.sentences.inc()
            yield event
        translated, left, unknown = await working
        yield {"content": translated, "untranslated": left} | ({"unknown": unknown} if unknown else {})
    finally:
        if watching is not None:
            watching.cancel()
        model.leave()
        working.add_done_callback(lambda done: done.cancelled() or done.exception())  # nobody may wait for it


def _told(left: Sequence[int | str], unknown: str) -> dict[str, str]:
    """Headers that name what stays as it is, and text that the model does not know."""
    lines = ", ".join(str(place) for place in left if isinstance(place, int))
    parts = "; ".join(place for place in left if isinstance(place, str))
    headers = {
        "docnmt-untranslated-lines": lines,
        "docnmt-untranslated-parts": quote(parts, safe=" ;:/()"),
        "docnmt-unknown": quote(unknown, safe=" ;:/(),"),
    }
    return {name: value for name, value in headers.items() if value}


def file_events(
    service: Service, log: dict[str, Any], name: str, kind: str, content: bytes, deadline: float, *,
    receive: Receive | None = None, terms: TermFinder | None = None, formality: Form | None = None,
) -> AsyncGenerator[dict[str, Any], None]:  # fmt: skip
    """`document_events` of a file, which `docnmt-translate` would translate so."""

    def opened() -> Document:
        source, target = service.task.languages
        return read(content, kind, name=name, source_lang=source, target_lang=target)

    def written(document: Document, model: SharedModel) -> bytes:
        return translate_document(document, model, rules=service.config.splitter)

    return document_events(service, log, opened, written, deadline, receive=receive, terms=terms, formality=formality)


async def _gone(receive: Receive, model: SharedModel) -> None:
    """Notice that the client goes."""
    while (await receive())["type"] != "http.disconnect":
        pass
    model.leave()


async def form_file(request: Request, body: bytes, most: int = 1) -> tuple[str, bytes, dict[str, str]]:
    """Name and content of the one file of a form, and its other fields, of which there may be so many.

    Raises:
        Refused: it is no such form.
    """

    async def stream() -> AsyncIterator[bytes]:
        yield body

    charset = _CHARSET.search(request.headers["content-type"])
    if charset and charset[1].lower() not in ("utf-8", "utf8"):  # Python has codecs that take the square of a size
        raise Refused(400, "invalid_request", "the form's charset: expected UTF-8")
    parser = MultiPartParser(request.headers, stream(), max_files=1, max_fields=most)  # type: ignore[arg-type]
    parser.spool_max_size = len(body) + 1  # in memory
    try:
        form = await parser.parse()
    except (MultiPartException, KeyError) as error:
        raise Refused(400, "invalid_request", f"the form is not as expected: {error}") from None
    files = [value for value in form.values() if isinstance(value, UploadFile)]
    if len(files) != 1:
        raise Refused(400, "invalid_request", "expected a form with one file")
    return files[0].filename or "", await files[0].read(), {n: v for n, v in form.items() if isinstance(v, str)}


#: The media type of each kind.
TYPES: dict[str, str] = {
    "txt": "text/plain", "md": "text/markdown", "html": "text/html", "po": "text/x-gettext-translation",
    "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document", "tmx": "application/x-tmx+xml",
    "odt": "application/vnd.oasis.opendocument.text", "xlf": "application/xliff+xml", "srt": "application/x-subrip",
    "pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation", "epub": "application/epub+zip",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", "json": "application/json",
    "docm": "application/vnd.ms-word.document.macroEnabled.12", "yaml": "application/yaml", "vtt": "text/vtt",
    "dotx": "application/vnd.openxmlformats-officedocument.wordprocessingml.template", "mdx": "text/markdown",
    "odp": "application/vnd.oasis.opendocument.presentation", "properties": "text/plain", "strings": "text/plain",
    "fodt": "application/vnd.oasis.opendocument.text-flat-xml", "xml": "application/xml", "resx": "application/xml",
    "sdlxliff": "application/xliff+xml", "mqxliff": "application/xliff+xml", "ass": "text/x-ssa",
}  # fmt: skip
