"""Preparation of a text before SentencePiece cuts it: punctuation normalisation and a language tag.

It is stored in the SentencePiece model itself, in a field of its own before those of its schema, which SentencePiece
skips. So it is part of a vocabulary everywhere, in data folders and checkpoints, and text is prepared in the same way
everywhere.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from docnmt.runtime.errors import UsageError, UserError


def _encoded_varint(number: int) -> bytes:
    """Encode a whole number as Protocol Buffers do: seven bits a byte, the lowest first."""
    rest = number >> 7
    return bytes([number & 0x7F | 0x80]) + _encoded_varint(rest) if rest else bytes([number])


#: The beginning of the field: its number (the schema reserves those from 200 on for others) and its type, bytes.
_TAG = _encoded_varint(1811 << 3 | 2)


@dataclass(frozen=True)
class Preparation:
    """The settings of preparing a text.

    Attributes:
        punctuation: the language by whose rules sacremoses normalises punctuation; "": it is unchanged.
        tags: for models of several languages, each language's entry of the vocabulary.
        tag_of: the side whose language the tag names: source or target.
        tag: the language whose tag precedes each text; "": none.
    """

    punctuation: str = ""
    tags: dict[str, str] = field(default_factory=dict)
    tag_of: Literal["source", "target"] = "source"
    tag: str = ""

    def __post_init__(self) -> None:
        if self.tag and self.tag not in self.tags:
            there = ", ".join(self.tags) or "none"
            raise UsageError(f"no tag for the language '{self.tag}': this model has {there}")

    @property
    def cleaned(self) -> Callable[[str], str]:
        """The function that normalises a text's punctuation."""
        return normalizer(self.punctuation) if self.punctuation else str

    @classmethod
    def of(cls, model: bytes) -> Preparation:
        """Read the preparation stored in a SentencePiece model; models of other toolkits get the default.

        Raises:
            UserError: the stored preparation is damaged.
        """
        try:
            content = _divided(model)[0]
            return msgspec.json.decode(content, type=cls) if content else cls()
        except (msgspec.DecodeError, UnicodeDecodeError, IndexError, UsageError) as error:
            raise UserError(f"the vocabulary's way to prepare text is damaged: {error}") from error

    def added_to(self, model: bytes) -> bytes:
        """Return the model with this preparation stored in it, in place of the former one."""
        bare = _divided(model)[1]
        if self == Preparation():
            return bare
        content = msgspec.json.encode(self, order="deterministic")
        return _TAG + _encoded_varint(len(content)) + content + bare


def _divided(model: bytes) -> tuple[bytes, bytes]:
    """Return the field's content, empty if it is missing, and the model without the field."""
    if not model.startswith(_TAG):
        return b"", model
    size, place, shift = 0, len(_TAG), 0
    while True:
        byte, place = model[place], place + 1
        size, shift = size | (byte & 0x7F) << shift, shift + 7
        if byte < 0x80:
            return model[place : place + size], model[place + size :]


@functools.cache
def normalizer(language: str) -> Callable[[str], str]:
    """Return a function that normalises punctuation by Moses' rules (sacremoses), as straight quotation marks."""
    from sacremoses import MosesPunctNormalizer

    normalize: Callable[[str], str] = MosesPunctNormalizer(lang=_base(language)).normalize
    return normalize


@functools.cache
def detokenizer(language: str) -> Callable[[str], str]:
    """Return a function that undoes Moses' tokenization of a line, spaces and escapes, by sacremoses."""
    from sacremoses import MosesDetokenizer

    made = MosesDetokenizer(lang=_base(language))

    def detokenize(line: str) -> str:
        """Restore a line as it was before it was tokenized."""
        return str(made.detokenize(line.split()))

    return detokenize


def _base(language: str) -> str:
    """Return `de` for de-AT; sacremoses has rules for such codes, and general ones for all others."""
    return re.split(r"[-_]", language.lower())[0]
