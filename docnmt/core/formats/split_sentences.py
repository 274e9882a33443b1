"""Division of raw text into sentences, by rules: good enough for running text and a model trained on sentences.

A sentence ends at `.`, `!`, `?` or `…` and the closing quotes and brackets after it, if white space follows and
then a character that can begin a sentence; `。`, `！` and `？` end one anywhere. A full stop ends none after a known
abbreviation, an initial, a dotted abbreviation (`e.g.`, `U.S.`, `z. B.`) or, in languages that write ordinals with a
full stop (German and others), a number of one or two digits. Nothing is ever lost: the sentences of a line, joined by
single spaces, are the line up to white space.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from functools import partial

from docnmt.runtime.errors import UserError
from docnmt.runtime.languages import base

#: Abbreviations followed by a capital inside a sentence, without their full stop; compared case-insensitively.
#: Those that often end sentences, too (etc., usw., Inc.), are left out.
_GENERAL = "dr prof st vs al ca cf op ed vol chr"
_ENGLISH = (
    "mr mrs ms messrs jr sr rev hon gov sen rep gen col lt capt cmdr maj sgt adm pres supt insp mt ft "
    "jan feb mar apr aug sept oct nov dec mon tue wed thu fri sat sun approx viz dept univ assn bros"
)
_GERMAN = (
    "hr hrn fr frl dipl ing med phil jur rer nat habil bzw evtl ggf inkl exkl zzgl abzgl vgl sog bspw allg "
    "insb bes urspr geb gest verh gegr hl str pl tel abt abb abs abschn anm bd bde jh jhd jan feb apr jun jul aug sept "
    "okt nov dez mo di mi do fr sa so mio mrd tsd min max mind höchst zz zt hrsg übers"
)
ABBREVIATIONS: dict[str, frozenset[str]] = {
    "": frozenset(_GENERAL.split()),
    "en": frozenset(f"{_GENERAL} {_ENGLISH}".split()),
    "de": frozenset(f"{_GENERAL} {_GERMAN}".split()),
}
#: Abbreviations before numbers: they end no sentence before a digit.
_NUMBERED = "no nr nos nrn fig figs p pp s sec ch chap art abs kap eq bd ziff rn vv"
_BEFORE_NUMBERS = frozenset(_NUMBERED.split())
#: Languages that write ordinals with a full stop, like `3. Mai`.
_ORDINALS = "de da nn no fi et lv cs sk sl hr sr bs hu tr is"
_ORDINAL_LANGUAGES = frozenset(_ORDINALS.split())
#: Number of characters examined before a mark; no abbreviation is longer.
_LONGEST_WORD = 200
#: Longer sentences (in characters) are cut before translation: models have seen none, and beam search takes time
#: quadratic in the length.
LONGEST_SENTENCE = 1500

_CLOSING = "\"'”’»›)\\]}“‘"
_OPENING = "\"'“‘„‚«‹»›(\\[{¿¡–—\\-"
#: A run of marks is matched only at its beginning, so that each is scanned once.
_CANDIDATE = re.compile(rf"(?<![.!?…])([.!?…]+)([{_CLOSING}]*)(\s+)|[。！？]+[{_CLOSING}」』）]*")
_FOLLOWING = re.compile(rf"[{_OPENING}\s]*(\S)")
_TEXT = re.compile(r"\S")
_LAST_WORD = re.compile(r"(?<![^\s(\[{\"'„“»«‚‘])[^\s(\[{\"'„“»«‚‘]*$")


def splitter(name: str, language: str) -> Callable[[str], list[str]]:
    """Return a function that divides a line into sentences: `rules` (`split_sentences`), or the package `sentencex`.

    Sentences of more than `LONGEST_SENTENCE` characters are cut (`cut_long`), with one warning on stderr.

    Raises:
        UserError: there is no such splitter, or the package is not installed.
    """
    if name not in ("rules", "sentencex"):
        raise UserError(f"splitter: expected rules or sentencex, got {name!r}")
    if name == "rules":
        return _cutting(partial(split_sentences, language=language))
    try:
        import sentencex
    except ImportError as error:
        raise UserError("--splitter sentencex needs an extra: pip install 'docnmt[sentencex]'") from error
    code = base(language)

    def split(line: str) -> list[str]:
        """Return the sentences of one line."""
        return [" ".join(sentence.split()) for sentence in sentencex.segment(code, line) if sentence.strip()]

    return _cutting(split)


def whole_lines() -> Callable[[str], list[str]]:
    """Return a function that treats a line as one sentence and cuts it if it is too long."""
    return _cutting(lambda line: [line])


def _cutting(split: Callable[[str], list[str]]) -> Callable[[str], list[str]]:
    said = False

    def cut(line: str) -> list[str]:
        """Return the sentences of one line, long ones in pieces."""
        nonlocal said
        sentences = split(line)
        pieces = [piece for sentence in sentences for piece in cut_long(sentence, LONGEST_SENTENCE)]
        if len(pieces) > len(sentences) and not said:
            said = True
            length = max(map(len, sentences))  # and not its text, which a service may not log
            print(
                f"warning: a sentence of {length:,} characters is divided into pieces, as is every other one of more"
                f" than {LONGEST_SENTENCE:,}",
                file=sys.stderr,
            )
        return pieces

    return cut


def cut_long(sentence: str, longest: int) -> list[str]:
    """Cut a sentence into pieces of at most `longest` characters after `;`, `:` or `,`, else at a space, else anywhere;
    joined by spaces where there were some, they are the sentence."""
    pieces, begin = [], 0
    while len(sentence) - begin > longest:
        head = sentence[begin : begin + longest + 1]
        places = (max(head.rfind(mark) for mark in ("; ", ": ", ", ")) + 1, head.rfind(" "), longest)
        place = next(place for place in places if place > longest // 2 or place == longest)
        pieces.append(head[:place])
        begin += place
        begin = len(sentence) if (text := _TEXT.search(sentence, begin)) is None else text.start()
    return [*pieces, sentence[begin:]] if begin < len(sentence) else pieces


def split_sentences(line: str, language: str = "") -> list[str]:
    """Return the sentences of one line, in order, without surrounding white space; none for a blank line.

    Args:
        language: its code (`en`, `de-AT`, `deu` …); unknown languages use the common rules.
    """
    language = base(language)
    sentences, begin = [], 0
    for match in _CANDIDATE.finditer(line):
        following = _FOLLOWING.match(line, match.end())
        before = line[max(begin, match.start() - _LONGEST_WORD) : match.start()]
        if match[1] is None or (following is not None and _ends(before, match, following[1], language)):
            sentences.append(line[begin : match.end()])
            begin = match.end()
    sentences.append(line[begin:])
    return [" ".join(sentence.split()) for sentence in sentences if sentence.strip()]


def _ends(before: str, match: re.Match[str], following: str, language: str) -> bool:
    """Return True if a sentence ends at a candidate; `before` is the text before its mark, `following` the first
    character after it that can begin a sentence."""
    marks, closing = match[1], match[2]
    if following.islower():
        return False
    if marks != "." or closing:
        return True
    last = _LAST_WORD.search(before)
    word = last[0] if last else ""
    if word.isdigit():
        counted = re.search(r"\.\s+\d+$", before) is not None  # `S. 5.` is no ordinal
        return counted or len(word) > 2 or language not in _ORDINAL_LANGUAGES
    if len(word) == 1 and word.isalpha():
        return word == "I"
    folded = word.lower()
    if following.isdigit() and folded in _BEFORE_NUMBERS:
        return False
    dotted = "." in word and all(len(part) <= 1 for part in word.split("."))
    return not dotted and folded not in ABBREVIATIONS.get(language, ABBREVIATIONS[""])
