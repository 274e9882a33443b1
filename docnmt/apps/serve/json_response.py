"""Answers in JSON, encoded by msgspec."""

from __future__ import annotations

import msgspec
from starlette.responses import Response


class JsonResponse(Response):
    """An answer in JSON, encoded by msgspec."""

    media_type = "application/json"

    def render(self, content: object) -> bytes:  # as Starlette's
        """Return a value as JSON."""
        return msgspec.json.encode(content)
