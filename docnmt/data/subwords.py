"""The vocabularies of a data folder: trained on the training side, or taken from elsewhere."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from docnmt.data.config import DEFAULT_VOCAB_SIZE, TranslationPreprocessConfig
from docnmt.data.meta import META, read_meta
from docnmt.data.store import TextArray
from docnmt.data.tokenizer import Tokenizer
from docnmt.errors import UserError
from docnmt.progress import waiting


def make_tokenizers(
    config: TranslationPreprocessConfig, training: Sequence[TextArray], say: Callable[[str], None]
) -> dict[str, Tokenizer]:
    """The tokenizer of each language; one object for both when the dictionary is joined.

    Args:
        training: the raw training text, source and target; empty without a training split.

    Raises:
        UserError: the text does not support the size, or the vocabulary to be reused is none.
    """
    source, target = config.source_lang, config.target_lang
    if config.joined_dictionary:
        joined = _reused(config.srcdict, source) or _trained(config, training, say)
        return {source: joined, target: joined}
    return {
        source: _reused(config.srcdict, source) or _trained(config, training[:1], say),
        target: _reused(config.tgtdict, target) or _trained(config, training[1:], say),
    }


def _reused(path: str | None, language: str) -> Tokenizer | None:
    """The vocabulary of `--srcdict` or `--tgtdict`: a .model file, or a data folder's for that language."""
    if path is None:
        return None
    file = Path(path)
    if file.is_dir():
        meta = read_meta(file)
        languages = {meta[f"{side}_lang"]: name for side, name in meta.get("tokenizers", {}).items()}
        if language not in languages:
            there = ", ".join(languages) or "none"
            raise UserError(f"{file / META}: no vocabulary of '{language}' there; it has {there}")
        file = file / languages[language]
    try:
        return Tokenizer.from_bytes(file.read_bytes())
    except OSError as error:
        raise UserError(f"{file}: cannot be read: {error.strerror or error}") from error
    except UserError as error:
        raise UserError(f"{file}: {error}") from error


def _trained(config: TranslationPreprocessConfig, texts: Sequence[TextArray], say: Callable[[str], None]) -> Tokenizer:
    total = sum(len(text) for text in texts)
    used = sum(min(len(text), config.subword_sample) for text in texts)
    sampled = "" if used == total else f" of {total:,} (--subword-sample)"
    size = config.vocab_size or DEFAULT_VOCAB_SIZE
    with waiting(f"training a vocabulary of {size:,} subwords on {used:,} lines{sampled}"):
        tokenizer = Tokenizer.train(
            itertools.chain.from_iterable(_sample(text, config.subword_sample) for text in texts),
            size,
            exact=config.vocab_size is not None,
            model_type=config.subword_model,
            character_coverage=config.character_coverage,
            byte_fallback=config.byte_fallback,
            normalization=config.normalization,
        )
    if tokenizer.vocab_size < size:
        say(f"the text supports a vocabulary of {tokenizer.vocab_size:,} subwords only")
    return tokenizer


def _sample(text: TextArray, limit: int) -> Iterator[str]:
    """At most `limit` lines, spread evenly."""
    if len(text) <= limit:
        return iter(text)
    return (text[int(i)] for i in np.linspace(0, len(text) - 1, limit).astype(np.int64))
