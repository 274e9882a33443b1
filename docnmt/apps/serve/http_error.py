"""Errors of the service, as HTTP answers in the form that the client knows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from starlette.responses import JSONResponse
from starlette.types import Scope

#: A function that returns an error's status and body in another service's form.
Told = Callable[["Refused"], tuple[int, dict[str, Any]]]
#: The message for an unknown address, in this service's own form.
_NOTHING = "there is nothing here; GET /openapi.json says what there is"


class Refused(Exception):
    """An HTTP error as JSON: `{"error": {"status": 413, "code": "too_large", "message": "…"}}`.

    Args:
        why: more than the code says, for a form that has other words for it.
    """

    def __init__(
        self, status: int, code: str, message: str, headers: Mapping[str, str] | None = None, *, why: str = ""
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.headers, self.why = status, code, dict(headers or {}), why
        self.message = message.encode(errors="replace").decode()  # a client may have sent halves of characters

    @classmethod
    def of_routing(cls, status: int, detail: str, allowed: str) -> Refused:
        """Return the error for a status of Starlette's, for instance an unknown address (404) or method (405).

        Args:
            allowed: the methods that the address answers.
        """
        if status == 405:
            return cls(status, "wrong_method", f"this address answers {allowed} only", {"allow": allowed})
        code, message = ("not_found", _NOTHING) if status == 404 else ("refused", detail)
        return cls(status, code, message)

    @property
    def content(self) -> dict[str, Any]:
        """The body in this service's own form."""
        return {"error": {"status": self.status, "code": self.code, "message": self.message}}

    def told(self, scope: Scope) -> tuple[int, dict[str, Any]]:
        """Return status and body in the form that the client of the request `scope` knows."""
        told: Told | None = scope["state"].get("told")
        return (self.status, self.content) if told is None else told(self)

    def response(self, scope: Scope) -> JSONResponse:
        """Return the answer to the request `scope`."""
        status, content = self.told(scope)
        return JSONResponse(content, status, self.headers)
