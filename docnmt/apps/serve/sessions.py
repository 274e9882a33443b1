"""The routes of sessions: documents that stay open, with confirmed translations as context of the others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from docnmt.apps.serve.http import JsonResponse, Refused, Stream, StructT, as_request, media_type, read_request, wanted
from docnmt.apps.serve.kept import MOST_TERMS, OpenSessions, Session, SessionSegment, wished_terms
from docnmt.apps.serve.order import NO_WISHES, Wishes
from docnmt.apps.serve.request_texts import AskedTexts, RequestTexts, asked_texts, check_text, translations
from docnmt.apps.serve.service import Service
from docnmt.core.search.translate_corpus import Translation


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


class Sessions:
    """The routes of sessions."""

    def __init__(self, service: Service) -> None:
        config = service.config
        self.service = service
        self.open = OpenSessions(
            most=config.max_sessions,
            idle=config.session_idle,
            size=config.max_body,
            segments=config.max_request_tokens,
        )

    @property
    def routes(self) -> list[Route]:
        """All routes of sessions."""
        one, segment = "/sessions/{session}", "/sessions/{session}/segments/{segment}"
        return [
            Route("/sessions", self.create, methods=["POST"]),
            Route("/sessions", self.about, methods=["GET"]),
            Route(one, self.show, methods=["GET"]),
            Route(one, self.delete, methods=["DELETE"]),
            Route(f"{one}/segments", self.add, methods=["POST"]),
            Route(segment, self.change, methods=["PUT"]),
            Route(f"{one}/translate", TranslateSession(self), methods=["POST"]),
        ]

    async def create(self, request: Request) -> Response:
        """Answer POST /sessions: open a session."""
        asked = await self.asked(request, OpenSession)
        wishes = await asyncio.to_thread(self._wishes, asked.glossary)
        session = self.open.open(_segments(asked.segments), wishes, request.state.client)
        return JsonResponse(self._content(session), 201)

    async def about(self, request: Request) -> Response:
        """Answer GET /sessions: the number of sessions; their ids and texts are private."""
        return JsonResponse({"sessions": len(self.open), "most": self.open.most, "idle_seconds": self.open.idle})

    async def show(self, request: Request) -> Response:
        """Answer GET /sessions/ID: the document."""
        return JsonResponse(self._content(self.session(request)))

    async def delete(self, request: Request) -> Response:
        """Answer DELETE /sessions/ID: forget the document."""
        self.open.close(request.path_params["session"])
        return Response(status_code=204)

    async def add(self, request: Request) -> Response:
        """Answer POST /sessions/ID/segments: insert segments."""
        asked, session = await self.asked(request, AddSegments), self.session(request)
        place = len(session.segments) if asked.before is None else asked.before
        if not 0 <= place <= len(session.segments):
            raise Refused(400, "invalid_request", f"before: expected 0 to {len(session.segments)}, got {place}")
        self.open.add(session, _segments(asked.segments), place)
        return JsonResponse(self._content(session))

    async def change(self, request: Request) -> Response:
        """Answer PUT /sessions/ID/segments/NUMBER: confirm a segment, or withdraw its confirmation."""
        asked, session = await self.asked(request, ChangeSegment), self.session(request)
        number = request.path_params["segment"]
        segment = session.segment(int(number) if number.isdecimal() and len(number) < 10 else -1)
        translation = segment.translation if asked.translation is None else asked.translation
        if translation is None and asked.confirmed:
            raise Refused(400, "invalid_request", "translation: expected one; what is confirmed must have it")
        check_text(translation or "", "translation")
        self.open.check_size(session, len(translation or "") - len(segment.translation or ""))
        segment.translation, segment.confirmed = translation, asked.confirmed
        return JsonResponse(segment.content)

    def session(self, request: Request) -> Session:
        """Return the session that the address names; errors are as for `OpenSessions.get`."""
        return self.open.get(request.path_params["session"])

    async def asked(self, request: Request, kind: type[StructT]) -> StructT:
        """Return the JSON body of a request as an instance of `kind`; an empty body is read like `{}`.

        Raises:
            Refused: the body has another form.
        """
        body, said = await self.service.small_body(request), media_type(request)
        if not body:
            return as_request({}, kind)
        if said != "application/json":
            raise Refused(415, "wrong_type", f"expected Content-Type: application/json, got '{said[:80]}'")
        return await read_request(request, body, kind, most=self.service.config.max_request_tokens)

    def _content(self, session: Session) -> dict[str, Any]:
        segments = [segment.content for segment in session.segments]
        return {"session": session.id, "idle_seconds": self.open.idle, "segments": segments}

    def _wishes(self, glossary: dict[str, str]) -> Wishes:
        """Return the options of a session with this glossary.

        Raises:
            Refused: the vocabulary cannot express a term, or the search method does not support terms.
        """
        if not glossary:
            return NO_WISHES
        if len(glossary) > MOST_TERMS:
            raise Refused(413, "too_long", f"glossary: expected at most {MOST_TERMS:,} terms, got {len(glossary):,}")
        for term in (*glossary, *glossary.values()):
            check_text(term, "glossary")
        return Wishes(terms=wished_terms(self.service, glossary, "glossary")[1])


class TranslateSession:
    """The route POST /sessions/ID/translate; the whole document and its confirmed translations are context."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions, self._service = sessions, sessions.service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        service, request = self._service, Request(scope, receive)
        asked = await self._sessions.asked(request, TranslateSegments)
        with service.place(request.state.client) as deadline:
            session = self._sessions.session(request)
            if asked.segments is None:
                numbers = session.unconfirmed()
            else:
                numbers = sorted({number for number in asked.segments if session.segment(number)})
            passages = session.passages(set(numbers), drafts=service.worker.loaded.reads_own_text)
            chosen = [session.segments[number] for number in numbers]  # others may be added before them meanwhile
            kept = self._sessions.open.encoding(session)  # which is forgotten if the session is deleted meanwhile
            texts = await asked_texts(service, RequestTexts(passages=passages, wishes=session.wishes, name="segments"))
            texts.kept = kept
            events = self._events(request, texts, numbers, chosen, deadline)
            if wanted(request):
                await self._stream(request, events, Stream(send, deadline))
                return
            told = {event["segment"]: event async for event in events}
        await JsonResponse({"segments": [told[number] for number in numbers]})(scope, receive, send)

    async def _events(
        self, request: Request, texts: AskedTexts, numbers: list[int], segments: list[SessionSegment], deadline: float
    ) -> AsyncIterator[dict[str, Any]]:
        """Yield each segment's number and translation as soon as it is ready, and keep it as a draft."""
        found: dict[int, Translation] = {}
        left = [0] * len(numbers)
        for place in texts.text_of.values():
            left[place] += 1

        def done(place: int) -> dict[str, Any]:
            segment, text = segments[place], texts.text(place, found)
            if not segment.confirmed:  # else a person has confirmed it meanwhile
                segment.translation = text
            mark = {"limited": True} if texts.limited(place, found) else {}
            return {"segment": numbers[place], "translation": text, **mark}

        for place, waiting in enumerate(left):
            if not waiting:  # it has no sentences
                yield done(place)
        async for number, translation in translations(self._service, request, texts, deadline):
            found[number] = translation
            place = texts.text_of[number]
            left[place] -= 1
            if not left[place]:
                yield done(place)

    async def _stream(self, request: Request, events: AsyncIterator[dict[str, Any]], stream: Stream) -> None:
        await stream.begin()
        last: dict[str, Any] = {"done": True}
        try:
            with self._service.told_of_the_end():
                async for event in events:
                    await stream.write(event)
        except Refused as refused:
            request.state.log["error"] = refused.code
            last = refused.content
        await stream.end(last)


def _segments(asked: list[str | NewSegment]) -> list[SessionSegment]:
    found = []
    for each in asked:
        segment = NewSegment(each) if isinstance(each, str) else each
        confirmed = segment.translation is not None if segment.confirmed is None else segment.confirmed
        found.append(SessionSegment(segment.source, segment.translation, confirmed))
    return found
