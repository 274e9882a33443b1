"""Forms of requests for translations: ours, DeepL's and LibreTranslate's, with the other addresses of these APIs.

body → its fields → `Ask` (all in a thread) → `Call` → the answer, whole or as a stream
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import secrets
from collections.abc import Sequence
from pathlib import PurePath
from typing import Annotated, Any, cast, get_args
from urllib.parse import quote

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from docnmt.apps.commands.translating import LoadedModels, ProtectedText, for_languages
from docnmt.apps.documents.kinds import ENDINGS, KINDS
from docnmt.apps.explain.attention import Explanation
from docnmt.apps.serve.ask import (
    Ask,
    Passage,
    Sentences,
    Splits,
    Wishes,
    check_sizes,
    event_of,
    form_of,
    limited_mark,
    name_of,
    register_of,
    same,
)
from docnmt.apps.serve.file_processes import Tags
from docnmt.apps.serve.http import (
    FORM,
    JSON,
    MULTIPART,
    Endpoint,
    Refused,
    as_request,
    check_lists,
    decoded,
    fields,
    form_fields,
    form_file,
    json_response,
    kind_of_upload,
    media_type,
    of_json,
    parameters,
    wants_lines,
)
from docnmt.apps.serve.kept import FileJob, FileJobs, Glossaries, GlossaryRequest, owner_of
from docnmt.apps.serve.service import Call, Events, Placed, Service, Streamed
from docnmt.core.corpus import UnknownText
from docnmt.core.formality import Formality
from docnmt.core.read_corpus import half_character
from docnmt.core.tokenizer import UnknownLanguage
from docnmt.runtime.languages import base
from docnmt.runtime.system import UserError

# This service's own form.

_Formality = Annotated[str, msgspec.Meta(extra_json_schema={"enum": get_args(Formality)})]


class TranslateRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The body of POST /translate: either documents, lists of sentences, or one document as running text."""

    documents: list[list[str]] | None = None
    text: str | None = None
    explain: bool | None = None
    source_lang: str | None = None
    target_lang: str | None = None
    formality: _Formality | None = None


def _own_request(body: bytes, most: int) -> TranslateRequest:
    """Return the request in a JSON body; `most`: documents and sentences together, or subwords."""
    check_lists(body, most)
    payload = of_json(body, TranslateRequest)
    documents = payload.documents or []
    if (number := len(documents) + sum(map(len, documents))) > most:
        expected = f"expected at most {most:,} (--max-request-tokens): send it in parts"
        raise Refused(413, "too_long", f"{number:,} documents and sentences; {expected}")
    check_sizes([payload.text or ""], "text", most)
    check_sizes([sentence for document in documents for sentence in document], "documents", most)
    return payload


def _own_ask(payload: TranslateRequest, loaded: LoadedModels) -> Ask:
    if (payload.documents is None) == (payload.text is None):
        raise Refused(400, "invalid_text", 'the body must have either "documents" or "text"')
    try:
        task = for_languages(loaded.task, payload.source_lang, payload.target_lang)
    except UnknownLanguage as error:
        message = f"{error.side}_lang: expected {error.expected}, got '{error.wanted[:40]}'"
        raise Refused(400, "wrong_language", message) from None
    except UserError as error:
        raise Refused(400, "invalid_text", str(error)) from None
    for number, document in enumerate(payload.documents or [], 1):
        for position, sentence in enumerate(document, 1):
            problem = half_character(sentence)
            if problem is None and ("\n" in sentence or "\r" in sentence):
                problem = 'a line break; one entry is one sentence, running text belongs into "text"'
            if problem is None and "\0" in sentence:
                problem = "a NUL character; remove it"
            if problem is not None:
                name = f"documents: sentence {position} of document {number}"
                raise Refused(400, "invalid_text", f"{name} has {problem}")
    if payload.text and (half := half_character(payload.text)):
        raise Refused(400, "invalid_text", f"text: has {half}")
    texts = [[payload.text or ""]] if payload.documents is None else payload.documents
    documents = [[Passage(text, wanted=True) for text in document] for document in texts]
    splits: Splits = "file" if payload.documents is None else "given"
    wishes = Wishes(task=task, formality=form_of(payload.formality, loaded))
    return Ask(documents=documents, splits=splits, wishes=wishes, explain=bool(payload.explain))


