"""LibreTranslate's API for its clients (source: its reference): texts, files, languages.

POST /translate is also a route of this service's own form; the fields of the body decide between the two.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from pathlib import PurePath
from typing import Any, cast

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from docnmt.apps.documents.kinds import ENDINGS, TYPES
from docnmt.apps.serve.document_events import file_events
from docnmt.apps.serve.file_form import MULTIPART, form_fields, form_file, kind_of_upload
from docnmt.apps.serve.http_error import Refused
from docnmt.apps.serve.jobs import FileJobs
from docnmt.apps.serve.json_response import JsonResponse
from docnmt.apps.serve.offered_languages import name_of, same
from docnmt.apps.serve.request_body import as_request, fields, media_type
from docnmt.apps.serve.request_texts import Passage, RequestTexts, Splits, Tags, translate
from docnmt.apps.serve.service import Service
from docnmt.runtime.languages import base

#: Statuses that differ from this service's own, by the code of the error.
STATUSES = {"unauthorized": 403, "queue_full": 429}
#: Messages that differ from those in this service's own form, by the code of the error.
LIBRETRANSLATE_WORDS = {
    "unauthorized": "Invalid API key",
    "not_found": "this service has nothing here; of LibreTranslate's API it has /translate, /translate_file, /detect, "
    "/languages and /frontend/settings",
}
#: Codes of errors that begin with "Invalid request" in LibreTranslate's words.
INVALID = ("invalid_request", "invalid_text", "invalid_file", "too_long", "too_large", "too_slow", "wrong_type")
#: Fields that distinguish LibreTranslate's form of POST /translate from this service's own.
FIELDS = frozenset({"q", "source", "target"})
_TEXT = "text"


class TranslateQuery(msgspec.Struct):
    """The body of POST /translate in this form; its `api_key` is checked before."""

    q: str | list[str]
    source: str
    target: str
    format: str = _TEXT
    alternatives: int = 0


class TranslateUpload(msgspec.Struct):
    """The fields of POST /translate_file beside its file."""

    source: str
    target: str


class DetectQuery(msgspec.Struct):
    """The body of POST /detect."""

    q: str


def libretranslate_told(refused: Refused) -> tuple[int, dict[str, Any]]:
    """Return an error's status and body in LibreTranslate's form."""
    if refused.code == "unauthorized" and refused.why == "no_key":
        return 400, {"error": "Please contact the server operator to get an API key"}
    status = STATUSES.get(refused.code, 400 if refused.status in (408, 413, 415) else refused.status)
    message = LIBRETRANSLATE_WORDS.get(refused.code, refused.message)
    if refused.why == "no_file":
        message = "Invalid request: missing file parameter"
    elif refused.code == "unknown_kind":
        message = f"Invalid request: file format not supported: {message}"
    elif refused.code == "too_long" and refused.why:
        size, limit = refused.why.split()
        message = f"Invalid request: request ({size}) exceeds text limit ({limit})"
    elif refused.code in INVALID and not message.startswith("Invalid request: "):
        message = f"Invalid request: {message}"
    elif status == 429:
        message = f"Slowdown: {message}"
    elif status >= 500:
        message = f"Cannot translate text: {message}"
    return status, {"error": message}


async def api_key(request: Request, body: bytes) -> str:
    """Return the key in a body; "" if it has none or cannot be read.

    If the body has LibreTranslate's fields, errors of the request are in its form from then on.
    """
    with contextlib.suppress(Refused):
        found = await query(request, body)
        if found.keys() & FIELDS:
            request.state.told = libretranslate_told
        key = found.get("api_key")
        return key if isinstance(key, str) else ""
    return ""


async def query(request: Request, body: bytes) -> dict[str, Any]:
    """Return the fields of a body in JSON or of a form of either kind, without its file.

    Raises:
        Refused: the body has another form, or is malformed.
    """
    if (kind := media_type(request)) == MULTIPART:
        return dict((await form_fields(request, body, most=20))[1])
    return await asyncio.to_thread(fields, kind, body)


class LibreTranslate:
    """The routes of LibreTranslate's API. Bodies of POST /translate in its form are passed to `translate`."""

    def __init__(self, service: Service, jobs: FileJobs, *, key_required: bool) -> None:
        self._service, self._jobs, self._key_required = service, jobs, key_required

    @property
    def routes(self) -> list[Route]:
        """All routes except /translate."""
        return [
            Route("/languages", self.languages, methods=["GET"]),
            Route("/frontend/settings", self.settings, methods=["GET"]),
            Route("/detect", self.detect, methods=["POST"]),
            Route("/translate_file", self.translate_file, methods=["POST"]),
            Route("/download_file/{name}", self.download, methods=["GET"]),
        ]

    async def translate(self, request: Request, found: dict[str, Any], deadline: float) -> Response:
        """Answer POST /translate; the texts of a list are one document."""
        _complete(found, "q", "source", "target")
        most = self._service.config.max_request_tokens
        asked = await asyncio.to_thread(as_request, found, TranslateQuery, most=most)
        detected = self._check(asked.source, asked.target)
        if asked.format not in ("", _TEXT, "html"):
            raise Refused(400, "unknown_format", f"{asked.format[:40]} format is not supported")
        texts = [asked.q] if isinstance(asked.q, str) else asked.q
        tags, splits = (Tags("html"), "sentences") if asked.format == "html" else (None, "lines")
        passages = [Passage(text, wanted=True) for text in texts]
        wanted = RequestTexts(passages=passages, tags=tags, splits=cast(Splits, splits), name="q")
        answers = await translate(self._service, request, wanted, deadline)
        single = isinstance(asked.q, str)
        answer: dict[str, Any] = {"translatedText": answers[0].text if single else [each.text for each in answers]}
        if detected is not None:
            answer["detectedLanguage"] = detected if single else [detected] * len(texts)
        if asked.alternatives:  # the search returns only the best translation
            answer["alternatives"] = [] if single else [[] for _ in texts]
        limited = sum(each.limited for each in answers)
        return JsonResponse(answer, headers={"docnmt-limited": str(limited)} if limited else None)

    async def languages(self, request: Request) -> Response:
        """Answer GET /languages: the two languages of the service."""
        source, target = (base(language) for language in self._service.task.languages)
        found = [{"code": source, "name": name_of(source), "targets": [target]}]
        return JsonResponse([*found, {"code": target, "name": name_of(target), "targets": []}])

    async def settings(self, request: Request) -> Response:
        """Answer GET /frontend/settings."""
        source, target = (
            {"code": base(language), "name": name_of(language)} for language in self._service.task.languages
        )
        return JsonResponse(
            {
                "apiKeys": self._key_required,
                "charLimit": -1,
                "filesTranslation": True,
                "frontendTimeout": 500,
                "keyRequired": self._key_required,
                "language": {"source": source, "target": target},
                "suggestions": False,
                "supportedFilesFormat": list(ENDINGS),
            }
        )

    async def detect(self, request: Request) -> Response:
        """Answer POST /detect: the service's only source language; nothing is detected."""
        found = await query(request, await self._service.small_body(request))
        _complete(found, "q")
        as_request(found, DetectQuery)
        return JsonResponse([self._detected()])

    async def translate_file(self, request: Request) -> Response:
        """Answer POST /translate_file: the address from which the translated file can be fetched, once."""
        service = self._service
        if (kind := media_type(request)) != MULTIPART:
            raise Refused(415, "wrong_type", f"expected Content-Type: {MULTIPART}, got '{kind[:80]}'")
        self._jobs.check(request.state.client)
        with service.place(request.state.client) as deadline:
            name, content, found = await form_file(request, await service.body(request), most=20)
            _complete(found, "source", "target")
            asked = as_request(found, TranslateUpload)
            self._check(asked.source, asked.target)
            kind = kind_of_upload(PurePath(name.replace("\\", "/")).name)
            log = request.state.log
            events = file_events(
                service, log, name, kind, content, deadline, client=request.state.client, receive=request.receive
            )
            *_, last = [event async for event in events]
        job = self._jobs.keep(f"translation.{kind}", last["content"], TYPES[kind], request.state.client)
        address = request.url_for("download", name=f"{job.id}.{job.key}.{kind}")
        return JsonResponse({"translatedFileUrl": str(address)})

    async def download(self, request: Request) -> Response:
        """Answer GET /download_file/NAME: a translated file, for all who know its name, which contains the key."""
        name, _, rest = request.path_params["name"].partition(".")
        job = self._jobs.take(name, rest.partition(".")[0])
        headers = {"content-disposition": f"attachment; filename={job.name}"}
        return Response(job.content, headers=headers, media_type=job.media_type)

    def _check(self, source: str, target: str) -> dict[str, Any] | None:
        """Check the languages of a request; return the `detectedLanguage` of the answer if the source is `auto`.

        Raises:
            Refused: a language is not the service's.
        """
        own = self._service.task.languages
        for said, language in ((source, own[0]), (target, own[1])):
            if not same(said, language) and not (said == "auto" and language == own[0]):
                raise Refused(400, "wrong_language", f"{said[:40]} is not supported")
        return self._detected() if source == "auto" else None

    def _detected(self) -> dict[str, Any]:
        return {"confidence": 0.0, "language": base(self._service.task.source_lang)}


def _complete(found: dict[str, Any], *names: str) -> None:
    """Check that a request has these fields.

    Raises:
        Refused: one is missing or empty.
    """
    for name in names:
        if not found.get(name):
            raise Refused(400, "invalid_request", f"Invalid request: missing {name} parameter")
    alternatives = found.get("alternatives") or 0
    if isinstance(alternatives, str) and not re.fullmatch(r"[+-]?[0-9]{1,9}", alternatives.strip()):
        raise Refused(400, "invalid_request", "Invalid request: alternatives parameter is not a number")
