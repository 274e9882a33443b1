"""Requests → documents of sentences for the search, and translations → texts of the answer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import accumulate
from typing import Annotated, Any, ClassVar, get_args

import msgspec

from docnmt.apps.commands.models import LoadedModels, between
from docnmt.apps.commands.translate import StdinText, read_document
from docnmt.apps.explain.attention import Explanation
from docnmt.apps.serve.http import Refused, check_lists, too_many
from docnmt.apps.serve.search import NO_WISHES, KeptEncoding, Wishes
from docnmt.core.corpus import ParallelCorpus
from docnmt.core.formality import Form, Formality
from docnmt.core.lines import half_character, is_blank
from docnmt.core.models.encoder_decoder import TranslationTask
from docnmt.core.tokenizer import UnknownLanguage
from docnmt.runtime.languages import base, same_language
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


def same(said: str, own: str) -> bool:
    """Return True if two codes name the same language; the country is ignored, unless it says a script."""
    return base(said) == base(own) if said.isalpha() else same_language(said, own)


# Forms of address in requests.


#: DeepL's values of `formality`: the form of address, and True if models without forms of address ignore it.
FORMALITIES: dict[str, tuple[Form | None, bool]] = {
    "default": (None, True), "more": ("formal", False), "less": ("informal", False), "prefer_more": ("formal", True),
    "prefer_less": ("informal", True),
}  # fmt: skip


def form_of(formality: str | None, loaded: LoadedModels) -> Formality | None:
    """Return the form of address of a request in the service's own form; None if it names none.

    Raises:
        Refused: the form of address is unknown, or the models do not support any.
    """
    forms: dict[str, Formality] = {form: form for form in get_args(Formality)}
    if formality is None:
        return None
    if formality not in forms:
        expected = " or ".join(forms)
        raise Refused(400, "invalid_request", f"formality: expected {expected}, got '{formality[:40]}'")
    if not loaded.knows_formality:
        raise Refused(400, "no_formality", "formality: this model knows no forms of address; leave it out")
    return forms[formality]


def register_of(formality: str, loaded: LoadedModels) -> Form | None:
    """Return the form of address for DeepL's `formality`; None if it names none or may be ignored.

    Raises:
        Refused: the value is unknown, or it may not be ignored and the models do not support forms of address.
    """
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


# Requests in this service's own form: from JSON to sentences, and from translations to the answer.


_Formality = Annotated[str, msgspec.Meta(extra_json_schema={"enum": get_args(Formality)})]


#: Characters that a text has for each subword, at most: in real text they are 1 to 6.
CHARACTERS = 10


class TranslateRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The body of POST /translate: either documents, lists of sentences, or one document as running text."""

    documents: list[list[str]] | None = None
    text: str | None = None
    explain: bool | None = None
    source_lang: str | None = None
    target_lang: str | None = None
    formality: _Formality | None = None


class AskedSentences:
    """The sentences of a request of any form, as the search needs them.

    Attributes:
        corpus: the sentences that have text. given: their known translations, or None.
        numbers: the number of each sentence in its document. explain: True if explanations are wanted, too.
        wishes: the options of the request. kept: encodings of the same document from earlier requests.
    """

    corpus: ParallelCorpus
    numbers: Sequence[int]
    explain: bool = False
    given: Sequence[str | None] | None = None
    wishes: Wishes = NO_WISHES
    kept: KeptEncoding | None = None


class Asked(AskedSentences, ABC):
    """The sentences of a request in this service's own form, with methods that make its answer."""

    def opening(self) -> dict[str, Any] | None:
        """Return the first value of a streamed answer; None if there is none."""
        return None

    @abstractmethod
    def place(self, number: int) -> dict[str, int]:
        """Return the position in the request of sentence `number` of the corpus."""

    @abstractmethod
    def answer(self, texts: Sequence[str]) -> dict[str, Any]:
        """Return the complete answer, given the translations of the corpus's sentences."""

    @abstractmethod
    def shaped(self, values: Sequence[Any]) -> list[list[Any]]:
        """Return the values of the corpus's sentences by documents or by lines; None for a sentence without text."""


class AskedDocuments(Asked):
    """Documents as lists of sentences. A sentence without text has an empty translation, and is no context."""

    def __init__(self, documents: list[list[str]], task: TranslationTask) -> None:
        for number, document in enumerate(documents, 1):
            for place, sentence in enumerate(document, 1):
                if problem := _problem(sentence):
                    raise UserError(f"documents: sentence {place} of document {number} {problem}")
        self._shape = [len(document) for document in documents]
        self._places = [
            (number, place)
            for number, document in enumerate(documents)
            for place, sentence in enumerate(document)
            if not is_blank(sentence)
        ]
        self.numbers = [place for _, place in self._places]
        kept = [[sentence for sentence in document if not is_blank(sentence)] for document in documents]
        self.corpus = ParallelCorpus.from_lines(kept, task.source_tokenizer)

    def place(self, number: int) -> dict[str, int]:
        """Return the numbers of the document and of the sentence in it, from 0."""
        document, sentence = self._places[number]
        return {"document": document, "sentence": sentence}

    def answer(self, texts: Sequence[str]) -> dict[str, Any]:
        """Return the documents with a translation in place of each sentence."""
        return {"documents": [[text or "" for text in document] for document in self.shaped(texts)]}

    def shaped(self, values: Sequence[Any]) -> list[list[Any]]:
        """Return the values as one list per document."""
        documents: list[list[Any]] = [[None] * sentences for sentences in self._shape]
        for (document, sentence), value in zip(self._places, values, strict=True):
            documents[document][sentence] = value
        return documents


