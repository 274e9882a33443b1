"""One internal form of all requests: `Ask`, documents of passages → `Sentences` for the search → texts."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal, NamedTuple, cast, get_args

import numpy as np

from docnmt.apps.commands.translating import LoadedModels, read_document
from docnmt.apps.serve.file_processes import Tags
from docnmt.apps.serve.http import Refused, too_many
from docnmt.core.corpus import ParallelCorpus
from docnmt.core.formality import Form, Formality
from docnmt.core.models.encoder_decoder import TranslationTask
from docnmt.core.read_corpus import TextLines, half_character, is_blank
from docnmt.core.search.glossary import TermFinder
from docnmt.core.search.scheduler import Encoding
from docnmt.core.search.translate import Translation
from docnmt.runtime.languages import base, joined, one_line, same_language
from docnmt.runtime.system import UserError

# Names and codes of languages, as clients use them.

_NAMES = """
af Afrikaans|am Amharic|ar Arabic|az Azerbaijani|be Belarusian|bg Bulgarian|bn Bengali|bs Bosnian|ca Catalan|cs Czech
cy Welsh|da Danish|de German|el Greek|en English|eo Esperanto|es Spanish|et Estonian|eu Basque|fa Persian|fi Finnish
fr French|ga Irish|gl Galician|gu Gujarati|ha Hausa|he Hebrew|hi Hindi|hr Croatian|hu Hungarian|hy Armenian
id Indonesian|ig Igbo|is Icelandic|it Italian|ja Japanese|ka Georgian|kk Kazakh|km Khmer|kn Kannada|ko Korean|la Latin
lb Luxembourgish|lo Lao|lt Lithuanian|lv Latvian|mk Macedonian|ml Malayalam|mn Mongolian|mr Marathi|ms Malay|mt Maltese
my Burmese|nb Norwegian|ne Nepali|nl Dutch|pa Punjabi|pl Polish|ps Pashto|pt Portuguese|ro Romanian|ru Russian
sk Slovak|sl Slovenian|sq Albanian|sr Serbian|sv Swedish|sw Swahili|ta Tamil|te Telugu|th Thai|tl Tagalog|tr Turkish
uk Ukrainian|ur Urdu|uz Uzbek|vi Vietnamese|xh Xhosa|yo Yoruba|zh Chinese|zu Zulu
"""
#: The English name of each code.
NAMES: dict[str, str] = {
    code: name
    for code, _, name in (entry.partition(" ") for line in _NAMES.split("\n") for entry in line.split("|") if entry)
}
_CODES = {name.lower(): code for code, name in NAMES.items()}


def name_of(code: str) -> str:
    """Return the English name of a language, `German` for `de-AT`; a code without a name is returned unchanged."""
    return NAMES.get(base(code), code)


def code_of(said: str) -> str | None:
    """Return the code of a language: `de` for `German`, `de`, `de-DE` and `German (Austria)`; None if it is unknown."""
    said = said.strip().lower()
    name = said.partition("(")[0].strip()
    if name in _CODES:
        return _CODES[name]
    return base(said) if base(said) in NAMES else None


def same(said: str, language: str) -> bool:
    """Return True if two codes name the same language; the country is ignored, unless it says a script."""
    return base(said) == base(language) if said.isalpha() else same_language(said, language)


# Forms of address in requests.

#: DeepL's values of `formality`: the form of address, and True if models without forms of address ignore it.
FORMALITIES: dict[str, tuple[Form | None, bool]] = {
    "default": (None, True), "more": ("formal", False), "less": ("informal", False), "prefer_more": ("formal", True),
    "prefer_less": ("informal", True),
}  # fmt: skip


def form_of(formality: str | None, loaded: LoadedModels) -> Formality | None:
    """Return the form of address of a request in the service's own form; None if it names none."""
    if formality is not None and formality not in get_args(Formality):
        expected = " or ".join(get_args(Formality))
        raise Refused(400, "invalid_request", f"formality: expected {expected}, got '{formality[:40]}'")
    if formality is not None and not loaded.knows_formality:
        raise Refused(400, "no_formality", "formality: this model knows no forms of address; leave it out")
    return cast("Formality | None", formality)


def register_of(formality: str, loaded: LoadedModels) -> Form | None:
    """Return the form of address for DeepL's `formality`; None if it names none or may be ignored."""
    if formality not in FORMALITIES:
        expected = ", ".join(FORMALITIES)
        message = f"Value for 'formality' not supported: expected one of {expected}, got '{formality[:40]}'"
        raise Refused(400, "invalid_request", message)
    form, may_go = FORMALITIES[formality]
    if form is None or loaded.knows_formality:
        return form
    if may_go:
        return None
    message = f"formality '{formality}': this model was not trained with forms of address; send 'prefer_{formality}'"
    raise Refused(400, "no_formality", message)


