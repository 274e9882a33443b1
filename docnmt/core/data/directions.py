"""Tokenizers of models for several languages, in which each text begins with the tag of a language."""

from __future__ import annotations

from dataclasses import replace

from docnmt.core.data.tokenizer import Tokenizer
from docnmt.runtime.errors import UsageError

Pair = tuple[Tokenizer, Tokenizer]


def known_languages(tokenizers: Pair, side: str) -> list[str]:
    """Return the languages that tags of the `source` or the `target` can name; none if there is only one."""
    found = [each.preparation for each in tokenizers if each.preparation.tag_of == side]
    return next((list(each.tags) for each in found if each.tags), [])


class UnknownLanguage(UsageError):
    """A language that a model does not have.

    Attributes:
        side: `source` or `target`. wanted: what was asked for. expected: what there is, in words.
    """

    def __init__(self, side: str, wanted: str, expected: str) -> None:
        super().__init__(f"--{side}-lang {wanted}: expected {expected}")
        self.side, self.wanted, self.expected = side, wanted, expected


def directed(tokenizers: Pair, own: tuple[str, str], languages: tuple[str, str]) -> Pair:
    """Return the tokenizers of both sides with the tags of these languages.

    Args:
        own: the languages of the given tokenizers.

    Raises:
        UnknownLanguage: the vocabulary has no tag for a language.
    """
    for side, before, wanted in zip(("source", "target"), own, languages, strict=True):
        known = known_languages(tokenizers, side)
        if wanted != before and wanted not in known:
            there = f"one of {', '.join(known)}" if known else f"'{before}', the only one that this model has"
            raise UnknownLanguage(side, wanted, there)
    named = dict(zip(("source", "target"), languages, strict=True))
    source, target = (_tagged(each, named) for each in tokenizers)
    return source, source if tokenizers[0] is tokenizers[1] else target


def _tagged(tokenizer: Tokenizer, named: dict[str, str]) -> Tokenizer:
    own, wanted = tokenizer.preparation, named[tokenizer.preparation.tag_of]
    return tokenizer.prepared(replace(own, tag=wanted)) if wanted in own.tags else tokenizer
