"""Forms of other services: DeepL's, LibreTranslate's, OpenAI's.
Each form reads a body, asks for translations (`requests`, `service`) and writes its own answer and errors.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import secrets
import time
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import Any, Literal, cast
from urllib.parse import quote

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from docnmt.apps.documents.kinds import ENDINGS, KINDS
from docnmt.apps.serve.http import (
    FORM,
    MULTIPART,
    EventStream,
    JsonResponse,
    Refused,
    as_request,
    fields,
    form_fields,
    form_file,
    kind_of_upload,
    media_type,
    read_request,
)
from docnmt.apps.serve.kept import FileJob, FileJobs, Glossaries, GlossaryRequest, Kept
from docnmt.apps.serve.requests import code_of, name_of, register_of, same
from docnmt.apps.serve.search import Wishes
from docnmt.apps.serve.service import (
    AskedTexts,
    Passage,
    RequestTexts,
    Service,
    Splits,
    Tags,
    asked_texts,
    file_events,
    translate,
    translations,
)
from docnmt.core.search.translate import Translation
from docnmt.runtime.languages import base, seam

# DeepL's API for its clients (source: its reference, version 2): texts, documents, languages, glossaries.
#
# Unlike at DeepL, the texts of a request and its `context` are one document: each text is context of the others.


#: Statuses that differ from this service's own: DeepL's clients expect others for a wrong key and a full queue.
DEEPL_STATUSES = {"unauthorized": 403, "queue_full": 429}
#: Messages that differ from those in this service's own form, by the code of the error.
DEEPL_WORDS = {
    "unauthorized": "Authorization failed: give the service's token, Authorization: DeepL-Auth-Key TOKEN",
    "not_found": "this service has nothing here; of DeepL's API it has /v2/translate, /v2/document, /v2/languages, "
    "/v2/usage and /v2/glossaries",
}
_SPLITS: dict[str, Splits] = {"1": "lines", "nonewlines": "sentences", "0": "none"}
_LISTS = ("text", "ignore_tags", "splitting_tags", "non_splitting_tags", "glossary_ids", "custom_instructions")
#: Fields that change a translation at DeepL and that this service does not support.
_UNABLE = ("style_id", "translation_memory_id", "custom_instructions")


class TranslateTexts(msgspec.Struct):
    """The body of POST /v2/translate. Further fields, such as `model_type`, count for nothing."""

    text: list[str] | str
    target_lang: str
    source_lang: str | None = None
    context: str | None = None
    formality: str = "default"
    glossary_id: str | None = None
    glossary_ids: list[str] | str = ""
    tag_handling: str | None = None
    split_sentences: str | int | None = None
    ignore_tags: list[str] | str = ""
    splitting_tags: list[str] | str = ""
    style_id: str | None = None
    translation_memory_id: str | None = None
    custom_instructions: list[str] | str | None = None
    show_billed_characters: bool = False


class UploadDocument(msgspec.Struct):
    """The fields of POST /v2/document beside its file."""

    target_lang: str
    source_lang: str | None = None
    formality: str = "default"
    glossary_id: str | None = None
    glossary_ids: str = ""
    filename: str | None = None
    output_format: str | None = None
    style_id: str | None = None
    translation_memory_id: str | None = None
    custom_instructions: str | None = None


class DocumentKey(msgspec.Struct):
    """What a client that asks after its document says."""

    document_key: str


def deepl_told(refused: Refused) -> tuple[int, dict[str, Any]]:
    """Return an error's status and body in DeepL's form."""
    return DEEPL_STATUSES.get(refused.code, refused.status), {"message": DEEPL_WORDS.get(refused.code, refused.message)}


class DeepL:
    """The routes of DeepL's API."""

    def __init__(self, service: Service, jobs: FileJobs) -> None:
        self._service, self._jobs = service, jobs
        self._glossaries, self._characters = Glossaries(service), 0

    @property
    def routes(self) -> list[Route]:
        """All routes of DeepL's API."""
        glossary = "/v2/glossaries/{glossary_id}"
        document = "/v2/document/{document_id}"
        found = [
            ("/v2/translate", self.translate, "POST"),
            ("/v2/document", self.upload, "POST"),
            (document, self.status, "POST"),
            (f"{document}/result", self.result, "POST"),
            ("/v2/languages", self.languages, "GET"),
            ("/v2/languages", self.languages, "POST"),
            ("/v2/usage", self.usage, "GET"),
            ("/v2/usage", self.usage, "POST"),
            ("/v2/glossary-language-pairs", self.pairs, "GET"),
            ("/v2/glossaries", self.glossaries, "GET"),
            ("/v2/glossaries", self.create_glossary, "POST"),
            (glossary, self.glossary, "GET"),
            (glossary, self.delete_glossary, "DELETE"),
            (f"{glossary}/entries", self.entries, "GET"),
        ]
        return [Route(path, endpoint, methods=[method]) for path, endpoint, method in found]

    async def translate(self, request: Request) -> Response:
        """Answer POST /v2/translate."""
        service = self._service
        with service.place(request.state.client) as deadline:
            body, most = await service.body(request), service.config.max_request_tokens
            asked = await read_request(request, body, TranslateTexts, _LISTS, most=most)
            texts = [asked.text] if isinstance(asked.text, str) else asked.text
            self._check(asked)
            tags = self._tags(asked)
            splits = "lines" if tags is None or tags.kind == "xml" else "sentences"
            if asked.split_sentences is not None:
                splits = str(asked.split_sentences)
                if splits not in _SPLITS:
                    raise _invalid("split_sentences", " or ".join(_SPLITS), splits)
                splits = _SPLITS[splits]
            passages = [Passage(asked.context)] if asked.context else []
            passages += [Passage(text, wanted=True) for text in texts]
            wishes = self._wishes(asked, request)
            wanted = RequestTexts(passages=passages, splits=cast(Splits, splits), tags=tags, wishes=wishes)
            answers = await translate(service, request, wanted, deadline)
        source = service.task.source_lang.upper()
        found: dict[str, Any] = {
            "translations": [{"detected_source_language": source, "text": each.text, **each.mark} for each in answers]
        }
        if asked.show_billed_characters:
            for text, answer in zip(texts, found["translations"], strict=True):
                answer["billed_characters"] = len(text)
        self._characters += sum(map(len, texts))
        return JsonResponse(found)

    async def upload(self, request: Request) -> Response:
        """Answer POST /v2/document: start to translate a file, and return its id and key."""
        service = self._service
        if (kind := media_type(request)) != "multipart/form-data":
            raise Refused(415, "wrong_type", f"expected Content-Type: multipart/form-data, got '{kind[:80]}'")
        self._jobs.check(request.state.client)
        name, content, found = await form_file(request, await service.small_body(request), most=20)
        asked = as_request(found, UploadDocument)
        self._check(asked)
        name = PurePath((asked.filename or name).replace("\\", "/")).name
        kind = kind_of_upload(name)
        if asked.output_format and ENDINGS.get(f".{asked.output_format.lower()}") != kind:
            raise _invalid("output_format", f"'{kind}', as a document keeps its kind", asked.output_format)
        wishes = self._wishes(asked, request)

        async def work(job: FileJob) -> None:
            """Translate the file as POST /translate/file does."""
            with service.place(request.state.client) as deadline:
                async for event in file_events(
                    service, {}, name, kind, content, deadline, client=request.state.client, wishes=wishes
                ):
                    if "source" in event:
                        job.characters = sum(len(sentence) for line in event["source"] for sentence in line)
                    job.content = event.get("content", b"")
            job.media_type = KINDS[kind].media_type
            self._characters += job.characters

        job = self._jobs.start(name, work, size=len(content), client=request.state.client)
        return JsonResponse({"document_id": job.id, "document_key": job.key})

    async def status(self, request: Request) -> Response:
        """Answer POST /v2/document/ID: the status of a document."""
        job = self._jobs.get(request.path_params["document_id"], await self._key(request))
        found: dict[str, Any] = {"document_id": job.id, "status": job.status}
        found |= {"billed_characters": job.characters} if job.status == "done" else {}
        found |= {"seconds_remaining": 1} if job.status == "translating" else {}
        found |= {"error_message": job.message, "message": job.message} if job.status == "error" else {}
        return JsonResponse(found)

    async def result(self, request: Request) -> Response:
        """Answer POST /v2/document/ID/result: the translated document, which is then forgotten."""
        job = self._jobs.take(request.path_params["document_id"], await self._key(request))
        headers = {"content-disposition": f"attachment; filename*=UTF-8''{quote(job.name, safe='')}"}
        return Response(job.content, headers=headers, media_type=job.media_type)

    async def languages(self, request: Request) -> Response:
        """Answer GET or POST /v2/languages: the source language, or with `type=target` the target language."""
        kind = request.query_params.get("type")
        if kind is None:  # the Python package deepl sends it in the body, even of a GET
            body = await self._service.small_body(request)
            kind = (await asyncio.to_thread(fields, FORM, body)).get("type", "source") if body else "source"
        if kind not in ("source", "target"):
            raise _invalid("type", "source or target", kind)
        task = self._service.task
        code = task.source_lang if kind == "source" else task.target_lang
        found: dict[str, Any] = {"language": code.upper(), "name": name_of(code)}
        found |= {"supports_formality": self._service.worker.loaded.knows_formality} if kind == "target" else {}
        return JsonResponse([found])

    async def usage(self, request: Request) -> Response:
        """Answer GET or POST /v2/usage: the characters translated since the start; there is no limit."""
        return JsonResponse({"character_count": self._characters, "character_limit": 1_000_000_000_000})

    async def pairs(self, request: Request) -> Response:
        """Answer GET /v2/glossary-language-pairs: the languages of the service."""
        source, target = (language.lower() for language in self._service.task.languages)
        return JsonResponse({"supported_languages": [{"source_lang": source, "target_lang": target}]})

    async def glossaries(self, request: Request) -> Response:
        """Answer GET /v2/glossaries: all glossaries, without their entries."""
        return JsonResponse({"glossaries": [kept.content for kept in self._glossaries.all(request)]})

    async def create_glossary(self, request: Request) -> Response:
        """Answer POST /v2/glossaries: create a glossary."""
        asked = await read_request(request, await self._service.small_body(request), GlossaryRequest)
        return JsonResponse((await self._glossaries.add(asked, request)).content, 201)

    async def glossary(self, request: Request) -> Response:
        """Answer GET /v2/glossaries/ID: a glossary without its entries."""
        return JsonResponse(self._kept(request).content)

    async def delete_glossary(self, request: Request) -> Response:
        """Answer DELETE /v2/glossaries/ID: delete a glossary."""
        self._glossaries.delete(request.path_params["glossary_id"], request)
        return Response(status_code=204)

    async def entries(self, request: Request) -> Response:
        """Answer GET /v2/glossaries/ID/entries: one entry per line, with a tab between its terms."""
        return Response(self._kept(request).entries, media_type="text/tab-separated-values")

    def _kept(self, request: Request) -> Kept:
        return self._glossaries.get(request.path_params["glossary_id"], request)

    async def _key(self, request: Request) -> str:
        return (await read_request(request, await self._service.small_body(request), DocumentKey)).document_key

    def _check(self, asked: TranslateTexts | UploadDocument) -> None:
        """Check the languages and the fields of a request.

        Raises:
            Refused: a language is not the service's, or a field is not supported.
        """
        source, target = self._service.task.languages
        for name, said, own in (
            ("source_lang", asked.source_lang or source, source),
            ("target_lang", asked.target_lang, target),
        ):
            if not same(said, own):
                raise _invalid(name, f"'{own.upper()}', the only one of this service", said, code="wrong_language")
        for name in _UNABLE:
            if getattr(asked, name):
                raise Refused(400, "unable", f"{name}: this service has no such thing; leave it out")

    def _wishes(self, asked: TranslateTexts | UploadDocument, request: Request) -> Wishes:
        """Return the form of address and the glossary of a request.

        Raises:
            Refused: the form of address is not supported, the glossary does not exist, there are several glossaries, or
                there is a glossary without the source language, which DeepL requires then.
        """
        formality = register_of(asked.formality, self._service.worker.loaded)
        names = list(filter(None, [asked.glossary_id, *_list(asked.glossary_ids)]))
        if len(names) > 1:
            raise Refused(400, "unable", f"glossary_ids: expected one glossary at a time, got {len(names)}")
        if names and not asked.source_lang:
            raise Refused(400, "invalid_request", "source_lang: must be said with a glossary")
        return Wishes(terms=self._glossaries.get(names[0], request).terms if names else None, formality=formality)

    def _tags(self, asked: TranslateTexts) -> Tags | None:
        """Return the rules for tags in the texts; None if the texts have no tags."""
        kept, parting = _list(asked.ignore_tags), _list(asked.splitting_tags)
        if not asked.tag_handling:
            return None
        if asked.tag_handling not in ("xml", "html"):
            raise _invalid("tag_handling", "xml or html", asked.tag_handling)
        return Tags(cast(Literal["xml", "html"], asked.tag_handling), tuple(kept), tuple(parting))


