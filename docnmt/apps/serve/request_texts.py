"""The texts of a request in any form, and their translation.

The APIs of other services (`deepl`, `libretranslate`, `openai`) and the sessions have requests and answers of their
own. All convert a request to `RequestTexts`, which become sentences of one document for the search that all share.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal, NamedTuple

from starlette.requests import Request

from docnmt.apps.commands.translate import read_document
from docnmt.apps.documents.fragments import Fragments
from docnmt.apps.serve.document_events import document_events
from docnmt.apps.serve.file_processes import Fragment, FragmentsSource
from docnmt.apps.serve.http import Refused, too_many
from docnmt.apps.serve.requests import AskedSentences, check_sizes
from docnmt.apps.serve.search import NO_WISHES, Wishes
from docnmt.apps.serve.service import Service
from docnmt.core.formats.text_lines import half_character, is_blank
from docnmt.core.search.translate_corpus import Translation
from docnmt.runtime.errors import UserError
from docnmt.runtime.languages import joined, one_line

#: A line break; in answers it is `\n`.
BREAK = re.compile(r"\r\n?|\n")
#: The splitting of a text: at line breaks and ends of sentences, at ends of sentences only, or not at all.
Splits = Literal["lines", "sentences", "none"]


class Passage(NamedTuple):
    """A text of a document. If it is `wanted`, it is translated; else it is context, with its translation if known."""

    source: str
    translation: str | None = None
    wanted: bool = False


class Answered(NamedTuple):
    """The translation of a text; it is `limited` if a sentence of it ends at the length limit, or, in a text with tags,
    a sentence of the document."""

    text: str
    limited: bool = False

    @property
    def mark(self) -> dict[str, bool]:
        """The mark of a limited translation in an answer of any form."""
        return {"limited": True} if self.limited else {}


@dataclass(frozen=True)
class Tags:
    """The rules for tags in texts.

    Attributes:
        kind: the markup language. kept: elements that are not translated. parting: in XML, elements that end a
            sentence.
    """

    kind: Literal["xml", "html"]
    kept: tuple[str, ...] = ()
    parting: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class RequestTexts:
    """The texts of a request, which are one document.

    Attributes:
        passages: the texts in order. tags: None: the texts have no tags, and `<` is a character of the text.
        wishes: the options of the request. name: the name of the texts in the client's request.
    """

    passages: Sequence[Passage]
    splits: Splits = "lines"
    tags: Tags | None = None
    wishes: Wishes = NO_WISHES
    name: str = "text"

    def check(self, most: int) -> None:
        """Check the numbers of texts, lines and elements, and the characters.

        Raises:
            Refused: a text has a forbidden character, or there are more than `most`; an empty line counts.
        """
        if (count := len(self.passages)) > most:
            raise too_many(self.name, count, most)
        sources = [passage.source for passage in self.passages]
        if self.tags is None:
            check_sizes(sources, self.name, most, lines=self.splits == "lines")
        elif (elements := sum(source.count("<") for source in sources)) > most:  # words are counted without markup
            raise too_many(f"{self.name}, elements", elements, most)
        for passage in self.passages:
            check_text(passage.source, self.name)
            check_text(passage.translation or "", "translation")


class AskedTexts(AskedSentences):
    """The sentences of texts without tags, split as `docnmt-translate` splits the lines of a document.

    Attributes:
        text_of: number of a sentence to be translated → number of its text among the wanted ones.

    Raises:
        UserError: a text has a forbidden character.
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
        if not service.worker.loaded.reads_translations:  # the model would not read translations of context
            self.given = [each if n in self.text_of else each or "" for n, each in enumerate(self.given)]

    def answer(self, found: Mapping[int, Translation]) -> list[Answered]:
        """Return the translation of each wanted text, given the translations of its sentences."""
        return [Answered(self.text(place, found), self.limited(place, found)) for place in range(len(self._texts))]

    def text(self, place: int, found: Mapping[int, Translation]) -> str:
        """Return the translation of one wanted text, by its number among them."""
        lines = self._texts[place]
        return "\n".join(joined(found[number].text for number in line) for line in lines)

    def limited(self, place: int, found: Mapping[int, Translation]) -> bool:
        """Return True if the translation of a wanted text ends at the length limit somewhere."""
        return any(found[number].limited for line in self._texts[place] for number in line)

    def parts(self) -> Iterator[tuple[str, int | None]]:
        """Yield what is before each sentence of the wanted texts, in order, and its number; None at the end.

        It is line breaks, or a space where sentences of a line are joined.
        """
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
    """Yield number and translation of each wanted sentence as soon as it is ready; others are not waited for.

    Raises:
        Refused: as for `Service.accept` and `Service.translations`.
    """
    await asyncio.to_thread(service.accept, request.state.log, asked.corpus, asked.given or ())
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
    """Return the sentences of texts without tags, ready for the search.

    Raises:
        Refused: a text has a forbidden character, or there are too many texts.
    """
    await asyncio.to_thread(texts.check, service.config.max_request_tokens)
    try:
        return await asyncio.to_thread(AskedTexts, texts, service)
    except UserError as error:
        raise Refused(400, "invalid_text", str(error)) from None


