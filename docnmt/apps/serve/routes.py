"""All routes of the service, its pages and its OpenAPI description."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import html
import re
from collections.abc import AsyncIterator, Iterable, Sequence
from pathlib import PurePath
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from docnmt.apps.commands.translating import ProtectedText
from docnmt.apps.documents.kinds import KINDS, listed
from docnmt.apps.pages import source_hash, template
from docnmt.apps.serve import forms as deepl
from docnmt.apps.serve import forms as libretranslate
from docnmt.apps.serve import forms as openai
from docnmt.apps.serve.forms import (
    ChatRequest,
    DeepL,
    DetectQuery,
    DocumentKey,
    LibreTranslate,
    OpenAI,
    TranslateTexts,
    TranslateUpload,
    UploadDocument,
)
from docnmt.apps.serve.http import (
    FORM,
    MULTIPART,
    Guard,
    JsonResponse,
    Refused,
    Stream,
    StructT,
    Told,
    as_request,
    form_file,
    kind_of_upload,
    media_type,
    parameters,
    read_request,
    wanted,
)
from docnmt.apps.serve.kept import (
    MOST_TERMS,
    FileJobs,
    GlossaryRequest,
    OpenSessions,
    Session,
    SessionSegment,
    wished_terms,
)
from docnmt.apps.serve.requests import Asked, TranslateRequest, parse, reads
from docnmt.apps.serve.search import NO_WISHES, Wishes
from docnmt.apps.serve.service import (
    AskedTexts,
    RequestTexts,
    Service,
    asked_texts,
    check_text,
    file_events,
    languages,
    translations,
)
from docnmt.core.corpus import UnknownText
from docnmt.core.search.translate import Translation
from docnmt.runtime.system import __version__

# The route POST /translate/file, which translates documents of all kinds that docnmt-translate reads.


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
        await Response(file["content"], headers=headers, media_type=KINDS[kind].media_type)(scope, receive, send)

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


# The routes of sessions: documents that stay open, with confirmed translations as context of the others.


class NewSegment(msgspec.Struct, forbid_unknown_fields=True):
    """A segment of a session; one with a translation is confirmed unless it says that it is not."""

    source: str
    translation: str | None = None
    confirmed: bool | None = None


class OpenSession(msgspec.Struct, forbid_unknown_fields=True):
    """The body of POST /sessions: the document's segments, as far as they are known, and its terms."""

    segments: list[str | NewSegment] = []
    glossary: dict[str, str] = {}


class AddSegments(msgspec.Struct, forbid_unknown_fields=True):
    """The body of POST /sessions/ID/segments; `before`: of which segment, by number; null: at the end."""

    segments: list[str | NewSegment]
    before: int | None = None


class ChangeSegment(msgspec.Struct, forbid_unknown_fields=True):
    """The body of PUT /sessions/ID/segments/NUMBER: what it is now."""

    translation: str | None = None
    confirmed: bool = True


class TranslateSegments(msgspec.Struct, forbid_unknown_fields=True):
    """The body of POST /sessions/ID/translate: which, by numbers from 0; null: all that are not confirmed."""

    segments: list[int] | None = None


