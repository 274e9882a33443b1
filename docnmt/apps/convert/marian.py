"""A folder of Hugging Face transformers' MarianMTModel and MarianTokenizer, as OPUS-MT has them: read and written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import safetensors
import safetensors.torch
from torch import Tensor

from docnmt.apps.convert import marian_weights as weights
from docnmt.apps.convert.json_file import JsonFile
from docnmt.apps.convert.marian_config import POSITIONS, config_json, config_problems, generation_json, read_config
from docnmt.apps.convert.marian_vocabulary import Entries, entries, marian_table, of_language
from docnmt.apps.convert.sentence_model import SentenceModel
from docnmt.core.data.tokenizer import BOS, BRK, EOS, MASK, Tokenizer
from docnmt.core.models.architectures import Transformer
from docnmt.core.tasks.config import DocumentTranslationConfig
from docnmt.core.tasks.document_translation import DocumentTranslation
from docnmt.core.training.checkpoint import load_state, unique_state
from docnmt.runtime.errors import UsageError, UserError
from docnmt.runtime.files import write_json

CONFIG, WEIGHTS, GENERATION, TOKENIZER = (
    "config.json", "model.safetensors", "generation_config.json", "tokenizer_config.json",
)  # fmt: skip
PIECES, TABLES = ("source.spm", "target.spm"), ("vocab.json", "target_vocab.json")


def read_marian(folder: Path, languages: tuple[str | None, str | None], say: Callable[[str], None]) -> SentenceModel:
    """The model of a folder.

    Args:
        languages: source and target, None for those of tokenizer_config.json.
        say: takes notes, line by line.

    Raises:
        UserError: a file is missing, damaged or does not fit the others, or docnmt cannot compute the model.
    """
    settings, tokens = JsonFile(folder / CONFIG), JsonFile(folder / TOKENIZER, optional=True)
    _check_files(folder, settings)
    config, (source, target) = read_config(settings), _vocabularies(folder, settings, tokens)
    task = DocumentTranslation(
        DocumentTranslationConfig(),
        languages=_languages(languages, tokens),
        tokenizers=_tokenizers(folder, (source, target), say),
    )
    file, rows = folder / WEIGHTS, (source.rows, target.rows)
    tensors = _tensors(file)
    shared = settings.flag("share_encoder_decoder_embeddings", True)
    tied = settings.flag("tie_word_embeddings", True)
    try:
        own = weights.from_marian(config, tensors, rows=rows, shared=shared, tied=tied)
    except UserError as error:
        raise UserError(f"{file}: {error}") from error
    if unused := weights.unused_rows(tensors, rows):
        say(f"note: {unused:,} rows of the embeddings in {file} are of no entry in the vocabulary and were left out")
    config = replace(
        config,
        share_embeddings=weights.TARGET not in own,
        tie_output=weights.OUTPUT not in own,
        output_bias=weights.OUTPUT_BIAS in own,
    )
    model = Transformer.build(config, task).eval()
    load_state(model, own, file)
    return SentenceModel(folder, model, config, task)


def _check_files(folder: Path, settings: JsonFile) -> None:
    kind = settings.values.get("model_type")
    if kind != "marian":
        raise UserError(f"{settings.path}: 'model_type' is {kind!r}, expected 'marian'; no other kind can be converted")
    missing = [name for name in (WEIGHTS, *PIECES, TABLES[0]) if not (folder / name).is_file()]
    if WEIGHTS in missing and (folder / "pytorch_model.bin").is_file():
        raise UserError(
            f"{folder}: pytorch_model.bin is a pickle, which docnmt does not open; have transformers write {WEIGHTS}: "
            f"MarianMTModel.from_pretrained({str(folder)!r}).save_pretrained({str(folder)!r})"
        )
    if missing:
        raise UserError(f"{folder}: {', '.join(missing)} missing; expected the files of an OPUS-MT model")


def _tensors(file: Path) -> dict[str, Tensor]:
    try:
        return safetensors.torch.load_file(file)
    except (safetensors.SafetensorError, OSError) as error:
        raise UserError(f"{file}: is not a whole safetensors file: {error}") from error


def _vocabularies(folder: Path, settings: JsonFile, tokens: JsonFile) -> tuple[Entries, Entries]:
    """docnmt's numbers of both sides, the same where one table is for both."""
    unk, eos = tokens.token("unk_token", "<unk>"), tokens.token("eos_token", "</s>")
    separate = tokens.flag("separate_vocabs", False)
    files = [JsonFile(folder / name) for name in (TABLES if separate else TABLES[:1])]
    tables = [file.rows() for file in files]
    for file, table in zip(files, tables, strict=True):
        if missing := [name for name in (unk, eos) if name not in table]:
            raise UserError(f"{file.path}: has no entry '{missing[0]}'")
    if tables[-1][eos] != settings.whole("eos_token_id"):
        raise UserError(
            f"{files[-1].path}: '{eos}' is row {tables[-1][eos]}, and 'eos_token_id' in {settings.path} is "
            f"{settings.whole('eos_token_id')}"
        )
    target = entries(tables[-1], unk=unk, eos=eos, pad=settings.whole("pad_token_id"))
    if not separate:
        return target, target
    return entries(tables[0], unk=unk, eos=eos, pad=tables[0].get(tokens.token("pad_token", "<pad>"), -1)), target


def _languages(given: tuple[str | None, str | None], tokens: JsonFile) -> tuple[str, str]:
    names = ("source_lang", "target_lang")
    source, target = (own or tokens.token(name, "") for own, name in zip(given, names, strict=True))
    for name, found in zip(names, (source, target), strict=True):
        if not found:
            raise UsageError(f"--{name.replace('_', '-')} is required: {tokens.path} does not name the language")
    return source, target


def _tokenizers(
    folder: Path, vocabularies: tuple[Entries, Entries], say: Callable[[str], None]
) -> tuple[Tokenizer, Tokenizer]:
    """Of both sides; one object where they are the same."""
    made = []
    for name, own in zip(PIECES, vocabularies, strict=True):
        tokenizer, left_out = of_language(folder / name, own.names)
        made.append(tokenizer)
        if left_out:
            say(
                f"note: {left_out:,} pieces of {folder / name} are in no vocab.json; transformers reads them as <unk>, "
                "docnmt cuts such words into smaller pieces"
            )
    source, target = made
    return source, source if source.to_bytes() == target.to_bytes() else target


def write_marian(sentence: SentenceModel, folder: Path) -> None:
    """Write a folder that `MarianMTModel.from_pretrained` and `MarianTokenizer.from_pretrained` read.

    Raises:
        UserError: the model has options that Marian's has not.
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
    write_json(folder / GENERATION, generation_json(eos, pad, [pad, *banned]))
    write_json(folder / TABLES[0], source)
    if not task.joined:
        write_json(folder / TABLES[1], target)
    for name, side in zip(PIECES, sides, strict=True):
        (folder / name).write_bytes(side.to_bytes())
    names = {
        "tokenizer_class": "MarianTokenizer", "source_lang": task.source_lang, "target_lang": task.target_lang,
        "unk_token": "<unk>", "eos_token": "</s>", "pad_token": list(target)[pad], "separate_vocabs": not task.joined,
        "model_max_length": POSITIONS, "clean_up_tokenization_spaces": False,
    }  # fmt: skip
    write_json(folder / TOKENIZER, names)