async def _own_translation(call: Call, request: Request, body: bytes) -> Response | Streamed:
    """Answer in JSON, or with a line of JSON for each sentence, as it is ready."""
    config, loaded, task = call.service.config, call.service.worker.loaded, call.service.task

    def read() -> tuple[TranslateRequest, Sentences]:
        payload = _own_request(body, config.max_request_tokens)
        return payload, Sentences.of(_own_ask(payload, loaded), config.splitter, loaded)

    payload, sentences = await asyncio.to_thread(read)
    call.accept(sentences)

    def headers() -> dict[str, str]:
        unknown = UnknownText(task.source_tokenizer)
        unknown.count(ProtectedText(sentences.corpus, None, task, on=config.protect).changing())
        return {"docnmt-unknown": quote(unknown.message, safe=" ;:/(),")} if unknown.message else {}

    is_text = payload.documents is None
    if wants_lines(request):
        return Streamed(_own_events(call, sentences, is_text=is_text), await asyncio.to_thread(headers))
    async for _ in call.translated(sentences):
        pass
    ready, answer = sentences.ready, dict[str, Any]()
    explained = {number: reads(best.explanation) for number, best in ready.items() if best.explanation is not None}
    if is_text:
        answer["text"] = sentences.text(0) + "\n" * (payload.text or "").endswith("\n")
        shaped = [[explained.get(n) for n in line] for line in sentences.texts[0]]
    else:
        answer["documents"] = [[ready[line[0]].text if line else "" for line in text] for text in sentences.texts]
        shaped = [[explained.get(line[0]) if line else None for line in text] for text in sentences.texts]
    answer |= limited_mark(any(best.limited for best in ready.values()))
    answer |= {"reads": shaped} if payload.explain else {}
    return json_response(answer, headers=await asyncio.to_thread(headers))


async def _own_events(call: Call, sentences: Sentences, *, is_text: bool) -> Events:
    """Yield the lines of a running text, then each translation with its place, and its explanation."""
    source, places = list(sentences.corpus.source_text), dict[int, dict[str, int]]()
    for index, text in enumerate(sentences.texts):
        for position, line in enumerate(text):
            for n in line:
                in_line = {"line": position, "sentence": n - line.start}
                places[n] = in_line if is_text else {"document": index, "sentence": position}
    if is_text:
        yield {"source": [[source[n] for n in line] for line in sentences.texts[0]]}
    async with contextlib.aclosing(call.translated(sentences)) as events:
        async for number, translation in events:
            if translation.explanation is None:
                yield event_of(places[number], translation)
            else:
                yield {**places[number], "reads": reads(translation.explanation)}
    yield {"done": True}


def reads(explanation: Explanation) -> dict[str, Any]:
    """Return a translation's pieces, the sentences that each piece and head read, and mean weights of others, as JSON.

    Sentences are numbered in the document from 0, those of a memory before it from -1 backwards.
    """
    heads = [[head._asdict() for head in piece] for piece in explanation.reads]
    return {"pieces": explanation.target, "heads": heads, "others": list(explanation.others.items())}


# DeepL's API for its clients (source: its reference, version 2): texts, documents, languages, glossaries.
#
# Unlike at DeepL, the texts of a request and its `context` are one document: each text is context of the others.

#: Statuses that differ from this service's own: clients expect others for a wrong key and a full queue.
DEEPL_STATUSES = {"unauthorized": 403, "queue_full": 429}
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


def deepl_error(refused: Refused) -> tuple[int, dict[str, Any]]:
    """Return an error's status and body in DeepL's form."""
    words = {
        "unauthorized": "Authorization failed: give the service's token, Authorization: DeepL-Auth-Key TOKEN",
        "not_found": "this service has nothing here; of DeepL's API it has /v2/translate, /v2/document, /v2/languages, "
        "/v2/usage and /v2/glossaries",
    }
    return DEEPL_STATUSES.get(refused.code, refused.status), {"message": words.get(refused.code, refused.message)}


