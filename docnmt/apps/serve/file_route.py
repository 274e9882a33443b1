"""The route POST /translate/file, which translates documents of all kinds that docnmt-translate reads."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Iterable, Sequence
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from docnmt.apps.documents.kinds import TYPES
from docnmt.apps.serve.document_events import file_events
from docnmt.apps.serve.http import Refused, Stream, form_file, kind_of_upload, media_type, parameters, wanted
from docnmt.apps.serve.service import Service

#: Characters of a header; proxies refuse answers whose headers take some kilobytes.
_MOST = 1000


class TranslateFile:
    """The route POST /translate/file. The answer is a file of the same kind, or a stream of JSON lines."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        service, request = self._service, Request(scope, receive)
        with service.place(request.state.client) as deadline:
            name, kind, content = await self._file(request)
            streamed = Stream(send, deadline) if wanted(request) else None
            log = request.state.log
            events = file_events(
                service, log, name, kind, content, deadline, client=request.state.client, receive=request.receive
            )
            if streamed is not None:
                await self._stream(request, name, events, streamed)
                return
            *sentences, file = [event async for event in events]
        limited = sum(event.get("limited", False) for event in sentences)
        headers = {"content-disposition": f"attachment; filename*=UTF-8''{quote(name, safe='')}"}
        headers |= _told(file["untranslated"], file.get("unknown", ""))
        headers |= {"docnmt-limited": str(limited)} if limited else {}
        await Response(file["content"], headers=headers, media_type=TYPES[kind])(scope, receive, send)

    async def _stream(self, request: Request, name: str, events: AsyncIterator[dict[str, Any]], stream: Stream) -> None:
        await stream.begin()
        last: dict[str, Any] = {}
        try:
            with self._service.told_of_the_end():
                async for event in events:
                    if "content" in event:
                        whole = base64.b64encode(event["content"]).decode()
                        last = {"done": True, "file": {**event, "name": name, "content": whole}}
                    else:
                        await stream.write(event)
        except Refused as refused:
            request.state.log["error"] = refused.code
            last = refused.content
        await stream.end(last)

    async def _file(self, request: Request) -> tuple[str, str, bytes]:
        """Return the file's name, its kind and its content. No file is opened by this name."""
        asked = parameters(request, "name", "kind")
        name, kind = asked.get("name", ""), asked.get("kind")
        body = await self._service.body(request)
        if media_type(request) == "multipart/form-data":
            name, body, _ = await form_file(request, body)
        if kind is None and not PurePath(name).suffix:
            message = "the file's name does not say of what kind it is; say it with ?name=letter.docx or ?kind=docx"
            raise Refused(415, "unknown_kind", message)
        kind = kind_of_upload(name if kind is None else f"document.{kind}")
        return PurePath(name.replace("\\", "/")).name or f"document.{kind}", kind, body


def _told(left: Sequence[int | str], unknown: str) -> dict[str, str]:
    """Return headers that report untranslated lines and parts, and text that the model does not know."""
    lines = _listed((str(place) for place in left if isinstance(place, int)), ", ")
    parts = _listed((place for place in left if isinstance(place, str)), "; ")
    headers = {
        "docnmt-untranslated-lines": lines,
        "docnmt-untranslated-parts": quote(parts, safe=" ;:/()"),
        "docnmt-unknown": quote(unknown, safe=" ;:/(),"),
    }
    return {name: value for name, value in headers.items() if value}


def _listed(places: Iterable[str], comma: str) -> str:
    """Return a list for a header, of which no more than `_MOST` characters are sent."""
    text = comma.join(places)
    return text if len(text) <= _MOST else text[:_MOST].rpartition(comma)[0] + f"{comma}..."
