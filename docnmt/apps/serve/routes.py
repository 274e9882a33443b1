"""All routes of the service in one table of `Endpoint`s, from which OpenAPI follows; files, the page."""

from __future__ import annotations

import base64
import contextlib
import html
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

import msgspec
from prometheus_client import generate_latest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from docnmt.apps.documents.kinds import KINDS, listed
from docnmt.apps.pages import source_hash, template
from docnmt.apps.serve.chat import openai_endpoints, openai_error
from docnmt.apps.serve.forms import (
    DeepL,
    LibreTranslate,
    TranslateRequest,
    api_key,
    deepl_error,
    libre_error,
    translate,
)
from docnmt.apps.serve.http import (
    JSON,
    MULTIPART,
    Endpoint,
    ErrorForm,
    Guard,
    Refused,
    form_file,
    json_response,
    kind_of_upload,
    media_type,
    parameters,
    wants_lines,
)
from docnmt.apps.serve.kept import FileJobs, Sessions
from docnmt.apps.serve.service import Call, Events, Placed, Service, Streamed
from docnmt.runtime.system import __version__

# The route POST /translate/file: documents of all kinds that docnmt-translate reads.

#: Characters of a header; proxies refuse answers whose headers take some kilobytes.
_MOST = 1000


async def translate_file(call: Call, request: Request) -> Response | Streamed:
    """Answer with a file of the same kind, or a stream of JSON lines; no file is opened by the name that is given."""
    query = parameters(request, "name", "kind")
    name, kind = query.get("name", ""), query.get("kind")
    body = await call.service.body(request)
    if media_type(request) == MULTIPART:
        name, body, _ = await form_file(request, body)
    if kind is None and not PurePath(name).suffix:
        message = "the file's name does not say of what kind it is; say it with ?name=letter.docx or ?kind=docx"
        raise Refused(415, "unknown_kind", message)
    kind = kind_of_upload(name if kind is None else f"document.{kind}")
    name = PurePath(name.replace("\\", "/")).name or f"document.{kind}"
    events = call.file(name, kind, body)
    if wants_lines(request):
        return Streamed(_with_file(events, name))
    *sentences, file = [event async for event in events]
    limited = sum(event.get("limited", False) for event in sentences)
    lines = _listed((str(line) for line in file["untranslated"] if isinstance(line, int)), ", ")
    parts = _listed((part for part in file["untranslated"] if isinstance(part, str)), "; ")
    headers = {
        "docnmt-untranslated-lines": lines,
        "docnmt-untranslated-parts": quote(parts, safe=" ;:/()"),
        "docnmt-unknown": quote(file.get("unknown", ""), safe=" ;:/(),"),
        "docnmt-limited": str(limited or ""),
    }
    disposition = {"content-disposition": f"attachment; filename*=UTF-8''{quote(name, safe='')}"}
    headers = disposition | {name: value for name, value in headers.items() if value}
    return Response(file["content"], headers=headers, media_type=KINDS[kind].media_type)


async def _with_file(events: Events, name: str) -> Events:
    """Yield the events of a document, whose last one has the file as base64."""
    async with contextlib.aclosing(events):
        async for event in events:
            if "content" in event:
                content = base64.b64encode(event["content"]).decode()
                event = {"done": True, "file": {**event, "name": name, "content": content}}
            yield event


def _listed(places: Iterable[str], comma: str) -> str:
    """Return a list for a header, of which no more than `_MOST` characters are sent."""
    text = comma.join(places)
    return text if len(text) <= _MOST else text[:_MOST].rpartition(comma)[0] + f"{comma}..."


# The description of the service's API, as OpenAPI 3.1.

Json = dict[str, Any]
_TEXT, _OBJECT = {"type": "string"}, {"type": "object"}
_ABOUT_ERROR = {"status": {"type": "integer"}, "code": _TEXT, "message": _TEXT}
_ERROR = {
    **_OBJECT,
    "required": ["error"],
    "properties": {"error": {**_OBJECT, "required": list(_ABOUT_ERROR), "properties": _ABOUT_ERROR}},
}
_LIMITED = {"const": True, "description": "a translation ends at the length limit and may be cut off"}
_DOCUMENTS = {"type": "array", "items": {"type": "array", "items": _TEXT}}
_ANSWER = {
    **_OBJECT,
    "properties": {"documents": _DOCUMENTS, "text": _TEXT, "reads": {"type": "array"}, "limited": _LIMITED},
}
REFUSALS = {
    "400": "the body is not as expected, or a text is not clean",
    "401": "the token is missing or wrong",
    "403": "a page of another site asks",
    "408": "the body came too slowly",
    "413": "the body or the text is too long",
    "415": "another type of content",
    "421": "the service is not called so",
    "429": "the requests of this client take its share of the queue; Retry-After says when to come again",
    "500": "the service failed",
    "503": "the queue is full, or the service stops; Retry-After says when to come again",
    "504": "no answer in time",
}


