"""Forms of address: plain rules of words for *tu* and *vous*, *du* and *Sie*, and tags that ask a model for a form.
sentence → rule of its language → form; a document's forms → an entry of the vocabulary before each source sentence
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

import numpy as np

from docnmt.core.corpus import ParallelCorpus, TokenArray, offsets_of
from docnmt.core.subword_sampling import uniform
from docnmt.core.tokenizer import Tokenizer
from docnmt.runtime.languages import base
from docnmt.runtime.system import UsageError, UserError

Form = Literal["formal", "informal"]
#: What `--formality` takes: a form, or in each document the one of its translations that are given.
Formality = Literal["formal", "informal", "given"]

#: What stands before a word that begins a sentence, or direct speech or a thought in one.
_BEFORE_BEGINNINGS = frozenset('.!?…:»«„“”"‚‘([*')
#: A region of BCP 47, as in `fr-CA`.
_REGION = re.compile("[A-Z]{2}|[0-9]{3}")
#: English words of the second person, which has no forms of address.
_ENGLISH = r"you(?:r|rs|rself|rselves)?|y['’]all|thou|thee|thy|thine|thyself"


@dataclass(frozen=True)
class _AddressWords:
    """The words of address of a language, as patterns of whole words, in lower case where it does not matter."""

    informal: str
    formal: str = ""
    capital: str = ""  # formal only with a capital letter, as German "Sie", and not at the beginning of a sentence


#: The words by language, as a two-letter code of ISO 639-1.
ADDRESS_WORDS = {
    "de": _AddressWords(
        informal=r"du|dich|dir|dein(?:e[mnrs]?|s)?|(?-i:euch|euer|eure[mnrs]?)",
        capital=r"Sie|Ihnen|Ihr(?:e[mnrs]?)?|Euch|Euer|Eure[mnrs]?",
    ),
    "es": _AddressWords(
        informal=r"tú|te|ti|contigo|tus?|tuy[oa]s?|vos|vosotr[oa]s|os|vuestr[oa]s?",
        formal=r"usted(?:es)?|[uv]ds?\.|(?-i:[UV]ds?)",
    ),
    "fr": _AddressWords(informal=r"tu|te|toi|ton|ta|tes|tien|tiennes?|t(?=['’])", formal=r"vous|votre|vos|vôtres?"),
    "it": _AddressWords(informal=r"tu|te|ti|tuo|tua|tuoi|tue|t(?=['’])", capital=r"Lei|Suo|Sua|Suoi|Sue"),
    "nl": _AddressWords(informal=r"jij|je|jou|jouwe?|jezelf|jullie", formal=r"u(?!\.\w)|uwe?|uzelf"),
    "pl": _AddressWords(
        informal=r"ty|ciebie|cię|tobie|tobą|tw(?:ój|oja|oje|ojego|ojej|ojemu|oim|oich|oimi|oją)",
        formal=r"pan|pana|panu|panem|panie|pani|panią|panowie|panów|panom|panami|paniom|paniami",
    ),
    "ru": _AddressWords(
        informal=r"ты|тебя|тебе|тоб(?:ой|ою)|тво(?:й|я|ё|е|и|его|ей|ею|ему|ём|ем|им|их|ими|ю)",
        formal=r"вы|вас|вам|вами|ваш(?:а|е|и|его|ей|ею|ему|ем|им|их|ими|у)?",
    ),
}  # fmt: skip


def address_language(language: str) -> str:
    """Return the language of `ADDRESS_WORDS` for a name such as `fr`, `fr_FR` or `FR-ca`; `UserError` if it has no
    rule."""
    code = base(language)
    if code not in ADDRESS_WORDS:
        raise UserError(f"no rule tells the forms of address of '{language}'; there are {', '.join(ADDRESS_WORDS)}")
    return code


class AddressRule:
    """The rule that recognises a language's forms of address."""

    def __init__(self, language: str) -> None:
        self.language = address_language(language)
        words = ADDRESS_WORDS[self.language]
        self._informal, self._formal = _words(words.informal), _words(words.formal)
        self._capital = _words(words.capital, flags=0)

    def forms(self, sentence: str) -> set[Form]:
        """Return the forms of the words of address in a sentence."""
        text = unicodedata.normalize("NFC", sentence)  # an accent may be a character of its own
        forms: set[Form] = {"informal"} if self._informal.search(text) else set()
        capitals = (match.start() for match in self._capital.finditer(text))
        if self._formal.search(text) or any(not _begins_sentence(text, begin) for begin in capitals):
            forms.add("formal")
        return forms

    def form(self, sentence: str) -> Form | None:
        """Return the only form of address in a sentence, or None if it has none or both."""
        forms = self.forms(sentence)
        return forms.pop() if len(forms) == 1 else None

    def speaks(self, sentence: str) -> bool:
        """Return True if a sentence has a word of address, of whichever form."""
        return bool(self.forms(sentence))