class DeepL:
    """DeepL's API."""

    def __init__(self, service: Service, jobs: FileJobs) -> None:
        self._service, self._jobs = service, jobs
        self._glossaries, self._characters = Glossaries(service), 0

    @property
    def endpoints(self) -> list[Endpoint]:
        """All addresses."""
        placed = Placed(self._service, self._translate)
        glossary, document = "/v2/glossaries/{glossary_id}", "/v2/document/{document_id}"
        languages, usage = "languages", "characters since the start"
        rows: list[tuple[Any, ...]] = [
            ("/v2/translate", "post", "texts, which are one document", placed, TranslateTexts),
            ("/v2/document", "post", "a file to be translated", self._upload, UploadDocument, (MULTIPART,)),
            (document, "post", "how far a file is", self._status, DocumentKey),
            (f"{document}/result", "post", "the translated file, once", self._result, DocumentKey),
            ("/v2/languages", "get", languages, self._languages),
            ("/v2/languages", "post", languages, self._languages),
            ("/v2/usage", "get", usage, self._usage),
            ("/v2/usage", "post", usage, self._usage),
            ("/v2/glossary-language-pairs", "get", "languages of glossaries", self._pairs),
            ("/v2/glossaries", "get", "all glossaries", self._all_glossaries),
            ("/v2/glossaries", "post", "a new glossary", self._create_glossary, GlossaryRequest),
            (glossary, "get", "a glossary", self._glossary),
            (glossary, "delete", "forget a glossary", self._delete_glossary),
            (f"{glossary}/entries", "get", "its terms, in lines with a tab", self._entries),
        ]
        return [Endpoint("DeepL", *row) for row in rows]

    async def _translate(self, call: Call, request: Request) -> Response:
        payload, ask = await asyncio.to_thread(self._ask, request, await call.service.body(request))
        source, texts = call.service.task.source_lang.upper(), _texts(payload.text)
        answers: list[dict[str, Any]] = [
            {"detected_source_language": source, "text": text, **limited_mark(limited)}
            for text, limited in await call.texts(ask)
        ]
        if payload.show_billed_characters:
            for text, answer in zip(texts, answers, strict=True):
                answer["billed_characters"] = len(text)
        self._characters += sum(map(len, texts))
        return json_response({"translations": answers})

    def _ask(self, request: Request, body: bytes) -> tuple[TranslateTexts, Ask]:
        payload = decoded(request, body, TranslateTexts, lists=_LISTS, most=self._service.config.max_request_tokens)
        self._check(payload)
        tags = None
        if payload.tag_handling:
            if payload.tag_handling not in ("xml", "html"):
                raise _invalid("tag_handling", "xml or html", payload.tag_handling)
            tags = Tags(cast(Any, payload.tag_handling), _names(payload.ignore_tags), _names(payload.splitting_tags))
        splits: Splits = "lines" if tags is None or tags.kind == "xml" else "sentences"
        if payload.split_sentences is not None:
            if str(payload.split_sentences) not in _SPLITS:
                raise _invalid("split_sentences", " or ".join(_SPLITS), str(payload.split_sentences))
            splits = _SPLITS[str(payload.split_sentences)]
        passages = [Passage(payload.context)] if payload.context else []
        passages += [Passage(text, wanted=True) for text in _texts(payload.text)]
        return payload, Ask(documents=[passages], splits=splits, tags=tags, wishes=self._wishes(payload, request))

    def _check(self, payload: TranslateTexts | UploadDocument) -> None:
        source, target = self._service.task.languages
        for name, said, language in (
            ("source_lang", payload.source_lang or source, source), ("target_lang", payload.target_lang, target),
        ):  # fmt: skip
            if not same(said, language):
                raise _invalid(name, f"'{language.upper()}', the only one of this service", said, code="wrong_language")
        for name in _UNABLE:
            if getattr(payload, name):
                raise Refused(400, "unable", f"{name}: this service has no such thing; leave it out")

    def _wishes(self, payload: TranslateTexts | UploadDocument, request: Request) -> Wishes:
        """Return the form of address and the glossary of a request; DeepL requires the source language with one."""
        formality = register_of(payload.formality, self._service.worker.loaded)
        names = list(filter(None, [payload.glossary_id, *_names(payload.glossary_ids)]))
        if len(names) > 1:
            raise Refused(400, "unable", f"glossary_ids: expected one glossary at a time, got {len(names)}")
        if names and not payload.source_lang:
            raise Refused(400, "invalid_request", "source_lang: must be said with a glossary")
        return Wishes(terms=self._glossaries.of(request, names[0]).terms if names else None, formality=formality)

    async def _upload(self, request: Request) -> Response:
        service, client = self._service, request.state.client
        media_type(request, MULTIPART)
        self._jobs.check(client)
        name, content, values = await form_file(request, await service.small_body(request), most=20)
        payload = as_request(values, UploadDocument)
        self._check(payload)
        name = PurePath((payload.filename or name).replace("\\", "/")).name
        kind = kind_of_upload(name)
        if payload.output_format and ENDINGS.get(f".{payload.output_format.lower()}") != kind:
            raise _invalid("output_format", f"'{kind}', as a document keeps its kind", payload.output_format)
        wishes = self._wishes(payload, request)

        async def work(job: FileJob) -> None:
            with place:
                async for event in Call(service, client, deadline).file(name, kind, content, wishes):
                    if "source" in event:
                        job.characters = sum(len(sentence) for line in event["source"] for sentence in line)
                    job.content = event.get("content", b"")
            job.media_type = KINDS[kind].media_type
            self._characters += job.characters

        job = FileJob(id=secrets.token_hex(16), name=name, client=client, source_size=len(content))
        with contextlib.ExitStack() as held:
            deadline = held.enter_context(service.place(client))  # now: a client that finds no place comes again
            self._jobs.start(job, work)
            place = held.pop_all()
        return json_response({"document_id": job.id, "document_key": job.key})

    async def _status(self, request: Request) -> Response:
        job = self._jobs.with_key(request.path_params["document_id"], await self._key(request))
        answer: dict[str, Any] = {"document_id": job.id, "status": job.status}
        answer |= {"billed_characters": job.characters} if job.status == "done" else {}
        answer |= {"seconds_remaining": 1} if job.status == "translating" else {}
        answer |= {"error_message": job.message, "message": job.message} if job.status == "error" else {}
        return json_response(answer)

    async def _result(self, request: Request) -> Response:
        job = self._jobs.take(request.path_params["document_id"], await self._key(request))
        headers = {"content-disposition": f"attachment; filename*=UTF-8''{quote(job.name, safe='')}"}
        return Response(job.content, headers=headers, media_type=job.media_type)

    async def _languages(self, request: Request) -> Response:
        kind = request.query_params.get("type")
        if kind is None:  # the Python package deepl sends it in the body, even of a GET
            body = await self._service.small_body(request)
            form = JSON if media_type(request) == JSON else FORM
            kind = (await asyncio.to_thread(fields, form, body)).get("type", "source") if body else "source"
        if kind not in ("source", "target"):
            raise _invalid("type", "source or target", kind)
        task = self._service.task
        code = task.source_lang if kind == "source" else task.target_lang
        answer: dict[str, Any] = {"language": code.upper(), "name": name_of(code)}
        answer |= {"supports_formality": self._service.worker.loaded.knows_formality} if kind == "target" else {}
        return json_response([answer])

    async def _usage(self, request: Request) -> Response:
        return json_response({"character_count": self._characters, "character_limit": 1_000_000_000_000})

    async def _pairs(self, request: Request) -> Response:
        source, target = (language.lower() for language in self._service.task.languages)
        return json_response({"supported_languages": [{"source_lang": source, "target_lang": target}]})

    async def _all_glossaries(self, request: Request) -> Response:
        owner = owner_of(request)
        return json_response(
            {"glossaries": [glossary.content for glossary in self._glossaries if glossary.owner == owner]}
        )

    async def _create_glossary(self, request: Request) -> Response:
        payload = await asyncio.to_thread(decoded, request, await self._service.small_body(request), GlossaryRequest)
        return json_response((await self._glossaries.create(payload, request)).content, 201)

    async def _glossary(self, request: Request) -> Response:
        return json_response(self._glossaries.of(request).content)

    async def _delete_glossary(self, request: Request) -> Response:
        self._glossaries.delete(self._glossaries.of(request))
        return Response(status_code=204)

    async def _entries(self, request: Request) -> Response:
        return Response(self._glossaries.of(request).entries, media_type="text/tab-separated-values")

    async def _key(self, request: Request) -> str:
        body = await self._service.small_body(request)
        return (await asyncio.to_thread(decoded, request, body, DocumentKey)).document_key


