"""Warnings about text whose score would mean little: tags that count as words, or text without spaces between words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from docnmt.runtime.languages import CJK, SOUTHEAST

_TAG = re.compile(r"\s*</?(?:refset|srcset|tstset|doc|hl|p|seg)\b[^<>]*>", re.IGNORECASE)
_NO_SPACES = re.compile(f"[{CJK}{SOUTHEAST}]")
_LETTER = re.compile(r"[^\W\d_]")
#: Number of lines that are examined.
_MOST = 1000


def doubts(references: Sequence[str], tokenize: str) -> Iterator[str]:
    """Yield warnings, one line each, about a reference to be scored with this tokenizer."""
    lines = [line for line in references if line.strip()][:_MOST]
    tagged = sum(_TAG.match(line) is not None for line in lines)
    if lines and 2 * tagged > len(lines):
        yield (
            f"{tagged:,} of {len(lines):,} lines begin with tags of SGML, which are scored as words; "
            "give the sentences alone, a line each"
        )
    letters = "".join(_LETTER.findall("".join(lines)))
    if tokenize == "13a" and 2 * len(_NO_SPACES.findall(letters)) > len(letters):
        yield (
            "the text has no spaces between words, and the tokenizer 13a takes whole sentences for words; "
            "give --sacrebleu-tokenize zh, ja-mecab or char"
        )
