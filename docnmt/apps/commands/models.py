"""Checkpoints → `LoadedModels`: what every command that translates holds in memory, with its translation memory."""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import nn

from docnmt.apps.options import MemoryConfig, ModelsConfig, Precision
from docnmt.core.corpus import ParallelCorpus, read_meta
from docnmt.core.formality import Formality, in_form, in_given_form
from docnmt.core.models.encoder_decoder import AnyTranslationModel, TranslationTask, is_translation_model
from docnmt.core.search.translate import TranslationMemory
from docnmt.core.tokenizer import UnknownLanguage
from docnmt.core.training.checkpoint import load_model
from docnmt.core.training.run_folder import ModelRecord
from docnmt.core.translation_task import DocumentTranslation
from docnmt.modules.linear_layers import (
    BFloat16Linear,
    EightBitLinear,
    PackedLinear,
    multiplies_bfloat16,
    multiplies_eight_bits,
    packs,
    replace_linear,
)
from docnmt.runtime.device import pick_device, row_invariant, tune
from docnmt.runtime.system import UsageError, UserError, find_checkpoint


@dataclass(frozen=True, eq=False)
class LoadedModels:
    """Models in evaluation mode on one device, with the task they share."""

    paths: tuple[Path, ...]
    models: tuple[AnyTranslationModel, ...]
    task: TranslationTask
    records: tuple[ModelRecord, ...] = ()
    knows_formality: bool = False  # all were trained with --formality-share

    def between(self, source_lang: str | None = None, target_lang: str | None = None) -> LoadedModels:
        """Return the same models for other languages; None keeps a language."""
        try:
            return replace(self, task=between(self.task, source_lang, target_lang))
        except UsageError as error:
            raise UsageError(f"{self.paths[0]}: {error}") from error

    @property
    def reads_context(self) -> bool:
        """True if a model reads other sentences than the one that it translates."""
        return any(model.reading.reads_context for model in self.models)

    @property
    def reads_translations(self) -> bool:
        """True if a sentence's translation may depend on the translations of other sentences of its document."""
        return self.reads_own_text or any(model.reading.given_text for model in self.models)

    @property
    def reads_own_text(self) -> bool:
        """True if a sentence's translation may depend on what the models themselves wrote for other sentences."""
        plans = [model.reading for model in self.models]
        return any(plan.own_text or (plan.joined and plan.written != 1) for plan in plans)

    def note_unread(self, option: str, form: Formality | None) -> None:
        """Say on stderr that nothing reads the translations that an option gives, if this is so."""
        if form != "given" and not self.reads_translations:
            message = "the model reads no translations, so the given ones change no other sentence"
            print(f"note: {option}: {message}", file=sys.stderr)

    def check_formality(self, form: Formality | None) -> None:
        """Refuse a form of address that the models do not understand."""
        if form is not None and not self.knows_formality:
            raise UsageError(
                f"--formality {form}: {':'.join(map(str, self.paths))} was not trained to be told a form of address; "
                "train with docnmt-train --formality-share, or leave --formality out"
            )

    def tagged(
        self, corpus: ParallelCorpus, form: Formality | None, given: Sequence[str | None] | None = None
    ) -> ParallelCorpus:
        """Return the corpus tagged for a translation in this form of address, or that of the translations `given`."""
        self.check_formality(form)
        if form is None:
            return corpus
        tokenizer = self.task.source_tokenizer
        if form != "given":
            return in_form(corpus, form, tokenizer)
        return corpus if given is None else in_given_form(corpus, given, tokenizer, self.task.languages[1])


def between(task: TranslationTask, source_lang: str | None, target_lang: str | None) -> TranslationTask:
    """Return a task for other languages, of models that know several; None keeps a language."""
    if isinstance(task, DocumentTranslation):
        return task.between(source_lang, target_lang)
    for side, wanted, own in zip(("source", "target"), (source_lang, target_lang), task.languages, strict=True):
        if wanted not in (None, own):  # a plug-in's task is of one direction
            raise UnknownLanguage(side, str(wanted), f"'{own}', the only one that this model has")
    return task


def load_models(config: ModelsConfig) -> LoadedModels:
    """Load the models of `--path`, after `tune`; print what is loaded, and what may show of the configuration."""
    paths = [find_checkpoint(part) for part in split_path(config.path)]
    tuned = tune()
    device = pick_device(config.device)
    loaded = open_models(paths, device, precision=config.precision).between(config.source_lang, config.target_lang)
    print(*loaded.records, tuned, sep="\n", file=sys.stderr)
    if device.type == "cpu" and not row_invariant(torch.bfloat16 if config.bf16 else torch.float32):
        digits = "scores from the third digit on" if config.bf16 else "the last digits of scores"
        print(f"note: on this machine the batch size can change {digits}", file=sys.stderr)
    if config.context_window and not loaded.reads_context:
        raise UsageError(f"--context-window has no effect: {config.path} reads every sentence by itself")
    return loaded


def _compute_in(path: Path, model: AnyTranslationModel, precision: Precision, device: torch.device) -> None:
    """Make a model compute in a precision; on a CPU pack its weights for products."""
    if not isinstance(model, nn.Module):  # a plug-in's own
        return
    if device.type != "cpu":
        if precision != "float32":
            in_half_precision(path, model, torch.float16 if precision == "fp16" else torch.bfloat16)
    elif precision != "float32" or packs():
        replace_linear(model, {"int8": EightBitLinear, "bf16": BFloat16Linear}.get(precision, PackedLinear))