def _texts(said: Sequence[str] | str) -> Sequence[str]:
    return [said] if isinstance(said, str) else said


def _names(said: Sequence[str] | str) -> tuple[str, ...]:
    """Return the names in a list, or in a text that separates them by commas."""
    return tuple(name.strip() for part in _texts(said) for name in part.split(",") if name.strip())


def _invalid(name: str, expected: str, got: str, code: str = "invalid_request") -> Refused:
    return Refused(400, code, f"Value for '{name}' not supported: expected {expected}, got '{got[:40]}'")


# LibreTranslate's API for its clients (source: its reference): texts, files, languages.
#
# POST /translate is also a route of this service's own form; the fields of the body decide between the two.

#: Codes of errors that begin with "Invalid request" in LibreTranslate's words.
INVALID = ("invalid_request", "invalid_text", "invalid_file", "too_long", "too_large", "too_slow", "wrong_type")
#: Fields that distinguish LibreTranslate's form of POST /translate from this service's own.
FIELDS = frozenset({"q", "source", "target"})


class TranslateQuery(msgspec.Struct):
    """The body of POST /translate in this form; its `api_key` is checked before."""

    q: str | list[str]
    source: str
    target: str
    format: str = "text"
    alternatives: int = 0


class TranslateUpload(msgspec.Struct):
    """The fields of POST /translate_file beside its file."""

    source: str
    target: str


