"""The web page of the service: one file, of which browsers accept only the style and script with known hashes."""

from __future__ import annotations

import html

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from docnmt.apps.pages import source_hash, template
from docnmt.apps.serve.service import Service


class Page:
    """The web page, built once."""

    def __init__(self, service: Service) -> None:
        style, script, desk, whole = (
            template("docnmt.apps.serve", name) for name in ("page.css", "page.js", "desk.js", "page.html")
        )
        script += desk
        task = service.task
        self._content = (
            whole.replace("{source}", html.escape(task.source_lang))
            .replace("{target}", html.escape(task.target_lang))
            .replace("{most}", str(service.config.max_body))
            .replace("{style}", style)
            .replace("{script}", script)
        )
        self._policy = (
            f"default-src 'none'; style-src {source_hash(style)}; script-src {source_hash(script)}; "
            "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        )

    async def show(self, request: Request) -> Response:
        """Answer GET /."""
        return HTMLResponse(self._content, headers={"content-security-policy": self._policy})
