"""A request that gets no answer, and what it is told instead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.responses import JSONResponse


class Refused(Exception):
    """An HTTP error as JSON: `{"error": {"status": 413, "code": "too_large", "message": "…"}}`."""

    def __init__(self, status: int, code: str, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.headers = status, code, message, dict(headers or {})

    @property
    def content(self) -> dict[str, Any]:
        """The body."""
        return {"error": {"status": self.status, "code": self.code, "message": self.message}}

    @property
    def response(self) -> JSONResponse:
        """The whole answer."""
        return JSONResponse(self.content, self.status, self.headers)
