"""Sessions: documents that translators have open, with confirmed translations as context of the others.

segments → `Session.passages` → `Ask` → translations, which are drafts until a person confirms them
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from docnmt.apps.serve.ask import NO_WISHES, Ask, KeptEncoding, Passage, Sentences, Wishes, check_text, limited_mark
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
from docnmt.apps.serve.kept import KeptItem, Store, wished_terms
from docnmt.apps.serve.service import Call, Events, Placed, Service, Streamed

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
    """The body of POST /sessions/ID/translate: which, by numbers from 0; null: all that are not confirmed."""

    segments: list[int] | None = None


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

    def passages(self, wanted: Collection[int], *, drafts: bool) -> list[Passage]:
        """Return the whole document as the search reads it: confirmed segments have their translations.

        With `drafts`, other segments that are not wanted have theirs, too, as if they had just been translated.
        """
        return [
            Passage(segment.source, wanted=True)
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
        passages = session.passages(set(numbers), drafts=call.service.worker.loaded.reads_own_text)
        chosen = [session.segments[number] for number in numbers]  # others may be added before them meanwhile
        session.translated, encoding = time.monotonic(), session.encoding or KeptEncoding()
        session.encoding = encoding
        encoded = sorted((each for each in self if each.encoding), key=lambda each: each.translated)
        for earlier in encoded[:-ENCODED]:
            earlier.encoding = None
        sentences = await call.sentences(Ask(documents=[passages], wishes=session.wishes, name="segments"))
        sentences.kept = encoding
        events = self._events(call, sentences, numbers, chosen)
        if wants_lines(request):
            return Streamed(events)
        translated = {event["segment"]: event async for event in events if "segment" in event}
        return json_response({"segments": [translated[number] for number in numbers]})

    async def _events(
        self, call: Call, sentences: Sentences, numbers: list[int], segments: list[SessionSegment]
    ) -> Events:
        """Yield each segment's number and translation as soon as it is ready, and keep it as a draft."""
        text_of = sentences.text_of()
        left = [sum(map(len, text)) for text in sentences.texts]

        def done(index: int) -> dict[str, Any]:
            segment, text = segments[index], sentences.text(index)
            if not segment.confirmed:  # else a person has confirmed it meanwhile
                segment.translation = text
            return {"segment": numbers[index], "translation": text, **limited_mark(sentences.limited(index))}

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
    for each in payload:
        new = NewSegment(each) if isinstance(each, str) else each
        confirmed = new.translation is not None if new.confirmed is None else new.confirmed
        segments.append(SessionSegment(new.source, new.translation, confirmed))
    return segments
