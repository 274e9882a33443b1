"""The vocabularies of a data folder: trained on its training text, or taken from an existing one."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from docnmt.core.corpus import TextArray
from docnmt.core.data.preparation import Preparation
from docnmt.core.data.stored_vocabulary import stored_tokenizers
from docnmt.core.data.subword_process import train_in_process
from docnmt.core.data.tokenizer import Tokenizer
from docnmt.core.data_options import DEFAULT_VOCAB_SIZE, TranslationPreprocessConfig
from docnmt.runtime.progress import waiting


def make_tokenizers(
    config: TranslationPreprocessConfig, training: Sequence[TextArray], say: Callable[[str], None]
) -> dict[str, Tokenizer]:
    """Make the tokenizer of each language; it is one object if both are the same.

    Args:
        training: the raw training text, source and target; empty without a training split.

    Raises:
        UserError: the text does not support the size, or the vocabulary to be reused does not exist.
    """
    source, target = languages = config.source_lang, config.target_lang
    if not config.joined_dictionary:
        return {
            source: _stored(config.srcdict, source) or _trained(config, training[:1], (source,), say)[0],
            target: _stored(config.tgtdict, target) or _trained(config, training[1:], (target,), say)[0],
        }
    if config.srcdict is not None:
        return dict(zip(languages, stored_tokenizers(Path(config.srcdict), source, target), strict=True))
    return dict(zip(languages, _trained(config, training, languages, say), strict=True))


def _stored(path: str | None, language: str) -> Tokenizer | None:
    """Load the vocabulary of `--srcdict` or `--tgtdict`, if it was given."""
    return None if path is None else stored_tokenizers(Path(path), language)[0]


def _trained(
    config: TranslationPreprocessConfig,
    texts: Sequence[TextArray],
    languages: Sequence[str],
    say: Callable[[str], None],
) -> list[Tokenizer]:
    """Train one vocabulary on all texts; return a tokenizer per language, which differ only in text preparation."""
    total = sum(len(text) for text in texts)
    used = sum(min(len(text), config.subword_sample) for text in texts)
    sampled = "" if used == total else f" of {total:,} (--subword-sample)"
    size = config.vocab_size or DEFAULT_VOCAB_SIZE
    prepared = [Preparation(punctuation=name if config.normalize_punctuation else "") for name in languages]
    with waiting(f"training a vocabulary of {size:,} subwords on {used:,} lines{sampled}"):
        tokenizer = train_in_process(
            itertools.chain.from_iterable(
                map(each.cleaned, _sample(text, config.subword_sample))
                for each, text in zip(prepared, texts, strict=True)
            ),
            vocab_size=size,
            exact=config.vocab_size is not None,
            model_type=config.subword_model,
            character_coverage=config.character_coverage,
            byte_fallback=config.byte_fallback,
            normalization=config.normalization,
            user_defined_symbols=config.user_defined_symbols,
        )
    if tokenizer.vocab_size < size:
        say(f"the text supports a vocabulary of {tokenizer.vocab_size:,} subwords only")
    return [tokenizer.prepared(each) for each in prepared]


def _sample(text: TextArray, limit: int) -> Iterator[str]:
    """Yield at most `limit` lines, spread evenly."""
    if len(text) <= limit:
        return iter(text)
    return (text[int(i)] for i in np.linspace(0, len(text) - 1, limit).astype(np.int64))
