"""The vocabularies of a data folder: trained on its text, or taken from a data folder, a model or a .model file.
text of the training split → sample of its lines → `train_in_process` → a `Tokenizer` for each language
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import safetensors

from docnmt.core.corpus import META, TextArray, check_files, read_meta
from docnmt.core.data_options import DEFAULT_VOCAB_SIZE, TranslationPreprocessConfig
from docnmt.core.tokenizer import Preparation, Tokenizer, directed, train_in_process
from docnmt.runtime.progress import waiting
from docnmt.runtime.system import (
    UsageError,
    UserError,
    check_tensor,
    find_checkpoint,
    is_address,
    reading,
    stored_checksums,
)


def make_tokenizers(
    config: TranslationPreprocessConfig, training: Sequence[TextArray], say: Callable[[str], None]
) -> dict[str, Tokenizer]:
    """Make the tokenizer of each language, one object if both are the same, from the training text if there is any."""
    source, target = languages = config.source_lang, config.target_lang
    joint = [(languages, config.srcdict, training)]
    apart = [((source,), config.srcdict, training[:1]), ((target,), config.tgtdict, training[1:])]
    tokenizers: dict[str, Tokenizer] = {}
    for names, path, texts in joint if config.joined_dictionary else apart:
        made = _trained(config, texts, names, say) if path is None else stored_tokenizers(Path(path), *names)
        tokenizers |= zip(names, made, strict=True)
    return tokenizers


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

    def lines() -> Iterator[str]:
        for preparation, text in zip(prepared, texts, strict=True):
            numbers = np.linspace(0, len(text) - 1, min(len(text), config.subword_sample)).astype(np.int64)
            sample: Iterable[str] = text if len(numbers) == len(text) else (text[int(n)] for n in numbers)
            yield from map(preparation.cleaned, sample)

    with waiting(f"training a vocabulary of {size:,} subwords on {used:,} lines{sampled}"):
        tokenizer = train_in_process(
            lines(),
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
    return list(map(tokenizer.prepared, prepared))


def stored_tokenizers(path: Path, *languages: str) -> list[Tokenizer]:
    """Load the tokenizer of each language from a data folder, a checkpoint or a --save-dir; equal ones are one object.

    A .model file serves all languages. A joined vocabulary that has the first language serves the others, too. One with
    tags, of a model of several languages, serves all languages that it has tags for.
    """
    where, models = _models(path, languages)
    try:
        tokenizers = {model: Tokenizer.from_bytes(model) for model in set(models.values())}
    except UserError as error:
        raise UserError(f"{where}: {error}") from error
    if any(tokenizer.preparation.tags for tokenizer in tokenizers.values()):  # of a model of several languages
        if len(languages) != 2 or where.suffix == ".model":
            raise UserError(
                f"{where}: a vocabulary with tags for languages has two sides; name its folder or checkpoint, and "
                "leave --no-joined-dictionary and --tgtdict out"
            )
        source, target = [*models, *models][:2]  # its own languages
        pair = Tokenizer.from_bytes(models[source]), Tokenizer.from_bytes(models[target])
        try:
            return [*directed(pair, (source, target), (languages[0], languages[1]))]
        except UsageError as error:
            raise UsageError(f"{where}: {error}") from error
    if len(tokenizers) == 1 and languages[0] in models:
        models = dict.fromkeys(languages, models[languages[0]])
    if missing := [language for language in languages if language not in models]:
        raise UserError(f"{where}: no vocabulary of '{missing[0]}' there; it has {', '.join(models) or 'none'}")
    return [tokenizers[models[language]] for language in languages]


def _models(path: Path, languages: tuple[str, ...]) -> tuple[Path, dict[str, bytes]]:
    """Return the SentencePiece models by language, and the file that lists them."""
    with reading(path):
        if (path / META).is_file():
            meta = read_meta(path)
            sides = meta.get("tokenizers", {}).items()
            check_files(path, meta, *(name for _, name in sides))
            return path / META, {meta[f"{side}_lang"]: (path / name).read_bytes() for side, name in sides}
        if path.is_dir() or path.suffix == ".safetensors" or is_address(path):
            file = find_checkpoint(path)
            return file, _of_checkpoint(file)
        return path, dict.fromkeys(languages, path.read_bytes())


def _of_checkpoint(file: Path) -> dict[str, bytes]:
    """Load the tokenizers of a translation model; without torch, so only these tensors are read and checked."""
    try:
        with safetensors.safe_open(file, framework="numpy") as content:
            metadata, names = content.metadata() or {}, content.keys()
            languages = json.loads(metadata["docnmt"])["task_state"]["languages"]
            checksums = stored_checksums(file, metadata, names)
            sides = ("tokenizer.source", "tokenizer.target" if "tokenizer.target" in names else "tokenizer.source")
            models: dict[str, np.ndarray] = {name: content.get_tensor(name) for name in sides}
        for name, model in models.items():
            check_tensor(file, name, checksums[name], model.dtype.name, model.shape, np.ascontiguousarray(model))
        return {language: models[name].tobytes() for language, name in zip(languages, sides, strict=True)}
    except (safetensors.SafetensorError, LookupError, ValueError, TypeError, RecursionError) as error:
        raise UserError(f"{file}: is no checkpoint of a translation model: {error}") from error
