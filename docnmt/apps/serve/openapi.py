"""The description of the service's API, as OpenAPI 3.1."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from docnmt.apps.documents.kinds import TYPES
from docnmt.apps.serve.forms import (
    ChatRequest,
    DetectQuery,
    DocumentKey,
    TranslateTexts,
    TranslateUpload,
    UploadDocument,
)
from docnmt.apps.serve.http import FORM
from docnmt.apps.serve.kept import GlossaryRequest
from docnmt.apps.serve.requests import TranslateRequest
from docnmt.apps.serve.service import Service, languages
from docnmt.apps.serve.sessions import AddSegments, ChangeSegment, OpenSession, TranslateSegments
from docnmt.runtime.version import __version__

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
        "summary": "Translate a document and keep its kind: " + " ".join(TYPES),
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
