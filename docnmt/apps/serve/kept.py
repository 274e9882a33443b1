"""What the service keeps between requests, in a `Store` with age and size: files, glossaries, sessions.

Everything is in memory only, and lost when the service ends.
"""

from __future__ import annotations

import asyncio
import contextlib
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
from starlette.responses import Response

from docnmt.apps.serve.ask import (
    BREAK,
    NO_WISHES,
    Ask,
    KeptEncoding,
    Passage,
    Sentences,
    Wishes,
    check_text,
    limited_mark,
    same,
)
from docnmt.apps.serve.http import (
    JSON,
    Endpoint,
    Refused,
    StructT,
    as_request,
    decoded,
    json_response,
    media_type,
    wants_lines,
)
from docnmt.apps.serve.service import Call, Events, Placed, Service, Streamed, share
from docnmt.core.read_corpus import is_blank
from docnmt.core.search.glossary import Glossary, TermFinder, takes_terms
from docnmt.runtime.system import UserError


@dataclass(kw_only=True)
class KeptItem:
    """Something that is kept for a client, as `client_of` says; `touched`: its last use, by `time.monotonic`."""

    id: str
    client: str | None = None
    touched: float = field(default_factory=time.monotonic)

    @property
    def is_used(self) -> bool:
        """True if it must be kept although nobody asks for it."""
        return False

    @property
    def size(self) -> int:
        """What it takes of the store's size."""
        return 0


ItemT = TypeVar("ItemT", bound=KeptItem)


class Store(Generic[ItemT]):
    """Items in memory, by id. One without use for `life` seconds is forgotten, even if no request comes.

    There are at most `most`, of this `size` together; a client may have a share of them. `full` and `missing` are the
    arguments of the errors for too many, whose message begins with their number, and for an unknown id.
    """

    def __init__(
        self, most: int, life: float, *, full: tuple[int, str, str, dict[str, str]], missing: tuple[str, str],
        size: int = sys.maxsize,
    ) -> None:  # fmt: skip
        self.most, self.life, self._size = most, life, size
        self._full, self._missing = full, missing
        self._items: dict[str, ItemT] = {}
        self._armed = False

    def __iter__(self) -> Iterator[ItemT]:
        self._forget()
        return iter(list(self._items.values()))

    def __len__(self) -> int:
        self._forget()
        return len(self._items)

    def check(self, client: str | None, size: int = 0) -> None:
        """Refuse one item more of a client, of this size, if there are too many or they are too large."""
        items = list(self)
        theirs = [item for item in items if item.client == client]
        most_of_one = share(self.most) if client is not None else self.most
        room_of_one = share(self._size) if client is not None else self._size
        for group, most, room in ((items, self.most, self._size), (theirs, most_of_one, room_of_one)):
            if len(group) >= most or (group and sum(item.size for item in group) + size > room):
                status, code, message, headers = self._full
                raise Refused(status, code, message.format(len(group)), headers)

    def add(self, item: ItemT) -> ItemT:
        """Keep an item, if there is room for it."""
        self.check(item.client, item.size)
        self._items[item.id] = item
        if not self._armed:
            self._forget_in(self.life)
        return item

    def get(self, name: str, is_meant: Callable[[ItemT], bool] = lambda item: True) -> ItemT:
        """Return the item with this id, if it is the one that is meant, and note the time of its use."""
        self._forget()
        item = self._items.get(name)
        if item is not None:
            item.touched = time.monotonic()
        if item is None or not is_meant(item):
            raise Refused(404, *self._missing)
        return item

    def delete(self, item: ItemT) -> None:
        """Forget an item."""
        self._items.pop(item.id, None)

    def _forget(self) -> None:
        old = time.monotonic() - self.life
        for item in list(self._items.values()):
            if item.touched < old and not item.is_used:
                self.delete(item)

    def _forget_in(self, seconds: float) -> None:
        def forget() -> None:
            self._armed = False
            self._forget()
            if self._items:
                oldest = min(item.touched for item in self._items.values())
                self._forget_in(max(oldest + self.life - time.monotonic(), 0))

        self._armed = True
        asyncio.get_running_loop().call_later(seconds + 0.1, forget)


