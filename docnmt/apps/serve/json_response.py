"""JSON, by msgspec."""

from __future__ import annotations

import msgspec
from starlette.responses import Response


class JsonResponse(Response):
    """An answer in JSON."""

    media_type = "application/json"

    def render(self, content: object) -> bytes:  # as Starlette's
        """As bytes."""
        return msgspec.json.encode(content)
