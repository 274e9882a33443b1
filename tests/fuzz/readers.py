"""Everything that reads a file: a good one each, and the function that reads it."""

from __future__ import annotations

import contextlib
import gzip
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import small_system
import toy
from document_readers import add_documents
from parallel_text import ParallelText

from docnmt.apps.convert.transformers_folder import JsonFile, read_config
from docnmt.apps.report import read_test_sets
from docnmt.cli.command import Given
from docnmt.cli.train import parse
from docnmt.core.corpus import ParallelCorpus, read_meta
from docnmt.core.data_options import DocumentTranslationConfig
from docnmt.core.preprocess import describe_folder
from docnmt.core.read_corpus import Facts, Reading, SplitFiles, read_split
from docnmt.core.scoring.discourse import read_contrastive, read_questions, with_contexts
from docnmt.core.tokenizer import Tokenizer
from docnmt.core.training.checkpoint import checksums_of, load_checkpoint, load_model
from docnmt.core.training.dry_run import describe_checkpoint
from docnmt.core.training.trainer import Journal
from docnmt.core.translation_task import DocumentTranslation
from docnmt.core.vocabularies import stored_tokenizers
from docnmt.other_tasks.classification import read_labelled, read_texts
from docnmt.other_tasks.sentence_vectors.data import read_pairs, read_vectors
from docnmt.other_tasks.sentence_vectors.senteval import TASKS, read_frequencies, read_task
from docnmt.runtime.system import UserError


@dataclass(frozen=True)
class Reader:
    """A good file's name and content, and what reads it in a folder; `share` of the inputs that a quick reader gets."""

    name: str
    good: bytes
    read: Callable[[Path], object]
    share: float = 1.0


def _split(path: Path, **files: Any) -> None:
    list(read_split(SplitFiles(Reading(("en", "de")), **files), Facts()))


def _folder(folder: Path) -> None:
    """What training and `docnmt-inspect` read."""
    describe_folder(folder)
    DocumentTranslation.load(DocumentTranslationConfig(), folder)
    stored_tokenizers(folder, "en", "de")
    for split in read_meta(folder)["splits"]:
        ParallelCorpus.open(folder, split)


def _model(path: Path) -> None:
    describe_checkpoint(path)
    load_model(path)
    stored_tokenizers(path, "en", "de")


def _contrastive(path: Path) -> None:
    groups = read_contrastive(path)
    for kind in ("shuffled", "none"):
        with contextlib.suppress(UserError):  # there may be nothing to shuffle
            with_contexts(groups, kind, seed=0)
    for group in groups:
        for variant in group.variants:
            variant.contexts()


def _options(path: Path) -> None:
    given = Given("docnmt-train", ["--config", str(path)])
    assert given.help is None
    parse(["--config", str(path), "--save-dir", "nowhere"])


def _in_place(file: Path, folder: Path, good: Path, read: Callable[[Path], object]) -> None:
    """Read the folder with `file` in the place of the good one."""
    shutil.copy(file, folder / good.name)
    try:
        read(folder)
    finally:
        shutil.copy(good, folder / good.name)


def readers(tmp: Path) -> list[Reader]:
    """All of them; what they need lies in `tmp`."""
    collected: list[Reader] = []

    def add(name: str, good: str | bytes | object, read: Callable[[Path], object], share: float = 1.0) -> None:
        text = good if isinstance(good, (bytes, str)) else json.dumps(good)
        collected.append(Reader(name, text if isinstance(text, bytes) else text.encode(), read, share))

    _texts(add)
    _tables(add)
    _folders(add, tmp)
    _checkpoints(add, tmp)
    add_documents(add)
    return collected