def _content(kind: str, schema: Json) -> Json:
    return {"content": {kind: {"schema": schema}}}


def _refusals(*statuses: str) -> Json:
    schema = {"$ref": "#/components/schemas/Error"}
    return {status: {"description": REFUSALS[status], **_content(JSON, schema)} for status in statuses}


def _get(summary: str, kind: str, schema: Json, *refusals: str, is_open: bool = True) -> Json:
    answer = {"description": summary, **_content(kind, schema)}
    about: Json = {"security": []} if is_open else {}
    return {"get": {"summary": summary, **about, "responses": {"200": answer, **_refusals(*refusals)}}}


def _translate(request: Json) -> Json:
    answer = {
        "description": "the translation; as application/x-ndjson a line of JSON for each sentence, as it is ready",
        "content": {JSON: {"schema": _ANSWER}, "application/x-ndjson": {"schema": _TEXT}},
    }
    return {
        "summary": "Translate documents of sentences, or a running text; or LibreTranslate: texts",
        "requestBody": {"required": True, **_content(JSON, request)},
        "responses": {"200": answer, **_refusals(*REFUSALS)},
    }


def _file() -> Json:
    names = {"name": "the file's name, whose ending says its kind", "kind": "its kind, where there is no name"}
    headers = {
        "docnmt-untranslated-lines": "the lines in which text begins that stays as it is, if any",
        "docnmt-untranslated-parts": "the parts of a package that stay as they are, if any, percent-encoded",
        "docnmt-limited": "how many translations end at the length limit, if any",
        "docnmt-unknown": "how much of the text the model does not know, if any, percent-encoded",
    }
    answer = {
        "description": "the translated document; streams as /translate",
        "headers": {name: {"description": text, "schema": _TEXT} for name, text in headers.items()},
    }
    parameters = [{"name": name, "in": "query", "description": about, "schema": _TEXT} for name, about in names.items()]
    return {
        "summary": "Translate a document and keep its kind: " + listed(),
        "parameters": parameters,
        "requestBody": {"required": True, "content": {"application/octet-stream": {}, MULTIPART: {}}},
        "responses": {"200": answer, **_refusals(*REFUSALS)},
    }


def _described(endpoints: Sequence[Endpoint], errors: Json) -> tuple[dict[str, Json], Json]:
    """Return descriptions of routes by path, and the schemas of their bodies; `errors` are their error responses."""
    bodies = [endpoint.body for endpoint in endpoints if endpoint.body is not None]
    references, schemas = msgspec.json.schema_components(bodies, ref_template="#/components/schemas/{name}")
    schema_of = dict(zip(bodies, references, strict=True))
    paths: dict[str, Json] = {}
    for endpoint in endpoints:
        names = re.findall(r"\{(\w+)\}", endpoint.path)
        about: Json = {
            "summary": f"{endpoint.api}: {endpoint.summary}",
            "responses": {"200": {"description": endpoint.summary}, **errors},
        }
        if names:
            about["parameters"] = [{"name": name, "in": "path", "required": True, "schema": _TEXT} for name in names]
        if endpoint.body is not None:
            content = {kind: {"schema": schema_of[endpoint.body]} for kind in endpoint.kinds}
            about["requestBody"] = {"required": True, "content": content}
        paths.setdefault(endpoint.path, {})[endpoint.method] = about
    return paths, schemas


