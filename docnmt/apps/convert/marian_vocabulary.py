"""Conversion between the vocabulary of a folder of transformers, such as Marian's, and docnmt's tokenizers.

A Marian folder has a SentencePiece model for each language and a table, piece → row of the embeddings. A docnmt
tokenizer is one SentencePiece model whose numbers are the rows. So both models are rewritten with all pieces of the
table, in one order for both languages; each still cuts text into its own pieces. This is exact for unigram models,
which OPUS-MT has. A BPE model can cut a word differently if a piece of the other language is a step towards one of its
own.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from google.protobuf.message import DecodeError
from sentencepiece import sentencepiece_model_pb2 as model_pb2

from docnmt.core.data.tokenizer import BOS, BRK, EOS, MASK, SPECIAL, UNK, Tokenizer
from docnmt.runtime.errors import UserError

#: The target language before a source text, `>>deu<< A text`. transformers splits it off before SentencePiece;
#: SentencePiece itself finds it if the piece includes the space that SentencePiece puts before a text.
LANGUAGE = re.compile(r"▁?(>>[^<>]+<<)")

_Piece = model_pb2.ModelProto.SentencePiece
CONTROL, USER_DEFINED = _Piece.CONTROL, _Piece.USER_DEFINED
#: A score below those of all pieces, so that BPE, which merges by scores, takes such an entry last.
_LAST = -1e6


@dataclass(frozen=True)
class Entries:
    """The vocabulary of one language, with V entries in the order of docnmt's numbers.

    Attributes:
        names: the pieces. rows: the row of each piece in the model's matrices; -1 if it has none (`<brk>`, `<mask>`).
        kinds: SentencePiece's kind of pieces that its model lacks. Text is never cut into further pieces that the model
            lacks, but they are written as text.
    """

    names: list[str]
    rows: list[int]
    kinds: Mapping[str, int] = field(default_factory=dict)


def entries(table: Mapping[str, int], *, unk: str, eos: str, pad: int, added: Collection[str] = ()) -> Entries:
    """Return a table's entries by docnmt's numbers: the special ones first, the others in the order of their rows.

    `<s>` is the row `pad`, with which the decoder begins. Entries that were `added` to a vocabulary are words: they
    include the space before them.

    Raises:
        KeyError: `unk` or `eos` is no entry.
    """
    special = [table[unk], pad, table[eos], table.get(SPECIAL[BRK], -1), table.get(SPECIAL[MASK], -1)]
    others = sorted((row, name) for name, row in table.items() if row not in special)
    names = [f"▁{name}" if name in added else _own_name(name) for _, name in others]
    kinds = {f"▁{name}": USER_DEFINED for name in added}
    return Entries([*SPECIAL, *names], [*special, *(row for row, _ in others)], kinds)


def marian_table(names: list[str]) -> tuple[dict[str, int], list[int]]:
    """Return Marian's table of a docnmt vocabulary, and docnmt's number of each of its rows.

    `</s>` is row 0 and `<unk>` row 1, as in OPUS-MT. `<pad>`, with which the decoder begins, is row 2: transformers has
    one number for it where source and target have a table each.
    """
    order = [EOS, UNK, BOS, *range(BRK, len(names))]
    pad = next(name for name in ("<pad>", SPECIAL[BOS]) if name not in names[len(SPECIAL) :])
    found = [pad if number == BOS else LANGUAGE.sub(r"\1", names[number]) for number in order]
    return {name: row for row, name in enumerate(found)}, order


def _own_name(name: str) -> str:
    if name in SPECIAL or not name:  # an ordinary entry with such a name; SentencePiece needs unique names
        return f"<{name}>"
    return LANGUAGE.sub(r"▁\1", name)


def of_language(path: Path, vocabulary: Entries) -> tuple[Tokenizer, int]:
    """Return a language's tokenizer with this vocabulary, and the number of its model's pieces that are not in it.

    A model that already has this vocabulary is unchanged, byte for byte.

    Raises:
        UserError: the file is no SentencePiece model, or one without pieces.
    """
    content = path.read_bytes()
    model = model_pb2.ModelProto()
    try:
        model.ParseFromString(content)
    except DecodeError as error:
        raise UserError(f"{path}: is not a SentencePiece model, or a damaged one") from error
    if not model.pieces:
        raise UserError(f"{path}: has no pieces; was its download interrupted?")
    left_out, names = 0, vocabulary.names
    if [piece.piece for piece in model.pieces] != names:
        own = {piece.piece: piece for piece in model.pieces if piece.type not in (_Piece.UNKNOWN, _Piece.CONTROL)}
        left_out = len(own.keys() - set(names))
        pieces = [own.get(name) or _other(number, name, vocabulary.kinds) for number, name in enumerate(names)]
        content = _rewritten(model, pieces)
    try:
        return Tokenizer.from_bytes(content), left_out
    except UserError as error:
        raise UserError(f"{path}: {error}") from error


def _other(number: int, name: str, kinds: Mapping[str, int]) -> model_pb2.ModelProto.SentencePiece:
    """Return an entry that the language's own model lacks."""
    if number < len(SPECIAL):
        kind = _Piece.UNKNOWN if number == UNK else CONTROL
    else:
        kind = kinds.get(name, USER_DEFINED if LANGUAGE.fullmatch(name) else _Piece.UNUSED)
    return _Piece(piece=name, score=_LAST if kind == _Piece.UNUSED else 0.0, type=kind)


def _rewritten(model: model_pb2.ModelProto, pieces: list[model_pb2.ModelProto.SentencePiece]) -> bytes:
    """Return the model with other entries; unknown words are written as nothing, as in transformers."""
    made = model_pb2.ModelProto(pieces=pieces, trainer_spec=model.trainer_spec, normalizer_spec=model.normalizer_spec)
    if model.HasField("denormalizer_spec"):
        made.denormalizer_spec.CopyFrom(model.denormalizer_spec)
    spec = made.trainer_spec
    spec.vocab_size, spec.unk_surface = len(pieces), ""
    spec.unk_id, spec.bos_id, spec.eos_id, spec.pad_id = UNK, BOS, EOS, -1
    spec.unk_piece, spec.bos_piece, spec.eos_piece = SPECIAL[UNK], SPECIAL[BOS], SPECIAL[EOS]
    content: bytes = made.SerializeToString()
    return content