def _texts(add: Callable[..., None]) -> None:
    lines = "A dog.\nIt barks.\n\nThe cat; it sleeps.\n<p>\nWho?\n"
    add("train.en", lines, lambda path: _split(path, source=path, references=(path,)))
    add("train.en.gz", gzip.compress(lines.encode(), mtime=0), lambda path: _split(path, source=path))
    xml = """<?xml version='1.0' encoding='utf-8'?>
<dataset id="x"><doc id="a"><src lang="en"><p><seg id="1">A dog.</seg><seg id="2">It barks.</seg></p></src>
<ref lang="de" translator="A"><p><seg id="1">Ein Hund.</seg><seg id="2">Er bellt.</seg></p></ref></doc></dataset>
"""
    add("test.en-de.xml", xml, lambda path: _split(path, xml=path))
    add("options.yaml", "arch: transformer\nmax-tokens: 2000\nresolutions: [1, 2, 0]\nlr: 1e-3\nbf16: yes\n", _options)
    contra = {
        "src segment": "It barks.",
        "ref segment": "Er bellt.",
        "src pronoun": "it",
        "ref pronoun": "er",
        "ante distance": 1,
        "errors": [{"contrastive": "Es bellt."}, {"contrastive": "Sie bellt."}],
        "document id": "a",
        "segment id": 2,
    }
    add("contrapro.json", [contra, contra], _contrastive)
    pair = {"correct": ["Un chien.", "Il aboie."], "incorrect": ["Une chienne.", "Elle aboie."], "type": "m.sg"}
    blocks = {
        "1": {
            "src": ["A dog.", "It barks."],
            "trg": [pair, {"semi-correct": ["a", "b"], "incorrect": ["c", "d"], "type": "f"}],
        },
        "2": {"examples": [{"src": ["A match.", "He lit it."], "trg": pair}], "type": "lexical"},
    }
    add("discevalmt.json", blocks, _contrastive)
    ctxpro = {"src segment": "a", "ref segment": "b", "expected": "er", "rule": "gender"}
    add("ctxpro.json", [ctxpro, ctxpro], read_questions)
    report = {
        "accuracy": 50.0,
        "chance": 50.0,
        "groups": 2,
        "by": {"distance": {"1": {"accuracy": 50.0, "groups": 2}}},
        "solved": [{"distance": "1", "solved": True}, {"distance": "1", "solved": False}],
    }
    add("answers.json", report, lambda path: read_test_sets([str(path)]))
    marian = {
        "d_model": 16,
        "encoder_layers": 1,
        "decoder_layers": 1,
        "encoder_attention_heads": 2,
        "decoder_attention_heads": 2,
        "encoder_ffn_dim": 24,
        "decoder_ffn_dim": 24,
        "activation_function": "swish",
        "scale_embedding": True,
        "vocab_size": 20,
        "decoder_start_token_id": 19,
        "pad_token_id": 19,
        "eos_token_id": 0,
        "dropout": 0.1,
        "max_position_embeddings": 64,
        "static_position_embeddings": True,
    }
    add("config.json", marian, lambda path: read_config(JsonFile(path)))
    log = [{"event": "train", "update": n, "loss": 1.5, "lr": None} for n in range(4)]

    def journal(path: Path) -> None:
        Journal(path, update=2).__exit__()

    add("train.jsonl", "".join(json.dumps(entry) + "\n" for entry in log), journal)


