"""`docnmt-preprocess` for translation: text → a data folder."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from docnmt.config import to_dict
from docnmt.data.config import TranslationPreprocessConfig
from docnmt.data.encoding import Encoder
from docnmt.data.long import apply_long_policy
from docnmt.data.meta import META, file_entry, write_meta
from docnmt.data.overlap import overlap_with_training
from docnmt.data.report import describe_split, statistics
from docnmt.data.scan import Split, scan
from docnmt.data.split_folder import SplitFolder
from docnmt.data.store import TextArray, token_dtype
from docnmt.data.subwords import make_tokenizers
from docnmt.data.tokenizer import Tokenizer
from docnmt.files import check_folder, replacing_folder
from docnmt.formats.forms import find_split
from docnmt.progress import Progress

Say = Callable[[str], None]


def preprocess_translation(config: TranslationPreprocessConfig, say: Say) -> None:
    """Write the data folder of parallel documents; `say` is given the report line by line.

    Everything is checked before the folder appears, and it appears whole or not at all.

    Raises:
        UserError: a file is missing, damaged or does not fit the others (file and line are named), a sentence is too
            long under `--long-policy error`, or the folder may not be written.
    """
    destination = Path(config.destdir)
    check_folder(destination, marker=META, overwrite=config.overwrite)
    inputs = {
        name: find_split(prefix, config.source_lang, config.target_lang) for name, prefix in config.prefixes().items()
    }
    with replacing_folder(destination, marker=META, overwrite=config.overwrite) as folder:
        files: dict[str, dict[str, Any]] = {}
        splits = [Split(name, found, SplitFolder(folder, name, files)) for name, found in inputs.items()]
        for split in splits:
            scan(split, config.source_lang, config.target_lang)
            for note in split.facts.notes:
                say(note)
        tokenizers = make_tokenizers(config, _training_text(splits, config), say)
        encode(splits, tokenizers, config)
        for split in splits:
            split.facts.notes += apply_long_policy(split, tokenizers, config, say)
        if splits[0].name == "train":
            for split in splits[1:]:
                split.facts.notes += overlap_with_training(split.files, splits[0].files, config.source_lang, say)
        _write_meta(folder, splits, files, tokenizers, config, say)
    say(f"{destination}: written")


def _training_text(splits: list[Split], config: TranslationPreprocessConfig) -> list[TextArray]:
    """Both sides of the training split, or nothing without one."""
    if splits[0].name != "train":
        return []
    return [splits[0].files.text(side) for side in (config.source_lang, config.target_lang)]


def encode(splits: list[Split], tokenizers: dict[str, Tokenizer], config: TranslationPreprocessConfig) -> None:
    """Second pass: cut both sides of every split into subwords."""
    models = {side: tokenizer.to_bytes() for side, tokenizer in tokenizers.items()}
    with Encoder(models, config.workers) as encoder:
        for split in splits:
            for side in _sides(split, config):
                text = split.files.text(side)
                writer = split.files.writer(f"{side}.tokens", token_dtype(tokenizers[side].vocab_size))
                with Progress(len(text), f"cutting {split.name}.{side}", unit="lines") as bar:
                    for tokens, lengths in encoder.encode(text, side):
                        writer.append(tokens, lengths)
                        bar.update(len(lengths))
                split.files.close(writer)


def _sides(split: Split, config: TranslationPreprocessConfig) -> list[str]:
    """The sides that are cut into subwords: the source and, if there is one, the first reference."""
    return [config.source_lang, *([config.target_lang] if split.references else [])]


def _write_meta(
    folder: Path,
    splits: list[Split],
    files: dict[str, dict[str, Any]],
    tokenizers: dict[str, Tokenizer],
    config: TranslationPreprocessConfig,
    say: Say,
) -> None:
    """The tokenizers' files and `meta.json`."""
    source, target = (tokenizers[side] for side in (config.source_lang, config.target_lang))
    joined = source is target
    names = {"source": "tokenizer.model" if joined else f"tokenizer.{config.source_lang}.model"}
    names["target"] = names["source"] if joined else f"tokenizer.{config.target_lang}.model"
    for name, tokenizer in zip(names.values(), (source, target), strict=True):
        (folder / name).write_bytes(tokenizer.to_bytes())
        files[name] = file_entry(tokenizer.to_bytes())
    counts = {split.name: statistics(split, _sides(split, config)) for split in splits}
    for split in splits:
        say(describe_split(split.name, counts[split.name]))
    write_meta(
        folder,
        task="document_translation",
        files=files,
        source_lang=config.source_lang,
        target_lang=config.target_lang,
        tokenizers=names,
        vocabulary={"source": source.vocab_size, "target": target.vocab_size, "joined": joined},
        splits=counts,
        options=to_dict(config),
        versions={name: importlib.import_module(name).__version__ for name in ("numpy", "sentencepiece")},
    )