# What is asked.

#: Characters that a text has for each subword, at most: in real text they are 1 to 6.
CHARACTERS = 10
#: A line break; in answers it is `\n`.
BREAK = re.compile(r"\r\n?|\n")
#: What ends a sentence: line breaks and the rules; the rules only; nothing; the rules and the lines of a file; or each
#: passage is a sentence.
Splits = Literal["lines", "sentences", "none", "file", "given"]


class Passage(NamedTuple):
    """A text of a document. If it is `wanted`, it is translated; else it is context, with its translation if known."""

    source: str
    translation: str | None = None
    wanted: bool = False
    prefix: str = ""  # the words with which the translation of what is wanted begins


@dataclass(frozen=True, eq=False)
class Wishes:
    """The options of a request; None means the service's default: its languages, terms of its glossary, its form."""

    task: TranslationTask | None = None
    terms: TermFinder | None = None
    formality: Formality | None = None


#: No options: the service's defaults.
NO_WISHES = Wishes()


@dataclass(frozen=True, kw_only=True)
class Ask:
    """What a request of any form asks: documents of passages, of which those that are wanted are translated."""

    documents: Sequence[Sequence[Passage]]  # one, but for `given`
    splits: Splits = "lines"
    tags: Tags | None = None  # None: `<` is a character of the text
    wishes: Wishes = NO_WISHES
    name: str = "text"  # of the texts in the client's request
    explain: bool = False

    def check(self, most: int) -> None:
        """Refuse forbidden characters, and more than `most` texts, lines or elements; an empty line counts."""
        passages = [passage for document in self.documents for passage in document]
        if len(passages) > most:
            raise too_many(self.name, len(passages), most)
        sources = [passage.source for passage in passages]
        if self.tags is None:
            check_sizes(sources, self.name, most, lines=self.splits == "lines")
        elif (elements := sum(source.count("<") for source in sources)) > most:  # words are counted without markup
            raise too_many(f"{self.name}, elements", elements, most)
        check_sizes([passage.translation or "" for passage in passages], "translation", most)
        check_sizes([passage.prefix for passage in passages if passage.prefix], "prefix", most)
        for passage in passages:
            check_text(passage.source, self.name)
            check_text(passage.translation or "", "translation")
            check_text(passage.prefix, "prefix")


def check_sizes(texts: Sequence[str], name: str, most: int, *, lines: bool = True) -> None:
    """Refuse texts with more lines, characters or words than `most` subwords have, before anything is made of them."""
    if lines and (number := sum(max(text.count("\n"), text.count("\r")) + 1 for text in texts)) > most:
        raise too_many(f"{name}, lines", number, most)
    if (number := sum(map(len, texts))) > most * CHARACTERS:
        raise too_many(f"{name}, characters", number, most * CHARACTERS)
    if (number := sum(len(text.split()) for text in texts)) > most:
        raise too_many(f"{name}, words", number, most)


def check_text(text: str, name: str) -> None:
    """Refuse a text with half a character or a NUL character; the error message calls it `name`."""
    if problem := half_character(text) or ("a NUL character" if "\0" in text else None):
        raise Refused(400, "invalid_text", f"{name}: has {problem}; remove it")


# Its sentences.


class KeptEncoding:
    """The encodings of a document that stays open, of its source as it is and as it was before.

    A segment that is confirmed by one sentence is one sentence, and may be several when this is taken back.
    """

    def __init__(self) -> None:
        self._states: dict[tuple[bytes, ...], dict[tuple[int, int], Encoding]] = {}

    def of(self, corpus: ParallelCorpus) -> dict[tuple[int, int], Encoding]:
        """Return the kept encodings of this source, by ranges of sentences; none if it is new."""
        source = corpus.source
        key = tuple(np.asarray(part).tobytes() for part in (source.tokens, source.offsets, corpus.document_offsets))
        encodings = self._states[key] = self._states.pop(key, {})
        if len(self._states) > 2:
            del self._states[next(iter(self._states))]
        return encodings


