"""The ASGI application of the service: its routes, and its errors as JSON."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from docnmt.apps.commands.translate import ProtectedText
from docnmt.apps.serve import forms as deepl
from docnmt.apps.serve import forms as libretranslate
from docnmt.apps.serve import forms as openai
from docnmt.apps.serve.file_route import TranslateFile
from docnmt.apps.serve.forms import DeepL, LibreTranslate, OpenAI
from docnmt.apps.serve.http import (
    FORM,
    MULTIPART,
    Guard,
    JsonResponse,
    Refused,
    Stream,
    Told,
    media_type,
    parameters,
    wanted,
)
from docnmt.apps.serve.kept import FileJobs
from docnmt.apps.serve.openapi import description
from docnmt.apps.serve.requests import Asked, parse, reads
from docnmt.apps.serve.service import Service
from docnmt.apps.serve.service_page import Page
from docnmt.apps.serve.sessions import Sessions
from docnmt.core.data.unknown_text import UnknownText
from docnmt.core.search.translate_corpus import Translation

#: The fields of POST /translate in this service's own form.
OWN_FIELDS = frozenset({"documents", "text"})
#: The form of errors by the beginning of the path, also for paths without a route.
FORMS: dict[str, Told] = {
    **dict.fromkeys(("/v2", "/v3"), deepl.deepl_told),
    "/v1": openai.openai_told,
    **dict.fromkeys(
        ("/languages", "/detect", "/translate_file", "/download_file", "/frontend", "/suggest"),
        libretranslate.libretranslate_told,
    ),
}

#: Paths at which LibreTranslate's clients may send the key in the body, with the function that finds it.
KEYS = dict.fromkeys(("/translate", "/detect", "/translate_file"), libretranslate.api_key)


class Translate:
    """The route POST /translate. The answer is JSON, or one line of JSON per sentence, sent as soon as it is ready.

    A request with LibreTranslate's fields gets an answer in LibreTranslate's form.
    """

    def __init__(self, service: Service, other: LibreTranslate) -> None:
        self._service, self._other = service, other

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        service, request = self._service, Request(scope, receive)
        with service.place(request.state.client) as deadline:
            body = await self._body(request)
            if (said := await self._of_other_form(request, body)) is not None:
                request.state.told = libretranslate.libretranslate_told
                response = await self._other.translate(request, said, deadline)
            else:
                asked = await self._asked(request, body)
                service.accept(request.state.log, asked.corpus, explain=asked.explain)
                if wanted(request):
                    await self._stream(asked, request, Stream(send, deadline), deadline)
                    return
                response = await self._whole(asked, receive, deadline)
        await response(scope, receive, send)

    async def _whole(self, asked: Asked, receive: Receive, deadline: float) -> Response:
        found: list[Translation | None] = [None] * asked.corpus.num_sentences
        async for number, translation in self._service.translations(asked, receive, deadline):
            found[number] = translation
        answer = asked.answer([each.text if each else "" for each in found])
        if any(each and each.limited for each in found):
            answer["limited"] = True
        if asked.explain:
            explained = [each.explanation if each else None for each in found]
            answer["reads"] = asked.shaped([each and reads(each) for each in explained])
        return JsonResponse(answer, headers=await asyncio.to_thread(self._told, asked))

    def _told(self, asked: Asked) -> dict[str, str]:
        """Return a header that reports the text that the model does not know; {} if there is none."""
        found, task = UnknownText(self._service.task.source_tokenizer), self._service.task
        found.count(ProtectedText(asked.corpus, None, task, on=self._service.config.protect).changing())
        return {"docnmt-unknown": quote(found.message, safe=" ;:/(),")} if found.message else {}

    async def _body(self, request: Request) -> bytes:
        if (kind := media_type(request)) not in ("application/json", FORM, MULTIPART):
            raise Refused(415, "wrong_type", f"expected Content-Type: application/json, got '{kind[:80]}'")
        parameters(request)
        return await self._service.body(request)

    async def _of_other_form(self, request: Request, body: bytes) -> dict[str, Any] | None:
        """Return the fields of a body in LibreTranslate's form; None if it has another form or cannot be read."""
        with contextlib.suppress(Refused):
            found = await libretranslate.query(request, body)
            if found.keys() & libretranslate.FIELDS and not found.keys() & OWN_FIELDS:
                return found
        return None

    async def _asked(self, request: Request, body: bytes) -> Asked:
        if (kind := media_type(request)) != "application/json":
            raise Refused(415, "wrong_type", f"expected Content-Type: application/json, got '{kind[:80]}'")
        config, loaded = self._service.config, self._service.worker.loaded
        return await asyncio.to_thread(parse, body, config.splitter, loaded, most=config.max_request_tokens)

    async def _stream(self, asked: Asked, request: Request, stream: Stream, deadline: float) -> None:
        await stream.begin(await asyncio.to_thread(self._told, asked))
        last: dict[str, Any] = {"done": True}
        told: dict[str, Any]
        try:
            with self._service.told_of_the_end():
                if (opening := asked.opening()) is not None:
                    await stream.write(opening)
                async for number, found in self._service.translations(asked, request.receive, deadline):
                    told = {"text": found.text, "score": found.score, **({"limited": True} if found.limited else {})}
                    if found.explanation is not None:
                        told = {"reads": reads(found.explanation)}
                    await stream.write({**asked.place(number), **told})
        except Refused as refused:
            request.state.log["error"] = refused.code
            last = refused.content
        await stream.end(last)


