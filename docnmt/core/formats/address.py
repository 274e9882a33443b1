"""Forms of address: does a sentence say "you" to somebody in the formal or in the informal way?

A plain rule for each language, words and nothing else. A language whose words do not tell the forms apart has none.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from docnmt.runtime.errors import UserError

Form = Literal["formal", "informal"]

#: What stands before a word that begins a sentence, or what somebody says or thinks in one.
_BEGINNING = re.compile(r"""(?:^|[.!?…:»«„“”"‚‘(\[*])[\s\W]*$""")
#: English says who is spoken to, and not how.
_ENGLISH = r"you(?:r|rs|rself|rselves)?|y['’]all|thou|thee|thy|thine|thyself"


@dataclass(frozen=True)
class AddressWords:
    """The words of address of a language.

    Attributes:
        informal, formal: patterns of whole words, in lower case where it does not matter.
        capital: patterns of words that are formal only with a capital letter, as German "Sie". Where a sentence begins,
            the capital says nothing, and they do not count.
    """

    informal: str
    formal: str = ""
    capital: str = ""


#: By language: two letters as in ISO 639-1.
ADDRESS_WORDS = {
    "de": AddressWords(
        informal=r"du|dich|dir|dein(?:e[mnrs]?|s)?|(?-i:euch|euer|eure[mnrs]?)",
        capital=r"Sie|Ihnen|Ihr(?:e[mnrs]?)?|Euch|Euer|Eure[mnrs]?",
    ),
    "es": AddressWords(
        informal=r"tú|te|ti|contigo|tus?|tuy[oa]s?|vos|vosotr[oa]s|os|vuestr[oa]s?", formal=r"usted(?:es)?|[uv]ds?\."
    ),
    "fr": AddressWords(informal=r"tu|te|toi|ton|ta|tes|tien|tiennes?|t(?=['’])", formal=r"vous|votre|vos|vôtres?"),
    "it": AddressWords(informal=r"tu|te|ti|tuo|tua|tuoi|tue|t(?=['’])", capital=r"Lei|Suo|Sua|Suoi|Sue"),
    "nl": AddressWords(informal=r"jij|je|jou|jouwe?|jezelf|jullie", formal=r"u(?!\.\w)|uwe?|uzelf"),
    "pl": AddressWords(
        informal=r"ty|ciebie|cię|tobie|tobą|tw(?:ój|oja|oje|ojego|ojej|ojemu|oim|oich|oimi|oją)",
        formal=r"pan|pana|panu|panem|pani|panią",
    ),
    "ru": AddressWords(
        informal=r"ты|тебя|тебе|тоб(?:ой|ою)|тво(?:й|я|ё|е|и|его|ей|ею|ему|ём|ем|им|их|ими|ю)",
        formal=r"вы|вас|вам|вами|ваш(?:а|е|и|его|ей|ею|ему|ем|им|их|ими|у)?",
    ),
}  # fmt: skip


def address_language(language: str) -> str:
    """The language of `ADDRESS_WORDS` that a name such as `fr`, `fr_FR` or `FR-ca` means.

    Raises:
        UserError: it has no rule.
    """
    code = re.split("[-_]", language.lower())[0]
    if code not in ADDRESS_WORDS:
        raise UserError(f"no rule tells the forms of address of '{language}'; there are {', '.join(ADDRESS_WORDS)}")
    return code


class AddressRule:
    """The rule of a language.

    Raises:
        UserError: the language has none.
    """

    def __init__(self, language: str) -> None:
        self.language = address_language(language)
        words = ADDRESS_WORDS[self.language]
        self._informal, self._formal = _words(words.informal), _words(words.formal)
        self._capital = _words(words.capital, flags=0)

    def form(self, sentence: str) -> Form | None:
        """The one form of address of a sentence; None where it has none, or both."""
        informal, formal = self._informal.search(sentence) is not None, self._is_formal(sentence)
        return None if informal == formal else "formal" if formal else "informal"

    def speaks(self, sentence: str) -> bool:
        """Whether a sentence speaks to somebody: it has a word of address, of whichever form."""
        return self._informal.search(sentence) is not None or self._is_formal(sentence)

    def _is_formal(self, sentence: str) -> bool:
        if self._formal.search(sentence):
            return True
        found = self._capital.finditer(sentence)
        return any(_BEGINNING.search(sentence[: match.start()]) is None for match in found)


def second_person(language: str) -> Callable[[str], bool]:
    """Whether a sentence of the language has a word of the second person.

    Raises:
        UserError: it is neither English nor a language with a rule.
    """
    if re.split("[-_]", language.lower())[0] == "en":
        words = _words(_ENGLISH)
        return lambda sentence: words.search(sentence) is not None
    return AddressRule(language).speaks


def language_pair(wanted: str) -> tuple[str, str]:
    """The languages of source and target that `fr` (from English) or `de-fr` means.

    Raises:
        UserError: one has no rule.
    """
    source, dash, target = wanted.partition("-")
    pair = (source, target) if dash else ("en", wanted)
    second_person(pair[0])
    return pair[0], address_language(pair[1])


def _words(pattern: str, flags: re.RegexFlag | int = re.IGNORECASE) -> re.Pattern[str]:
    """Whole words; of an empty pattern, none."""
    return re.compile(rf"(?<!\w)(?:{pattern})(?!\w)" if pattern else "(?!)", flags)
