"""DeepL's API for its clients (source: its reference, version 2): texts, documents, languages, glossaries.

Unlike at DeepL, the texts of a request and its `context` are one document: each text is context of the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import PurePath
from typing import Any, Literal, cast
from urllib.parse import quote

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from docnmt.apps.documents.kinds import ENDINGS, TYPES
from docnmt.apps.serve.document_events import file_events
from docnmt.apps.serve.file_form import form_file, kind_of_upload
from docnmt.apps.serve.glossaries import Glossaries, GlossaryRequest, Kept
from docnmt.apps.serve.http_error import Refused
from docnmt.apps.serve.jobs import FileJob, FileJobs
from docnmt.apps.serve.json_response import JsonResponse
from docnmt.apps.serve.offered_languages import name_of, same
from docnmt.apps.serve.order import Wishes
from docnmt.apps.serve.registers import register_of
from docnmt.apps.serve.request_body import FORM, as_request, fields, media_type, read_request
from docnmt.apps.serve.request_texts import Passage, RequestTexts, Splits, Tags, translate
from docnmt.apps.serve.service import Service

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
            job.media_type = TYPES[kind]
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
