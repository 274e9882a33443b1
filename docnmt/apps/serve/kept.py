"""What the service keeps between requests: glossaries, translated files, sessions."""

from __future__ import annotations

import asyncio
import csv
import hmac
import io
import secrets
import sys
import time
import traceback
import uuid
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Generic, Literal, TypeVar

import msgspec
from starlette.requests import Request

from docnmt.apps.serve.http import Refused
from docnmt.apps.serve.requests import same
from docnmt.apps.serve.search import NO_WISHES, KeptEncoding, Wishes
from docnmt.apps.serve.service import BREAK, Passage, Service, check_text, share
from docnmt.core.search.glossary import Glossary, TermFinder, takes_terms
from docnmt.runtime.system import UserError

# What the service keeps between requests, and the documents that it translates in the background.


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


# Glossaries that clients create. They are in memory only, and lost when the service ends.


#: Upper bounds: glossaries, terms in one glossary, and seconds for which an unused glossary is kept (a week).
MOST_GLOSSARIES, MOST_TERMS, GLOSSARY_LIFE = 100, 5000, 604_800.0
#: The separator of an entry's two terms, by the name of the format.
_DELIMITERS = {"tsv": "\t", "csv": ","}


class GlossaryRequest(msgspec.Struct):
    """What a new glossary is."""

    name: str
    source_lang: str
    target_lang: str
    entries: str
    entries_format: str = "tsv"


@dataclass(kw_only=True)
class Kept(KeptItem):
    """A glossary that a client has created.

    Attributes:
        owner: as `owner_of` says. terms: finds the glossary's terms in sentences. languages: source and target, as the
            client named them. created: the time in UTC (ISO 8601).
    """

    owner: str
    name: str
    glossary: Glossary
    terms: TermFinder
    languages: tuple[str, str]
    created: str

    @property
    def content(self) -> dict[str, Any]:
        """The description of the glossary in DeepL's form, without its entries."""
        source, target = self.languages
        return {
            "glossary_id": self.id,
            "name": self.name,
            "ready": True,
            "source_lang": source,
            "target_lang": target,
            "creation_time": self.created,
            "entry_count": len(self.glossary.terms),
        }

    @property
    def entries(self) -> str:
        """The entries, one per line: source term, tab, target term."""
        return "".join(f"{source}\t{target}\n" for source, target in self.glossary.terms.items())


def owner_of(request: Request) -> str:
    """Return whose glossaries a request may see: those of its key, or without a key of its address."""
    return request.headers.get("authorization", "") or str(request.state.client)