def _begins_sentence(text: str, index: int) -> bool:
    """Return True if the word at this index begins its text, a sentence, or direct speech or a thought."""
    while index:
        index -= 1
        if text[index] in _BEFORE_BEGINNINGS:
            return True
        if text[index].isalnum() or text[index] == "_":  # \w
            return False
    return True


def second_person(language: str) -> Callable[[str], bool]:
    """Return a function that tells whether a sentence of the language has a word of the second person."""
    if base(language) == "en":
        words = _words(_ENGLISH)
        return lambda sentence: words.search(sentence) is not None
    return AddressRule(language).speaks


def language_pair(wanted: str) -> tuple[str, str]:
    """Return the languages of source and target for `fr` or `fr-CA` (from English), or for `de-fr`, which must have
    rules."""
    source, dash, target = wanted.partition("-")
    region = source.islower() and _REGION.fullmatch(target) and target.lower() not in ADDRESS_WORDS
    if not dash or region or source.lower() == target.lower():  # fr-CA and fr-FR are French
        return "en", address_language(source)
    second_person(source)
    return source, address_language(target)


def _words(pattern: str, flags: re.RegexFlag | int = re.IGNORECASE) -> re.Pattern[str]:
    """Compile a pattern of whole words; an empty one matches nothing."""
    return re.compile(rf"(?<!\w)(?:{pattern})(?!\w)" if pattern else "(?!)", flags)


# Tags for forms of address: an entry of the vocabulary before a source sentence tells the model which one to use.


#: The tags, which `docnmt-preprocess --user-defined-symbols` adds to a vocabulary.
TAGS: dict[Form, str] = {"formal": "<formal>", "informal": "<informal>"}
_NONE, _FORMS = -1, tuple(TAGS)


def tag_numbers(tokenizer: Tokenizer) -> dict[Form, int]:
    """Return the numbers of `TAGS` in a vocabulary."""
    entries = tokenizer.vocabulary()
    if missing := [tag for tag in TAGS.values() if tag not in entries]:
        lacks, quoted = " and no ".join(missing), " ".join(map(repr, TAGS.values()))
        raise UsageError(
            f"--formality-share: the vocabulary has no {lacks}; preprocess with --user-defined-symbols {quoted}"
        )
    return {form: entries.index(tag) for form, tag in TAGS.items()}


def in_form(corpus: ParallelCorpus, form: Form, tokenizer: Tokenizer) -> ParallelCorpus:
    """Return the corpus with the tag of `form` before every source sentence that has words."""
    return _with_tags(corpus, np.full(corpus.num_sentences, tag_numbers(tokenizer)[form]))