class DetectQuery(msgspec.Struct):
    """The body of POST /detect."""

    q: str


def libre_error(refused: Refused) -> tuple[int, dict[str, Any]]:
    """Return an error's status and body in LibreTranslate's form."""
    if refused.code == "unauthorized" and refused.why == "no_key":
        return 400, {"error": "Please contact the server operator to get an API key"}
    status = DEEPL_STATUSES.get(refused.code, 400 if refused.status in (408, 413, 415) else refused.status)
    message = refused.message
    if refused.code == "unauthorized":
        message = "Invalid API key"
    elif refused.code == "not_found":
        known = "/translate, /translate_file, /detect, /languages and /frontend/settings"
        message = f"this service has nothing here; of LibreTranslate's API it has {known}"
    elif refused.why == "no_file":
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


async def query(request: Request, body: bytes) -> dict[str, Any]:
    """Return the fields of a body in JSON or of a form of either kind, without its file."""
    if (kind := media_type(request)) == MULTIPART:
        return dict((await form_fields(request, body, most=20))[1])
    return await asyncio.to_thread(fields, kind, body)


async def api_key(request: Request, body: bytes) -> str:
    """Return the key in a body; "" if it has none or cannot be read.

    If the body has LibreTranslate's fields, errors of the request are in its form from then on.
    """
    with contextlib.suppress(Refused):
        values = await query(request, body)
        if values.keys() & FIELDS:
            request.state.error_form = libre_error
        key = values.get("api_key")
        return key if isinstance(key, str) else ""
    return ""


def _complete(values: dict[str, Any], *names: str) -> None:
    """Refuse a request in which one of these fields is missing or empty, in LibreTranslate's words."""
    for name in names:
        if not values.get(name):
            raise Refused(400, "invalid_request", f"Invalid request: missing {name} parameter")
    alternatives = values.get("alternatives") or 0
    if isinstance(alternatives, str) and not re.fullmatch(r"[+-]?[0-9]{1,9}", alternatives.strip()):
        raise Refused(400, "invalid_request", "Invalid request: alternatives parameter is not a number")


def _detected(service: Service, source: str, target: str) -> dict[str, Any] | None:
    """Check the languages of a request; return the `detectedLanguage` of the answer if the source is `auto`."""
    languages = service.task.languages
    for said, language in ((source, languages[0]), (target, languages[1])):
        if not same(said, language) and not (said == "auto" and language == languages[0]):
            raise Refused(400, "wrong_language", f"{said[:40]} is not supported")
    return {"confidence": 0.0, "language": base(languages[0])} if source == "auto" else None


def _libre_ask(service: Service, values: dict[str, Any]) -> tuple[TranslateQuery, Ask]:
    _complete(values, "q", "source", "target")
    payload = as_request(values, TranslateQuery, most=service.config.max_request_tokens)
    _detected(service, payload.source, payload.target)
    if payload.format not in ("", "text", "html"):
        raise Refused(400, "unknown_format", f"{payload.format[:40]} format is not supported")
    is_html, passages = payload.format == "html", [Passage(text, wanted=True) for text in _texts(payload.q)]
    tags, splits = (Tags("html"), "sentences") if is_html else (None, "lines")
    return payload, Ask(documents=[passages], tags=tags, splits=cast(Splits, splits), name="q")