async def _refuse(request: Request, error: Exception) -> Response:
    """Log an error, and return it as an answer in JSON."""
    if isinstance(error, HTTPException):  # raised by Starlette, for instance without a route
        path = request.scope["path"]
        methods = {name for route in request.app.routes if route.path_regex.match(path) for name in route.methods}
        error = Refused.of_routing(error.status_code, error.detail, ", ".join(sorted(methods)))
    elif not isinstance(error, Refused):
        error = Refused(500, "internal", "something went wrong in the service; its log says more")
    request.state.log["error"] = error.code
    return error.response(request.scope)


def told_by(path: str) -> Told | None:
    """Return the form of errors for a path; None: this service's own."""
    return next((told for begin, told in FORMS.items() if f"{path}/".startswith(f"{begin}/")), None)


def build(service: Service, *, token: str | None) -> ASGIApp:
    """Return the ASGI application of a service; clients need the token if there is one."""
    page, api = Page(service), JsonResponse(description(service))

    async def health(request: Request) -> Response:
        """Answer GET /health: 200 if the thread that translates is alive, else 503."""
        alive = service.worker.alive
        return JsonResponse(
            {"status": "ok" if alive else "the thread that translates has ended"}, 200 if alive else 503
        )

    async def ready(request: Request) -> Response:
        """Answer GET /ready: 200 if the service takes requests, else 503 with the reason."""
        problem = service.problem
        return JsonResponse({"status": problem or "ready"}, 200 if problem is None else 503)

    async def metrics(request: Request) -> Response:
        """Answer GET /metrics in Prometheus's text format."""
        return Response(service.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    async def openapi(request: Request) -> Response:
        """Answer GET /openapi.json with the description of all routes."""
        return api

    get = {"/": page.show, "/health": health, "/ready": ready, "/metrics": metrics, "/openapi.json": openapi}
    routes = [Route(path, endpoint, methods=["GET"]) for path, endpoint in get.items()]
    jobs = FileJobs()
    other = LibreTranslate(service, jobs, key_required=token is not None)
    routes.append(Route("/translate", Translate(service, other), methods=["POST"]))
    routes.append(Route("/translate/file", TranslateFile(service), methods=["POST"]))
    routes += [*DeepL(service, jobs).routes, *other.routes, *OpenAI(service).routes]
    routes += Sessions(service).routes
    app = Starlette(routes=routes, exception_handlers={HTTPException: _refuse, Refused: _refuse, Exception: _refuse})
    app.router.redirect_slashes = False
    hosts = [service.config.host, *service.config.allowed_hosts]
    return Guard(
        app, token=token, hosts=hosts, metrics=service.metrics, routes=routes, told=told_by, keys=KEYS,
        ends=service.told_of_the_end, places=service.place, proxied=bool(service.config.proxy),
    )  # fmt: skip
