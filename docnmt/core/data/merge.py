"""Merging of data folders that were made piece by piece: the result has the same bytes as if made in one run."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any  # meta.json

import numpy as np

from docnmt.core.data.config import TranslationPreprocessConfig
from docnmt.core.data.data_report import describe_split, statistics
from docnmt.core.data.first_pass import SplitTexts
from docnmt.core.data.meta import DROPPED, META, check_files, file_entry, read_meta, write_meta
from docnmt.core.data.split_folder import SplitFolder, reference_names
from docnmt.core.data.tokenizer import Tokenizer
from docnmt.core.formats.corpus_files import Reading, SplitFiles
from docnmt.core.formats.structure import Facts, Structure
from docnmt.registry.options import to_dict
from docnmt.runtime.errors import UserError
from docnmt.runtime.files import check_folder, replacing_folder

#: The entries of `meta.json` that folders must have in common.
_SAME = ("task", "source_lang", "target_lang", "tokenizers", "vocabulary")


def merge_folders(config: TranslationPreprocessConfig, say: Callable[[str], None]) -> None:
    """Write the data folder of all training texts of `--merge`, in order, and of their other splits.

    Raises:
        UserError: a folder is not a data folder, is damaged, or has another vocabulary or other languages than the
            first; or two of them hold the same split and it is not for training.
    """
    folders, destination = [Path(folder) for folder in config.merge], Path(config.destdir)
    check_folder(destination, marker=META, overwrite=config.overwrite)
    metas = [read_meta(folder, task="document_translation") for folder in folders]
    for folder, meta in zip(folders, metas, strict=True):
        check_files(folder, meta, "")
        _check_same(folders[0], metas[0], folder, meta)
    if (config.source_lang, config.target_lang) != (metas[0]["source_lang"], metas[0]["target_lang"]):
        raise UserError(f"{folders[0]}: is {metas[0]['source_lang']} to {metas[0]['target_lang']}")
    if any(meta["options"].get("long_policy") == "truncate" for meta in metas):
        config = replace(config, long_policy="truncate")  # some text is longer than its subwords
    names = list(dict.fromkeys(sorted((name for meta in metas for name in meta["splits"]), key=_order)))
    with replacing_folder(destination, marker=META, overwrite=config.overwrite) as folder:
        files: dict[str, dict[str, Any]] = {}
        splits = []
        for name in names:
            parts = [number for number, meta in enumerate(metas) if name in meta["splits"]]
            if len(parts) > 1 and name != "train":
                raise UserError(f"{folders[parts[0]]} and {folders[parts[1]]} both hold a split {name}; only one may")
            sources = [SplitFolder(folders[number], name, metas[number]["files"]) for number in parts]
            counts = [metas[number]["splits"][name] for number in parts]
            splits.append(_merge(SplitFolder(folder, name, files), sources, counts, config))
        models = metas[0]["tokenizers"]
        source = Tokenizer.from_bytes((folders[0] / models["source"]).read_bytes())
        joined = models["source"] == models["target"]
        target = source if joined else Tokenizer.from_bytes((folders[0] / models["target"]).read_bytes())
        finish_folder(folder, splits, files, {config.source_lang: source, config.target_lang: target}, config, say)
    say(f"{destination}: written")


def _order(name: str) -> tuple[int, str]:
    return (("train", "valid", "test").index(name.rstrip("0123456789")), name)


def _check_same(first: Path, wanted: Mapping[str, Any], folder: Path, meta: Mapping[str, Any]) -> None:
    different = [name for name in _SAME if meta.get(name) != wanted.get(name)]
    models = set(wanted.get("tokenizers", {}).values())
    if different or any(meta["files"][name]["sha256"] != wanted["files"][name]["sha256"] for name in models):
        raise UserError(
            f"{folder}: has another {different[0] if different else 'vocabulary'} than {first}; make the pieces "
            "with one --srcdict"
        )


def _merge(
    into: SplitFolder,
    parts: Sequence[SplitFolder],
    counts: Sequence[Mapping[str, Any]],
    config: TranslationPreprocessConfig,
) -> SplitTexts:
    """Merge one split: concatenate the rows and the structures."""
    rows = parts[0].sentence_rows()
    for part in parts:
        if part.sentence_rows() != rows:
            raise UserError(f"{part.folder}: its {part.split} has other arrays than that of {parts[0].folder}")
    for name in rows:
        values = [part.rows(name) for part in parts]
        with into.writer(name, values[0][0].dtype) as writer:
            for data, offsets in values:
                writer.append_rows(data, offsets)
    structures = [part.structure() for part in parts]
    into.write_structure(_joined(structures, parts))
    names = [part.text_if_known("names") for part in parts]
    if any(known is not None for known in names):  # the documents of the others have none
        filled = [known or [""] * each.num_documents for known, each in zip(names, structures, strict=True)]
        into.write_lines("names", [name for part in filled for name in part])
    _merge_dropped(into, parts, [each.num_documents for each in structures])
    facts = Facts(notes=[note for each in counts for note in each["notes"]])
    for each in counts:
        facts.inputs |= each["inputs"]
    sides = [config.source_lang, *reference_names(config.target_lang, counts[0]["references"])]
    reading = Reading((config.source_lang, config.target_lang))
    return SplitTexts(into.split, SplitFiles(reading, source=parts[0].folder), into, sides, facts)


def _merge_dropped(into: SplitFolder, parts: Sequence[SplitFolder], kept: Sequence[int]) -> None:
    """Merge the lists of filtered training documents, numbered through all parts, `kept` documents each."""
    if into.split != "train" or not any(DROPPED in part.files for part in parts):
        return
    head, rows, before = "", list[str](), 0
    for part, documents in zip(parts, kept, strict=True):
        if DROPPED in part.files:
            head, *own = (part.folder / DROPPED).read_text(encoding="utf-8").removesuffix("\n").split("\n")
            numbered = [row.split("\t", 1) for row in own]
            rows += [f"{int(number) + before}\t{rest}" for number, rest in numbered]
            documents += len(own)
        before += documents
    content = "".join(f"{row}\n" for row in [head, *rows]).encode()
    (into.folder / DROPPED).write_bytes(content)
    into.files[DROPPED] = file_entry(content)


def _joined(structures: Sequence[Structure], parts: Sequence[SplitFolder]) -> Structure:
    """Join the documents of several folders, with an empty line between two folders."""
    kinds = {structure.levels.shape[1] for structure in structures}
    if len(kinds) > 1:
        raise UserError(f"{parts[0].folder} and others: paragraphs are known in some of them only")
    begins = np.cumsum([0, *(structure.num_sentences for structure in structures)])
    offsets = [each.document_offsets[:-1] + begin for each, begin in zip(structures, begins, strict=False)]
    blank = [structures[0].blank_lines]
    for structure in structures[1:]:
        between = blank[-1][-1:] + 1 + structure.blank_lines[:1]
        blank[-1] = blank[-1][:-1]
        blank.append(np.concatenate([between, structure.blank_lines[1:]]))
    return Structure(
        np.concatenate([*offsets, begins[-1:]]), np.concatenate(blank), np.concatenate([s.levels for s in structures])
    )


def finish_folder(
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
