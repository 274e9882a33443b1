"""What the service keeps between requests, and the documents that it translates in the background."""

from __future__ import annotations

import asyncio
import hmac
import secrets
import sys
import time
import traceback
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Generic, Literal, TypeVar

from docnmt.apps.serve.http import Refused
from docnmt.apps.serve.service import share

#: Upper bounds: documents, bytes of all documents together, and seconds for which an unused one is kept.
MOST_DOCUMENTS, MOST_BYTES, DOCUMENT_LIFE = 64, 256_000_000, 3600.0


@dataclass(kw_only=True)
class KeptItem:
    """Something that is kept for a client.

    Attributes:
        client: as `client_of` says. touched: the time of its last use, by `time.monotonic`.
    """

    id: str
    client: str | None = None
    touched: float = field(default_factory=time.monotonic)

    @property
    def is_used(self) -> bool:
        """True if it must be kept although nobody asks for it."""
        return False


ItemT = TypeVar("ItemT", bound=KeptItem)


class Store(Generic[ItemT]):
    """Items in memory, by id. One that is not used is forgotten, even if no request comes.

    Args:
        most: the largest number; a client may have a share of them. life: seconds without use.
        full: returns the error if there are so many, in all or of a client. forgotten: is called with each id
            that goes.
    """

    def __init__(
        self, most: int, life: float, full: Callable[[int], Refused], forgotten: Callable[[str], object] = id
    ) -> None:
        self.most, self.life, self._full, self._forgotten = most, life, full, forgotten
        self._items: dict[str, ItemT] = {}
        self._armed = False

    def __iter__(self) -> Iterator[ItemT]:
        self._forget()
        return iter(list(self._items.values()))

    def __len__(self) -> int:
        self._forget()
        return len(self._items)

    def check(self, client: str | None) -> None:
        """Check that a client may keep one item more.

        Raises:
            Refused: there are too many, or it has its share.
        """
        count = len(self)
        if count >= self.most:
            raise self._full(count)
        theirs = sum(item.client == client for item in self._items.values())
        if client is not None and theirs >= share(self.most):
            raise self._full(theirs)

    def add(self, item: ItemT) -> None:
        """Keep an item; errors are as for `check`."""
        self.check(item.client)
        self._items[item.id] = item
        if not self._armed:
            self._arm(self.life)

    def get(self, name: str) -> ItemT | None:
        """Return the item with this id, and note the time of its use; None if there is none."""
        self._forget()
        if (item := self._items.get(name)) is not None:
            item.touched = time.monotonic()
        return item

    def delete(self, item: ItemT) -> None:
        """Forget an item."""
        if self._items.pop(item.id, None) is not None:
            self._forgotten(item.id)

    def _forget(self) -> None:
        old = time.monotonic() - self.life
        for item in [item for item in self._items.values() if item.touched < old and not item.is_used]:
            self.delete(item)

    def _arm(self, seconds: float) -> None:
        self._armed = True
        asyncio.get_running_loop().call_later(seconds + 0.1, self._forget_later)

    def _forget_later(self) -> None:
        self._armed = False
        self._forget()
        if self._items:
            oldest = min(item.touched for item in self._items.values())
            self._arm(max(oldest + self.life - time.monotonic(), 0))


@dataclass(kw_only=True)
class FileJob(KeptItem):
    """A document that is being translated, or waits to be fetched.

    Attributes:
        held: number of bytes of the source while it is translated, then 0. characters: length of its text.
    """

    key: str
    name: str
    held: int = 0
    status: Literal["translating", "done", "error"] = "translating"
    content: bytes = b""
    media_type: str = ""
    characters: int = 0
    message: str = ""

    @property
    def is_used(self) -> bool:
        """True while it is translated, which ends in time."""
        return self.status == "translating"


class FileJobs:
    """All background documents of one service, in memory."""

    def __init__(self) -> None:
        self._jobs = Store[FileJob](MOST_DOCUMENTS, DOCUMENT_LIFE, _jobs_full)
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, name: str, work: Callable[[FileJob], Awaitable[None]], *, size: int, client: str | None) -> FileJob:
        """Start to translate a client's document of `size` bytes; `work` does it, and stores the result in the job.

        Raises:
            Refused: there are too many documents, or they have too many bytes.
        """
        job = self._new(name, client, size)
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

    def keep(self, name: str, content: bytes, media_type: str, client: str | None) -> FileJob:
        """Keep a document that is translated already; errors are as for `start`."""
        job = self._new(name, client, len(content))
        job.status, job.content, job.media_type = "done", content, media_type
        return job

    def check(self, client: str | None, size: int = 0) -> None:
        """Check that a client may have one document more, of `size` bytes; errors are as for `start`."""
        self._jobs.check(client)
        for whose, most in ((None, MOST_BYTES), (client, share(MOST_BYTES))):
            of = [job for job in self._jobs if whose is None or job.client == whose]
            if of and sum(job.held + len(job.content) for job in of) + size > most:
                raise _jobs_full(len(of))

    def _new(self, name: str, client: str | None, size: int) -> FileJob:
        self.check(client, size)
        job = FileJob(id=secrets.token_hex(16), key=secrets.token_hex(32), name=name, client=client)
        self._jobs.add(job)
        return job

    def get(self, name: str, key: str) -> FileJob:
        """Return the document with this id and key.

        Raises:
            Refused: there is none.
        """
        job = self._jobs.get(name)
        if job is None or not hmac.compare_digest(key.encode(errors="replace"), job.key.encode()):
            raise Refused(404, "no_document", "there is no document with this id and key; each is fetched once")
        return job

    def take(self, name: str, key: str) -> FileJob:
        """Return the translated document with this id and key, and forget it.

        Raises:
            Refused: there is none, it is not ready, or its translation failed.
        """
        job = self.get(name, key)
        if job.status == "translating":
            raise Refused(503, "not_ready", "the document is not translated yet", {"retry-after": "1"})
        self._jobs.delete(job)
        if job.status == "error":
            raise Refused(400, "failed", job.message)
        return job


def _jobs_full(count: int) -> Refused:
    message = f"{count} documents are translated or wait to be fetched; fetch some first"
    return Refused(503, "queue_full", message, {"retry-after": "5"})
