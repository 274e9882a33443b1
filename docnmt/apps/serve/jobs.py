"""Documents that are translated while their clients are away: uploaded, asked after, fetched once."""

from __future__ import annotations

import asyncio
import hmac
import secrets
import sys
import time
import traceback
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

from docnmt.apps.serve.http_error import Refused

#: Documents at a time, bytes of all of them together, and seconds after which one that nobody fetches is forgotten.
MOST, MOST_BYTES, LIFE = 64, 256_000_000, 3600.0


@dataclass
class FileJob:
    """A document on its way.

    Attributes:
        characters: of its text, when it is done. touched: by `time.monotonic`, when it was last asked after.
        held: bytes of what is translated.
    """

    id: str
    key: str
    name: str
    touched: float
    held: int = 0
    status: Literal["translating", "done", "error"] = "translating"
    content: bytes = b""
    media_type: str = ""
    characters: int = 0
    message: str = ""


class FileJobs:
    """Those of one service, in memory."""

    def __init__(self) -> None:
        self._jobs: dict[str, FileJob] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, name: str, work: Callable[[FileJob], Awaitable[None]], *, size: int) -> FileJob:
        """A document of so many bytes begins; `work` fills in what came of it.

        Raises:
            Refused: there are too many.
        """
        job = self._new(name)
        job.held = size

        async def run() -> None:
            try:
                await work(job)
                job.status, job.held = "done", 0
            except Refused as refused:
                job.status, job.held, job.message = "error", 0, refused.message
            except Exception:
                traceback.print_exc(file=sys.stderr)
                job.status, job.held = "error", 0
                job.message = "something went wrong in the service; its log says more"

        task = asyncio.ensure_future(run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return job

    def keep(self, name: str, content: bytes, media_type: str) -> FileJob:
        """One that is translated already; errors as `start`."""
        job = self._new(name)
        job.status, job.content, job.media_type = "done", content, media_type
        return job

    def _new(self, name: str) -> FileJob:
        self._forget()
        held = sum(job.held + len(job.content) for job in self._jobs.values())
        if len(self._jobs) >= MOST or held > MOST_BYTES:
            message = f"{len(self._jobs)} documents are translated or wait to be fetched; fetch some first"
            raise Refused(503, "queue_full", message, {"retry-after": "5"})
        job = FileJob(secrets.token_hex(16), secrets.token_hex(32), name, time.monotonic())
        self._jobs[job.id] = job
        return job

    def get(self, name: str, key: str) -> FileJob:
        """The document with this id, for whom has its key.

        Raises:
            Refused: there is none.
        """
        self._forget()
        job = self._jobs.get(name)
        if job is None or not hmac.compare_digest(key.encode(errors="replace"), job.key.encode()):
            raise Refused(404, "no_document", "there is no document with this id and key; each is fetched once")
        job.touched = time.monotonic()
        return job

    def take(self, name: str, key: str) -> FileJob:
        """The same, translated; it is forgotten.

        Raises:
            Refused: there is none, it is not ready, or it failed.
        """
        job = self.get(name, key)
        if job.status == "translating":
            raise Refused(503, "not_ready", "the document is not translated yet", {"retry-after": "1"})
        del self._jobs[name]
        if job.status == "error":
            raise Refused(400, "failed", job.message)
        return job

    def _forget(self) -> None:
        """Those that nobody came for; one at work is waited for, as it ends by its deadline."""
        old = time.monotonic() - LIFE
        for job in [job for job in self._jobs.values() if job.touched < old and job.status != "translating"]:
            del self._jobs[job.id]