def _tables(add: Callable[..., None]) -> None:
    columns = "group\tcorrect\tsrc_context\tsrc\ttgt_context\ttgt\tkind\n"
    rows = "1\t1\tA.<SEP>B.\tIt.\tC.<SEP>D.\tEr.\tx\n1\t0\tA.<SEP>B.\tIt.\tC.<SEP>D.\tEs.\tx\n"
    add("contrastive.tsv", columns + rows, _contrastive)
    add("generative.tsv", "expected\tsrc_context\tsrc\nder\tA.<SEP>B.\tIt.\n", read_questions)
    add("labelled.tsv", "label\ttext\n1\tA text.\n0\tAnother one.\n", read_labelled)
    add("labelled.csv", 'label,text\n1,"A text, quoted"\n0,"Another ""one"""\n', read_labelled)
    add("labelled.jsonl", '{"label": 1, "text": "A text."}\n{"label": "b", "text": "B."}\n', read_labelled)
    add("texts.jsonl", '{"text": "A text."}\n{"text": "B."}\n', read_texts)
    add("pairs.tsv", "label\ttext\ttext2\nneutral\tA dog.\tA cat.\n", read_pairs)
    add("pairs.jsonl", '{"gold_label": "neutral", "sentence1": "A.", "sentence2": "B."}\n', read_pairs)
    table = {"document": "a", "source": "A dog.", "target": "Ein Hund.", "x": {"y": [1]}}
    for name, text in (
        ("parallel.jsonl", f"{json.dumps(table)}\n{json.dumps(table)}\n"),
        ("parallel.tsv", "document\tsource\ttarget\na\tA dog.\tEin Hund.\nb\tIt.\tEr.\n"),
    ):
        add(name, text, lambda path: _split(path, tables=(path,)))
    add(
        "vectors.txt",
        "3 2\nthe 0.1 0.2\ndog 0.3 -0.4\ncat 1.0 2.0\n",
        lambda path: read_vectors(path, lambda w, n: True),
    )
    binary = b"2 2\nthe " + np.array([1, 2], "<f4").tobytes() + b"\ndog " + np.array([3, 4], "<f4").tobytes() + b"\n"
    add("vectors.bin", binary, lambda path: read_vectors(path, lambda w, n: True))
    add("frequencies.txt", "the 100\ndog 7\n", read_frequencies)


def _folders(add: Callable[..., None], tmp: Path) -> None:
    (tmp / "text").mkdir()
    text = ParallelText(tmp / "text")
    if text.preprocess("--vocab-size", "60") != 0:
        raise RuntimeError("the good folder cannot be made")
    good, copy = text.data, tmp / "folder"
    shutil.copytree(good, copy)
    meta = json.loads((good / "meta.json").read_text())
    names = ("train.structure.bin", "train.en.tokens.bin", "train.en.tokens.offsets.bin", "train.de.text.bin")
    for name in ("meta.json", *names, "tokenizer.model"):
        content = json.dumps(meta).encode() if name == "meta.json" else (good / name).read_bytes()

        def read(path: Path, file: Path = good / name) -> None:
            _in_place(path, copy, file, _folder)

        add(f"folder/{name}", content, read, 0.2)
    (tmp / "senteval" / "MR").mkdir(parents=True)

    def senteval(path: Path) -> None:
        shutil.copy(path, tmp / "senteval" / "MR" / "all.tsv")
        read_task(TASKS["MR"], tmp / "senteval")

    add("senteval.tsv", "label\ttext\n1\tA good film.\n0\tA bad one.\n", senteval)
    add("sentencepiece.model", small_system.tokenizer().to_bytes(), lambda path: Tokenizer(path.read_bytes()), 0.3)


def _checkpoints(add: Callable[..., None], tmp: Path) -> None:
    small_system.save(tmp / "model.safetensors", encoder_layers=1, decoder_layers=1)
    if toy.train(toy.write_toy_data(tmp / "toy"), tmp / "run", "--max-update", "2") != 0:
        raise RuntimeError("the good run cannot be made")
    for name, path, read in (
        ("model", tmp / "model.safetensors", _model),
        ("toy", tmp / "run" / "checkpoint_last.safetensors", _model_of_toy),
    ):
        checkpoint = load_checkpoint(path)
        header = checkpoint.header

        def of_header(file: Path, tensors: Any = checkpoint.tensors, read: Callable[[Path], object] = read) -> None:
            try:
                text = file.read_bytes().decode()
            except UnicodeDecodeError:
                return
            made = file.with_suffix(".made.safetensors")
            safetensors.torch.save_file(tensors, made, metadata={"docnmt": text, "xxh3": checksums_of(text, tensors)})
            read(made)

        add(f"{name}.header.json", header, of_header, 0.2)
        add(f"{name}.safetensors", path.read_bytes(), read, 0.2)


def _model_of_toy(path: Path) -> None:
    try:
        _model(path)
    except UserError as error:
        if "no checkpoint of a translation model" not in str(error):
            raise
