"""Folders of Hugging Face's Marian, M2M100, NLLB and mBART-50 models: their settings and vocabularies as ours.
The tensors are in `sentence_model`.
"""

from __future__ import annotations

import functools
import importlib
import re
import unicodedata
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar, cast

import safetensors
import safetensors.torch
import sentencepiece
from google.protobuf.message import DecodeError
from sentencepiece import sentencepiece_model_pb2 as model_pb2
from torch import Tensor

from docnmt.apps.convert.sentence_model import (
    ADDED,
    CONFIG,
    DECODER,
    ENCODER,
    HEAD,
    LANGUAGE,
    PIECES,
    SHARED,
    TABLES,
    TOKENIZER,
    WEIGHTS,
    SentenceModel,
    built,
    unused_rows,
)
from docnmt.apps.options import ConvertConfig
from docnmt.core.data_options import DocumentTranslationConfig
from docnmt.core.models.config import TransformerConfig
from docnmt.core.tokenizer import BOS, BRK, EOS, MASK, SPECIAL, UNK, Preparation, Tokenizer, directed
from docnmt.core.translation_task import DocumentTranslation
from docnmt.options import from_dict, to_dict
from docnmt.runtime.languages import script
from docnmt.runtime.system import UsageError, UserError, read_json

T = TypeVar("T", int, float, bool, str)


class JsonFile:
    """A file with one JSON object, its `values`; these are empty if the file is `optional` and missing."""

    def __init__(self, path: Path, *, optional: bool = False) -> None:
        self.path, missing = path, optional and not path.exists()
        self.values: Mapping[str, object] = {} if missing else read_json(path, dict[str, object])

    def value(self, name: str, kind: type[T], default: T | None = None) -> T:
        """Return a value of this kind (of a text also the `content` of an object); None as default: it is required."""
        value = self.values.get(name, default)
        if kind is str and isinstance(value, dict):
            value = value.get("content")
        if not isinstance(value, (int, float) if kind is float else kind) or (
            isinstance(value, bool) and kind is not bool
        ):
            expected = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}[kind]
            raise UserError(f"{self.path}: '{name}': expected {expected}, got {value!r}")
        try:
            return kind(value)
        except OverflowError as error:
            raise UserError(f"{self.path}: '{name}': expected a smaller number") from error

    def rows(self) -> dict[str, int]:
        """Return the whole file as a table, text → row, in which no row occurs twice."""
        table = {name: row for name, row in self.values.items() if type(row) is int and row >= 0}
        if len(set(table.values())) < len(self.values):
            raise UserError(f"{self.path}: expected a row, 0 or more, for each piece, and none twice")
        return table


#: Names of transformers → docnmt's.
_ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "swish": "swish", "silu": "swish"}
#: Settings that early versions of transformers wrote. A model with other values is no Marian model.
_FIXED = {
    "normalize_before": False, "normalize_embedding": False, "add_final_layer_norm": False,
    "static_position_embeddings": True,
}  # fmt: skip


def read_config(settings: JsonFile) -> TransformerConfig:
    """Return the model's options, except those for shared matrices, which follow from the weights."""
    problems = [
        f"'{name}' is {settings.values[name]!r}, expected {value!r}, as transformers computes it"
        for name, value in _FIXED.items()
        if settings.values.get(name, value) != value
    ]
    start, pad = settings.value("decoder_start_token_id", int), settings.value("pad_token_id", int)
    if start != pad or pad < 0:
        problems.append(
            f"'decoder_start_token_id' is {start} and 'pad_token_id' {pad}; in a Marian model they are one row"
        )
    return replace(read_layers(settings, default="gelu", problems=problems), norm="post")


def read_layers(
    settings: JsonFile, *, default: str, scaled: bool = False, problems: Sequence[str] = ()
) -> TransformerConfig:
    """Return the options that Marian, M2M100, NLLB and mBART share; `default` and `scaled`: the activation, and whether
    embeddings are multiplied by √d, where config.json does not say so."""
    problems = list(problems)
    for size in ("attention_heads", "ffn_dim"):
        encoder, decoder = (settings.value(f"{side}_{size}", int) for side in ("encoder", "decoder"))
        if encoder != decoder:
            problems.append(f"'encoder_{size}' is {encoder} and 'decoder_{size}' {decoder}; docnmt has one for both")
    activation = settings.value("activation_function", str, default)
    if activation not in _ACTIVATIONS:
        problems.append(f"'activation_function' is {activation!r}, expected one of {', '.join(_ACTIVATIONS)}")
    config = TransformerConfig(
        encoder_layers=settings.value("encoder_layers", int),
        decoder_layers=settings.value("decoder_layers", int),
        embed_dim=settings.value("d_model", int),
        heads=settings.value("encoder_attention_heads", int),
        ffn_dim=settings.value("encoder_ffn_dim", int),
        dropout=settings.value("dropout", float, 0.1),
        activation=_ACTIVATIONS.get(activation, "relu"),  # type: ignore[arg-type]
        position_fusion="add",
        scale_embeddings=settings.value("scale_embedding", bool, scaled),
    )
    if problems := problems or config.problems():
        raise UserError(f"{settings.path}: {'; '.join(problems)}")
    return from_dict(TransformerConfig, to_dict(config), where=str(settings.path))  # which checks their ranges


# A Marian folder has a SentencePiece model for each language and one table, piece → row of the embeddings. A docnmt
# tokenizer is one SentencePiece model whose numbers are the rows, so both models get all pieces of the table, in one
# order; each still cuts text into its own. This is exact for unigram models, which OPUS-MT has; a BPE model can cut a
# word differently if a piece of the other language is a step towards one of its own.

_Piece = model_pb2.ModelProto.SentencePiece
CONTROL, USER_DEFINED = _Piece.CONTROL, _Piece.USER_DEFINED
#: A score below those of all pieces, so that BPE, which merges by scores, takes such an entry last.
_LAST = -1e6


@dataclass(frozen=True)
class Entries:
    """The vocabulary of one language, with V entries in the order of docnmt's numbers."""

    names: list[str]
    rows: list[int]  # of each piece in the model's matrices; -1 if it has none (`<brk>`, `<mask>`)
    kinds: Mapping[str, int] = field(default_factory=dict)  # of pieces that its SentencePiece model lacks


def entries(table: Mapping[str, int], *, unk: str, eos: str, pad: int, added: Collection[str] = ()) -> Entries:
    """Return a table's entries by docnmt's numbers: the special ones first, the others in the order of their rows.

    `<s>` is the row `pad`, with which the decoder begins. Entries that were `added` are words, with the space before.
    """
    special = [table[unk], pad, table[eos], table.get(SPECIAL[BRK], -1), table.get(SPECIAL[MASK], -1)]
    others = sorted((row, name) for name, row in table.items() if row not in special)
    same = {*SPECIAL, ""}  # ordinary entries with such names; SentencePiece needs unique names
    names = [
        f"▁{name}" if name in added else f"<{name}>" if name in same else LANGUAGE.sub(r"▁\1", name)
        for _, name in others
    ]
    kinds = {f"▁{name}": USER_DEFINED for name in added}
    return Entries([*SPECIAL, *names], [*special, *(row for row, _ in others)], kinds)


def of_language(path: Path, vocabulary: Entries) -> tuple[Tokenizer, int]:
    """Return a language's tokenizer with this vocabulary, and how many of its model's pieces are not in it.

    A model that already has this vocabulary is unchanged, byte for byte.
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
        known = {piece.piece: piece for piece in model.pieces if piece.type not in (_Piece.UNKNOWN, _Piece.CONTROL)}
        left_out = len(known.keys() - set(names))
        pieces = [known.get(name) or _other(number, name, vocabulary.kinds) for number, name in enumerate(names)]
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
    rewritten = model_pb2.ModelProto(
        pieces=pieces, trainer_spec=model.trainer_spec, normalizer_spec=model.normalizer_spec
    )
    if model.HasField("denormalizer_spec"):
        rewritten.denormalizer_spec.CopyFrom(model.denormalizer_spec)
    spec = rewritten.trainer_spec
    spec.vocab_size, spec.unk_surface = len(pieces), ""
    spec.unk_id, spec.bos_id, spec.eos_id, spec.pad_id = UNK, BOS, EOS, -1
    spec.unk_piece, spec.bos_piece, spec.eos_piece = SPECIAL[UNK], SPECIAL[BOS], SPECIAL[EOS]
    return cast(bytes, rewritten.SerializeToString())


#: The index, which names the file of each tensor.
_INDEX = f"{WEIGHTS}.index.json"
_PICKLES = ("pytorch_model.bin", "pytorch_model.bin.index.json")


def check_files(folder: Path, settings: JsonFile, kind: str, needed: Sequence[str], noun: str) -> None:
    """Check that a folder has a model of this kind and the needed files."""
    model_type = settings.values.get("model_type")
    if model_type != kind:
        raise UserError(f"{settings.path}: 'model_type' is {model_type!r}, expected 'marian', 'm2m_100' or 'mbart'")
    problems = []
    missing = [name for name in needed if not (folder / name).is_file()]
    if not any((folder / name).is_file() for name in (WEIGHTS, _INDEX)):
        if any((folder / name).is_file() for name in _PICKLES):
            problems.append(
                f"{folder}: {_PICKLES[0]} is a pickle, which docnmt does not open; have transformers write "
                f"{WEIGHTS}: AutoModelForSeq2SeqLM.from_pretrained({str(folder)!r}).save_pretrained({str(folder)!r})"
            )
        else:
            missing = [WEIGHTS, *missing]
    if missing:
        problems.append(f"{folder}: {', '.join(missing)} missing; expected the files of {noun}")
    if problems:
        raise UserError("; and ".join(problems))


def read_tensors(folder: Path) -> dict[str, Tensor]:
    """Return the weights, from one file or from all files that the index names."""
    if (folder / WEIGHTS).is_file():
        return _tensors(folder / WEIGHTS)
    index = JsonFile(folder / _INDEX)
    places = index.values.get("weight_map")
    if not isinstance(places, dict) or not all(
        isinstance(name, str) and name.endswith(".safetensors") and Path(name).name == name for name in places.values()
    ):
        raise UserError(f"{index.path}: 'weight_map': expected the name of a file in this folder for each tensor")
    tensors: dict[str, Tensor] = {}
    for name in dict.fromkeys(places.values()):
        tensors |= _tensors(folder / name)
    if missing := places.keys() - tensors.keys():
        raise UserError(f"{index.path}: no file has the tensor '{min(missing)}'")
    return tensors


def _tensors(file: Path) -> dict[str, Tensor]:
    try:
        return safetensors.torch.load_file(file)
    except (safetensors.SafetensorError, OSError) as error:
        raise UserError(f"{file}: is not a whole safetensors file: {error}") from error


def added_tokens(folder: Path) -> dict[str, int]:
    """Return the rows of entries that are not SentencePiece's: of added_tokens.json or a tokenizer's own files."""
    rows_by_token = dict(JsonFile(folder / ADDED, optional=True).rows())
    whole, tokens = (JsonFile(folder / name, optional=True) for name in ("tokenizer.json", TOKENIZER))
    listed, decoder = whole.values.get("added_tokens", []), tokens.values.get("added_tokens_decoder", {})
    if not isinstance(listed, list) or not all(isinstance(token, dict) for token in listed):
        raise UserError(f"{whole.path}: 'added_tokens': expected a list of objects")
    if not isinstance(decoder, dict):
        raise UserError(f"{tokens.path}: 'added_tokens_decoder': expected an object with a token for each row")
    entries = [(whole.path, token.get("id"), token.get("content")) for token in listed]
    entries += [
        (tokens.path, row, token.get("content") if isinstance(token, dict) else token) for row, token in decoder.items()
    ]
    for path, row, content in entries:
        if not re.fullmatch(r"[0-9]{1,18}", str(row)) or not isinstance(content, str):
            raise UserError(f"{path}: expected a token and its row, got {content!r} and {row!r}")
        rows_by_token.setdefault(content, int(str(row)))
    return rows_by_token


def check_rows(folder: Path, table: Mapping[str, int]) -> None:
    """Check that no two entries of a vocabulary, added tokens included, have one row, which would count twice."""
    names: dict[int, str] = {}
    for name, row in table.items():
        if (other := names.setdefault(row, name)) != name:
            raise UserError(f"{folder}: '{other}' and '{name}' both have row {row}; expected a row for each entry")


# Folders of transformers' MarianMTModel and MarianTokenizer, as OPUS-MT has them.


def read_marian(folder: Path, languages: tuple[str | None, str | None], say: Callable[[str], None]) -> SentenceModel:
    """Read the model of a folder; languages that are None are those of tokenizer_config.json. `say` receives notes."""
    settings, tokens = JsonFile(folder / CONFIG), JsonFile(folder / TOKENIZER, optional=True)
    check_files(folder, settings, "marian", (*PIECES, TABLES[0]), "an OPUS-MT model")
    config, (source, target) = read_config(settings), _vocabularies(folder, settings, tokens)
    task = DocumentTranslation(
        DocumentTranslationConfig(),
        languages=_marian_languages(languages, tokens),
        tokenizers=_marian_tokenizers(folder, (source, target), say),
    )
    tensors, rows = read_tensors(folder), (source.rows, target.rows)
    if (unused := unused_rows(tensors, rows)) > 0:
        say(f"note: {unused:,} rows of the embeddings in {folder} are of no entry in the vocabulary and were left out")
    return built(
        folder, config, task, tensors, rows=rows, shared=settings.value("share_encoder_decoder_embeddings", bool, True),
        tied=settings.value("tie_word_embeddings", bool, True),
    )  # fmt: skip


def _vocabularies(folder: Path, settings: JsonFile, tokens: JsonFile) -> tuple[Entries, Entries]:
    """Return the vocabularies of source and target, with docnmt's numbers; both may have one table."""
    unk, eos = tokens.value("unk_token", str, "<unk>"), tokens.value("eos_token", str, "</s>")
    separate = tokens.value("separate_vocabs", bool, False)
    files = [JsonFile(folder / name) for name in (TABLES if separate else TABLES[:1])]
    tables = [file.rows() for file in files]
    added = {name: row for name, row in added_tokens(folder).items() if name not in tables[0]}
    tables[0] |= added
    check_rows(folder, tables[0])
    for file, table in zip(files, tables, strict=True):
        if missing := [name for name in (unk, eos) if name not in table]:
            raise UserError(f"{file.path}: has no entry '{missing[0]}'")
    if tables[-1][eos] != settings.value("eos_token_id", int):
        raise UserError(
            f"{files[-1].path}: '{eos}' is row {tables[-1][eos]}, and 'eos_token_id' in {settings.path} is "
            f"{settings.value('eos_token_id', int)}"
        )
    of_target = () if separate else added
    target = entries(tables[-1], unk=unk, eos=eos, pad=settings.value("pad_token_id", int), added=of_target)
    if not separate:
        return target, target
    pad = tables[0].get(tokens.value("pad_token", str, "<pad>"), -1)
    return entries(tables[0], unk=unk, eos=eos, pad=pad, added=added), target


def _marian_languages(said: tuple[str | None, str | None], tokens: JsonFile) -> tuple[str, str]:
    names = ("source_lang", "target_lang")
    source, target = (language or tokens.value(name, str, "") for language, name in zip(said, names, strict=True))
    for name, language in zip(names, (source, target), strict=True):
        if not language:
            raise UsageError(f"--{name.replace('_', '-')} is required: {tokens.path} does not name the language")
    return source, target


def _marian_tokenizers(
    folder: Path, vocabularies: tuple[Entries, Entries], say: Callable[[str], None]
) -> tuple[Tokenizer, Tokenizer]:
    """Return the tokenizers of source and target; one object if they are equal."""
    tokenizers = []
    for name, vocabulary in zip(PIECES, vocabularies, strict=True):
        tokenizer, left_out = of_language(folder / name, vocabulary)
        tokenizers.append(tokenizer)
        if left_out:
            say(
                f"note: {left_out:,} pieces of {folder / name} are in no vocab.json; transformers reads them as <unk>, "
                "docnmt cuts such words into smaller pieces"
            )
    source, target = tokenizers
    if source.to_bytes() == target.to_bytes():
        target = source
    tags = {name.strip("▁><"): name for name in source.vocabulary() if LANGUAGE.fullmatch(name)}
    if not tags:
        return source, target
    return source.prepared(Preparation(tags=tags, tag_of="target")), target  # a target text begins with no tag


# The Unicode name of a letter begins with the name of its script. Characters of none of these scripts (digits,
# punctuation, signs) are kept.

#: Code of a script → first words of the Unicode names of its letters.
_WORDS = {
    "Latn": "LATIN", "Arab": "ARABIC", "Armn": "ARMENIAN", "Beng": "BENGALI", "Cyrl": "CYRILLIC", "Deva": "DEVANAGARI",
    "Ethi": "ETHIOPIC", "Geor": "GEORGIAN", "Grek": "GREEK", "Gujr": "GUJARATI", "Guru": "GURMUKHI",
    "Hang": "HANGUL CJK", "Hans": "CJK", "Hant": "CJK", "Hebr": "HEBREW", "Jpan": "CJK HIRAGANA KATAKANA",
    "Khmr": "KHMER", "Knda": "KANNADA", "Laoo": "LAO", "Mlym": "MALAYALAM", "Mymr": "MYANMAR", "Orya": "ORIYA",
    "Sinh": "SINHALA", "Taml": "TAMIL", "Telu": "TELUGU", "Tfng": "TIFINAGH", "Thai": "THAI", "Tibt": "TIBETAN",
}  # fmt: skip
_ALL = frozenset(word for words in _WORDS.values() for word in words.split())


def readable(pieces: Collection[str], codes: Collection[str]) -> set[str]:
    """Return the pieces without letters of other scripts than Latin and those of the languages."""
    others = _ALL - {_WORDS["Latn"]}
    for code in codes:
        name = script(code) or "Latn"
        if name not in _WORDS:
            raise UsageError(f"--languages {code}: the script '{name}' is not known; leave --languages out")
        others -= {*_WORDS[name].split()}
    return {piece for piece in pieces if not any(_first_word(character) in others for character in piece)}


@functools.cache
def _first_word(character: str) -> str:
    return unicodedata.name(character, "").partition(" ")[0] if unicodedata.category(character)[0] in "LM" else ""


# M2M100 has a table, vocab.json. NLLB and mBART-50 have fairseq's numbering: four special entries, then SentencePiece's
# pieces from its fourth on, each in the row after its SentencePiece number, then the tags. Tags that no file gives rows
# follow the pieces in the order in which a file lists them.

MULTILINGUAL_PIECES, _TABLE = "sentencepiece.bpe.model", "vocab.json"
_SPECIAL = {"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3}
_MASK = "<mask>"
_LARGEST = 1 << 22
#: The form of the languages' tags in M2M100, NLLB and mBART-50.
_TAG = re.compile(r"__([a-z]{2,3})__|([a-z]{3}_[A-Z][a-z]{3}|[a-z]{2}_[A-Z]{2})")
#: The modules of transformers with the tags that it adds to folders without a list, by class of tokenizer.
_LISTS = {
    "M2M100Tokenizer": "transformers.models.m2m_100.tokenization_m2m_100",
    "NllbTokenizer": "transformers.models.nllb.tokenization_nllb",
    "NllbTokenizerFast": "transformers.models.nllb.tokenization_nllb",
    "MBart50Tokenizer": "transformers.models.mbart50.tokenization_mbart50",
    "MBart50TokenizerFast": "transformers.models.mbart50.tokenization_mbart50",
}


@dataclass(frozen=True)
class MultilingualVocabulary:
    """The vocabulary of an M2M100, NLLB or mBART-50 model, as docnmt has it."""

    entries: Entries
    tokenizer: Tokenizer  # puts no tags before texts
    codes: dict[str, str]  # name of a language → the model's code
    tags: dict[str, str]  # … → its tag


def read_vocabulary(
    folder: Path, settings: JsonFile, tokens: JsonFile, languages: Sequence[str], say: Callable[[str], None]
) -> MultilingualVocabulary:
    """Read the vocabulary of a folder, or the entries of some languages, each as CODE or CODE=NAME."""
    pieces = _pieces(folder)
    has_table = (folder / _TABLE).is_file()
    numbered = {piece: number + 1 for number, piece in enumerate(pieces) if number > 2}  # as fairseq does
    table = JsonFile(folder / _TABLE).rows() if has_table else _SPECIAL | numbered
    eos = settings.value("eos_token_id", int)
    if table.get("</s>") != eos or "<unk>" not in table:
        raise UserError(f"{folder}: expected '<unk>', and '</s>' in row {eos}, as {settings.path} says")
    added = {name: row for name, row in added_tokens(folder).items() if name not in table}
    kind = tokenizer_class(settings, tokens)
    tags = _tags(folder, kind, tokens, {name: row for name, row in added.items() if _TAG.fullmatch(name)}, len(table))
    mask = {} if has_table else {f"<{_MASK}>": added.get(_MASK, len(table) + len(tags))}
    added = {name: row for name, row in added.items() if name not in tags and name != _MASK}
    matches = ((tag, _TAG.fullmatch(tag)) for tag in tags)
    codes = {(match[1] or match[2]) if match else tag: tag for tag, match in matches}
    languages_by_name = _kept(languages, codes)
    whole = settings.value("vocab_size", int)
    if whole > _LARGEST:
        raise UserError(f"{settings.path}: 'vocab_size': expected at most {_LARGEST:,}, got {whole:,}")
    if languages:
        readables = readable(table.keys() - _SPECIAL.keys(), list(languages_by_name.values()))
        table = {name: row for name, row in table.items() if name in readables or name in ("</s>", "<unk>")}
        tags = {codes[code]: tags[codes[code]] for code in languages_by_name.values()}
        mask = {}
    table |= tags | mask | added
    check_rows(folder, table)
    used = set(table.values())
    if not languages:
        table |= {f"madeupword{row}": row for row in range(whole) if row not in used}
    start = settings.value("decoder_start_token_id", int)
    if start < 0:
        raise UserError(f"{settings.path}: 'decoder_start_token_id': expected a row, 0 or more, got {start}")
    vocabulary = entries(table, unk="<unk>", eos="</s>", pad=start, added=added)
    of_model = set(pieces)  # text is cut into these only, not into tags and fillers
    controls = [name for name in vocabulary.names[len(SPECIAL) :] if name not in of_model]
    vocabulary = replace(vocabulary, kinds=dict.fromkeys(controls, CONTROL) | dict(vocabulary.kinds))
    tokenizer, _ = of_language(folder / MULTILINGUAL_PIECES, vocabulary)
    count = len({*vocabulary.rows} - {-1})
    say(f"{count:,} of {whole:,} entries of the vocabulary are kept, {len(tags):,} are languages")
    return MultilingualVocabulary(
        vocabulary, tokenizer, languages_by_name, {name: codes[code] for name, code in languages_by_name.items()}
    )


def _pieces(folder: Path) -> list[str]:
    try:
        processor = sentencepiece.SentencePieceProcessor(model_proto=(folder / MULTILINGUAL_PIECES).read_bytes())
    except (RuntimeError, OSError) as error:
        raise UserError(f"{folder / MULTILINGUAL_PIECES}: is not a SentencePiece model, or a damaged one") from error
    return [processor.id_to_piece(number) for number in range(processor.get_piece_size())]


def tokenizer_class(settings: JsonFile, tokens: JsonFile) -> str:
    """Return the name of the tokenizer's class in transformers, from one of the two files; "" if none names it."""
    return tokens.value("tokenizer_class", str, settings.value("tokenizer_class", str, ""))


def _tags(folder: Path, kind: str, tokens: JsonFile, added: dict[str, int], begin: int) -> dict[str, int]:
    """Return the row of each tag: as in the folder, or from `begin` on in the order of its list or transformers'."""
    if added:
        return added
    lists = [tokens, JsonFile(folder / "special_tokens_map.json", optional=True)]
    keys = ("additional_special_tokens", "extra_special_tokens")
    for listed in (file.values.get(key) for file in lists for key in keys):
        entries_listed = listed if isinstance(listed, list) else []
        names = [str(e.get("content", "")) if isinstance(e, Mapping) else str(e) for e in entries_listed]
        if names := [name for name in names if _TAG.fullmatch(name)]:
            return {name: begin + number for number, name in enumerate(names)}
    try:
        known = importlib.import_module(_LISTS[kind]).FAIRSEQ_LANGUAGE_CODES
    except (ImportError, KeyError, AttributeError) as error:
        raise UserError(
            f"{tokens.path}: lists no languages: expected them in 'additional_special_tokens', or transformers "
            "installed and 'tokenizer_class' M2M100Tokenizer, NllbTokenizer or MBart50Tokenizer"
        ) from error
    if isinstance(known, dict):
        known = [f"__{code}__" for code in known.get(tokens.value("language_codes", str, "m2m100"), [])]
    return {name: begin + number for number, name in enumerate(known)}


def _kept(languages: Sequence[str], codes: Mapping[str, str]) -> dict[str, str]:
    """Return the languages to keep: name → code."""
    if not languages:
        return {code: code for code in codes}
    pairs = [said.partition("=")[::2] for said in languages]
    for code, _ in pairs:
        if code not in codes:
            raise UsageError(f"--languages {code}: expected some of {', '.join(codes)}")
    by_name = {name or code: code for code, name in pairs}
    if len(by_name) < max(2, len(pairs)) or len(set(by_name.values())) < len(pairs):
        raise UsageError(f"--languages {' '.join(languages)}: expected at least two, each once")
    return by_name


# A text begins with the tag of its language (`__fr__`, `fra_Latn`, `fr_XX`) on both sides. docnmt's tokenizers put it
# there, and the search writes it first.

#: `model_type` in config.json → the models.
KINDS = {"m2m_100": "M2M100 or NLLB", "mbart": "mBART-50"}
#: The keys of the languages in tokenizer_config.json, and the source language that transformers takes by default.
_STORED, _ENGLISH = ("src_lang", "tgt_lang"), ("en", "eng_Latn", "en_XX")


def read_multilingual(folder: Path, wanted: ConvertConfig, say: Callable[[str], None]) -> SentenceModel:
    """Read the model of a folder, with the languages of `wanted`; `say` receives notes, line by line."""
    settings, tokens = JsonFile(folder / CONFIG), JsonFile(folder / TOKENIZER, optional=True)
    kind = str(settings.values.get("model_type"))
    check_files(folder, settings, kind, (MULTILINGUAL_PIECES,), f"a model of {KINDS[kind]}")
    if tokens.value("legacy_behaviour", bool, False):
        raise UserError(f"{tokens.path}: 'legacy_behaviour': tags at the end of source texts cannot be converted")
    config = _mbart_config(settings, tokens) if kind == "mbart" else _config(settings)
    tensors, whole = read_tensors(folder), settings.value("vocab_size", int)
    for name in (SHARED, ENCODER, DECODER, HEAD):  # before that many entries are made
        if name in tensors and tensors[name].shape[:1].numel() < whole:
            raise UserError(f"'{name}' has fewer than {whole:,} rows, the 'vocab_size' of {settings.path}")
    vocabulary = read_vocabulary(folder, settings, tokens, wanted.languages, say)
    languages = _multilingual_languages(wanted, tokens, vocabulary, say)
    source = vocabulary.tokenizer.prepared(Preparation(tags=vocabulary.tags, tag_of="source"))
    target = vocabulary.tokenizer.prepared(Preparation(tags=vocabulary.tags, tag_of="target"))
    tokenizers = directed((source, target), ("", ""), languages)
    task = DocumentTranslation(DocumentTranslationConfig(), languages=languages, tokenizers=tokenizers)
    rows = vocabulary.entries.rows
    tied = settings.value("tie_word_embeddings", bool, True)
    return built(folder, config, task, tensors, rows=(rows, rows), shared=True, tied=tied)


def _config(settings: JsonFile) -> TransformerConfig:
    """Return the model's options."""
    if settings.value("pad_token_id", int) != 1:
        raise UserError(f"{settings.path}: 'pad_token_id': expected 1, from which positions count on")
    config = replace(read_layers(settings, default="relu", scaled=True), norm="pre", sinusoids="fairseq")
    if config.embed_dim < 4:
        raise UserError(f"{settings.path}: 'd_model': expected at least 4, got {config.embed_dim}")
    return config


def _mbart_config(settings: JsonFile, tokens: JsonFile) -> TransformerConfig:
    """Return the options of an mBART-50 model; the first mBART had its tags at the end of texts."""
    if not (kind := tokenizer_class(settings, tokens)).startswith("MBart50"):
        raise UserError(
            f"{tokens.path}: 'tokenizer_class' is '{kind}', expected MBart50Tokenizer; only mBART-50 is read"
        )
    return replace(
        read_layers(settings, default="gelu"), norm="pre", position="learned",
        max_positions=settings.value("max_position_embeddings", int), share_positions=False, norm_embeddings=True,
    )  # fmt: skip


def _multilingual_languages(
    wanted: ConvertConfig, tokens: JsonFile, vocabulary: MultilingualVocabulary, say: Callable[[str], None]
) -> tuple[str, str]:
    """Return the default source and target language of the model."""
    names, name_of = list(vocabulary.codes), {code: name for name, code in vocabulary.codes.items()}
    stored = [name_of.get(value) if isinstance(value := tokens.values.get(key), str) else None for key in _STORED]
    ends = (names[0], names[-1]) if wanted.languages else (None, None)
    source = wanted.source_lang or ends[0] or stored[0]
    source = source or next((name_of[code] for code in _ENGLISH if code in name_of), names[0])
    target = wanted.target_lang or ends[1] or stored[1]
    if target is None:
        target = next((name for name in names if name != source), source)
        say(f"note: {tokens.path} names no target language; it is {target} unless --target-lang says otherwise")
    for flag, language in (("--source-lang", source), ("--target-lang", target)):
        if language not in names:
            raise UsageError(f"{flag} {language}: expected one of {', '.join(names)}")
    if source == target:
        raise UsageError(f"--source-lang and --target-lang are both '{source}'; give the one you translate into")
    return source, target