def _list(said: Sequence[str] | str) -> list[str]:
    """Return the names in a list, or in a text that separates them by commas."""
    parts = [said] if isinstance(said, str) else said
    return [name.strip() for part in parts for name in part.split(",") if name.strip()]


def _invalid(name: str, expected: str, got: str, code: str = "invalid_request") -> Refused:
    return Refused(400, code, f"Value for '{name}' not supported: expected {expected}, got '{got[:40]}'")


# LibreTranslate's API for its clients (source: its reference): texts, files, languages.
#
# POST /translate is also a route of this service's own form; the fields of the body decide between the two.


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
        job = self._jobs.keep(f"translation.{kind}", last["content"], KINDS[kind].media_type, request.state.client)
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


# Prompts of translation tools: the languages that a chat message names, and the text to translate.


#: The number of characters in which a prompt must name its languages.
HEAD = 1000
_BEGIN = re.compile(r"\s*(?:please\s+)?translate\b", re.IGNORECASE)
#: Patterns that end a prompt, before the text to translate.
_ENDS = (re.compile(r"\n[ \t]*\r?\n"), re.compile(r":[ \t]*\r?\n"), re.compile(r":[ \t]"))
#: The patterns below are for texts whose runs of white space are one character, so that their time is linear.
_TO = re.compile(r"\b(?:in)?to\s", re.IGNORECASE)
#: Patterns that lead to the target language in an instruction.
_INTO = re.compile(r"\btranslat\w*\b[^.:;\n]{0,200}?\b(?:in)?to\s", re.IGNORECASE)
_FROM_TO = re.compile(r"\bfrom\s([^\n]{1,40}?)\s(?:in)?to\s", re.IGNORECASE)


