"""Glossaries that clients create. They are in memory only, and lost when the service ends."""

from __future__ import annotations

import asyncio
import csv
import io
import uuid
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

import msgspec
from starlette.requests import Request

from docnmt.apps.serve.http import Refused
from docnmt.apps.serve.jobs import KeptItem, Store
from docnmt.apps.serve.offered_languages import same
from docnmt.apps.serve.request_texts import BREAK, check_text
from docnmt.apps.serve.service import Service
from docnmt.core.formats.glossary import Glossary
from docnmt.core.search.terms import TermFinder, takes_terms
from docnmt.runtime.errors import UserError

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
        created = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
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
