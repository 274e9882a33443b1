"""Translation of a document as a sequence of events: its sentences, each translation, and the translated file."""

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
    """Translate a document of any kind in a thread of its own, and yield events.

    The events are the sentences of the source, then each translation, and last the file as `content`, with the places
    that stay `untranslated` (the document's `left` and `notes`), and a message about `unknown` text, if there is any.

    Args:
        opened: reads the document. written: translates it with a model, and returns the file.
        receive: ASGI's, to notice that the client disconnects.

    Raises:
        Refused: the document cannot be read, is too long, or is not translated in time.
    """
    loop = asyncio.get_running_loop()
    waiting: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()

    def told(event: dict[str, Any] | None) -> None:
        """Pass an event from the document's thread to the event loop; None: there are no more."""
        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(waiting.put_nowait, event)

    model = SharedModel(service, deadline, lambda *read: service.accept(log, *read), told, wishes)

    def work() -> tuple[bytes, list[int | str], str]:
        """Read and translate the document; return the file, the untranslated places, and the note on unknown text."""
        try:
            document = opened()
            service.accept_segments(document.segments)
            unknown = UnknownText(service.task.source_tokenizer)
            unknown.count(source_text(document, service.task))
            content = written(document, model)
            return content, [*document.left, *document.notes], unknown.message
        except UserError as error:
            raise Refused(400, "invalid_file", str(error)) from None
        finally:
            told(None)

    working = loop.run_in_executor(service.threads, work)
    watching = None if receive is None else asyncio.ensure_future(_gone(receive, model))
    try:
        while (event := await waiting.get()) is not None:
            if "score" in event:  # the document did not already have this translation
                service.metrics.sentences.inc()
            yield event
        translated, left, unknown = await working
        yield {"content": translated, "untranslated": left} | ({"unknown": unknown} if unknown else {})
    finally:
        if watching is not None:
            watching.cancel()
        model.leave()
        working.add_done_callback(lambda done: done.cancelled() or done.exception())  # else asyncio may log it


def file_events(
    service: Service, log: dict[str, Any], name: str, kind: str, content: bytes, deadline: float, *,
    receive: Receive | None = None, wishes: Wishes = NO_WISHES,
) -> AsyncGenerator[dict[str, Any], None]:  # fmt: skip
    """Translate a file as `docnmt-translate` does; arguments, events and errors are as for `document_events`."""

    def opened() -> DocumentFile:
        source, target = service.task.languages
        return read(content, kind, name=name, source_lang=source, target_lang=target)

    def written(document: DocumentFile, model: SharedModel) -> bytes:
        return translate_document(document, model, rules=service.config.splitter, protect=service.config.protect)

    return document_events(service, log, opened, written, deadline, receive=receive, wishes=wishes)


async def _gone(receive: Receive, model: SharedModel) -> None:
    """Wait until the client disconnects, then stop the translation."""
    while (await receive())["type"] != "http.disconnect":
        pass
    model.leave()
