"""Sessions: the documents that translators have open, with their segments and confirmed translations."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from docnmt.apps.serve.http_error import Refused
from docnmt.apps.serve.order import NO_WISHES, KeptEncoding, Wishes
from docnmt.apps.serve.request_texts import Passage, check_text


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


@dataclass
class Session:
    """An open document.

    Attributes:
        wishes: options of its translation, such as the glossary. touched: time of its last use, by `time.monotonic`.
    """

    id: str
    wishes: Wishes = NO_WISHES
    segments: list[SessionSegment] = field(default_factory=list)
    touched: float = field(default_factory=time.monotonic)

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
        self._open: dict[str, Session] = {}
        self._encoded: dict[str, KeptEncoding] = {}
        self._armed = False

    def __len__(self) -> int:
        self._forget()
        return len(self._open)

    def open(self, segments: Sequence[SessionSegment], wishes: Wishes) -> Session:
        """Open a session.

        Raises:
            Refused: too many are open, a segment is not valid, or the document is too large.
        """
        if len(self) >= self.most:
            message = f"{self.most} documents are open, as many as --max-sessions allows; delete one"
            raise Refused(503, "too_many_sessions", message, {"retry-after": "60"})
        session = Session(secrets.token_urlsafe(24), wishes)
        self.add(session, segments, 0)
        self._open[session.id] = session
        if not self._armed:
            self._arm(self.idle)
        return session

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
        self._forget()
        session = self._open.get(name)
        if session is None:
            message = f"there is no session with this id; after {self.idle:g} seconds without use it is forgotten"
            raise Refused(404, "no_session", message)
        session.touched = time.monotonic()
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
        self._delete(self.get(name))

    def _delete(self, session: Session) -> None:
        del self._open[session.id]
        self._encoded.pop(session.id, None)

    def _forget(self) -> None:
        old = time.monotonic() - self.idle
        for session in [session for session in self._open.values() if session.touched < old]:
            self._delete(session)

    def _arm(self, seconds: float) -> None:
        """Schedule the deletion of old sessions, so that texts are not kept longer even if no request comes."""
        self._armed = True
        asyncio.get_running_loop().call_later(seconds + 0.1, self._forget_later)

    def _forget_later(self) -> None:
        self._armed = False
        self._forget()
        if self._open:
            oldest = min(session.touched for session in self._open.values())
            self._arm(max(oldest + self.idle - time.monotonic(), 0))