# Files that are translated in the background, or wait to be fetched.

#: Upper bounds: documents, bytes of all documents together, and seconds for which an unused one is kept.
MOST_DOCUMENTS, MOST_BYTES, DOCUMENT_LIFE = 64, 256_000_000, 3600.0
#: Of the documents of one client that could not be translated, so many are remembered.
FAILED_DOCUMENTS = 4


@dataclass(kw_only=True)
class FileJob(KeptItem):
    """A document that is being translated, or waits to be fetched."""

    name: str
    key: str = field(default_factory=lambda: secrets.token_hex(32))
    source_size: int = 0  # while it is translated
    status: Literal["translating", "done", "error"] = "translating"
    content: bytes = b""
    media_type: str = ""
    characters: int = 0
    message: str = ""

    @property
    def is_used(self) -> bool:
        """True while it is translated, which ends in time."""
        return self.status == "translating"

    @property
    def size(self) -> int:
        """The number of bytes that are kept."""
        return self.source_size + len(self.content)


class FileJobs(Store[FileJob]):
    """All background documents of one service."""

    def __init__(self) -> None:
        full = "{} documents are translated or wait to be fetched; fetch some first"
        super().__init__(
            MOST_DOCUMENTS, DOCUMENT_LIFE, size=MOST_BYTES, full=(503, "queue_full", full, {"retry-after": "5"}),
            missing=("no_document", "there is no document with this id and key; each is fetched once"),
        )  # fmt: skip
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, job: FileJob, work: Callable[[FileJob], Awaitable[None]]) -> FileJob:
        """Start to translate a document; `work` does it, and stores the result in the job."""

        async def run() -> None:
            try:
                await work(job)
                job.status = "done"
            except Refused as refused:
                job.status, job.message = "error", refused.message
            except Exception:
                traceback.print_exc(file=sys.stderr)
                job.status, job.message = "error", Refused.internal().message
            job.source_size = 0
            failed = [other for other in self if other.status == "error" and other.client == job.client]
            for other in failed[:-FAILED_DOCUMENTS]:  # nobody fetches them
                self.delete(other)

        self.add(job)
        task = asyncio.ensure_future(run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return job

    def with_key(self, name: str, key: str) -> FileJob:
        """Return the document with this id and key."""
        return self.get(name, lambda job: hmac.compare_digest(key.encode(errors="replace"), job.key.encode()))

    def take(self, name: str, key: str) -> FileJob:
        """Return the translated document with this id and key, and forget it."""
        job = self.with_key(name, key)
        if job.status == "translating":
            raise Refused(503, "not_ready", "the document is not translated yet", {"retry-after": "1"})
        self.delete(job)
        if job.status == "error":
            raise Refused(400, "failed", job.message)
        return job


# Glossaries that clients create.

#: Upper bounds: glossaries, terms in one glossary, and seconds for which an unused glossary is kept (a week).
MOST_GLOSSARIES, MOST_TERMS, GLOSSARY_LIFE = 100, 5000, 604_800.0


class GlossaryRequest(msgspec.Struct):
    """What a new glossary is."""

    name: str
    source_lang: str
    target_lang: str
    entries: str
    entries_format: str = "tsv"


@dataclass(kw_only=True)
class KeptGlossary(KeptItem):
    """A glossary that a client has created."""

    owner: str  # as `owner_of` says
    glossary: Glossary
    terms: TermFinder
    content: dict[str, Any]  # what it is, without its entries

    @property
    def entries(self) -> str:
        """The entries, one per line: source term, tab, target term."""
        return "".join(f"{source}\t{target}\n" for source, target in self.glossary.terms.items())


def owner_of(request: Request) -> str:
    """Return whose glossaries a request may see: those of its key, or without a key of its address."""
    said = request.headers.get("authorization", "").strip()
    key = said.partition(" ")[2].strip() or said  # `Bearer KEY`, `DeepL-Auth-Key KEY`
    return f"key {key}" if key else f"address {request.state.client}"


class Glossaries(Store[KeptGlossary]):
    """All glossaries of one service."""

    def __init__(self, service: Service) -> None:
        missing = "there is no glossary with this id and key; unused ones are forgotten, and all at the service's end"
        super().__init__(
            MOST_GLOSSARIES, GLOSSARY_LIFE, full=(456, "quota", "there are {} glossaries already; delete one", {}),
            missing=("no_glossary", missing),
        )  # fmt: skip
        self._service = service

    def of(self, request: Request, name: str | None = None) -> KeptGlossary:
        """Return the glossary with this id, or with that of the address, if the request may see it."""
        owner = owner_of(request)
        return self.get(name or request.path_params["glossary_id"], lambda glossary: glossary.owner == owner)

    async def create(self, payload: GlossaryRequest, request: Request) -> KeptGlossary:
        """Create a glossary for the client of a request."""
        source, target = self._service.task.languages
        if not (same(payload.source_lang, source) and same(payload.target_lang, target)):
            raise Refused(400, "wrong_language", f"this service translates from {source} to {target} only")
        if not payload.name.strip():
            raise Refused(400, "invalid_request", "name: expected one, got none")
        self.check(request.state.client)
        if (lines := max(payload.entries.count("\n"), payload.entries.count("\r"))) > MOST_TERMS:
            raise Refused(413, "too_long", f"entries: expected at most {MOST_TERMS:,} terms, got {lines:,} lines")
        check_text(payload.name + payload.entries, "glossary")
        glossary, terms = await asyncio.to_thread(lambda: wished_terms(self._service, _entries(payload), "entries"))
        name = str(uuid.uuid4())
        content = {
            "glossary_id": name,
            "name": payload.name,
            "ready": True,
            "source_lang": payload.source_lang.lower(),
            "target_lang": payload.target_lang.lower(),
            "creation_time": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "entry_count": len(glossary.terms),
        }
        client, owner = request.state.client, owner_of(request)
        return self.add(
            KeptGlossary(id=name, client=client, owner=owner, glossary=glossary, terms=terms, content=content)
        )


def wished_terms(service: Service, entries: dict[str, str], name: str) -> tuple[Glossary, TermFinder]:
    """Return a request's glossary and the finder of its terms; error messages call the glossary `name`."""
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


def _entries(payload: GlossaryRequest) -> dict[str, str]:
    """Return the terms of a request: source term → target term."""
    if payload.entries_format not in ("tsv", "csv"):
        raise Refused(
            400, "invalid_request", f"entries_format: expected tsv or csv, got '{payload.entries_format[:40]}'"
        )
    tabs, terms = payload.entries_format == "tsv", dict[str, str]()
    rows = (
        (line.split("\t") for line in BREAK.split(payload.entries))
        if tabs
        else csv.reader(io.StringIO(payload.entries), strict=True)  # an open quotation mark would swallow entries
    )
    try:
        for number, row in enumerate(rows, 1):
            cells = [" ".join(cell.split()) for cell in row[:2]]
            if not any(row):
                continue
            if len(cells) < 2 or not all(cells) or (tabs and len(row) > 2):
                raise Refused(400, "invalid_glossary", f"entries: line {number}: expected a source and a target term")
            if terms.setdefault(cells[0], cells[1]) != cells[1]:
                message = f"entries: line {number}: '{cells[0][:40]}' has another translation before"
                raise Refused(400, "invalid_glossary", message)
    except csv.Error as error:
        raise Refused(
            400, "invalid_glossary", f"entries: cannot be read as {payload.entries_format}: {error}"
        ) from None
    if not terms:
        raise Refused(400, "invalid_glossary", "entries: expected at least one term, got none")
    return terms


# Sessions: documents that translators have open, with confirmed translations as context of the others.
#
#     segments → `Session.passages` → `Ask` → translations, which are drafts until a person confirms them

#: The number of sessions whose encodings are kept: those translated last.
ENCODED = 8


class NewSegment(msgspec.Struct, forbid_unknown_fields=True):
    """A segment of a session; one with a translation is confirmed unless it says that it is not."""

    source: str
    translation: str | None = None
    confirmed: bool | None = None


class OpenSession(msgspec.Struct, forbid_unknown_fields=True):
    """The body of POST /sessions: the document's segments, as far as they are known, and its terms."""

    segments: list[str | NewSegment] = []
    glossary: dict[str, str] = {}


class AddSegments(msgspec.Struct, forbid_unknown_fields=True):
    """The body of POST /sessions/ID/segments; `before`: of which segment, by number; null: at the end."""

    segments: list[str | NewSegment]
    before: int | None = None


class ChangeSegment(msgspec.Struct, forbid_unknown_fields=True):
    """The body of PUT /sessions/ID/segments/NUMBER: what it is now."""

    translation: str | None = None
    confirmed: bool = True


class TranslateSegments(msgspec.Struct, forbid_unknown_fields=True):
    """The body of POST /sessions/ID/translate: which, by numbers from 0; null: all that are not confirmed.

    `prefix`: the words with which the translation of the one segment begins.
    """

    segments: list[int] | None = None
    prefix: str = ""


@dataclass
class SessionSegment:
    """A segment: running text, and its translation, once there is one, which a person may have `confirmed`."""

    source: str
    translation: str | None = None
    confirmed: bool = False


@dataclass(kw_only=True)
class Session(KeptItem):
    """An open document, the options of its translation, such as a glossary, and the last one's time and encodings."""

    wishes: Wishes = NO_WISHES
    segments: list[SessionSegment] = field(default_factory=list)
    translated: float = 0.0
    encoding: KeptEncoding | None = None
    translations: int = 0  # that are under way

    @property
    def is_used(self) -> bool:
        """True while it is translated, however long that takes."""
        return self.translations > 0

    @property
    def characters(self) -> int:
        """The number of characters of all segments and their translations."""
        return sum(len(segment.source) + len(segment.translation or "") for segment in self.segments)

    def segment(self, number: int) -> SessionSegment:
        """Return the segment of this number, from 0."""
        if not 0 <= number < len(self.segments):
            message = f"there is no such segment; the session has {len(self.segments)}, counted from 0"
            raise Refused(404, "no_segment", message)
        return self.segments[number]

    def passages(self, wanted: Collection[int], *, drafts: bool, prefix: str = "") -> list[Passage]:
        """Return the whole document as the search reads it: confirmed segments have their translations.

        With `drafts`, other segments that are not wanted have theirs, too, as if they had just been translated. The
        translations of wanted ones begin with `prefix`.
        """
        return [
            Passage(segment.source, wanted=True, prefix=prefix)
            if number in wanted
            else Passage(segment.source, segment.translation if segment.confirmed or drafts else None)
            for number, segment in enumerate(self.segments)
        ]


class Sessions(Store[Session]):
    """All sessions of one service, and their routes."""

    def __init__(self, service: Service) -> None:
        full = "{} documents are open, as many as --max-sessions allows you; delete one"
        idle = service.config.session_idle
        missing = f"there is no session with this id; after {idle:g} seconds without use it is forgotten"
        super().__init__(
            service.config.max_sessions, idle, full=(503, "too_many_sessions", full, {"retry-after": "60"}),
            missing=("no_session", missing),
        )  # fmt: skip
        self._service = service

    @property
    def endpoints(self) -> list[Endpoint]:
        """All routes of sessions."""
        one, segment = "/sessions/{session}", "/sessions/{session}/segments/{segment}"
        placed = Placed(self._service, self._translate)
        rows: list[tuple[Any, ...]] = [
            ("/sessions", "post", "open a document", self._create, OpenSession),
            ("/sessions", "get", "how many are open", self._about),
            (one, "get", "the document", self._show),
            (one, "delete", "forget the document", self._delete),
            (f"{one}/segments", "post", "add segments", self._add, AddSegments),
            (segment, "put", "confirm a segment", self._change, ChangeSegment),
            (f"{one}/translate", "post", "translate segments", placed, TranslateSegments),
        ]
        return [Endpoint("Sessions", *row)._replace(kinds=(JSON,)) for row in rows]

    async def _create(self, request: Request) -> Response:
        payload, client = await self._asked(request, OpenSession), request.state.client
        wishes = await asyncio.to_thread(self._wishes, payload.glossary)
        self.check(client)
        session = Session(id=secrets.token_urlsafe(24), wishes=wishes, client=client)
        self.insert(session, _segments(payload.segments), 0)
        return json_response(self._content(self.add(session)), 201)

    async def _about(self, request: Request) -> Response:
        return json_response({"sessions": len(self), "most": self.most, "idle_seconds": self.life})

    async def _show(self, request: Request) -> Response:
        return json_response(self._content(self._of(request)))

    async def _delete(self, request: Request) -> Response:
        self.delete(self._of(request))
        return Response(status_code=204)

    async def _add(self, request: Request) -> Response:
        payload, session = await self._asked(request, AddSegments), self._of(request)
        before = len(session.segments) if payload.before is None else payload.before
        if not 0 <= before <= len(session.segments):
            raise Refused(400, "invalid_request", f"before: expected 0 to {len(session.segments)}, got {before}")
        self.insert(session, _segments(payload.segments), before)
        return json_response(self._content(session))

    async def _change(self, request: Request) -> Response:
        payload, session = await self._asked(request, ChangeSegment), self._of(request)
        number = request.path_params["segment"]
        segment = session.segment(int(number) if number.isdecimal() and len(number) < 10 else -1)
        translation = segment.translation if payload.translation is None else payload.translation
        if translation is None and payload.confirmed:
            raise Refused(400, "invalid_request", "translation: expected one; what is confirmed must have it")
        check_text(translation or "", "translation")
        self._check_size(session.characters + len(translation or "") - len(segment.translation or ""))
        segment.translation, segment.confirmed = translation, payload.confirmed
        return json_response(segment)

    async def _translate(self, call: Call, request: Request) -> Response | Streamed:
        payload = await self._asked(request, TranslateSegments, await call.service.body(request))
        session = self._of(request)
        if payload.segments is None:
            numbers = [number for number, segment in enumerate(session.segments) if not segment.confirmed]
        else:
            numbers = sorted({number for number in payload.segments if session.segment(number)})
        if payload.prefix.strip():
            expected = ""
            if payload.segments is None or len(numbers) != 1:
                expected = "segments with the one segment whose translation begins with it"
            elif len(payload.prefix.strip().splitlines()) > 1:
                expected = "no line break"
            elif is_blank(session.segment(numbers[0]).source):
                expected = f"a segment with text; segment {numbers[0]} has none"
            if expected:
                raise Refused(400, "invalid_request", f"prefix: expected {expected}")
        drafts = call.service.worker.loaded.reads_own_text
        passages = session.passages(set(numbers), drafts=drafts, prefix=payload.prefix)
        chosen = [session.segments[number] for number in numbers]  # others may be added before them meanwhile
        session.translated, encoding = time.monotonic(), session.encoding or KeptEncoding()
        session.encoding = encoding
        encoded = sorted((open_one for open_one in self if open_one.encoding), key=lambda open_one: open_one.translated)
        for earlier in encoded[:-ENCODED]:
            earlier.encoding = None
        sentences = await call.sentences(Ask(documents=[passages], wishes=session.wishes, name="segments"))
        sentences.kept = encoding
        events = self._events(call, sentences, session, numbers, chosen)
        if wants_lines(request):
            return Streamed(events)
        translated = {event["segment"]: event async for event in events if "segment" in event}
        return json_response({"segments": [translated[number] for number in numbers]})

    async def _events(
        self, call: Call, sentences: Sentences, session: Session, numbers: list[int], segments: list[SessionSegment]
    ) -> Events:
        """Yield each segment's number and translation as soon as it is ready, and keep it as a draft."""
        text_of = sentences.text_of()
        left = [sum(map(len, text)) for text in sentences.texts]

        def done(index: int) -> dict[str, Any]:
            segment, text = segments[index], sentences.text(index)
            if not segment.confirmed:  # else a person has confirmed it meanwhile
                segment.translation = text
            return {"segment": numbers[index], "translation": text, **limited_mark(sentences.limited(index))}

        session.translations += 1
        try:
            for index, waiting in enumerate(left):
                if not waiting:  # it has no sentences
                    yield done(index)
            await asyncio.to_thread(call.accept, sentences)
            async with contextlib.aclosing(call.translated(sentences)) as events:
                async for number, _ in events:
                    if number in text_of:
                        left[text_of[number]] -= 1
                        if not left[text_of[number]]:
                            yield done(text_of[number])
            yield {"done": True}
        finally:
            session.translations, session.touched = session.translations - 1, time.monotonic()

    def insert(self, session: Session, segments: Sequence[SessionSegment], before: int) -> None:
        """Insert segments before the segment of number `before`."""
        for segment in segments:
            check_text(segment.source, "source")
            check_text(segment.translation or "", "translation")
            if segment.confirmed and segment.translation is None:
                raise Refused(400, "invalid_request", "a confirmed segment must have a translation")
        count, most = len(session.segments) + len(segments), self._service.config.max_request_tokens
        if count > most:
            message = f"the session would have {count:,} segments; expected at most {most:,}"
            raise Refused(413, "too_long", f"{message} (--max-request-tokens): open another one")
        self._check_size(session.characters + Session(id="", segments=[*segments]).characters)
        session.segments[before:before] = segments

    def _check_size(self, characters: int) -> None:
        if characters > (most := self._service.config.max_body):
            message = f"the session would have more than {most:,} characters (--max-body); open another one"
            raise Refused(413, "too_long", message)

    def _of(self, request: Request) -> Session:
        return self.get(request.path_params["session"])

    async def _asked(self, request: Request, kind: type[StructT], body: bytes | None = None) -> StructT:
        """Return the JSON body of a request as an instance of `kind`; an empty body is read like `{}`."""
        body = await self._service.small_body(request) if body is None else body
        if not body:
            return as_request({}, kind)
        media_type(request, JSON)
        most = self._service.config.max_request_tokens
        return await asyncio.to_thread(decoded, request, body, kind, most=most)

    def _content(self, session: Session) -> dict[str, Any]:
        return {"session": session.id, "idle_seconds": self.life, "segments": session.segments}

    def _wishes(self, glossary: dict[str, str]) -> Wishes:
        """Return the options of a session with this glossary."""
        if not glossary:
            return NO_WISHES
        check_text("".join([*glossary, *glossary.values()]), "glossary")
        return Wishes(terms=wished_terms(self._service, glossary, "glossary")[1])


def _segments(payload: Sequence[str | NewSegment]) -> list[SessionSegment]:
    segments = []
    for entry in payload:
        new = NewSegment(entry) if isinstance(entry, str) else entry
        confirmed = new.translation is not None if new.confirmed is None else new.confirmed
        segments.append(SessionSegment(new.source, new.translation, confirmed))
    return segments