def in_given_form(
    corpus: ParallelCorpus, given: Sequence[str | None], tokenizer: Tokenizer, language: str
) -> ParallelCorpus:
    """Return the corpus with a tag for the form of the last given translation before each sentence, in its document.
    Before the first one with a form, sentences have its form; in a document without any, they have no tag."""
    rule, numbers = AddressRule(language), tag_numbers(tokenizer)
    forms: list[Form | None] = [None if text is None else rule.form(text) for text in given]
    tags = np.empty(corpus.num_sentences, dtype=np.int64)
    for begin, end in pairwise(corpus.document_offsets.tolist()):
        form = next((named for named in forms[begin:end] if named is not None), None)
        for sentence in range(begin, end):
            form = forms[sentence] or form
            tags[sentence] = _NONE if form is None else numbers[form]
    return _with_tags(corpus, tags)


def note_formless(corpus: ParallelCorpus, told: ParallelCorpus) -> str | None:
    """Return a note on the documents to which `in_given_form` gave no form, by the corpus before and after it."""
    tagged = told.source.lengths() > corpus.source.lengths()
    without = sum(not tagged[begin:end].any() for begin, end in pairwise(corpus.document_offsets.tolist()))
    if not without:
        return None
    documents = f"{without:,} of {corpus.num_documents:,} documents"
    return f"note: --formality given: nothing given in {documents} has a form of address; the model chooses it there"


@dataclass(frozen=True)
class ToldForms:
    """Adds tags for the form of address to training text: in a `share` of the documents, before all sentences."""

    share: float
    language: str  # of the target
    seeds: tuple[int, ...]  # of the draws, which also depend on the document's number

    def tell(self, corpus: ParallelCorpus, tokenizer: Tokenizer) -> ParallelCorpus:
        """Return the corpus with the form of each target sentence before its source, in the documents drawn. One
        without a form gets that of the nearest sentence with one: a tag does not demand a form where none belongs, and
        imperatives, whose form no word shows, have one. One with both forms gets no tag."""
        if not self.share:
            return corpus
        drawn = uniform(self.seeds, np.arange(corpus.num_documents)) < self.share
        forms = np.where(np.repeat(drawn, np.diff(corpus.document_offsets)), target_forms(corpus, self.language), _NONE)
        numbers = np.array([*tag_numbers(tokenizer).values(), _NONE])
        return _with_tags(corpus, numbers[forms])


@functools.lru_cache(maxsize=4)  # for the corpora of a run, used again in every epoch
def target_forms(corpus: ParallelCorpus, language: str) -> np.ndarray:
    """Return each target sentence's form (S,), or its nearest neighbour's, as a place in `TAGS`; -1: none."""
    rule = AddressRule(language)
    named = [rule.forms(text) for text in corpus.references[0]]
    forms = np.array([_FORMS.index(next(iter(some))) if len(some) == 1 else _NONE for some in named], dtype=np.int64)
    mixed = np.array([len(some) > 1 for some in named], dtype=bool)
    known = np.flatnonzero(forms != _NONE)
    if not len(known):
        return forms
    sentences = np.arange(len(forms))
    document = np.repeat(np.arange(corpus.num_documents), np.diff(corpus.document_offsets))
    after = np.searchsorted(known, sentences)
    before = known[np.maximum(after - 1, 0)]
    after = known[np.minimum(after, len(known) - 1)]
    far = 2 * len(forms)
    distances = [
        np.where(document[neighbours] == document, np.abs(neighbours - sentences), far)
        for neighbours in (before, after)
    ]
    nearest = np.where(distances[0] <= distances[1], before, after)
    return np.where(mixed | (np.minimum(*distances) == far), _NONE, forms[nearest])


def _with_tags(corpus: ParallelCorpus, tags: np.ndarray) -> ParallelCorpus:
    """Return the corpus with a token (S,) before each source sentence; -1: none."""
    source = corpus.source
    tagged = np.flatnonzero((tags != _NONE) & (source.lengths() > 0))
    words = np.asarray(source.tokens)
    tokens = np.insert(words, np.asarray(source.offsets)[tagged], tags[tagged].astype(words.dtype))
    lengths = source.lengths()
    lengths[tagged] += 1
    return replace(corpus, source=TokenArray(tokens, offsets_of(lengths)))
