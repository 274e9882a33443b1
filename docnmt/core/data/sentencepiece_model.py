"""Reading of SentencePiece model files: the kind of model, and the pieces with their scores.

The Python package does not give the kind of a model, and reading the file by its own schema needs another package. The
file is a Protocol Buffers message; only the few fields needed here are read.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from docnmt.runtime.errors import UserError

#: Values of the schema: kinds of models, and of pieces.
UNIGRAM, BPE = 1, 2
NORMAL, CONTROL, USER_DEFINED, BYTE = 1, 3, 4, 6


class VocabularyPiece(NamedTuple):
    """An entry of the vocabulary; `kind` is NORMAL or another constant of the schema."""

    text: str
    score: float
    kind: int


class SentencePieceModel(NamedTuple):
    """A SentencePiece model; `kind` is UNIGRAM, BPE or another constant of the schema, `pieces` are in order."""

    kind: int
    pieces: list[VocabularyPiece]


def read_model(data: bytes) -> SentencePieceModel:
    """Read the content of a model file that SentencePiece has already accepted."""
    kind, pieces = UNIGRAM, []
    for number, value in _fields(data):
        if number == 1 and isinstance(value, bytes):
            pieces.append(_piece(value))
        elif number == 2 and isinstance(value, bytes):  # the trainer's settings
            kind = next((int(number) for name, number in _fields(value) if name == 3), UNIGRAM)
    return SentencePieceModel(kind, pieces)


def _piece(data: bytes) -> VocabularyPiece:
    text, score, kind = "", 0.0, NORMAL
    for number, value in _fields(data):
        if number == 1 and isinstance(value, bytes):
            text = value.decode()
        elif number == 2 and isinstance(value, bytes):
            score = struct.unpack("<f", value)[0]
        elif number == 3:
            kind = int(value)
    return VocabularyPiece(text, score, kind)


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the number and value of each field of a message: a whole number, or bytes."""
    place = 0
    while place < len(data):
        tag, place = _varint(data, place)
        kind = tag & 7
        if kind == 0:
            number, place = _varint(data, place)
            yield tag >> 3, number
            continue
        if kind not in (1, 2, 5):
            raise UserError(f"the SentencePiece model has a field of kind {kind}, which this version cannot read")
        size = {1: 8, 5: 4}.get(kind, 0)
        if kind == 2:
            size, place = _varint(data, place)
        yield tag >> 3, data[place : place + size]
        place += size


def _varint(data: bytes, place: int) -> tuple[int, int]:
    """Read a whole number in groups of seven bits, lowest first; return it and the place after it."""
    number = shift = 0
    while True:
        byte = data[place]
        number, shift, place = number | (byte & 0x7F) << shift, shift + 7, place + 1
        if byte < 0x80:
            return number, place
