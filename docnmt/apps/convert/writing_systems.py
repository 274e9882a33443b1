"""Selection of the pieces of a vocabulary that some languages need, by the scripts of the letters.

The Unicode name of a letter begins with the name of its script. Characters of none of the scripts here (digits,
punctuation, signs, scripts of no model's language) are kept.
"""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Collection

from docnmt.runtime.errors import UsageError
from docnmt.runtime.languages import script

#: Code of a script → first words of the Unicode names of its letters.
_WORDS = {
    "Latn": "LATIN", "Arab": "ARABIC", "Armn": "ARMENIAN", "Beng": "BENGALI", "Cyrl": "CYRILLIC", "Deva": "DEVANAGARI",
    "Ethi": "ETHIOPIC", "Geor": "GEORGIAN", "Grek": "GREEK", "Gujr": "GUJARATI", "Guru": "GURMUKHI",
    "Hang": "HANGUL CJK", "Hans": "CJK", "Hant": "CJK", "Hebr": "HEBREW", "Jpan": "CJK HIRAGANA KATAKANA",
    "Khmr": "KHMER", "Knda": "KANNADA", "Laoo": "LAO", "Mlym": "MALAYALAM", "Mymr": "MYANMAR", "Orya": "ORIYA",
    "Sinh": "SINHALA", "Taml": "TAMIL", "Telu": "TELUGU", "Tfng": "TIFINAGH", "Thai": "THAI", "Tibt": "TIBETAN",
}  # fmt: skip
_ALL = frozenset(word for words in _WORDS.values() for word in words.split())


def script_of(code: str) -> str:
    """Return the script of a language: it is part of the code `deu_Latn`, and comes from a table for `ru` and `ru_RU`.

    Raises:
        UsageError: the code has a script that is not known here.
    """
    code_of_script = script(code) or "Latn"
    if code_of_script not in _WORDS:
        raise UsageError(f"--languages {code}: the script '{code_of_script}' is not known; leave --languages out")
    return code_of_script


def readable(pieces: Collection[str], codes: Collection[str]) -> set[str]:
    """Return the pieces without letters of other scripts than Latin and those of the languages."""
    words = {word for code in codes for word in _WORDS[script_of(code)].split()} | {_WORDS["Latn"]}
    others = _ALL - words
    return {piece for piece in pieces if not any(_first_word(character) in others for character in piece)}


@functools.cache
def _first_word(character: str) -> str:
    return unicodedata.name(character, "").partition(" ")[0] if unicodedata.category(character)[0] in "LM" else ""