class Sessions:
    """The routes of sessions."""

    def __init__(self, service: Service) -> None:
        config = service.config
        self.service = service
        self.open = OpenSessions(
            most=config.max_sessions,
            idle=config.session_idle,
            size=config.max_body,
            segments=config.max_request_tokens,
        )

    @property
    def routes(self) -> list[Route]:
        """All routes of sessions."""
        one, segment = "/sessions/{session}", "/sessions/{session}/segments/{segment}"
        return [
            Route("/sessions", self.create, methods=["POST"]),
            Route("/sessions", self.about, methods=["GET"]),
            Route(one, self.show, methods=["GET"]),
            Route(one, self.delete, methods=["DELETE"]),
            Route(f"{one}/segments", self.add, methods=["POST"]),
            Route(segment, self.change, methods=["PUT"]),
            Route(f"{one}/translate", TranslateSession(self), methods=["POST"]),
        ]

    async def create(self, request: Request) -> Response:
        """Answer POST /sessions: open a session."""
        asked = await self.asked(request, OpenSession)
        wishes = await asyncio.to_thread(self._wishes, asked.glossary)
        session = self.open.open(_segments(asked.segments), wishes, request.state.client)
        return JsonResponse(self._content(session), 201)

    async def about(self, request: Request) -> Response:
        """Answer GET /sessions: the number of sessions; their ids and texts are private."""
        return JsonResponse({"sessions": len(self.open), "most": self.open.most, "idle_seconds": self.open.idle})

    async def show(self, request: Request) -> Response:
        """Answer GET /sessions/ID: the document."""
        return JsonResponse(self._content(self.session(request)))

    async def delete(self, request: Request) -> Response:
        """Answer DELETE /sessions/ID: forget the document."""
        self.open.close(request.path_params["session"])
        return Response(status_code=204)

    async def add(self, request: Request) -> Response:
        """Answer POST /sessions/ID/segments: insert segments."""
        asked, session = await self.asked(request, AddSegments), self.session(request)
        place = len(session.segments) if asked.before is None else asked.before
        if not 0 <= place <= len(session.segments):
            raise Refused(400, "invalid_request", f"before: expected 0 to {len(session.segments)}, got {place}")
        self.open.add(session, _segments(asked.segments), place)
        return JsonResponse(self._content(session))

    async def change(self, request: Request) -> Response:
        """Answer PUT /sessions/ID/segments/NUMBER: confirm a segment, or withdraw its confirmation."""
        asked, session = await self.asked(request, ChangeSegment), self.session(request)
        number = request.path_params["segment"]
        segment = session.segment(int(number) if number.isdecimal() and len(number) < 10 else -1)
        translation = segment.translation if asked.translation is None else asked.translation
        if translation is None and asked.confirmed:
            raise Refused(400, "invalid_request", "translation: expected one; what is confirmed must have it")
        check_text(translation or "", "translation")
        self.open.check_size(session, len(translation or "") - len(segment.translation or ""))
        segment.translation, segment.confirmed = translation, asked.confirmed
        return JsonResponse(segment.content)

    def session(self, request: Request) -> Session:
        """Return the session that the address names; errors are as for `OpenSessions.get`."""
        return self.open.get(request.path_params["session"])

    async def asked(self, request: Request, kind: type[StructT]) -> StructT:
        """Return the JSON body of a request as an instance of `kind`; an empty body is read like `{}`.

        Raises:
            Refused: the body has another form.
        """
        body, said = await self.service.small_body(request), media_type(request)
        if not body:
            return as_request({}, kind)
        if said != "application/json":
            raise Refused(415, "wrong_type", f"expected Content-Type: application/json, got '{said[:80]}'")
        return await read_request(request, body, kind, most=self.service.config.max_request_tokens)

    def _content(self, session: Session) -> dict[str, Any]:
        segments = [segment.content for segment in session.segments]
        return {"session": session.id, "idle_seconds": self.open.idle, "segments": segments}

    def _wishes(self, glossary: dict[str, str]) -> Wishes:
        """Return the options of a session with this glossary.

        Raises:
            Refused: the vocabulary cannot express a term, or the search method does not support terms.
        """
        if not glossary:
            return NO_WISHES
        if len(glossary) > MOST_TERMS:
            raise Refused(413, "too_long", f"glossary: expected at most {MOST_TERMS:,} terms, got {len(glossary):,}")
        for term in (*glossary, *glossary.values()):
            check_text(term, "glossary")
        return Wishes(terms=wished_terms(self.service, glossary, "glossary")[1])


