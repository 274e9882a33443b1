"""What is done to a text before SentencePiece cuts it: punctuation made uniform, a language's tag put in front.

It is stored in the SentencePiece model itself, in a field of its own before those of its schema, which SentencePiece
passes over. So it goes wherever a vocabulary goes, into data folders and checkpoints, and text is prepared alike
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


def _varint(number: int) -> bytes:
    """A whole number as Protocol Buffers have it: seven bits a byte, the lowest first."""
    rest = number >> 7
    return bytes([number & 0x7F | 0x80]) + _varint(rest) if rest else bytes([number])


#: What the field begins with: its number (the schema leaves all from 200 on to others), and that bytes follow.
_TAG = _varint(1811 << 3 | 2)


@dataclass(frozen=True)
class Preparation:
    """How texts are prepared.

    Attributes:
        punctuation: the language by whose rules sacremoses makes punctuation uniform; "": it stays as it is.
        tags: the entry of the vocabulary that stands for each language, of a model of several.
        tag_of: whose language the tag before a text names: that of the source or of the target.
        tag: the language whose tag stands before each text; "": none.
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
        """What makes the punctuation of a text uniform."""
        return normalizer(self.punctuation) if self.punctuation else str

    @classmethod
    def of(cls, model: bytes) -> Preparation:
        """What a SentencePiece model says; one of another toolkit has nothing to say.

        Raises:
            UserError: it is damaged.
        """
        try:
            content = _divided(model)[0]
            return msgspec.json.decode(content, type=cls) if content else cls()
        except (msgspec.DecodeError, UnicodeDecodeError, IndexError, UsageError) as error:
            raise UserError(f"the vocabulary's way to prepare text is damaged: {error}") from error

    def added_to(self, model: bytes) -> bytes:
        """The model with this in place of what it says."""
        bare = _divided(model)[1]
        if self == Preparation():
            return bare
        content = msgspec.json.encode(self, order="deterministic")
        return _TAG + _varint(len(content)) + content + bare


def _divided(model: bytes) -> tuple[bytes, bytes]:
    """The content of the field, empty without it, and the model behind it."""
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
    """Moses' rules for punctuation, by sacremoses: straight quotation marks, no space before a colon, … in a line."""
    from sacremoses import MosesPunctNormalizer

    normalize: Callable[[str], str] = MosesPunctNormalizer(lang=_base(language)).normalize
    return normalize


@functools.cache
def detokenizer(language: str) -> Callable[[str], str]:
    """What takes the spaces and escapes of Moses' tokenizer out of a line again, by sacremoses."""
    from sacremoses import MosesDetokenizer

    made = MosesDetokenizer(lang=_base(language))

    def detokenize(line: str) -> str:
        """A line as it was before it was cut into words."""
        return str(made.detokenize(line.split()))

    return detokenize


def _base(language: str) -> str:
    """`de` of de-AT; sacremoses has its rules by such codes, and general ones for all others."""
    return re.split(r"[-_]", language.lower())[0]
