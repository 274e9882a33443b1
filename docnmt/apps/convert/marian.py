"""Reading and writing of folders of transformers' MarianMTModel and MarianTokenizer, as OPUS-MT has them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import safetensors.torch

from docnmt.apps.convert import marian_weights as weights
from docnmt.apps.convert.export import PIECES, SentenceModel, built, write_pieces
from docnmt.apps.convert.json_file import JsonFile
from docnmt.apps.convert.marian_config import POSITIONS, config_json, config_problems, generation_json, read_config
from docnmt.apps.convert.marian_vocabulary import LANGUAGE, Entries, entries, marian_table, of_language
from docnmt.apps.convert.pretrained_folder import (
    ADDED,
    CONFIG,
    GENERATION,
    TOKENIZER,
    WEIGHTS,
    added_tokens,
    check_files,
    read_tensors,
)
from docnmt.core.data.preparation import Preparation
from docnmt.core.data.tokenizer import BOS, BRK, EOS, MASK, SPECIAL, Tokenizer
from docnmt.core.tasks.config import DocumentTranslationConfig
from docnmt.core.tasks.document_translation import DocumentTranslation
from docnmt.core.training.checkpoint import unique_state
from docnmt.runtime.errors import UsageError, UserError
from docnmt.runtime.files import write_json

TABLES = ("vocab.json", "target_vocab.json")


def read_marian(folder: Path, languages: tuple[str | None, str | None], say: Callable[[str], None]) -> SentenceModel:
    """Read the model of a folder.

    Args:
        languages: source and target; None: that of tokenizer_config.json.
        say: receives notes, line by line.

    Raises:
        UserError: a file is missing, damaged or does not fit the others, or docnmt cannot compute the model.
    """
    settings, tokens = JsonFile(folder / CONFIG), JsonFile(folder / TOKENIZER, optional=True)
    check_files(folder, settings, "marian", (*PIECES, TABLES[0]), "an OPUS-MT model")
    config, (source, target) = read_config(settings), _vocabularies(folder, settings, tokens)
    task = DocumentTranslation(
        DocumentTranslationConfig(),
        languages=_marian_languages(languages, tokens),
        tokenizers=_marian_tokenizers(folder, (source, target), say),
    )
    tensors, rows = read_tensors(folder), (source.rows, target.rows)
    if unused := weights.unused_rows(tensors, rows):
        say(f"note: {unused:,} rows of the embeddings in {folder} are of no entry in the vocabulary and were left out")
    return built(
        folder,
        config,
        task,
        tensors,
        rows=rows,
        shared=settings.flag("share_encoder_decoder_embeddings", True),
        tied=settings.flag("tie_word_embeddings", True),
    )


def _vocabularies(folder: Path, settings: JsonFile, tokens: JsonFile) -> tuple[Entries, Entries]:
    """Return the vocabularies of source and target, with docnmt's numbers; both may have one table."""
    unk, eos = tokens.token("unk_token", "<unk>"), tokens.token("eos_token", "</s>")
    separate = tokens.flag("separate_vocabs", False)
    files = [JsonFile(folder / name) for name in (TABLES if separate else TABLES[:1])]
    tables = [file.rows() for file in files]
    added = {name: row for name, row in added_tokens(folder).items() if name not in tables[0]}
    tables[0] |= added
    for file, table in zip(files, tables, strict=True):
        if missing := [name for name in (unk, eos) if name not in table]:
            raise UserError(f"{file.path}: has no entry '{missing[0]}'")
    if tables[-1][eos] != settings.whole("eos_token_id"):
        raise UserError(
            f"{files[-1].path}: '{eos}' is row {tables[-1][eos]}, and 'eos_token_id' in {settings.path} is "
            f"{settings.whole('eos_token_id')}"
        )
    of_target = () if separate else added
    target = entries(tables[-1], unk=unk, eos=eos, pad=settings.whole("pad_token_id"), added=of_target)
    if not separate:
        return target, target
    pad = tables[0].get(tokens.token("pad_token", "<pad>"), -1)
    return entries(tables[0], unk=unk, eos=eos, pad=pad, added=added), target


def _marian_languages(given: tuple[str | None, str | None], tokens: JsonFile) -> tuple[str, str]:
    names = ("source_lang", "target_lang")
    source, target = (own or tokens.token(name, "") for own, name in zip(given, names, strict=True))
    for name, found in zip(names, (source, target), strict=True):
        if not found:
            raise UsageError(f"--{name.replace('_', '-')} is required: {tokens.path} does not name the language")
    return source, target


def _marian_tokenizers(
    folder: Path, vocabularies: tuple[Entries, Entries], say: Callable[[str], None]
) -> tuple[Tokenizer, Tokenizer]:
    """Return the tokenizers of source and target; one object if they are equal."""
    made = []
    for name, own in zip(PIECES, vocabularies, strict=True):
        tokenizer, left_out = of_language(folder / name, own)
        made.append(tokenizer)
        if left_out:
            say(
                f"note: {left_out:,} pieces of {folder / name} are in no vocab.json; transformers reads them as <unk>, "
                "docnmt cuts such words into smaller pieces"
            )
    source, target = made
    if source.to_bytes() == target.to_bytes():
        target = source
    tags = {name.strip("▁><"): name for name in source.vocabulary() if LANGUAGE.fullmatch(name)}
    if not tags:
        return source, target
    return source.prepared(Preparation(tags=tags, tag_of="target")), target  # a target text begins with no tag


def write_marian(sentence: SentenceModel, folder: Path) -> None:
    """Write a folder that `MarianMTModel.from_pretrained` and `MarianTokenizer.from_pretrained` read.

    Raises:
        UserError: the model has options that Marian does not support.
    """
    config, task = sentence.config, sentence.task
    if found := config_problems(config):
        raise UserError(f"{sentence.path}: cannot be a Marian model: {'; '.join(found)}")
    sides = (task.source_tokenizer, task.target_tokenizer)
    (source, source_order), (target, target_order) = (marian_table(side.vocabulary()) for side in sides)
    eos, pad, *banned = (target_order.index(number) for number in (EOS, BOS, BRK, MASK))
    tensors = weights.to_marian(config, unique_state(sentence.model), (source_order, target_order))
    (folder / WEIGHTS).write_bytes(safetensors.torch.save(tensors, {"format": "pt"}))
    write_json(folder / CONFIG, config_json(config, (len(source), len(target)), eos, pad))
    brk = banned[0]
    write_json(folder / GENERATION, generation_json(eos, pad, [pad, *(banned[1:] if sentence.joined else banned)]))
    if sentence.joined:  # else `<brk>` would be cut into letters
        write_json(folder / ADDED, {SPECIAL[BRK]: brk})
    write_json(folder / TABLES[0], source)
    if not task.joined:
        write_json(folder / TABLES[1], target)
    write_pieces(sentence, folder)
    names = {
        "tokenizer_class": "MarianTokenizer",
        "source_lang": task.source_lang,
        "target_lang": task.target_lang,
        "unk_token": "<unk>",
        "eos_token": "</s>",
        "pad_token": list(target)[pad],
        "separate_vocabs": not task.joined,
        "model_max_length": POSITIONS,
        "clean_up_tokenization_spaces": False,
    }
    write_json(folder / TOKENIZER, names)