class TranslateSession:
    """The route POST /sessions/ID/translate; the whole document and its confirmed translations are context."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions, self._service = sessions, sessions.service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        service, request = self._service, Request(scope, receive)
        asked = await self._sessions.asked(request, TranslateSegments)
        with service.place(request.state.client) as deadline:
            session = self._sessions.session(request)
            if asked.segments is None:
                numbers = session.unconfirmed()
            else:
                numbers = sorted({number for number in asked.segments if session.segment(number)})
            passages = session.passages(set(numbers), drafts=service.worker.loaded.reads_own_text)
            chosen = [session.segments[number] for number in numbers]  # others may be added before them meanwhile
            kept = self._sessions.open.encoding(session)  # which is forgotten if the session is deleted meanwhile
            texts = await asked_texts(service, RequestTexts(passages=passages, wishes=session.wishes, name="segments"))
            texts.kept = kept
            events = self._events(request, texts, numbers, chosen, deadline)
            if wanted(request):
                await self._stream(request, events, Stream(send, deadline))
                return
            told = {event["segment"]: event async for event in events}
        await JsonResponse({"segments": [told[number] for number in numbers]})(scope, receive, send)

    async def _events(
        self, request: Request, texts: AskedTexts, numbers: list[int], segments: list[SessionSegment], deadline: float
    ) -> AsyncIterator[dict[str, Any]]:
        """Yield each segment's number and translation as soon as it is ready, and keep it as a draft."""
        found: dict[int, Translation] = {}
        left = [0] * len(numbers)
        for place in texts.text_of.values():
            left[place] += 1

        def done(place: int) -> dict[str, Any]:
            segment, text = segments[place], texts.text(place, found)
            if not segment.confirmed:  # else a person has confirmed it meanwhile
                segment.translation = text
            mark = {"limited": True} if texts.limited(place, found) else {}
            return {"segment": numbers[place], "translation": text, **mark}

        for place, waiting in enumerate(left):
            if not waiting:  # it has no sentences
                yield done(place)
        async for number, translation in translations(self._service, request, texts, deadline):
            found[number] = translation
            place = texts.text_of[number]
            left[place] -= 1
            if not left[place]:
                yield done(place)

    async def _stream(self, request: Request, events: AsyncIterator[dict[str, Any]], stream: Stream) -> None:
        await stream.begin()
        last: dict[str, Any] = {"done": True}
        try:
            with self._service.told_of_the_end():
                async for event in events:
                    await stream.write(event)
        except Refused as refused:
            request.state.log["error"] = refused.code
            last = refused.content
        await stream.end(last)


def _segments(asked: list[str | NewSegment]) -> list[SessionSegment]:
    found = []
    for each in asked:
        segment = NewSegment(each) if isinstance(each, str) else each
        confirmed = segment.translation is not None if segment.confirmed is None else segment.confirmed
        found.append(SessionSegment(segment.source, segment.translation, confirmed))
    return found


# The description of the service's API, as OpenAPI 3.1.


Json = dict[str, Any]
_ERROR = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["status", "code", "message"],
            "properties": {"status": {"type": "integer"}, "code": {"type": "string"}, "message": {"type": "string"}},
        }
    },
}
_DOCUMENTS = {"type": "array", "items": {"type": "array", "items": {"type": "string"}}}
_ANSWER = {
    "type": "object",
    "properties": {
        "documents": _DOCUMENTS,
        "text": {"type": "string"},
        "reads": {"type": "array"},
        "limited": {"const": True, "description": "a translation ends at the length limit and may be cut off"},
    },
}
_STATUS = {"type": "object", "properties": {"status": {"type": "string"}}}
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


class Other(NamedTuple):
    """The description of a route of sessions or of another service's API."""

    form: str
    path: str
    method: str
    summary: str
    body: type[msgspec.Struct] | None = None
    kinds: tuple[str, ...] = ("application/json", FORM)