def description(service: Service, sessions: Sequence[Endpoint], others: Sequence[Endpoint]) -> Json:
    """Return the OpenAPI document of a service."""
    (request,), schemas = msgspec.json.schema_components([TranslateRequest], ref_template="#/components/schemas/{name}")
    missing = {"404": {"description": "there is no such document, or no such segment"}}
    refusals = {**missing, **_refusals("400", "401", "413", "503", "504")}
    session_paths, session_schemas = _described(sessions, refusals)
    paths, other_schemas = _described(others, {"4XX": {"description": "an error in the form of the other service"}})
    languages = {"source": service.task.source_lang, "target": service.task.target_lang}
    status = JSON, {**_OBJECT, "properties": {"status": _TEXT}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "docnmt", "version": __version__, "x-languages": languages},
        "security": [{"token": []}, {}],
        "paths": {
            "/": _get("The page", "text/html", _TEXT),
            "/health": _get("Whether the process works", *status, "503"),
            "/ready": _get("Whether requests should come", *status, "503"),
            "/metrics": _get("Prometheus's metrics", "text/plain", _TEXT, "401", is_open=False),
            "/openapi.json": _get("This document", JSON, _OBJECT),
            "/translate": {"post": _translate(request)},
            "/translate/file": {"post": _file()},
            **session_paths,
            **paths,
        },
        "components": {
            "schemas": {**schemas, **session_schemas, **other_schemas, "Error": _ERROR},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


# The ASGI application of the service: its routes, and its errors as JSON.

#: The form of errors by the beginning of the path, also for paths without a route.
ERRORS: dict[str, ErrorForm] = {
    **dict.fromkeys(("/v2", "/v3"), deepl_error),
    "/v1": openai_error,
    **dict.fromkeys(
        ("/languages", "/detect", "/translate_file", "/download_file", "/frontend", "/suggest"), libre_error
    ),
}
#: Paths at which LibreTranslate's clients may send the key in the body, with the function that finds it.
KEYS = dict.fromkeys(("/translate", "/detect", "/translate_file"), api_key)


async def _refuse(request: Request, error: Exception) -> Response:
    """Log an error, and return it as an answer in JSON."""
    if isinstance(error, HTTPException):  # raised by Starlette, for instance without a route
        status, path, headers = error.status_code, request.scope["path"], dict[str, str]()
        code, message = "refused", error.detail
        if status == 405:
            methods = {name for route in request.app.routes if route.path_regex.match(path) for name in route.methods}
            headers = {"allow": ", ".join(sorted(methods))}
            code, message = "wrong_method", f"this address answers {headers['allow']} only"
        elif status == 404:
            code, message = "not_found", "there is nothing here; GET /openapi.json says what there is"
        error = Refused(status, code, message, headers)
    elif not isinstance(error, Refused):
        error = Refused.internal()
    return error.response(request.scope)


def _page(service: Service) -> Response:
    """Return the page: one file, of which browsers accept only the style and script with known hashes."""
    style, script, desk, page = (template(f"serve/{name}") for name in ("page.css", "page.js", "desk.js", "page.html"))
    script += desk
    source, target = map(html.escape, service.task.languages)
    page = page.replace("{source}", source).replace("{target}", target).replace("{most}", str(service.config.max_body))
    policy = (
        f"default-src 'none'; style-src {source_hash(style)}; script-src {source_hash(script)}; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    page = page.replace("{style}", style).replace("{script}", script)
    return HTMLResponse(page, headers={"content-security-policy": policy})


def build(service: Service, *, token: str | None) -> ASGIApp:
    """Return the ASGI application of a service; clients need the token if there is one."""
    jobs = FileJobs()
    deepl, libre = DeepL(service, jobs), LibreTranslate(service, jobs, key_required=token is not None)

    sessions = Sessions(service).endpoints
    others = [*deepl.endpoints, *libre.endpoints, *openai_endpoints(service)]
    page, api = _page(service), json_response(description(service, sessions, others))

    async def health(request: Request) -> Response:
        alive = service.worker.alive
        status = "ok" if alive else "the thread that translates has ended"
        return json_response({"status": status}, 200 if alive else 503)

    async def ready(request: Request) -> Response:
        problem = service.problem
        return json_response({"status": problem or "ready"}, 200 if problem is None else 503)

    async def metrics(request: Request) -> Response:
        content = generate_latest(service.metrics.registry)
        return Response(content, media_type="text/plain; version=0.0.4; charset=utf-8")

    get: dict[str, Callable[..., Any]] = {
        "/": page,
        "/health": health,
        "/ready": ready,
        "/metrics": metrics,
        "/openapi.json": api,
    }
    routes = [Route(path, answer, methods=["GET"]) for path, answer in get.items()]
    for path, placed in (("/translate", translate), ("/translate/file", translate_file)):
        routes.append(Route(path, Placed(service, placed), methods=["POST"]))
    routes += [Route(row.path, row.answer, methods=[row.method.upper()]) for row in (*others, *sessions)]
    app = Starlette(routes=routes, exception_handlers={HTTPException: _refuse, Refused: _refuse, Exception: _refuse})
    app.router.redirect_slashes = False
    return Guard(app, service, token, routes, ERRORS, KEYS)
