"""Reading of folders of transformers' models of many languages: M2M100, NLLB and mBART-50.

A text begins with the tag of its language (`__fr__`, `fra_Latn`, `fr_XX`) on both sides. docnmt's tokenizers put it
there (`docnmt.core.data.preparation`), and the search writes it first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from docnmt.apps.convert.config import ConvertConfig
from docnmt.apps.convert.export import SentenceModel, built
from docnmt.apps.convert.json_file import JsonFile
from docnmt.apps.convert.marian_config import read_layers
from docnmt.apps.convert.multilingual_vocabulary import (
    MULTILINGUAL_PIECES,
    MultilingualVocabulary,
    read_vocabulary,
    tokenizer_class,
)
from docnmt.apps.convert.pretrained_folder import CONFIG, TOKENIZER, check_files, read_tensors
from docnmt.core.data.directions import directed
from docnmt.core.data.preparation import Preparation
from docnmt.core.data.tokenizer import Tokenizer
from docnmt.core.models.config import TransformerConfig
from docnmt.core.tasks.config import DocumentTranslationConfig
from docnmt.core.tasks.document_translation import DocumentTranslation
from docnmt.runtime.errors import UsageError, UserError

#: `model_type` in config.json → the models.
KINDS = {"m2m_100": "M2M100 or NLLB", "mbart": "mBART-50"}
#: The keys of the languages in tokenizer_config.json, and the source language that transformers takes by default.
_STORED, _ENGLISH = ("src_lang", "tgt_lang"), ("en", "eng_Latn", "en_XX")


def read_multilingual(folder: Path, wanted: ConvertConfig, say: Callable[[str], None]) -> SentenceModel:
    """Read the model of a folder.

    Args:
        wanted: has the languages. say: receives notes, line by line.

    Raises:
        UserError: a file is missing, damaged or does not fit the others, or docnmt cannot compute the model.
    """
    settings, tokens = JsonFile(folder / CONFIG), JsonFile(folder / TOKENIZER, optional=True)
    kind = str(settings.values.get("model_type"))
    check_files(folder, settings, kind, (MULTILINGUAL_PIECES,), f"a model of {KINDS[kind]}")
    if tokens.flag("legacy_behaviour", False):
        raise UserError(f"{tokens.path}: 'legacy_behaviour': tags at the end of source texts cannot be converted")
    config = _mbart_config(settings, tokens) if kind == "mbart" else _config(settings)
    vocabulary = read_vocabulary(folder, settings, tokens, wanted.languages, say)
    languages = _multilingual_languages(wanted, tokens, vocabulary, say)
    tokenizers = _multilingual_tokenizers(vocabulary, languages)
    task = DocumentTranslation(DocumentTranslationConfig(), languages=languages, tokenizers=tokenizers)
    rows = vocabulary.entries.rows
    tied = settings.flag("tie_word_embeddings", True)
    return built(folder, config, task, read_tensors(folder), rows=(rows, rows), shared=True, tied=tied)


def _config(settings: JsonFile) -> TransformerConfig:
    """Return the model's options.

    Raises:
        UserError: a setting is missing, has another type, or cannot be computed by docnmt.
    """
    if settings.whole("pad_token_id") != 1:
        raise UserError(f"{settings.path}: 'pad_token_id': expected 1, from which positions count on")
    config = replace(read_layers(settings, default="relu"), norm="pre", sinusoids="fairseq")
    if config.embed_dim < 4:
        raise UserError(f"{settings.path}: 'd_model': expected at least 4, got {config.embed_dim}")
    return config


def _mbart_config(settings: JsonFile, tokens: JsonFile) -> TransformerConfig:
    """Return the options of an mBART-50 model; the first mBART had its tags at the end of texts.

    Raises:
        UserError: as for `_config`, or the tokenizer is not mBART-50's.
    """
    if not (kind := tokenizer_class(settings, tokens)).startswith("MBart50"):
        raise UserError(
            f"{tokens.path}: 'tokenizer_class' is '{kind}', expected MBart50Tokenizer; only mBART-50 is read"
        )
    return replace(
        read_layers(settings, default="gelu"),
        norm="pre",
        position="learned",
        max_positions=settings.whole("max_position_embeddings"),
        share_positions=False,
        norm_embeddings=True,
    )


def _multilingual_languages(
    wanted: ConvertConfig, tokens: JsonFile, vocabulary: MultilingualVocabulary, say: Callable[[str], None]
) -> tuple[str, str]:
    """Return the default source and target language of the model.

    They are, in this order of preference: --source-lang and --target-lang; the first and the last of --languages; those
    in tokenizer_config.json; English and the first other language.

    Raises:
        UsageError: a language is not known, or both are the same.
    """
    names, own = list(vocabulary.codes), {code: name for name, code in vocabulary.codes.items()}
    stored = [own.get(value) if isinstance(value := tokens.values.get(key), str) else None for key in _STORED]
    kept = (names[0], names[-1]) if wanted.languages else (None, None)
    source = wanted.source_lang or kept[0] or stored[0]
    source = source or next((own[code] for code in _ENGLISH if code in own), names[0])
    target = wanted.target_lang or kept[1] or stored[1]
    if target is None:
        target = next((name for name in names if name != source), source)
        say(f"note: {tokens.path} names no target language; it is {target} unless --target-lang says otherwise")
    for flag, language in (("--source-lang", source), ("--target-lang", target)):
        if language not in names:
            raise UsageError(f"{flag} {language}: expected one of {', '.join(names)}")
    if source == target:
        raise UsageError(f"--source-lang and --target-lang are both '{source}'; give the one you translate into")
    return source, target


def _multilingual_tokenizers(
    vocabulary: MultilingualVocabulary, languages: tuple[str, str]
) -> tuple[Tokenizer, Tokenizer]:
    """Return the tokenizers of source and target, with the tags of these languages."""
    bare = vocabulary.tokenizer
    source = bare.prepared(Preparation(tags=vocabulary.tags, tag_of="source"))
    target = bare.prepared(Preparation(tags=vocabulary.tags, tag_of="target"))
    return directed((source, target), ("", ""), languages)
