"""`docnmt-preprocess` for translation: turns text into a data folder."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from docnmt.core.corpus import META, SplitFolder, file_entry, token_dtype, write_meta
from docnmt.core.data.data_report import describe_split, statistics
from docnmt.core.data.encode_text import LineEncoder, fitting_workers
from docnmt.core.data.filters import drop_documents
from docnmt.core.data.first_pass import SplitTexts, scan
from docnmt.core.data.long_policy import apply_long_policy
from docnmt.core.data.overlap import overlap_with_training
from docnmt.core.data.preparation import detokenizer
from docnmt.core.data.subwords import make_tokenizers
from docnmt.core.data.tokenizer import Tokenizer
from docnmt.core.data_options import TranslationPreprocessConfig
from docnmt.core.formats.corpus_files import Reading, find_splits
from docnmt.core.formats.table_rows import KINDS
from docnmt.registry.options import to_dict
from docnmt.runtime.errors import UsageError, UserError
from docnmt.runtime.files import check_folder, replacing_folder
from docnmt.runtime.progress import Progress


def preprocess_translation(config: TranslationPreprocessConfig, say: Callable[[str], None]) -> None:
    """Write the data folder of parallel documents; `say` is called with each line of the report.

    Everything is checked before the folder appears, and it appears whole or not at all.

    Raises:
        UserError: a file is missing, damaged or does not fit the others (file and line are named), a sentence is too
            long under `--long-policy error`, or the folder may not be written.
    """
    destination = Path(config.destdir)
    if useless := config.useless():
        say(f"note: {', '.join(useless)}: no effect, as no vocabulary is trained here")
    check_folder(destination, marker=META, overwrite=config.overwrite)
    reading = Reading((config.source_lang, config.target_lang), config.table_columns(), config.one_sided)
    inputs = {name: find_splits(prefixes, reading) for name, prefixes in config.prefixes().items()}
    parts = [part for found in inputs.values() for part in (found, *found.following)]
    if config.columns and not any(part.tables for part in parts):
        raise UsageError(f"--columns has no effect: none of the inputs is a table ({', '.join(KINDS)})")
    with replacing_folder(destination, marker=META, overwrite=config.overwrite) as folder:
        files: dict[str, dict[str, Any]] = {}
        splits = [SplitTexts(name, found, SplitFolder(folder, name, files)) for name, found in inputs.items()]
        for split in splits:
            scan(split, config.source_lang, config.target_lang, detokenizer if config.detokenize == "moses" else None)
            for note in split.facts.notes:
                say(note)
        train = None
        if splits[0].name == "train":
            train = splits[0].files
            splits[0].facts.notes += drop_documents(splits[0], splits[1:], config, say)
        training = [] if train is None else [train.text(side) for side in splits[0].sides]
        tokenizers = make_tokenizers(config, training, say)
        _encode_splits(splits, tokenizers, config.workers)
        for split in splits:
            split.facts.notes += apply_long_policy(split, tokenizers, config, say)
        if train is not None:
            for split in splits[1:]:
                split.facts.notes += overlap_with_training(split.files, train, config.source_lang, say)
        _finish_folder(folder, splits, files, tokenizers, config, say)
    say(f"{destination}: written")


def _encode_splits(splits: list[SplitTexts], tokenizers: dict[str, Tokenizer], workers: int | None) -> None:
    """Cut the source and the first reference of every split into subwords, in a second pass."""
    lines = sum(len(each.files.text(side)) for each in splits for side in each.sides[:2])
    with LineEncoder(tokenizers, workers or fitting_workers(lines)) as encoder:
        for split, side in [(each, side) for each in splits for side in each.sides[:2]]:
            text, dtype = split.files.text(side), token_dtype(tokenizers[side].vocab_size)
            label = f"cutting {split.name}.{side}"
            with split.files.writer(f"{side}.tokens", dtype) as writer, Progress(len(text), label, unit="lines") as bar:
                for sentences in encoder.encode(text, side):
                    writer.append(sentences.tokens, sentences.lengths())
                    bar.update(len(sentences))


def _finish_folder(
    folder: Path,
    splits: list[SplitTexts],
    files: dict[str, dict[str, Any]],
    tokenizers: dict[str, Tokenizer],
    config: TranslationPreprocessConfig,
    say: Callable[[str], None],
) -> None:
    """Write the tokenizers' files and `meta.json`, and print a line on every split."""
    source, target = (tokenizers[side] for side in (config.source_lang, config.target_lang))
    joined = source is target
    names = {"source": "tokenizer.model" if joined else f"tokenizer.{config.source_lang}.model"}
    names["target"] = names["source"] if joined else f"tokenizer.{config.target_lang}.model"
    for name, tokenizer in zip(names.values(), (source, target), strict=True):
        (folder / name).write_bytes(tokenizer.to_bytes())
        files[name] = file_entry(tokenizer.to_bytes())
    counts = {split.name: statistics(split) for split in splits}
    for split in splits:
        if counts[split.name]["without_partner"] == counts[split.name]["sentences"] and not split.is_test:
            raise UserError(f"{split.input.paths[0]}: no sentence has a translation; expected one on the target side")
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
