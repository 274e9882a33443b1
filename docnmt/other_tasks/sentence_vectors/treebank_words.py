"""Tokenization of text in the style of published word vectors: Penn Treebank style, case kept.

Already tokenised text is unchanged (`words(" ".join(words(x))) == words(x)`), so tokenised corpora and raw
text share one vocabulary.
"""

from __future__ import annotations

import re

_QUOTES = str.maketrans({"’": "'", "‘": "'", "“": '"', "”": '"', "\u00a0": " "})
_ABBREVIATIONS = "mr mrs ms dr st jr sr vs prof gen sen rep gov col inc corp ltd co".replace(" ", "|")
_CLITIC = r"'(?:s|m|d|re|ve|ll)\b"

_WORD = re.compile(
    rf"""
      \.{{2,}} | -{{2,}} | '{{2,}} | `{{2,}}          # ellipsis, dash, PTB quotes
    | (?:[^\W\d_]\.){{2,}}                            # U.S., e.g.
    | (?:{_ABBREVIATIONS})\.(?!\w)
    | \w+?(?=n't\b) | n't\b | {_CLITIC}               # do n't, John 's
    | \w+(?:(?:(?<=\d)[.,:/](?=\d) | [-&] | '(?!(?:s|m|d|re|ve|ll|t)\b))\w+)*   # 1,650  two-thirds  AT&T  o'clock
    | \S
    """,
    re.VERBOSE | re.IGNORECASE,
)


def words(text: str) -> list[str]:
    """Split a text into words; every other character is a word of its own; typographic quotes become ASCII ones."""
    return _WORD.findall(text.translate(_QUOTES))