async def _libre_translation(call: Call, values: dict[str, Any]) -> Response:
    payload, ask = await asyncio.to_thread(_libre_ask, call.service, values)
    answers, single = await call.texts(ask), isinstance(payload.q, str)
    answer: dict[str, Any] = {"translatedText": answers[0][0] if single else [text for text, _ in answers]}
    if (detected := _detected(call.service, payload.source, payload.target)) is not None:
        answer["detectedLanguage"] = detected if single else [detected] * len(answers)
    if payload.alternatives:  # the search returns only the best translation
        answer["alternatives"] = [] if single else [[] for _ in answers]
    limited = sum(limited for _, limited in answers)
    return json_response(answer, headers={"docnmt-limited": str(limited)} if limited else None)


async def translate(call: Call, request: Request) -> Response | Streamed:
    """Answer POST /translate: in LibreTranslate's form if the body has its fields and none of ours, else in ours."""
    if media_type(request) not in (JSON, FORM, MULTIPART):
        media_type(request, JSON)
    parameters(request)
    body, values = await call.service.body(request), dict[str, Any]()
    with contextlib.suppress(Refused):  # what cannot be read is not LibreTranslate's
        values = await query(request, body)
    if values.keys() & FIELDS and not values.keys() & {"documents", "text"}:
        request.state.error_form = libre_error
        return await _libre_translation(call, values)
    media_type(request, JSON)
    return await _own_translation(call, request, body)


class LibreTranslate:
    """LibreTranslate's API beside POST /translate."""

    def __init__(self, service: Service, jobs: FileJobs, *, key_required: bool) -> None:
        self._service, self._jobs, self._key_required = service, jobs, key_required

    @property
    def endpoints(self) -> list[Endpoint]:
        """All addresses except /translate."""
        placed, summary = Placed(self._service, self._translate_file), "a file; the answer says where it is"
        rows: list[tuple[Any, ...]] = [
            ("/languages", "get", "languages", self._languages),
            ("/frontend/settings", "get", "limits and kinds of files", self._settings),
            ("/detect", "post", "the source language", self._detect, DetectQuery),
            ("/translate_file", "post", summary, placed, TranslateUpload, (MULTIPART,)),
            ("/download_file/{name}", "get", "the translated file, once", self.download),
        ]
        return [Endpoint("LibreTranslate", *row) for row in rows]

    async def _languages(self, request: Request) -> Response:
        source, target = (base(language) for language in self._service.task.languages)
        about = [{"code": source, "name": name_of(source), "targets": [target]}]
        return json_response([*about, {"code": target, "name": name_of(target), "targets": []}])

    async def _settings(self, request: Request) -> Response:
        languages = [{"code": base(language), "name": name_of(language)} for language in self._service.task.languages]
        return json_response(
            {
                "apiKeys": self._key_required,
                "charLimit": -1,
                "filesTranslation": True,
                "frontendTimeout": 500,
                "keyRequired": self._key_required,
                "language": dict(zip(("source", "target"), languages, strict=True)),
                "suggestions": False,
                "supportedFilesFormat": list(ENDINGS),
            }
        )

    async def _detect(self, request: Request) -> Response:
        values = await query(request, await self._service.small_body(request))
        _complete(values, "q")
        as_request(values, DetectQuery)
        return json_response([_detected(self._service, "auto", self._service.task.target_lang)])

    async def _translate_file(self, call: Call, request: Request) -> Response:
        media_type(request, MULTIPART)
        self._jobs.check(call.client)
        name, content, values = await form_file(request, await self._service.body(request), most=20)
        _complete(values, "source", "target")
        payload = as_request(values, TranslateUpload)
        _detected(self._service, payload.source, payload.target)
        kind = kind_of_upload(PurePath(name.replace("\\", "/")).name)
        *_, last = [event async for event in call.file(name, kind, content)]
        job = FileJob(
            id=secrets.token_hex(16), name=f"translation.{kind}", client=call.client, status="done",
            content=last["content"], media_type=KINDS[kind].media_type,
        )  # fmt: skip
        self._jobs.add(job)
        address = request.url_for("download", name=f"{job.id}.{job.key}.{kind}")
        return json_response({"translatedFileUrl": str(address)})

    async def download(self, request: Request) -> Response:
        """Return a translated file, to all who know its name, which contains the key."""
        name, _, rest = request.path_params["name"].partition(".")
        find = self._jobs.with_key if request.method == "HEAD" else self._jobs.take  # a look takes nothing away
        job = find(name, rest.partition(".")[0])
        headers = {"content-disposition": f"attachment; filename={job.name}"}
        return Response(job.content, headers=headers, media_type=job.media_type)
