"""What a request of any form asks for, as one value, and the way from there to its translations.

The forms of other services (`deepl`, `libretranslate`, `openai`) and the sessions differ in what they send and answer.
All of them make `RequestTexts` of it, which become sentences of one document for the search that all requests share.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal, NamedTuple

from starlette.requests import Request

from docnmt.apps.commands.stdin_text import read_document
from docnmt.apps.documents.document_sentences import translated
from docnmt.apps.documents.fragments import Fragments, HtmlFragment, XmlFragment
from docnmt.apps.documents.plain import PlainText
from docnmt.apps.documents.segment import DocumentFile
from docnmt.apps.serve.document_events import document_events
from docnmt.apps.serve.http_error import Refused
from docnmt.apps.serve.order import NO_WISHES, Wishes
from docnmt.apps.serve.requests import AskedSentences
from docnmt.apps.serve.service import Service
from docnmt.apps.serve.shared_model import SharedModel
from docnmt.core.formats.split_sentences import splitter, whole_lines
from docnmt.core.formats.text_lines import half_character, is_blank
from docnmt.core.search.translate_corpus import Translation
from docnmt.runtime.errors import UserError

#: What ends a sentence: its end and the line's; its end; or nothing, a text is one.
Splits = Literal["lines", "sentences", "none"]


class Passage(NamedTuple):
    """A text of a document; `wanted`: its translation is. Others are read, with their translations where there are."""

    source: str
    translation: str | None = None
    wanted: bool = False


@dataclass(frozen=True)
class Tags:
    """How the tags in texts are read.

    Attributes:
        kind: of what. kept: elements that stay as they are. parting: of XML, those that no sentence goes beyond.
    """

    kind: Literal["xml", "html"]
    kept: tuple[str, ...] = ()
    parting: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class RequestTexts:
    """Texts that are one document.

    Attributes:
        passages: in order. tags: None: there are none, and what looks like one is text. wishes: how they are wanted.
        name: what the client calls its texts.
    """

    passages: Sequence[Passage]
    splits: Splits = "lines"
    tags: Tags | None = None
    wishes: Wishes = NO_WISHES
    name: str = "text"

    def check(self, most: int) -> None:
        """
        Raises:
            Refused: a text is not clean, or there are more than `most`.
        """
        if (count := len(self.passages)) > most:
            message = f"{self.name}: {count:,} are too many; expected at most {most:,} (--max-request-tokens)"
            raise Refused(413, "too_long", f"{message}: send them in parts")
        for passage in self.passages:
            check_text(passage.source, self.name)
            check_text(passage.translation or "", "translation")


class AskedTexts(AskedSentences):
    """Texts without tags as sentences, divided as `docnmt-translate` divides the lines of a document.

    Attributes:
        text_of: of each sentence of the texts that are wanted, which of these it is of.

    Raises:
        UserError: a text is not clean.
    """

    def __init__(self, texts: RequestTexts, service: Service) -> None:
        apart = [_lines(passage, texts.splits) for passage in texts.passages]
        lines = [line for passage in apart for line in passage]
        read = read_document(
            "".join(f"{line}\n" for line, _ in lines).encode(),
            [given for _, given in lines],
            service.config.splitter,
            service.task,
            name=texts.name,
            whole=texts.splits == "none",
        )
        counts = [sum(row) for row in read.form.rows]
        numbers = iter([range(a, a + n) for a, n in zip(accumulate(counts, initial=0), counts, strict=False)])
        found = [[next(numbers) for _ in passage] for passage in apart]
        self._texts = [own for own, passage in zip(found, texts.passages, strict=True) if passage.wanted]
        self.text_of = {n: place for place, text in enumerate(self._texts) for line in text for n in line}
        self.corpus, self.numbers = read.corpus, range(read.corpus.num_sentences)
        self.wishes = texts.wishes
        self.given = list(read.given)
        if not service.reads_translations:  # what nobody would read need not be written
            self.given = [each if n in self.text_of else each or "" for n, each in enumerate(self.given)]

    def answer(self, found: Mapping[int, Translation]) -> list[str]:
        """The translations of all texts that are wanted, of those of their sentences."""
        return [self.text(place, found) for place in range(len(self._texts))]

    def text(self, place: int, found: Mapping[int, Translation]) -> str:
        """The translation of one of the texts that are wanted."""
        lines = self._texts[place]
        return "\n".join(" ".join(filter(None, (found[number].text for number in line))) for line in lines)

    def parts(self) -> Iterator[tuple[str, int | None]]:
        """The texts in order, sentence by sentence: what stands before each, and its number; None: it is the end."""
        before = ""
        for number, line in enumerate(line for text in self._texts for line in text):
            before += "\n" if number else ""
            for sentence in line:
                yield before, sentence
                before = " "
            before = "" if line else before
        yield before, None


async def translations(
    service: Service, request: Request, asked: AskedTexts, deadline: float
) -> AsyncGenerator[tuple[int, Translation], None]:
    """Those of the sentences that are wanted, as they are ready; nothing else is waited for.

    Raises:
        Refused: as `Service.accept` and `Service.translations`.
    """
    service.accept(request.state.log, asked.corpus)
    left = len(asked.text_of)
    if not left:
        return
    async with contextlib.aclosing(service.translations(asked, request.receive, deadline)) as events:
        async for number, translation in events:
            if number in asked.text_of:
                yield number, translation
                left -= 1
                if not left:
                    return


async def asked_texts(service: Service, texts: RequestTexts) -> AskedTexts:
    """Texts without tags, ready for the search.

    Raises:
        Refused: a text is not clean, or they are too many.
    """
    texts.check(service.config.max_request_tokens)
    try:
        return await asyncio.to_thread(AskedTexts, texts, service)
    except UserError as error:
        raise Refused(400, "invalid_text", str(error)) from None


async def translate(service: Service, request: Request, texts: RequestTexts, deadline: float) -> list[str]:
    """The translation of each text.

    Raises:
        Refused: a text is not clean, they are too much, or they are not translated in time.
    """
    if texts.tags is not None:
        return await _with_tags(service, request, texts, texts.tags, deadline)
    asked = await asked_texts(service, texts)
    async with contextlib.aclosing(translations(service, request, asked, deadline)) as events:
        return asked.answer({number: translation async for number, translation in events})


async def _with_tags(service: Service, request: Request, texts: RequestTexts, tags: Tags, deadline: float) -> list[str]:
    """Texts whose tags stand around the same words in the translation, as in documents."""
    texts.check(service.config.max_request_tokens)

    def opened() -> DocumentFile:
        numbered = enumerate(texts.passages, 1)
        parts = [_fragment(each, f"{texts.name} {number}", tags, texts.splits) for number, each in numbered]
        return Fragments(parts or [PlainText(b"", name=texts.name, languages=("", ""))])

    def written(document: DocumentFile, model: SharedModel) -> bytes:
        whole = texts.splits == "none"
        rules, languages = service.config.splitter, model.languages
        split, split_target = (whole_lines() if whole else splitter(rules, language) for language in languages)
        return document.write(translated(document, model, split=split, split_target=split_target, align=model.align))

    events = document_events(
        service, request.state.log, opened, written, deadline, receive=request.receive, wishes=texts.wishes
    )
    async with contextlib.aclosing(events):
        *_, last = [event async for event in events]
    found = Fragments.apart(last["content"])
    return [text for text, passage in zip(found, texts.passages, strict=False) if passage.wanted]


def _fragment(passage: Passage, name: str, tags: Tags, splits: Splits) -> DocumentFile:
    """A text with its tags; what is only read has none."""
    if not passage.wanted:
        return PlainText(passage.source.encode(), name=name, languages=("", ""))
    if tags.kind == "html":
        return HtmlFragment(passage.source, name=name, kept=tags.kept)
    return XmlFragment(passage.source, name=name, parting=tags.parting, kept=tags.kept, lines=splits == "lines")


def check_text(text: str, name: str) -> None:
    """
    Raises:
        Refused: a text is not clean; the message says what it is called.
    """
    if problem := half_character(text) or ("a NUL character" if "\0" in text else None):
        raise Refused(400, "invalid_text", f"{name}: has {problem}; remove it")


def _lines(passage: Passage, splits: Splits) -> list[tuple[str, str]]:
    """The lines of a text, each with what is given of its translation; as one where both have not equally many."""
    lines = passage.source.replace("\r\n", "\n").split("\n")
    given = (passage.translation or "").replace("\r\n", "\n").split("\n")
    if splits != "lines" or (passage.translation and len(given) != len(lines)):
        lines, given = [" ".join(passage.source.split())], [" ".join((passage.translation or "").split())]
    given = given if passage.translation else [""] * len(lines)
    return [(line, "" if is_blank(line) else own) for line, own in zip(lines, given, strict=True)]