def prompted(content: str) -> tuple[str | None, str | None, str]:
    """Return the source and the target language that a message's prompt names, each or None, and the text after it.

    Tools write a prompt such as `Translate from English to German, keep line breaks:` before the text.
    """
    if _BEGIN.match(content, 0, HEAD):
        for end in _ENDS:
            found = end.search(content, 0, HEAD)
            text = content[found.end() :] if found else ""
            if found and text.strip():
                head = _single_spaced(content[: found.start()])
                named = filter(None, (_named(head, match.end()) for match in _TO.finditer(head)))
                languages = _languages_of(head) or (None, next(named, None))
                if languages[1] is not None:
                    return *languages, text.strip()
    return None, None, content


def instructed(content: str) -> tuple[str | None, str | None]:
    """Return the source and the target language that an instruction names (`Translate the text into German.`), each or
    None."""
    head = _single_spaced(content[:HEAD])
    named = (_named(head, match.end()) for match in _INTO.finditer(head))
    return _languages_of(head) or (None, next(filter(None, named), None))


def _single_spaced(text: str) -> str:
    """Return a text with one line break or space for each run of white space, and one space more at its end."""
    lines = (" ".join(line.split()) for line in text.split("\n"))
    return "\n".join(filter(None, lines)) + " "


def _languages_of(head: str) -> tuple[str, str] | None:
    """Return the languages of `from X to Y`; None if there is none with two known languages."""
    for match in _FROM_TO.finditer(head):
        source, target = code_of(match[1]), _named(head, match.end(), shortest=2)
        if source is not None and target is not None:
            return source, target
    return None