class AskedText(Asked):
    """One document of running text, which is read as docnmt-translate reads its standard input."""

    name: ClassVar[str] = "text"

    def __init__(self, text: str, rules: str, task: TranslationTask) -> None:
        if problem := half_character(text):
            raise UserError(f"text: has {problem}")
        self._ends = text.endswith("\n")
        self._text: StdinText = read_document(text.encode(), None, rules, task, name=self.name)
        self.corpus = self._text.corpus
        self.numbers = range(self.corpus.num_sentences)
        counts = [sum(counts) for counts in self._text.form.rows]
        self._begins = list(accumulate(counts, initial=0))
        self._line_of = [line for line, count in enumerate(counts) for _ in range(count)]

    def opening(self) -> dict[str, Any]:
        """Return the sentences of each line."""
        return {"source": self.shaped(list(self.corpus.source_text))}

    def shaped(self, values: Sequence[Any]) -> list[list[Any]]:
        """Return the values as one list per line."""
        return [list(values[a:b]) for a, b in zip(self._begins, self._begins[1:], strict=False)]

    def place(self, number: int) -> dict[str, int]:
        """Return the numbers of the line and of the sentence in it, from 0."""
        line = self._line_of[number]
        return {"line": line, "sentence": number - self._begins[line]}

    def answer(self, texts: Sequence[str]) -> dict[str, Any]:
        """Return one line per line of the source; the last one has a line break if it has one in the source."""
        joined = "".join(f"{line}\n" for line in self._text.form.joined(iter(texts)))
        return {"text": joined if self._ends else joined[:-1]}


def parse(body: bytes, rules: str, loaded: LoadedModels, *, most: int) -> Asked:
    """Return the request in a JSON body.

    Args:
        rules: the value of `--splitter`. most: the largest number of documents and sentences together, or of
            lines.

    Raises:
        Refused: the body is no JSON or has another form, is too long, has a forbidden character, or names a language or
            form of address that the models do not support.
    """
    check_lists(body, most)
    try:
        wanted = msgspec.json.decode(body, type=TranslateRequest)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        names = f"; expected one of {', '.join(TranslateRequest.__struct_encode_fields__)}"
        why = f"{error}{names if 'unknown field' in str(error) else ''}"
        raise Refused(400, "invalid_request", f"the body is not as expected: {why}") from None
    there = len(wanted.documents or ()) + sum(map(len, wanted.documents or ()))
    if there > most:
        message = (
            f"{there:,} documents and sentences; expected at most {most:,} (--max-request-tokens): send it in parts"
        )
        raise Refused(413, "too_long", message)
    check_sizes([wanted.text or ""], "text", most)
    check_sizes([sentence for document in wanted.documents or () for sentence in document], "documents", most)
    try:
        if (wanted.documents is None) == (wanted.text is None):
            raise UserError('the body must have either "documents" or "text"')
        task = between(loaded.task, wanted.source_lang, wanted.target_lang)
        asked: Asked
        if wanted.documents is not None:
            asked = AskedDocuments(wanted.documents, task)
        else:
            asked = AskedText(wanted.text or "", rules, task)
        asked.explain, asked.wishes = (
            bool(wanted.explain),
            Wishes(task=task, formality=form_of(wanted.formality, loaded)),
        )
        return asked
    except UnknownLanguage as error:
        message = f"{error.side}_lang: expected {error.expected}, got '{error.wanted[:40]}'"
        raise Refused(400, "wrong_language", message) from None
    except UserError as error:
        raise Refused(400, "invalid_text", str(error)) from None


def reads(explanation: Explanation) -> dict[str, Any]:
    """Return the explanation of a sentence's translation as JSON types.

    It has the pieces of the translation, for each piece and head the sentences read and their weights, and the other
    sentences with their mean weights. Sentences are numbered in the document from 0, those of a memory before it from
    -1 backwards.
    """
    heads = [[each._asdict() for each in piece] for piece in explanation.reads]
    return {"pieces": explanation.target, "heads": heads, "others": list(explanation.others.items())}


def check_sizes(texts: Sequence[str], name: str, most: int, *, lines: bool = True) -> None:
    """Count the lines, characters and words of texts, before anything is made of them.

    Args:
        most: the largest number of subwords. Each word has one at least, and a line counts, too, even an empty one.
        lines: lines are read one by one.

    Raises:
        Refused: there are too many.
    """
    if lines and (count := sum(max(text.count("\n"), text.count("\r")) + 1 for text in texts)) > most:
        raise too_many(f"{name}, lines", count, most)
    if (count := sum(map(len, texts))) > most * CHARACTERS:
        raise too_many(f"{name}, characters", count, most * CHARACTERS)
    if (count := sum(len(text.split()) for text in texts)) > most:
        raise too_many(f"{name}, words", count, most)


def _problem(sentence: str) -> str | None:
    if (half := half_character(sentence)) is not None:
        return f"has {half}"
    if "\n" in sentence or "\r" in sentence:
        return 'has a line break; one entry is one sentence, running text belongs into "text"'
    return "has a NUL character; remove it" if "\0" in sentence else None
