"""The routes of the service."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import quote

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from docnmt.apps.serve.file_route import TranslateFile
from docnmt.apps.serve.http_error import Refused
from docnmt.apps.serve.json_lines import Stream, wanted
from docnmt.apps.serve.middleware import Guard
from docnmt.apps.serve.openapi import description
from docnmt.apps.serve.request_body import media_type, parameters
from docnmt.apps.serve.requests import Asked, parse, reads
from docnmt.apps.serve.service import Service
from docnmt.apps.serve.service_page import Page
from docnmt.core.data.unknown_text import UnknownText
from docnmt.core.search.translate_corpus import Translation


class JsonResponse(Response):
    """JSON, by msgspec."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """As bytes."""
        return msgspec.json.encode(content)


class Translate:
    """POST /translate: JSON in; out comes JSON, or a line of it for each sentence as soon as that is ready."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        service, request = self._service, Request(scope, receive)
        with service.place() as deadline:
            asked = await self._asked(request)
            service.accept(request, asked.corpus, explain=asked.explain)
            if wanted(request):
                await self._stream(asked, request, Stream(send, deadline), deadline)
            else:
                found: list[Translation | None] = [None] * asked.corpus.num_sentences
                async for number, translation in service.translations(asked, receive, deadline):
                    found[number] = translation
                answer = asked.answer([each.text if each else "" for each in found])
                if asked.explain:
                    explained = [each.explanation if each else None for each in found]
                    answer["reads"] = asked.shaped([each and reads(each) for each in explained])
                told = {"docnmt-unknown": quote(unknown, safe=" ;:/(),")} if (unknown := self._unknown(asked)) else None
                await JsonResponse(answer, headers=told)(scope, receive, send)

    def _unknown(self, asked: Asked) -> str:
        """What of the text the model does not know, in words."""
        found = UnknownText(self._service.task.source_tokenizer)
        found.count(asked.corpus)
        return found.message

    async def _asked(self, request: Request) -> Asked:
        if (kind := media_type(request)) != "application/json":
            raise Refused(415, "wrong_type", f"expected Content-Type: application/json, got '{kind[:80]}'")
        parameters(request)
        body = await self._service.body(request)
        config = self._service.config
        return await asyncio.to_thread(parse, body, config.splitter, self._service.task, most=config.max_request_tokens)

    async def _stream(self, asked: Asked, request: Request, stream: Stream, deadline: float) -> None:
        await stream.begin()
        last: dict[str, Any] = {"done": True} | ({"unknown": text} if (text := self._unknown(asked)) else {})
        told: dict[str, Any]
        try:
            with self._service.told_of_the_end():
                if (opening := asked.opening()) is not None:
                    await stream.write(opening)
                async for number, found in self._service.translations(asked, request.receive, deadline):
                    told = {"text": found.text, "score": found.score}
                    if found.explanation is not None:
                        told = {"reads": reads(found.explanation)}
                    await stream.write({**asked.place(number), **told})
        except Refused as refused:
            request.state.log["error"] = refused.code
            last = refused.content
        await stream.end(last)


async def _refuse(request: Request, error: Exception) -> Response:
    """Every error as JSON."""
    if isinstance(error, HTTPException):  # Starlette's own
        codes = {404: ("not_found", "there is nothing here; GET /openapi.json says what there is")}
        code, message = codes.get(error.status_code, ("refused", error.detail))
        error = Refused(error.status_code, code, message, error.headers)
    elif not isinstance(error, Refused):
        error = Refused(500, "internal", "something went wrong in the service; its log says more")
    request.state.log["error"] = error.code
    return error.response


def build(service: Service, *, token: str | None) -> ASGIApp:
    """The application."""
    page, api = Page(service), JsonResponse(description(service))

    async def health(request: Request) -> Response:
        """Whether the process works."""
        alive = service.worker.alive
        return JsonResponse(
            {"status": "ok" if alive else "the thread that translates has ended"}, 200 if alive else 503
        )

    async def ready(request: Request) -> Response:
        """Whether requests should come."""
        problem = service.problem
        return JsonResponse({"status": problem or "ready"}, 200 if problem is None else 503)

    async def metrics(request: Request) -> Response:
        """For Prometheus."""
        return Response(service.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    async def openapi(request: Request) -> Response:
        """What is here."""
        return api

    get = {"/": page.show, "/health": health, "/ready": ready, "/metrics": metrics, "/openapi.json": openapi}
    routes = [Route(path, endpoint, methods=["GET"]) for path, endpoint in get.items()]
    routes.append(Route("/translate", Translate(service), methods=["POST"]))
    routes.append(Route("/translate/file", TranslateFile(service), methods=["POST"]))
    app = Starlette(routes=routes, exception_handlers={HTTPException: _refuse, Refused: _refuse, Exception: _refuse})
    app.router.redirect_slashes = False
    config, paths = service.config, [route.path for route in routes]
    hosts = [config.host, *config.allowed_hosts]
    return Guard(app, token=token, hosts=hosts, metrics=service.metrics, paths=paths)