@dataclass(eq=False)
class Sentences:
    """The sentences of an `Ask` as the search takes them, and the way back."""

    corpus: ParallelCorpus  # of the sentences that have text
    texts: list[list[range]]  # for each wanted text the sentences of each of its lines, by number
    wishes: Wishes = NO_WISHES
    given: Sequence[str | None] | None = None  # the translation of each sentence
    prefixes: Sequence[str | None] | None = None  # the words with which each translation begins
    fixed: Sequence[Sequence[tuple[int, int]]] | None = None  # parts of each in which the glossary has no terms
    explain: Sequence[int] | None = None  # if wanted: the number of each sentence in its document
    kept: KeptEncoding | None = None  # of the same document, from earlier requests
    ready: dict[int, Translation] = field(default_factory=dict, init=False)  # by number of the sentence

    @classmethod
    def of(cls, ask: Ask, rules: str, loaded: LoadedModels) -> Sentences:
        """Split the texts of an `Ask` without tags as `docnmt-translate` splits a document; `rules`: `--splitter`."""
        try:
            return cls._as_given(ask, loaded) if ask.splits == "given" else cls._split(ask, rules, loaded)
        except UserError as error:
            raise Refused(400, "invalid_text", str(error)) from None

    @classmethod
    def _split(cls, ask: Ask, rules: str, loaded: LoadedModels) -> Sentences:
        (passages,), task = ask.documents, ask.wishes.task or loaded.task
        is_file, lines, known, begins, ends = ask.splits == "file", list[str](), list[str](), list[str](), [0]
        for passage in passages:
            own_lines, translations = _lines(passage, ask.splits, ask.name)
            first = next((n for n, line in enumerate(own_lines) if not is_blank(line)), -1)
            begins += [passage.prefix if n == first else "" for n in range(len(own_lines))]
            lines += own_lines
            known += translations
            ends.append(len(lines))
        given, prefixes = None if is_file else known, begins if any(begins) else None
        read = read_document(lines, given, rules, task, whole=ask.splits == "none", prefixes=prefixes)
        ranges, begin = list[range](), 0
        for counts in read.form.rows:
            ranges.append(range(begin, begin + sum(counts)))
            begin += sum(counts)
        bounds = zip(passages, pairwise(ends), strict=True)
        texts = [ranges[first:last] for passage, (first, last) in bounds if passage.wanted]
        numbers = range(read.corpus.num_sentences)
        sentences = cls(read.corpus, texts, ask.wishes, explain=numbers if ask.explain else None)
        sentences.prefixes = read.prefixes
        if not is_file:
            sentences.given = list(read.given)
            if not loaded.reads_translations:  # the model would not read translations of context
                wanted = sentences.text_of()
                sentences.given = [text if n in wanted else text or "" for n, text in enumerate(read.given)]
        return sentences

    @classmethod
    def _as_given(cls, ask: Ask, loaded: LoadedModels) -> Sentences:
        """Take each passage as a sentence; one without text has an empty translation, and is no context."""
        texts: list[list[range]] = []
        places: list[int] = []
        for document in ask.documents:
            texts.append([])
            for number, passage in enumerate(document):
                begin = len(places)
                places += [] if is_blank(passage.source) else [number]
                texts[-1].append(range(begin, len(places)))
        task = ask.wishes.task or loaded.task
        documents = [[part.source for part in document if not is_blank(part.source)] for document in ask.documents]
        corpus = ParallelCorpus.from_lines(documents, task.source_tokenizer)
        return cls(corpus, texts, ask.wishes, explain=places if ask.explain else None)

    def text_of(self) -> dict[int, int]:
        """Return the number of the wanted text of each sentence to be translated."""
        return {n: index for index, text in enumerate(self.texts) for line in text for n in line}

    def text(self, index: int) -> str:
        """Return the translation of one wanted text, once all its sentences are ready."""
        return "\n".join(joined(self.ready[number].text for number in line) for line in self.texts[index])

    def limited(self, index: int) -> bool:
        """Return True if the translation of a wanted text ends at the length limit somewhere."""
        return any(self.ready[number].limited for line in self.texts[index] for number in line)


def _lines(passage: Passage, splits: Splits, name: str) -> tuple[list[str], list[str]]:
    """Return the lines of a text, and of each its known translation or ""."""
    source, translation = passage.source.removeprefix("\ufeff"), passage.translation or ""
    if splits == "file":
        lines = list(TextLines(io.BytesIO(passage.source.encode()), name=name))
        return lines, [""] * len(lines)
    lines, known = BREAK.split(source), BREAK.split(translation)
    if splits != "lines" or (translation and len(known) != len(lines)):
        lines, known = [one_line(source)], [one_line(translation)]
    if not translation:
        return lines, [""] * len(lines)
    return lines, ["" if is_blank(line) else text for line, text in zip(lines, known, strict=True)]


def limited_mark(limited: bool) -> dict[str, bool]:
    """Return the mark of a translation that ends at the length limit, in an answer of any form."""
    return {"limited": True} if limited else {}


def event_of(position: dict[str, int], translation: Translation) -> dict[str, Any]:
    """Return a line of a stream: the translation at a place."""
    return {**position, "text": translation.text, "score": translation.score, **limited_mark(translation.limited)}