def in_half_precision(path: Path, model: nn.Module, kind: torch.dtype) -> None:
    """Convert weights, keys and values to float16 or bfloat16; softmax and scores remain in float32."""
    from docnmt.modules.attention import LinearSelfAttention

    if any(isinstance(module, LinearSelfAttention) for module in model.modules()):
        option = "--fp16" if kind == torch.float16 else "--bf16"
        raise UsageError(f"{option}: {path} has linear attention, whose sums need float32; leave {option} out")
    model.to(kind)


def open_models(paths: Sequence[str | Path], device: torch.device, *, precision: Precision = "float32") -> LoadedModels:
    """Load the models of these checkpoints and folders of checkpoints on a device, to translate."""
    on_cpu = device.type == "cpu"
    if precision == "fp16" and on_cpu:
        raise UsageError("--fp16 is for a GPU; a CPU is faster in float32, or with --int8 or --bf16")
    if precision == "int8" and not on_cpu:
        raise UsageError("--int8 is for a CPU (--device cpu); on a GPU give --fp16 or --bf16")
    if precision == "bf16" and on_cpu and not multiplies_bfloat16():
        raise UsageError("--bf16: this processor has no bfloat16 products and would be slower; leave --bf16 out")
    if precision == "int8" and not multiplies_eight_bits():
        raise UsageError(f"--int8: torch {torch.__version__} has no such products on this processor; leave --int8 out")
    files = tuple(find_checkpoint(path) for path in paths)
    models, tasks, records = list[AnyTranslationModel](), list[TranslationTask](), list[ModelRecord]()
    for path in files:
        loaded = load_model(path, device=device)
        if not is_translation_model(loaded.model) or not isinstance(loaded.task, TranslationTask):
            arch, task = loaded.arch, loaded.header["task"]
            raise UserError(f"{path}: is a '{arch}' for the task '{task}', which writes no text")
        models.append(loaded.model)
        records.append(loaded.record)
        tasks.append(loaded.task)
        ours, theirs = vocabularies(tasks[0]), vocabularies(loaded.task)
        if ours != theirs:
            raise UserError(
                f"{files[0]} and {path} have different vocabularies ({ours[0]}, {theirs[0]}) and cannot translate "
                "together; train both on the data of one docnmt-preprocess, or with --srcdict"
            )
        if tasks[0].languages != loaded.task.languages:
            one, other = _direction(tasks[0]), _direction(loaded.task)
            raise UserError(f"{files[0]} translates {one} and {path} {other}: not together")
        _compute_in(path, loaded.model, precision, device)
    readers = [n for n, model in enumerate(models) if model.reading.whole_documents] or [0]
    for n in readers:  # the task determines where documents are cut
        limits = tasks[readers[0]].max_doc_tokens, tasks[n].max_doc_tokens
        if limits[0] != limits[1]:
            raise UserError(
                f"{files[readers[0]]} and {files[n]} were trained with --max-doc-tokens {limits[0]} and {limits[1]} "
                "and would read different pieces of a document; translate with each by itself"
            )
    knows_formality = all(getattr(task, "knows_formality", False) for task in tasks)  # plug-ins may lack it
    return LoadedModels(files, tuple(models), tasks[readers[0]], tuple(records), knows_formality)


def split_path(path: str) -> list[str]:
    """Split `a:b` into a and b; an existing path with colons is one, and so is the hub's `hf://org/name`."""
    parts = [path] if path and Path(path).exists() else re.split(r"(?<!hf):|:(?!//)", path)
    if "" in parts:
        raise UsageError(f"--path '{path}': expected checkpoints joined by ':', got an empty name")
    return parts


def vocabularies(task: TranslationTask) -> tuple[str, str]:
    """Return short hashes of both sides' tokenizers, which are equal if token numbers mean the same."""
    sides = (task.source_tokenizer, task.target_tokenizer)
    source, target = (hashlib.sha256(tokenizer.to_bytes()).hexdigest()[:12] for tokenizer in sides)
    return source, target


def _direction(task: TranslationTask) -> str:
    return "-".join(task.languages)


def check_vocabulary(models: LoadedModels, data: Path) -> None:
    """Check that data was preprocessed with the models' vocabulary, for their direction."""
    if (task := read_meta(data)["task"]) != "document_translation":
        raise UserError(f"{data}: was preprocessed for --task {task}, and these models translate")
    other = models.task.of_folder(data)
    ours, theirs = vocabularies(models.task), vocabularies(other)
    if ours != theirs:
        with suppress(UsageError):
            if vocabularies(between(models.task, *other.languages)) == theirs:
                source, target = other.languages
                raise UserError(
                    f"{models.paths[0]} translates {_direction(models.task)} if nothing else is said, and {data} is "
                    f"{_direction(other)}; give --source-lang {source} --target-lang {target}"
                )
        raise UserError(
            f"{models.paths[0]} was trained with another vocabulary ({ours[0]}) than that of {data} ({theirs[0]}); "
            f"give the folder that it was trained on, or preprocess this text with --srcdict {models.paths[0]}"
        )
    if _direction(models.task) != _direction(other):
        raise UserError(f"{models.paths[0]} translates {_direction(models.task)}, and {data} is {_direction(other)}")


def open_memory(config: MemoryConfig, loaded: LoadedModels) -> TranslationMemory | None:
    """Open the memory that `--memory` names, or return None."""
    if config.memory is None:
        return None
    if not any(model.reading.reads_translations for model in loaded.models):
        advice = "train --arch copy_transformer or one with --target-context"
        raise UsageError(f"--memory has no effect with models that read no translations; {advice}")
    check_vocabulary(loaded, Path(config.memory))
    corpus = ParallelCorpus.open(Path(config.memory), "train")
    return TranslationMemory(corpus, count=config.memory_sentences, foreign=config.memory_context == "foreign")
