"""JSON, by msgspec."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.responses import Response


class JsonResponse(Response):
    """An answer in JSON."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:  # as Starlette's
        """As bytes."""
        return msgspec.json.encode(content)
