"""Documents that are translated in the background: clients upload them, poll their status, and fetch them once."""

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

#: Upper bounds: documents, bytes of all documents together, and seconds for which an unused one is kept.
MOST, MOST_BYTES, LIFE = 64, 256_000_000, 3600.0


@dataclass
class FileJob:
    """A document that is being translated, or waits to be fetched.

    Attributes:
        touched: time of its last use, by `time.monotonic`.
        held: number of bytes of the source while it is translated, then 0. characters: length of its text.
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
    """All background documents of one service, in memory."""

    def __init__(self) -> None:
        self._jobs: dict[str, FileJob] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, name: str, work: Callable[[FileJob], Awaitable[None]], *, size: int) -> FileJob:
        """Start to translate a document of `size` bytes; `work` does it, and stores the result in the job.

        Raises:
            Refused: there are too many documents, or they have too many bytes.
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
        """Keep a document that is translated already; errors are as for `start`."""
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
        """Return the document with this id and key.

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
        """Return the translated document with this id and key, and forget it.

        Raises:
            Refused: there is none, it is not ready, or its translation failed.
        """
        job = self.get(name, key)
        if job.status == "translating":
            raise Refused(503, "not_ready", "the document is not translated yet", {"retry-after": "1"})
        del self._jobs[name]
        if job.status == "error":
            raise Refused(400, "failed", job.message)
        return job

    def _forget(self) -> None:
        """Delete documents that were not used for `LIFE` seconds, except those in translation, which end in time."""
        old = time.monotonic() - LIFE
        for job in [job for job in self._jobs.values() if job.touched < old and job.status != "translating"]:
            del self._jobs[job.id]
