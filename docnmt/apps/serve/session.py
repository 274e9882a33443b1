"""Sessions: the documents that translators have open, with their segments and confirmed translations."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from docnmt.apps.serve.http import Refused
from docnmt.apps.serve.jobs import KeptItem, Store
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