class Glossaries:
    """All glossaries of one service."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._kept = Store[Kept](MOST_GLOSSARIES, GLOSSARY_LIFE, _glossaries_full)

    def all(self, request: Request) -> list[Kept]:
        """Return the glossaries that a request may see, in the order of their creation."""
        return [kept for kept in self._kept if kept.owner == owner_of(request)]

    def get(self, name: str, request: Request) -> Kept:
        """Return the glossary with this id, and note the time of its use.

        Raises:
            Refused: there is none, or the request may not see it.
        """
        kept = self._kept.get(name)
        if kept is None or kept.owner != owner_of(request):
            message = (
                "there is no glossary with this id and key; unused ones are forgotten, and all at the service's end"
            )
            raise Refused(404, "no_glossary", message)
        return kept

    def delete(self, name: str, request: Request) -> None:
        """Delete the glossary with this id; errors are as for `get`."""
        self._kept.delete(self.get(name, request))

    async def add(self, asked: GlossaryRequest, request: Request) -> Kept:
        """Create a glossary for the client of a request.

        Raises:
            Refused: its languages are not the service's, it has no name, its entries cannot be read, the search cannot
                write its terms, or there are too many glossaries or terms.
        """
        languages = self._service.task.languages
        if not (same(asked.source_lang, languages[0]) and same(asked.target_lang, languages[1])):
            raise Refused(400, "wrong_language", f"this service translates from {languages[0]} to {languages[1]} only")
        if not asked.name.strip():
            raise Refused(400, "invalid_request", "name: expected one, got none")
        self._kept.check(request.state.client)
        if (lines := asked.entries.count("\n")) > MOST_TERMS:
            raise Refused(413, "too_long", f"entries: expected at most {MOST_TERMS:,} terms, got {lines:,} lines")
        check_text(asked.name + asked.entries, "glossary")
        glossary, terms = await asyncio.to_thread(lambda: wished_terms(self._service, _entries(asked), "entries"))
        created = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        pair = asked.source_lang.lower(), asked.target_lang.lower()
        kept = Kept(
            id=str(uuid.uuid4()), client=request.state.client, owner=owner_of(request), name=asked.name,
            glossary=glossary, terms=terms, languages=pair, created=created,
        )  # fmt: skip
        self._kept.add(kept)
        return kept


def _glossaries_full(count: int) -> Refused:
    return Refused(456, "quota", f"there are {count} glossaries already; delete one")


def wished_terms(service: Service, entries: dict[str, str], name: str) -> tuple[Glossary, TermFinder]:
    """Return a request's glossary and the finder of its terms; error messages call the glossary `name`.

    Raises:
        Refused: there are too many terms, the vocabulary cannot express one, or the search method supports none.
    """
    if len(entries) > MOST_TERMS:
        raise Refused(413, "too_long", f"{name}: expected at most {MOST_TERMS:,} terms, got {len(entries):,}")
    models = service.worker.models
    if not takes_terms(models.options):
        message = f"{name}: this service searches by {models.options.generator}, which cannot keep to terms"
        raise Refused(400, "invalid_glossary", message)
    try:
        glossary = Glossary.of(entries)
        assert glossary is not None  # there are entries
        return glossary, TermFinder(glossary, models.loaded.task.target_tokenizer, name)
    except UserError as error:
        raise Refused(400, "invalid_glossary", str(error)) from None


def _entries(asked: GlossaryRequest) -> dict[str, str]:
    """Return the terms of a request: source term → target term.

    Raises:
        Refused: the format is unknown, an entry is malformed or contradicts another, or there are no terms.
    """
    delimiter = _DELIMITERS.get(asked.entries_format)
    if delimiter is None:
        raise Refused(400, "invalid_request", f"entries_format: expected tsv or csv, got '{asked.entries_format[:40]}'")
    terms: dict[str, str] = {}
    rows = (
        (line.split("\t") for line in BREAK.split(asked.entries))
        if delimiter == "\t"
        else csv.reader(io.StringIO(asked.entries), strict=True)  # an open quotation mark would swallow entries
    )
    try:
        for number, row in enumerate(rows, 1):
            cells = [" ".join(cell.split()) for cell in row[:2]]
            if not any(row):
                continue
            if len(cells) < 2 or not all(cells) or (delimiter == "\t" and len(row) > 2):
                raise Refused(400, "invalid_glossary", f"entries: line {number}: expected a source and a target term")
            if terms.setdefault(cells[0], cells[1]) != cells[1]:
                message = f"entries: line {number}: '{cells[0][:40]}' has another translation before"
                raise Refused(400, "invalid_glossary", message)
    except csv.Error as error:
        raise Refused(400, "invalid_glossary", f"entries: cannot be read as {asked.entries_format}: {error}") from None
    if not terms:
        raise Refused(400, "invalid_glossary", "entries: expected at least one term, got none")
    return terms


# Sessions: the documents that translators have open, with their segments and confirmed translations.


@dataclass
class SessionSegment:
    """A segment: running text, and its translation, once there is one.

    Attributes:
        confirmed: True if a person has confirmed the translation.
    """

    source: str
    translation: str | None = None
    confirmed: bool = False

    @property
    def content(self) -> dict[str, Any]:
        """The segment as JSON types."""
        return {"source": self.source, "translation": self.translation, "confirmed": self.confirmed}


@dataclass(kw_only=True)
class Session(KeptItem):
    """An open document.

    Attributes:
        wishes: options of its translation, such as the glossary.
    """

    wishes: Wishes = NO_WISHES
    segments: list[SessionSegment] = field(default_factory=list)

    @property
    def size(self) -> int:
        """The number of characters of all segments and translations."""
        return sum(len(each.source) + len(each.translation or "") for each in self.segments)

    def segment(self, number: int) -> SessionSegment:
        """Return the segment of this number, from 0.

        Raises:
            Refused: there is none.
        """
        if not 0 <= number < len(self.segments):
            message = f"there is no such segment; the session has {len(self.segments)}, counted from 0"
            raise Refused(404, "no_segment", message)
        return self.segments[number]

    def unconfirmed(self) -> list[int]:
        """Return the numbers of the segments that are not confirmed."""
        return [number for number, segment in enumerate(self.segments) if not segment.confirmed]

    def passages(self, wanted: Collection[int], *, drafts: bool) -> list[Passage]:
        """Return the whole document as the search reads it: confirmed segments have their translations.

        Args:
            wanted: numbers of the segments to translate. drafts: True if unconfirmed segments that are not wanted have
                their translations, too, as if they had just been translated.
        """
        found = []
        for number, segment in enumerate(self.segments):
            known = segment.translation if segment.confirmed or drafts else None
            found.append(Passage(segment.source, None if number in wanted else known, number in wanted))
        return found


#: The number of sessions whose encodings are kept: those translated last.
ENCODED = 8


class OpenSessions:
    """All sessions of one service, in memory; a session that is not used is forgotten.

    Args:
        most: the largest number of sessions. idle: seconds without use until a session is forgotten.
        size, segments: the largest numbers of characters and of segments in one session.
    """

    def __init__(self, *, most: int, idle: float, size: int, segments: int) -> None:
        self.most, self.idle, self.size, self.segments = most, idle, size, segments
        self._encoded: dict[str, KeptEncoding] = {}
        self._open = Store[Session](most, idle, self._full, lambda name: self._encoded.pop(name, None))

    def __len__(self) -> int:
        return len(self._open)

    def open(self, segments: Sequence[SessionSegment], wishes: Wishes, client: str | None = None) -> Session:
        """Open a session of a client.

        Raises:
            Refused: too many are open, a segment is not valid, or the document is too large.
        """
        self._open.check(client)
        session = Session(id=secrets.token_urlsafe(24), wishes=wishes, client=client)
        self.add(session, segments, 0)
        self._open.add(session)
        return session

    @staticmethod
    def _full(count: int) -> Refused:
        message = f"{count} documents are open, as many as --max-sessions allows you; delete one"
        return Refused(503, "too_many_sessions", message, {"retry-after": "60"})

    def add(self, session: Session, segments: Sequence[SessionSegment], place: int) -> None:
        """Insert segments before the segment of number `place`.

        Raises:
            Refused: a segment is not valid, or the document becomes too large.
        """
        for segment in segments:
            check_text(segment.source, "source")
            check_text(segment.translation or "", "translation")
            if segment.confirmed and segment.translation is None:
                raise Refused(400, "invalid_request", "a confirmed segment must have a translation")
        count = len(session.segments) + len(segments)
        if count > self.segments:
            message = f"the session would have {count:,} segments; expected at most {self.segments:,}"
            raise Refused(413, "too_long", f"{message} (--max-request-tokens): open another one")
        added = sum(len(each.source) + len(each.translation or "") for each in segments)
        self.check_size(session, added)
        session.segments[place:place] = segments

    def check_size(self, session: Session, added: int) -> None:
        """Check the size that a session would have.

        Raises:
            Refused: it is too large with `added` more characters.
        """
        if session.size + added > self.size:
            message = f"the session would have more than {self.size:,} characters (--max-body); open another one"
            raise Refused(413, "too_long", message)

    def get(self, name: str) -> Session:
        """Return the session with this id, and note the time of its use.

        Raises:
            Refused: there is none.
        """
        session = self._open.get(name)
        if session is None:
            message = f"there is no session with this id; after {self.idle:g} seconds without use it is forgotten"
            raise Refused(404, "no_session", message)
        return session

    def encoding(self, session: Session) -> KeptEncoding:
        """Return the kept encodings of a session that is translated now; only the last `ENCODED` sessions have any."""
        kept = self._encoded.pop(session.id, None) or KeptEncoding()
        self._encoded[session.id] = kept
        if len(self._encoded) > ENCODED:
            del self._encoded[next(iter(self._encoded))]
        return kept

    def close(self, name: str) -> None:
        """Forget the session with this id; errors are as for `get`."""
        self._open.delete(self.get(name))