def _named(head: str, begin: int, shortest: int = 4) -> str | None:
    """Return the code of the language named at a position; None if there is none or it is too short (`to be`)."""
    words = re.split(r"\s+", head[begin : begin + 60], maxsplit=3)[:3]
    for count in range(len(words), 0, -1):
        name = " ".join(words[:count]).strip(" \"'`*.,;:!")
        if len(name) >= shortest and (code := code_of(name)) is not None:
            return code
    return None


# OpenAI's chat API, as far as translation tools use it.
#
# The last message is translated; those before it are earlier texts of the same document, with their translations.


#: Statuses that differ from this service's own: OpenAI's clients expect this one for a full queue.
OPENAI_STATUSES = {"queue_full": 429}
#: Messages that differ from those in this service's own form, by the code of the error.
OPENAI_WORDS = {
    "unauthorized": "Incorrect API key provided: give the service's token as the API key",
    "not_found": "Unknown request URL: this service has /v1/models and /v1/chat/completions",
}
#: Codes of errors that have another name in OpenAI's API.
CODES = {"unauthorized": "invalid_api_key", "not_found": "unknown_url"}


class Message(msgspec.Struct):
    """A turn of the chat."""

    role: str
    content: str | list[dict[str, Any]] | None = None


class StreamOptions(msgspec.Struct):
    """What a stream tells beside the text."""

    include_usage: bool | None = None