_FILE, _JSON = ("multipart/form-data",), ("application/json",)
OTHERS = (
    Other("DeepL", "/v2/translate", "post", "texts, which are one document", TranslateTexts),
    Other("DeepL", "/v2/document", "post", "a file to be translated", UploadDocument, _FILE),
    Other("DeepL", "/v2/document/{document_id}", "post", "how far a file is", DocumentKey),
    Other("DeepL", "/v2/document/{document_id}/result", "post", "the translated file, once", DocumentKey),
    Other("DeepL", "/v2/languages", "get", "languages"),
    Other("DeepL", "/v2/languages", "post", "languages"),
    Other("DeepL", "/v2/usage", "get", "characters since the start"),
    Other("DeepL", "/v2/usage", "post", "characters since the start"),
    Other("DeepL", "/v2/glossary-language-pairs", "get", "languages of glossaries"),
    Other("DeepL", "/v2/glossaries", "get", "all glossaries"),
    Other("DeepL", "/v2/glossaries", "post", "a new glossary", GlossaryRequest),
    Other("DeepL", "/v2/glossaries/{glossary_id}", "get", "a glossary"),
    Other("DeepL", "/v2/glossaries/{glossary_id}", "delete", "forget a glossary"),
    Other("DeepL", "/v2/glossaries/{glossary_id}/entries", "get", "its terms, in lines with a tab"),
    Other("LibreTranslate", "/languages", "get", "languages"),
    Other("LibreTranslate", "/frontend/settings", "get", "limits and kinds of files"),
    Other("LibreTranslate", "/detect", "post", "the source language", DetectQuery),
    Other("LibreTranslate", "/translate_file", "post", "a file; the answer says where it is", TranslateUpload, _FILE),
    Other("LibreTranslate", "/download_file/{name}", "get", "the translated file, once"),
    Other("OpenAI", "/v1/models", "get", "the model"),
    Other("OpenAI", "/v1/models/{model}", "get", "the model"),
    Other("OpenAI", "/v1/chat/completions", "post", "the last message, translated", ChatRequest, _JSON),
)
SESSIONS = (
    Other("Sessions", "/sessions", "post", "open a document", OpenSession, _JSON),
    Other("Sessions", "/sessions", "get", "how many are open"),
    Other("Sessions", "/sessions/{session}", "get", "the document"),
    Other("Sessions", "/sessions/{session}", "delete", "forget the document"),
    Other("Sessions", "/sessions/{session}/segments", "post", "add segments", AddSegments, _JSON),
    Other("Sessions", "/sessions/{session}/segments/{segment}", "put", "confirm a segment", ChangeSegment, _JSON),
    Other("Sessions", "/sessions/{session}/translate", "post", "translate segments", TranslateSegments, _JSON),
)


def _content(kind: str, schema: Json) -> Json:
    return {"content": {kind: {"schema": schema}}}


def _refusals(*statuses: str) -> Json:
    schema = {"$ref": "#/components/schemas/Error"}
    return {each: {"description": REFUSALS[each], **_content("application/json", schema)} for each in statuses}


def _get(summary: str, kind: str, schema: Json, *refusals: str) -> Json:
    answer = {"description": summary, **_content(kind, schema)}
    return {"get": {"summary": summary, "security": [], "responses": {"200": answer, **_refusals(*refusals)}}}


def _translate(request: Json) -> Json:
    answer = {
        "description": "the translation; as application/x-ndjson a line of JSON for each sentence, as it is ready",
        "content": {"application/json": {"schema": _ANSWER}, "application/x-ndjson": {"schema": {"type": "string"}}},
    }
    return {
        "summary": "Translate documents of sentences, or a running text; or LibreTranslate: texts",
        "requestBody": {"required": True, **_content("application/json", request)},
        "responses": {"200": answer, **_refusals(*REFUSALS)},
    }


