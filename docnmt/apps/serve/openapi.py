"""What the service offers, as OpenAPI 3.1."""

from __future__ import annotations

from typing import Any

import msgspec

from docnmt.apps.serve.file_route import TYPES
from docnmt.apps.serve.requests import TranslateRequest
from docnmt.apps.serve.service import Service, languages
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
    "properties": {"documents": _DOCUMENTS, "text": {"type": "string"}, "reads": {"type": "array"}},
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
    "500": "the service failed",
    "503": "the queue is full, or the service stops; Retry-After says when to come again",
    "504": "no answer in time",
}


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
        "summary": "Translate documents of sentences, or a running text",
        "requestBody": {"required": True, **_content("application/json", request)},
        "responses": {"200": answer, **_refusals(*REFUSALS)},
    }


def _file() -> Json:
    names = {"name": "the file's name, whose ending says its kind", "kind": "its kind, where there is no name"}
    about = {
        "docnmt-untranslated-lines": "the lines in which text begins that stays as it is, if any",
        "docnmt-untranslated-parts": "the parts of a package that stay as they are, if any, percent-encoded",
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


def description(service: Service) -> Json:
    """The whole document."""
    (request,), schemas = msgspec.json.schema_components([TranslateRequest], ref_template="#/components/schemas/{name}")
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
        },
        "components": {
            "schemas": {**schemas, "Error": _ERROR},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }
