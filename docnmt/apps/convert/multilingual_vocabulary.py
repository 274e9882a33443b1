"""The vocabulary of an M2M100, NLLB or mBART-50 folder: pieces, tags of languages, and the row of each in the matrices.

M2M100 has a table, vocab.json. NLLB and mBART-50 have fairseq's numbering: four special entries, then SentencePiece's
pieces from its fourth on, each in the row after its SentencePiece number, then the tags. If no file has the rows of the
tags, they follow the pieces in the order in which a file lists them.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import sentencepiece

from docnmt.apps.convert.json_file import JsonFile
from docnmt.apps.convert.marian_vocabulary import CONTROL, Entries, entries, of_language
from docnmt.apps.convert.pretrained_folder import added_tokens
from docnmt.apps.convert.writing_systems import readable
from docnmt.core.data.tokenizer import SPECIAL, Tokenizer
from docnmt.runtime.errors import UsageError, UserError

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
    """The vocabulary of an M2M100, NLLB or mBART-50 model, as docnmt has it.

    Attributes:
        entries: the entries with their rows. tokenizer: the tokenizer, which puts no tags before texts.
        codes: name of a language → the model's code. tags: name of a language → its tag.
    """

    entries: Entries
    tokenizer: Tokenizer
    codes: dict[str, str]
    tags: dict[str, str]


def read_vocabulary(
    folder: Path, settings: JsonFile, tokens: JsonFile, languages: Sequence[str], say: Callable[[str], None]
) -> MultilingualVocabulary:
    """Read the vocabulary of a folder.

    Args:
        languages: the languages whose entries are kept, each as CODE or CODE=NAME; empty: all entries are kept.
        say: receives notes.

    Raises:
        UserError: a file is missing or damaged, the folder names no tags, or none for one of the languages.
    """
    pieces = _pieces(folder)
    has_table = (folder / _TABLE).is_file()
    table = JsonFile(folder / _TABLE).rows() if has_table else _numbered(pieces)
    eos = settings.whole("eos_token_id")
    if table.get("</s>") != eos or "<unk>" not in table:
        raise UserError(f"{folder}: expected '<unk>', and '</s>' in row {eos}, as {settings.path} says")
    added = {name: row for name, row in added_tokens(folder).items() if name not in table}
    kind = tokenizer_class(settings, tokens)
    tags = _tags(folder, kind, tokens, {name: row for name, row in added.items() if _TAG.fullmatch(name)}, len(table))
    mask = {} if has_table else {f"<{_MASK}>": added.get(_MASK, len(table) + len(tags))}
    added = {name: row for name, row in added.items() if name not in tags and name != _MASK}
    codes = {_code(tag): tag for tag in tags}
    kept = _kept(languages, codes)
    whole = settings.whole("vocab_size")
    if whole > _LARGEST:
        raise UserError(f"{settings.path}: 'vocab_size': expected at most {_LARGEST:,}, got {whole:,}")
    if languages:
        readables = readable(table.keys() - _SPECIAL.keys(), list(kept.values()))
        table = {name: row for name, row in table.items() if name in readables or name in ("</s>", "<unk>")}
        tags = {codes[code]: tags[codes[code]] for code in kept.values()}
        mask = {}
    table |= tags | mask | added
    used = set(table.values())
    if not languages:
        table |= {f"madeupword{row}": row for row in range(whole) if row not in used}
    start = settings.whole("decoder_start_token_id")
    found = entries(table, unk="<unk>", eos="</s>", pad=start, added=added)
    found = replace(found, kinds=dict.fromkeys(_controls(found.names, pieces), CONTROL) | dict(found.kinds))
    tokenizer, _ = of_language(folder / MULTILINGUAL_PIECES, found)
    say(f"{len({*found.rows} - {-1}):,} of {whole:,} entries of the vocabulary are kept, {len(tags):,} are languages")
    return MultilingualVocabulary(found, tokenizer, kept, {name: codes[code] for name, code in kept.items()})


def _pieces(folder: Path) -> list[str]:
    try:
        processor = sentencepiece.SentencePieceProcessor(model_proto=(folder / MULTILINGUAL_PIECES).read_bytes())
    except (RuntimeError, OSError) as error:
        raise UserError(f"{folder / MULTILINGUAL_PIECES}: is not a SentencePiece model, or a damaged one") from error
    return [processor.id_to_piece(number) for number in range(processor.get_piece_size())]


def _numbered(pieces: Sequence[str]) -> dict[str, int]:
    """Return the row of each piece in fairseq's numbering."""
    return _SPECIAL | {piece: number + 1 for number, piece in enumerate(pieces) if number > 2}


def _controls(names: Sequence[str], pieces: Collection[str]) -> list[str]:
    """Return the entries into which no text is cut: special ones, tags, and fillers."""
    known = set(pieces)
    return [name for name in names[len(SPECIAL) :] if name not in known]


def tokenizer_class(settings: JsonFile, tokens: JsonFile) -> str:
    """Return the name of the tokenizer's class in transformers, from one of the two files; "" if none names it."""
    return tokens.token("tokenizer_class", settings.token("tokenizer_class", ""))


def _tags(folder: Path, kind: str, tokens: JsonFile, added: dict[str, int], begin: int) -> dict[str, int]:
    """Return the row of each tag: as in the folder, or from `begin` on in the order of its list or transformers'."""
    if added:
        return added
    lists = [tokens, JsonFile(folder / "special_tokens_map.json", optional=True)]
    keys = ("additional_special_tokens", "extra_special_tokens")
    for listed in (each.values.get(key) for each in lists for key in keys):
        names = [_content(each) for each in listed] if isinstance(listed, list) else []
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
        known = [f"__{code}__" for code in known.get(tokens.token("language_codes", "m2m100"), [])]
    return {name: begin + number for number, name in enumerate(known)}


def _content(entry: object) -> str:
    return str(entry.get("content", "")) if isinstance(entry, Mapping) else str(entry)


def _code(tag: str) -> str:
    found = _TAG.fullmatch(tag)
    return (found[1] or found[2]) if found else tag


def _kept(languages: Sequence[str], codes: Mapping[str, str]) -> dict[str, str]:
    """Return the languages to keep: name → code.

    Raises:
        UsageError: a code is not one of the model's, a code or name is given twice, or there is only one.
    """
    if not languages:
        return {code: code for code in codes}
    pairs = [given.partition("=")[::2] for given in languages]
    for code, _ in pairs:
        if code not in codes:
            raise UsageError(f"--languages {code}: expected some of {', '.join(codes)}")
    kept = {name or code: code for code, name in pairs}
    if len(kept) < max(2, len(pairs)) or len(set(kept.values())) < len(pairs):
        raise UsageError(f"--languages {' '.join(languages)}: expected at least two, each once")
    return kept
