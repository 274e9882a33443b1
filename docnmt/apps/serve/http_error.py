"""A request that gets no answer, and what it is told instead."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from starlette.responses import JSONResponse
from starlette.types import Scope

#: What another service's clients are told instead: a status and a body.
Told = Callable[["Refused"], tuple[int, dict[str, Any]]]


class Refused(Exception):
    """An HTTP error as JSON: `{"error": {"status": 413, "code": "too_large", "message": "…"}}`."""

    def __init__(self, status: int, code: str, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.code, self.headers = status, code, dict(headers or {})
        self.message = message.encode(errors="replace").decode()  # halves of characters that a client sent

    @property
    def content(self) -> dict[str, Any]:
        """The body."""
        return {"error": {"status": self.status, "code": self.code, "message": self.message}}

    def told(self, scope: Scope) -> tuple[int, dict[str, Any]]:
        """Status and body, in the form that the client of a request knows."""
        told: Told | None = scope["state"].get("told")
        return (self.status, self.content) if told is None else told(self)

    def response(self, scope: Scope) -> JSONResponse:
        """The whole answer to a request."""
        status, content = self.told(scope)
        return JSONResponse(content, status, self.headers)