def _file() -> Json:
    names = {"name": "the file's name, whose ending says its kind", "kind": "its kind, where there is no name"}
    about = {
        "docnmt-untranslated-lines": "the lines in which text begins that stays as it is, if any",
        "docnmt-untranslated-parts": "the parts of a package that stay as they are, if any, percent-encoded",
        "docnmt-limited": "how many translations end at the length limit, if any",
        "docnmt-unknown": "how much of the text the model does not know, if any, percent-encoded",
    }
    answer = {
        "description": "the translated document; streams as /translate",
        "headers": {name: {"description": text, "schema": {"type": "string"}} for name, text in about.items()},
    }
    return {
        "summary": "Translate a document and keep its kind: " + listed(),
        "parameters": [
            {"name": name, "in": "query", "description": about, "schema": {"type": "string"}}
            for name, about in names.items()
        ],
        "requestBody": {"required": True, "content": {"application/octet-stream": {}, "multipart/form-data": {}}},
        "responses": {"200": answer, **_refusals(*REFUSALS)},
    }


def _described(routes: Sequence[Other], errors: Json) -> tuple[dict[str, Json], Json]:
    """Return descriptions of routes by path, and the schemas of their bodies; `errors` are their error responses."""
    kinds = [each.body for each in routes if each.body is not None]
    found, schemas = msgspec.json.schema_components(kinds, ref_template="#/components/schemas/{name}")
    schema_of = dict(zip(kinds, found, strict=True))
    paths: dict[str, Json] = {}
    for other in routes:
        names = re.findall(r"\{(\w+)\}", other.path)
        here: Json = {
            "summary": f"{other.form}: {other.summary}",
            "responses": {"200": {"description": other.summary}, **errors},
        }
        if names:
            here["parameters"] = [
                {"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names
            ]
        if other.body is not None:
            here["requestBody"] = {
                "required": True,
                "content": {kind: {"schema": schema_of[other.body]} for kind in other.kinds},
            }
        paths.setdefault(other.path, {})[other.method] = here
    return paths, schemas


def description(service: Service) -> Json:
    """Return the OpenAPI document of a service."""
    (request,), schemas = msgspec.json.schema_components([TranslateRequest], ref_template="#/components/schemas/{name}")
    others, other_schemas = _described(OTHERS, {"4XX": {"description": "an error in the form of the other service"}})
    missing = {"404": {"description": "there is no such document, or no such segment"}}
    sessions, session_schemas = _described(SESSIONS, {**missing, **_refusals("400", "401", "413", "503", "504")})
    metrics = _get("Prometheus's metrics", "text/plain", {"type": "string"}, "401")
    del metrics["get"]["security"]
    status = "application/json", _STATUS
    return {
        "openapi": "3.1.0",
        "info": {"title": "docnmt", "version": __version__, "x-languages": languages(service.task)},
        "security": [{"token": []}, {}],
        "paths": {
            "/": _get("The page", "text/html", {"type": "string"}),
            "/health": _get("Whether the process works", *status, "503"),
            "/ready": _get("Whether requests should come", *status, "503"),
            "/metrics": metrics,
            "/openapi.json": _get("This document", "application/json", {"type": "object"}),
            "/translate": {"post": _translate(request)},
            "/translate/file": {"post": _file()},
            **sessions,
            **others,
        },
        "components": {
            "schemas": {**schemas, **session_schemas, **other_schemas, "Error": _ERROR},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


# The web page of the service: one file, of which browsers accept only the style and script with known hashes.


class Page:
    """The web page, built once."""

    def __init__(self, service: Service) -> None:
        style, script, desk, whole = (
            template("docnmt.apps.serve", name) for name in ("page.css", "page.js", "desk.js", "page.html")
        )
        script += desk
        task = service.task
        self._content = (
            whole.replace("{source}", html.escape(task.source_lang))
            .replace("{target}", html.escape(task.target_lang))
            .replace("{most}", str(service.config.max_body))
            .replace("{style}", style)
            .replace("{script}", script)
        )
        self._policy = (
            f"default-src 'none'; style-src {source_hash(style)}; script-src {source_hash(script)}; "
            "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        )

    async def show(self, request: Request) -> Response:
        """Answer GET /."""
        return HTMLResponse(self._content, headers={"content-security-policy": self._policy})


# The ASGI application of the service: its routes, and its errors as JSON.


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