class ChatRequest(msgspec.Struct):
    """The body of POST /v1/chat/completions. Further fields, such as `temperature`, count for nothing."""

    messages: list[Message]
    model: str = ""
    stream: bool = False
    stream_options: StreamOptions | None = None
    n: int | None = None
    tools: list[Any] | None = None
    response_format: dict[str, Any] | None = None


def openai_told(refused: Refused) -> tuple[int, dict[str, Any]]:
    """Return an error's status and body in OpenAI's form."""
    status = OPENAI_STATUSES.get(refused.code, refused.status)
    kind = "server_error" if status >= 500 else "rate_limit_error" if status == 429 else "invalid_request_error"
    message, code = OPENAI_WORDS.get(refused.code, refused.message), CODES.get(refused.code, refused.code)
    return status, {"error": {"message": message, "type": kind, "param": None, "code": code}}


class OpenAI:
    """The routes of OpenAI's API."""

    def __init__(self, service: Service) -> None:
        self._service = service
        source, target = service.task.languages
        self.model, self._begun = f"docnmt-{source}-{target}", int(time.time())

    @property
    def routes(self) -> list[Route]:
        """All routes of OpenAI's API."""
        return [
            Route("/v1/models", self.models, methods=["GET"]),
            Route("/v1/models/{model}", self.one, methods=["GET"]),
            Route("/v1/chat/completions", Chat(self._service, self), methods=["POST"]),
        ]

    async def models(self, request: Request) -> Response:
        """Answer GET /v1/models: a list with the only model."""
        return JsonResponse({"object": "list", "data": [self._about]})

    async def one(self, request: Request) -> Response:
        """Answer GET /v1/models/MODEL."""
        if (name := request.path_params["model"]) != self.model:
            message = f"the model '{name[:60]}' does not exist; this service has '{self.model}'"
            raise Refused(404, "model_not_found", message)
        return JsonResponse(self._about)

    @property
    def _about(self) -> dict[str, Any]:
        return {"id": self.model, "object": "model", "created": self._begun, "owned_by": "docnmt"}


