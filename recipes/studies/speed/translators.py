"""Beam search by docnmt, CTranslate2 and Hugging Face transformers: for each a function that a process is given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import torch
from peers import Ways
from torch import nn

from docnmt.core.corpus import ParallelCorpus
from docnmt.core.search.config import BeamSearchConfig, GenerationConfig
from docnmt.core.search.translate import translate_corpus
from docnmt.core.training.checkpoint import load_model
from docnmt.modules.linear_layers import PackedLinear, packs, replace_linear
from docnmt.runtime.device import tune

Pieces: TypeAlias = "list[list[str]]"


@dataclass(frozen=True)
class Task:
    """What is translated, and how; `subwords` of each translation, or None where the model says when it ends."""

    lines: list[str]
    beam: int
    subwords: int | None


def docnmt(kind: Callable[[nn.Linear], nn.Module] | None, model: Path, task: Task) -> Ways:
    """As docnmt-translate does, with linear layers of another `kind`, as of `--int8`, or its own."""
    tune()
    loaded: Any = load_model(model)
    kind = kind or (PackedLinear if packs() else None)
    if kind is not None:
        replace_linear(loaded.model, kind)
    corpus = ParallelCorpus.from_lines([task.lines], loaded.task.source_tokenizer)
    length = task.subwords
    limits = {} if length is None else {"max_len_a": 0.0, "max_len_b": length, "min_len": length}

    def translate(batch: int) -> Pieces:
        options, search = GenerationConfig(batch_size=batch), BeamSearchConfig(beam=task.beam, **limits)
        results = translate_corpus([loaded.model], loaded.task, corpus, options, search)
        return [list(result.nbest[0].pieces) for result in results]

    return {"translate": translate}


def ctranslate2(kind: str, folder: Path, task: Task) -> Ways:
    """Its Translator sorts and divides the sentences by itself. It counts `</s>` in the lengths."""
    import ctranslate2
    import sentencepiece

    translator = ctranslate2.Translator(str(folder), compute_type=kind, inter_threads=1, intra_threads=1)
    source = sentencepiece.SentencePieceProcessor(model_file=str(folder / "source.spm"))
    read = source.encode(task.lines, out_type=str)
    length = task.subwords
    limits = {} if length is None else {"min_decoding_length": length + 1, "max_decoding_length": length + 1}

    def translate(batch: int) -> Pieces:
        results = translator.translate_batch(read, max_batch_size=batch, beam_size=task.beam, **limits)
        return [result.hypotheses[0] for result in results]

    return {"translate": translate}


def marian(folder: Path, task: Task) -> Ways:
    """Batches of sentences sorted by length."""
    from transformers import MarianMTModel, MarianTokenizer
    from transformers.utils import logging

    logging.set_verbosity_error()
    tokenizer, model = MarianTokenizer.from_pretrained(folder), MarianMTModel.from_pretrained(folder).eval()
    read = tokenizer(task.lines)["input_ids"]
    order = sorted(range(len(read)), key=lambda number: -len(read[number]))
    special = set(tokenizer.all_special_ids)

    @torch.inference_mode()
    def translate(batch: int) -> Pieces:
        translations: dict[int, list[str]] = {}
        for begin in range(0, len(order), batch):
            numbers = order[begin : begin + batch]
            rows = tokenizer.pad({"input_ids": [read[number] for number in numbers]}, return_tensors="pt")
            most = task.subwords or int(1.5 * rows["input_ids"].shape[1]) + 10
            out = model.generate(
                **rows, num_beams=task.beam, do_sample=False, early_stopping=True, length_penalty=1.0,
                min_new_tokens=task.subwords or 0, max_new_tokens=most + 1,
            )  # fmt: skip
            for number, row in zip(numbers, out.tolist(), strict=True):
                translations[number] = tokenizer.convert_ids_to_tokens([token for token in row if token not in special])
        return [translations[number] for number in range(len(order))]

    return {"translate": translate}