async def translate(service: Service, request: Request, texts: RequestTexts, deadline: float) -> list[Answered]:
    """Return the translation of each wanted text.

    Raises:
        Refused: a text has a forbidden character, the texts are too long, or they are not translated in time.
    """
    if texts.tags is not None:
        return await _with_tags(service, request, texts, texts.tags, deadline)
    asked = await asked_texts(service, texts)
    async with contextlib.aclosing(translations(service, request, asked, deadline)) as events:
        return asked.answer({number: translation async for number, translation in events})


async def _with_tags(
    service: Service, request: Request, texts: RequestTexts, tags: Tags, deadline: float
) -> list[Answered]:
    """Translate texts with tags; the tags enclose the corresponding words of the translation, as in documents."""
    await asyncio.to_thread(texts.check, service.config.max_request_tokens)
    source = FragmentsSource(
        [_fragment(each, f"{texts.name} {n}", tags, texts.splits) for n, each in enumerate(texts.passages, 1)],
        texts.name,
    )
    events = document_events(
        service, request.state.log, source, deadline, client=request.state.client, receive=request.receive,
        wishes=texts.wishes, whole=texts.splits == "none",
    )  # fmt: skip
    async with contextlib.aclosing(events):
        *sentences, last = [event async for event in events]
    found = Fragments.apart(last["content"])
    limited = any(event.get("limited") for event in sentences)
    return [Answered(text, limited) for text, passage in zip(found, texts.passages, strict=False) if passage.wanted]


def _fragment(passage: Passage, name: str, tags: Tags, splits: Splits) -> Fragment:
    """Return a text with its tags as part of a document; a text that is only context is read without tags."""
    if not passage.wanted:
        return Fragment(BREAK.sub("\n", passage.source), name)
    return Fragment(passage.source, name, tags.kind, tags.parting, tags.kept, splits == "lines")


def check_text(text: str, name: str) -> None:
    """Check the characters of a text; the error message calls it `name`.

    Raises:
        Refused: it has half a character, or a NUL character.
    """
    if problem := half_character(text) or ("a NUL character" if "\0" in text else None):
        raise Refused(400, "invalid_text", f"{name}: has {problem}; remove it")


def _lines(passage: Passage, splits: Splits) -> list[tuple[str, str]]:
    """Return the lines of a text, each with its known translation or "".

    It is one line if line breaks do not end sentences, or if the translation has another number of lines.
    """
    lines, given = (BREAK.split(text) for text in (passage.source, passage.translation or ""))
    if splits != "lines" or (passage.translation and len(given) != len(lines)):
        lines, given = [one_line(passage.source)], [one_line(passage.translation or "")]
    given = given if passage.translation else [""] * len(lines)
    return [(line, "" if is_blank(line) else own) for line, own in zip(lines, given, strict=True)]