class Chat:
    """The route POST /v1/chat/completions. The answer is complete, or a stream of server-sent events."""

    def __init__(self, service: Service, about: OpenAI) -> None:
        self._service, self._about = service, about

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        service, request = self._service, Request(scope, receive)
        with service.place(request.state.client) as deadline:
            body, most = await service.body(request), service.config.max_request_tokens
            asked = await read_request(request, body, ChatRequest, most=most)
            texts = await asked_texts(service, await asyncio.to_thread(self._texts, asked))
            answer = Answer(self._about.model, texts)
            if asked.stream:
                usage = asked.stream_options is not None and bool(asked.stream_options.include_usage)
                await self._stream(request, texts, answer, EventStream(send, deadline), deadline, usage=usage)
                return
            async for number, found in translations(service, request, texts, deadline):
                answer.found[number] = found
            (text,) = texts.answer(answer.found)
        await JsonResponse(answer.whole(text.text))(scope, receive, send)

    async def _stream(
        self, request: Request, texts: AskedTexts, answer: Answer, stream: EventStream, deadline: float, *, usage: bool
    ) -> None:
        await stream.begin()
        try:
            with self._service.told_of_the_end():
                await stream.write(answer.part({"role": "assistant", "content": ""}))
                async for number, found in translations(self._service, request, texts, deadline):
                    answer.found[number] = found
                    for text in answer.ready():
                        await stream.write(answer.part({"content": text}))
                for text in answer.ready():  # line breaks, where no sentence was to be translated
                    await stream.write(answer.part({"content": text}))
            await stream.write(answer.part({}, answer.finish))
            if usage:
                await stream.write({**answer.part({}), "choices": [], "usage": answer.usage})
        except Refused as refused:
            request.state.log["error"] = refused.code
            with contextlib.suppress(Refused):  # nobody may read it
                await stream.write(refused.told(request.scope)[1])
        await stream.done()

    def _texts(self, asked: ChatRequest) -> RequestTexts:
        """Return the last message as the text to translate, and those before it as its context.

        Raises:
            Refused: the chat is malformed, names languages that are not the service's, or uses an unsupported field.
        """
        if asked.n not in (None, 1):
            raise Refused(400, "unable", f"n: expected 1, as this service has one translation of a text, got {asked.n}")
        for name, unable in (
            ("tools", bool(asked.tools)),
            ("response_format", (asked.response_format or {}).get("type", "text") != "text"),
        ):
            if unable:
                raise Refused(400, "unable", f"{name}: this service translates, and has no such thing; leave it out")
        passages: list[Passage] = []
        for number, message in enumerate(asked.messages, 1):
            content, role = _content(message, number), message.role
            if role in ("system", "developer"):
                self._check(*instructed(content))
            elif role == "user":
                *languages, text = prompted(content)
                self._check(*languages)
                passages.append(Passage(text))
            elif role == "assistant" and passages and passages[-1].translation is None:
                passages[-1] = Passage(passages[-1].source, content)
            elif role == "assistant":
                missing = "an assistant's translates the user's before it, and there is none"
                raise Refused(400, "invalid_request", f"messages: message {number}: {missing}")
            else:
                expected = f"role: expected system, developer, user or assistant, got '{role[:40]}'"
                raise Refused(400, "invalid_request", f"messages: message {number}: {expected}")
        if not asked.messages or asked.messages[-1].role != "user":
            raise Refused(400, "invalid_request", "messages: the last one must be of user: it is what is translated")
        return RequestTexts(passages=[*passages[:-1], Passage(passages[-1].source, wanted=True)], name="messages")

    def _check(self, source: str | None, target: str | None) -> None:
        """Check the languages that a message names; None: it names none.

        Raises:
            Refused: a language is not the service's.
        """
        own = self._service.task.languages
        if not same(source or own[0], own[0]) or not same(target or own[1], own[1]):
            message = f"this service translates from {own[0]} to {own[1]}, not from {source or own[0]} to {target}"
            raise Refused(400, "wrong_language", message)


class Answer:
    """The answer to a chat, complete or in parts while sentences become ready.

    Attributes:
        found: the translations that are ready, by number of the sentence.
    """

    def __init__(self, model: str, asked: AskedTexts) -> None:
        self.found: dict[int, Translation] = {}
        self._asked, self._waiting = asked, deque(asked.parts())
        self._last = ""  # the last translation that is not empty
        self._head = {"id": f"chatcmpl-{secrets.token_hex(12)}", "created": int(time.time()), "model": model}

    def ready(self) -> Iterator[str]:
        """Yield the parts of the text that have become ready, in order: each sentence waits for those before it."""
        while self._waiting:
            before, number = self._waiting[0]
            if number is not None and number not in self.found:
                return
            self._waiting.popleft()
            text = "" if number is None else self.found[number].text
            if before == " ":
                before = seam(self._last, text) if text else ""  # no space before an empty translation
            self._last = text or self._last
            if before or text:
                yield before + text

    def whole(self, text: str) -> dict[str, Any]:
        """Return the complete answer."""
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": self.finish}
        return {**self._head, "object": "chat.completion", "choices": [choice], "usage": self.usage}

    def part(self, delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        """Return one chunk of a streamed answer."""
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return {**self._head, "object": "chat.completion.chunk", "choices": [choice]}

    @property
    def finish(self) -> str:
        """Why the answer ends, once it is complete."""
        return "length" if any(each.limited for each in self.found.values()) else "stop"

    @property
    def usage(self) -> dict[str, int]:
        """The numbers of subwords read and written."""
        read = len(self._asked.corpus.source.tokens)
        written = sum(len(each.pieces) for each in self.found.values())
        return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}


def _content(message: Message, number: int) -> str:
    """Return a message's text.

    Raises:
        Refused: the message has no text, or other content.
    """
    if isinstance(message.content, str):
        return message.content
    parts = [part.get("text") if part.get("type") == "text" else None for part in message.content or ()]
    if not parts or not all(isinstance(part, str) for part in parts):
        raise Refused(400, "invalid_request", f"messages: message {number}: expected text as content")
    return "".join(str(part) for part in parts)
