"""Forms of address: rules that tell whether a sentence says "you" in the formal or the informal way.

Each language has a plain rule of words. A language whose words do not tell the forms apart has none.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from docnmt.runtime.errors import UserError

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
class AddressWords:
    """The words of address of a language.

    Attributes:
        informal, formal: patterns of whole words, in lower case where it does not matter.
        capital: patterns of words that are formal only with a capital letter, like German "Sie". At the beginning of a
            sentence, where every word has a capital, they do not count.
    """

    informal: str
    formal: str = ""
    capital: str = ""


#: The words by language, as a two-letter code of ISO 639-1.
ADDRESS_WORDS = {
    "de": AddressWords(
        informal=r"du|dich|dir|dein(?:e[mnrs]?|s)?|(?-i:euch|euer|eure[mnrs]?)",
        capital=r"Sie|Ihnen|Ihr(?:e[mnrs]?)?|Euch|Euer|Eure[mnrs]?",
    ),
    "es": AddressWords(
        informal=r"tú|te|ti|contigo|tus?|tuy[oa]s?|vos|vosotr[oa]s|os|vuestr[oa]s?",
        formal=r"usted(?:es)?|[uv]ds?\.|(?-i:[UV]ds?)",
    ),
    "fr": AddressWords(informal=r"tu|te|toi|ton|ta|tes|tien|tiennes?|t(?=['’])", formal=r"vous|votre|vos|vôtres?"),
    "it": AddressWords(informal=r"tu|te|ti|tuo|tua|tuoi|tue|t(?=['’])", capital=r"Lei|Suo|Sua|Suoi|Sue"),
    "nl": AddressWords(informal=r"jij|je|jou|jouwe?|jezelf|jullie", formal=r"u(?!\.\w)|uwe?|uzelf"),
    "pl": AddressWords(
        informal=r"ty|ciebie|cię|tobie|tobą|tw(?:ój|oja|oje|ojego|ojej|ojemu|oim|oich|oimi|oją)",
        formal=r"pan|pana|panu|panem|panie|pani|panią|panowie|panów|panom|panami|paniom|paniami",
    ),
    "ru": AddressWords(
        informal=r"ты|тебя|тебе|тоб(?:ой|ою)|тво(?:й|я|ё|е|и|его|ей|ею|ему|ём|ем|им|их|ими|ю)",
        formal=r"вы|вас|вам|вами|ваш(?:а|е|и|его|ей|ею|ему|ем|им|их|ими|у)?",
    ),
}  # fmt: skip


def address_language(language: str) -> str:
    """Return the language of `ADDRESS_WORDS` for a name such as `fr`, `fr_FR` or `FR-ca`.

    Raises:
        UserError: the language has no rule.
    """
    code = re.split("[-_]", language.lower())[0]
    if code not in ADDRESS_WORDS:
        raise UserError(f"no rule tells the forms of address of '{language}'; there are {', '.join(ADDRESS_WORDS)}")
    return code


class AddressRule:
    """The rule that recognises a language's forms of address.

    Raises:
        UserError: the language has no rule.
    """

    def __init__(self, language: str) -> None:
        self.language = address_language(language)
        words = ADDRESS_WORDS[self.language]
        self._informal, self._formal = _words(words.informal), _words(words.formal)
        self._capital = _words(words.capital, flags=0)

    def form(self, sentence: str) -> Form | None:
        """Return the only form of address in a sentence, or None if it has none or both."""
        informal, formal = self._found(sentence)
        return None if informal == formal else "formal" if formal else "informal"

    def speaks(self, sentence: str) -> bool:
        """Return True if a sentence has a word of address, of whichever form."""
        return any(self._found(sentence))

    def _found(self, sentence: str) -> tuple[bool, bool]:
        """Return whether a sentence has an informal word and whether it has a formal one."""
        text = unicodedata.normalize("NFC", sentence)  # an accent may be a character of its own
        informal = self._informal.search(text) is not None
        if self._formal.search(text):
            return informal, True
        found = self._capital.finditer(text)
        return informal, any(not _begins_sentence(text, match.start()) for match in found)


def _begins_sentence(text: str, place: int) -> bool:
    """Return True if the word at a place begins its text, a sentence, or direct speech or a thought.

    Only what is between it and the word before is read, so a line takes time in proportion to its length.
    """
    while place:
        place -= 1
        if text[place] in _BEFORE_BEGINNINGS:
            return True
        if text[place].isalnum() or text[place] == "_":  # \w
            return False
    return True


def second_person(language: str) -> Callable[[str], bool]:
    """Return a function that tells whether a sentence of the language has a word of the second person.

    Raises:
        UserError: the language is neither English nor has a rule.
    """
    if re.split("[-_]", language.lower())[0] == "en":
        words = _words(_ENGLISH)
        return lambda sentence: words.search(sentence) is not None
    return AddressRule(language).speaks


def language_pair(wanted: str) -> tuple[str, str]:
    """Return the languages of source and target for `fr` or `fr-CA` (from English), or for `de-fr`.

    Raises:
        UserError: a language has no rule.
    """
    source, dash, target = wanted.partition("-")
    region = source.islower() and _REGION.fullmatch(target) and target.lower() not in ADDRESS_WORDS
    if not dash or region or source.lower() == target.lower():  # fr-CA and fr-FR are French
        return "en", address_language(source)
    second_person(source)
    return source, address_language(target)


def _words(pattern: str, flags: re.RegexFlag | int = re.IGNORECASE) -> re.Pattern[str]:
    """Compile a pattern of whole words; an empty one matches nothing."""
    return re.compile(rf"(?<!\w)(?:{pattern})(?!\w)" if pattern else "(?!)", flags)
