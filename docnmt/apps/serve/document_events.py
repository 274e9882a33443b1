"""A document on its way through the service: what is read, each translation, and the whole."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from typing import Any

from starlette.types import Receive

from docnmt.apps.commands.translate_files import source_text, translate_document
from docnmt.apps.documents import DocumentFile, read
from docnmt.apps.serve.http_error import Refused
from docnmt.apps.serve.order import NO_WISHES, Wishes
from docnmt.apps.serve.service import Service
from docnmt.apps.serve.shared_model import SharedModel
from docnmt.core.data.unknown_text import UnknownText
from docnmt.runtime.errors import UserError


async def document_events(
    service: Service,
    log: dict[str, Any],
    opened: Callable[[], DocumentFile],
    written: Callable[[DocumentFile, SharedModel], bytes],
    deadline: float,
    *,
    receive: Receive | None = None,
    wishes: Wishes = NO_WISHES,
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

    model = SharedModel(service, deadline, lambda corpus: service.accept(log, corpus), told, wishes)

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


def file_events(
    service: Service, log: dict[str, Any], name: str, kind: str, content: bytes, deadline: float, *,
    receive: Receive | None = None, wishes: Wishes = NO_WISHES,
) -> AsyncGenerator[dict[str, Any], None]:  # fmt: skip
    """`document_events` of a file, which `docnmt-translate` would translate so."""

    def opened() -> DocumentFile:
        source, target = service.task.languages
        return read(content, kind, name=name, source_lang=source, target_lang=target)

    def written(document: DocumentFile, model: SharedModel) -> bytes:
        return translate_document(document, model, rules=service.config.splitter)

    return document_events(service, log, opened, written, deadline, receive=receive, wishes=wishes)


async def _gone(receive: Receive, model: SharedModel) -> None:
    """Notice that the client goes."""
    while (await receive())["type"] != "http.disconnect":
        pass
    model.leave()
