"""Translation of a document as a sequence of events: its sentences, each translation, and the translated file."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from typing import Any

from starlette.types import Receive

from docnmt.apps.serve.file_processes import (
    Failed,
    FileRequest,
    FileSource,
    FragmentsSource,
    Task,
    Unread,
    Written,
)
from docnmt.apps.serve.http import Refused
from docnmt.apps.serve.requests import CHARACTERS
from docnmt.apps.serve.search import NO_WISHES, Wishes
from docnmt.apps.serve.service import Service
from docnmt.apps.serve.shared_model import SharedModel
from docnmt.core.data.corpus import ParallelCorpus
from docnmt.core.data.unknown_text import UnknownText
from docnmt.runtime.errors import UserError


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
    task = Task(source, service.task.languages, rules, most, min(config.max_body, most * CHARACTERS), config.protect)

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
    source = FileSource(content, kind, name.encode(errors="replace").decode())
    return document_events(service, log, source, deadline, client=client, receive=receive, wishes=wishes)


async def _gone(receive: Receive, leave: Callable[[], None]) -> None:
    """Wait until the client disconnects, then stop the translation."""
    while (await receive())["type"] != "http.disconnect":
        pass
    leave()
