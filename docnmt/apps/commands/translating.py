"""Checkpoints → `LoadedModels` → `Translating`: the one way from a corpus to translations, for all who translate.

text → `StdinText` → corpus → `tagged` (form of address) → `results` → `explained`, `aligned`. `ProtectedText` is the
same with placeholders, addresses and the like, which come through. The service has a search that its requests share.
"""

from __future__ import annotations

import hashlib
import re
import sys
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import islice, pairwise
from pathlib import Path

import numpy as np
import torch
from torch import nn

from docnmt.apps.documents.segments import Segment
from docnmt.apps.documents.sentences import SegmentPart, accept, between, fixed_spans, piece_by_piece, pieces_of
from docnmt.apps.explain.attention import AlignedPiece, Explanation, aligned, read_pairs
from docnmt.apps.explain.explain import ExplainedSentence, explain_translations
from docnmt.apps.options import MemoryConfig, ModelsConfig, Precision
from docnmt.core.corpus import ParallelCorpus, read_meta
from docnmt.core.formality import Formality, in_form, in_given_form
from docnmt.core.models.encoder_decoder import AnyTranslationModel, TranslationTask, is_translation_model
from docnmt.core.read_corpus import is_blank
from docnmt.core.search.config import GenerationConfig, SearchConfig
from docnmt.core.search.glossary import Glossary, opened_glossary
from docnmt.core.search.translate import SentenceResult, Translation, TranslationMemory, translate_corpus
from docnmt.core.split_sentences import RunningText, splitter, whole_lines
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
from docnmt.runtime.languages import joined, one_line
from docnmt.runtime.system import UsageError, UserError, find_checkpoint

# The models that a command holds in memory, with its translation memory.


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
            return replace(self, task=for_languages(self.task, source_lang, target_lang))
        except UsageError as error:
            raise UsageError(f"{self.paths[0]}: {error}") from error

    @cached_property
    def reads_context(self) -> bool:
        """True if a model reads other sentences than the one that it translates."""
        return any(model.reading.reads_context for model in self.models)

    @cached_property
    def reads_translations(self) -> bool:
        """True if a sentence's translation may depend on the translations of other sentences of its document."""
        return self.reads_own_text or any(model.reading.given_text for model in self.models)

    @cached_property
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


def for_languages(task: TranslationTask, source_lang: str | None, target_lang: str | None) -> TranslationTask:
    """Return a task for other languages, of models that know several; None keeps a language."""
    if isinstance(task, DocumentTranslation):
        return task.between(source_lang, target_lang)
    for side, wanted, language in zip(("source", "target"), (source_lang, target_lang), task.languages, strict=True):
        if wanted not in (None, language):  # a plug-in's task is of one direction
            raise UnknownLanguage(side, str(wanted), f"'{language}', the only one that this model has")
    return task


def load_models(config: ModelsConfig) -> LoadedModels:
    """Load the models of `--path`, after `tune`; print what is loaded, and what may show of the configuration."""
    is_one = config.path and Path(config.path).exists()  # its name may have colons
    parts = [config.path] if is_one else re.split(r"(?<!hf):|:(?!//)", config.path)
    if "" in parts:
        raise UsageError(f"--path '{config.path}': expected checkpoints joined by ':', got an empty name")
    paths = [find_checkpoint(part) for part in parts]
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
        if isinstance(loaded.model, nn.Module) and not on_cpu and precision != "float32":  # none of a plug-in's own
            in_half_precision(path, loaded.model, torch.float16 if precision == "fp16" else torch.bfloat16)
        elif isinstance(loaded.model, nn.Module) and on_cpu and (precision != "float32" or packs()):
            replace_linear(loaded.model, {"int8": EightBitLinear, "bf16": BFloat16Linear}.get(precision, PackedLinear))
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
            if vocabularies(for_languages(models.task, *other.languages)) == theirs:
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
        raise UsageError(f"--memory has no effect with these models; {advice}")
    check_vocabulary(loaded, Path(config.memory))
    corpus = ParallelCorpus.open(Path(config.memory), "train")
    return TranslationMemory(corpus, count=config.memory_sentences, foreign=config.memory_context == "foreign")


# From a corpus to translations.

#: For each sentence of a corpus its translation, or None if it is to be searched.
Given = Sequence[str | None] | None
#: For each sentence the parts of it in which no glossary's terms are looked for.
Fixed = Sequence[Sequence[tuple[int, int]]] | None


@dataclass(frozen=True, eq=False)
class Translating:
    """Models, and everything else that their translations depend on."""

    loaded: LoadedModels
    options: GenerationConfig
    search: SearchConfig
    window: int | None = None  # sentences of a document that are read before and after a sentence, at most
    memory: TranslationMemory | None = None  # sentences of other documents that are read before each document
    glossary: Glossary | None = None  # None: the terms of `options`

    @classmethod
    def open(
        cls, models: ModelsConfig, memory: MemoryConfig, options: GenerationConfig, search: SearchConfig
    ) -> Translating:
        """Load what a command's options name."""
        loaded = load_models(models)
        loaded.check_formality(options.formality)
        recalled = open_memory(memory, loaded)
        return cls(loaded, options, search, models.context_window, recalled, opened_glossary(options))

    def tagged(self, corpus: ParallelCorpus, given: Given = None) -> ParallelCorpus:
        """Return `LoadedModels.tagged` of a corpus for `--formality`."""
        return self.loaded.tagged(corpus, self.options.formality, given)

    def results(
        self, corpus: ParallelCorpus, given: Given = None, *, prefixes: Given = None, fixed: Fixed = None,
        before: int = 0, progress: Callable[[int], object] | None = None,
    ) -> Iterator[SentenceResult]:  # fmt: skip
        """Yield the translation of each sentence of `tagged`'s corpus that is not given, in order."""
        loaded = self.loaded
        return translate_corpus(
            loaded.models, loaded.task, corpus, self.options, self.search, given=given, prefixes=prefixes,
            memory=self.memory, context_window=self.window, glossary=self.glossary, fixed=fixed, before=before,
            progress=progress,
        )  # fmt: skip

    def explanations(
        self, corpus: ParallelCorpus, pieces: Sequence[Sequence[str]], given: Given = None, *,
        numbers: Sequence[int] | np.ndarray | None = None, task: TranslationTask | None = None,
    ) -> list[Explanation | None]:  # fmt: skip
        """Return what was read for each translation, given by its pieces; None for given ones.

        Args:
            numbers: of each sentence in its document; None: the corpus has all sentences of its documents.
        """
        offsets = corpus.document_offsets
        if numbers is None:
            numbers = np.arange(corpus.num_sentences) - np.repeat(offsets[:-1], np.diff(offsets))
        return explain_translations(
            self.loaded.models, task or self.loaded.task, corpus, pieces, numbers=np.asarray(numbers), given=given,
            memory=self.memory, context_window=self.window,
        )  # fmt: skip

    def explained(
        self, corpus: ParallelCorpus, results: Sequence[SentenceResult], given: Given = None
    ) -> list[list[ExplainedSentence]]:
        """Return the documents of a corpus, each sentence with its best translation and what was read for it."""
        best = {result.number: result.nbest[0] for result in results}
        tokenizer = self.loaded.task.target_tokenizer
        translations = [
            best[n] if n in best else Translation.of_given((given or ())[n] or "", tokenizer)
            for n in range(corpus.num_sentences)
        ]
        explanations = self.explanations(corpus, [translation.pieces for translation in translations], given)
        sentences = [
            ExplainedSentence(source, replace(translation, explanation=explanation))
            for source, translation, explanation in zip(corpus.source_text, translations, explanations, strict=True)
        ]
        return [sentences[begin:end] for begin, end in pairwise(corpus.document_offsets.tolist())]

    def aligned(self, pairs: Sequence[tuple[str, str]]) -> list[list[AlignedPiece]]:
        """Return which subwords of sentences and translations belong together; each pair is read by itself."""
        return aligned(read_pairs(self.loaded.models[0], self.loaded.task, pairs))


# Running text as a corpus, and what comes through as it is.


@dataclass(frozen=True, eq=False)
class StdinText:
    """Running text as a corpus."""

    corpus: ParallelCorpus
    form: RunningText  # reassembles the translations of its sentences
    given: Sequence[str | None]  # the translation of each sentence
    printed: Sequence[str | None]  # the output for it
    prefixes: Sequence[str | None] | None = None  # the words with which each translation begins

    def written(self, results: Iterator[SentenceResult]) -> Iterator[str]:
        """Yield the output for each sentence; `results` are those of the searched sentences."""
        for text in self.printed:
            yield next(results).text if text is None else text


def read_document(
    lines: Sequence[str], given: Sequence[str] | None, rules: str, task: TranslationTask, *, whole: bool = False,
    prefixes: Sequence[str] | None = None,
) -> StdinText:  # fmt: skip
    """Read one document, its lines split into sentences; with `whole`, each line is one.

    A line with a given translation is split if both have equally many sentences. Its prefix is its first sentence's.
    """
    sentences: list[str] = []
    texts: list[str | None] = []
    printed: list[str | None] = []
    counts: list[int] = []
    split, split_target = (
        whole_lines() if whole else splitter(rules, language) for language in (task.source_lang, task.target_lang)
    )
    for line, known in zip(lines, given or [""] * len(lines), strict=True):
        pieces = split(line)
        if is_blank(known):
            texts += [None] * len(pieces)
            printed += [None] * len(pieces)
        else:
            parts = split_target(known)
            if len(parts) != len(pieces):
                pieces, parts = [one_line(line)], [one_line(known)]
            texts += parts
            printed += [known, *[""] * (len(pieces) - 1)]
        sentences += pieces
        counts.append(len(pieces))
    corpus = ParallelCorpus.from_lines([sentences], task.source_tokenizer)
    begins = None if prefixes is None else of_first_sentences(prefixes, counts)
    return StdinText(corpus, RunningText.of(counts), texts, printed, begins)


def of_first_sentences(prefixes: Iterable[str], counts: Iterable[int]) -> list[str | None]:
    """Return a prefix for each sentence of lines with so many: for the first that of its line."""
    pairs = zip(prefixes, counts, strict=True)
    return [prefix if n == 0 and not is_blank(prefix) else None for prefix, count in pairs for n in range(count)]


class ProtectedText:
    """Sentences whose placeholders, addresses, tags and the like come through as in documents.

    The model reads them as they are. A sentence whose translation does not have all of them is translated again,
    between them, with all other translations of its document given. A sentence of nothing else stays as it is.

    Args:
        given, prefixes: for each sentence its translation, or None; the words with which one begins, or None.
        on: False: nothing is protected.

    Attributes:
        given: the same, with the sentences that stay as they are. fixed: what is protected of each sentence.
        translations: by number, those of sentences that stay as they are; then, if anything is protected, also those
            that `take` noted. lost: the sentences whose translations lack something.
    """

    def __init__(
        self, corpus: ParallelCorpus, given: Given, task: TranslationTask, *, prefixes: Given = None, on: bool = True
    ) -> None:
        self._corpus, self._task, self._prefixes = corpus, task, prefixes
        self._known = [None] * corpus.num_sentences if given is None else list(given)
        self.fixed = [fixed_spans(text) for text in corpus.source_text] if on else None
        self._parts = {
            number: SegmentPart(Segment(text), 0, len(text), fixed=spans, number=number)
            for number, (text, spans) in enumerate(zip(corpus.source_text, self.fixed or (), strict=False))
            if spans and self._known[number] is None
        }
        begins = prefixes or [None] * corpus.num_sentences
        staying = {
            number: joined([begins[number] or "", part.source.removeprefix(begins[number] or "")])
            for number, part in self._parts.items()
            if not pieces_of(part)
        }
        self.given: Given = [staying.get(n, text) for n, text in enumerate(self._known)] if staying else given
        self.translations = {n: Translation.of_given(text, task.target_tokenizer) for n, text in staying.items()}
        self.lost: set[int] = set()

    def changing(self) -> ParallelCorpus:
        """Return what translations may lose of the sentences: their text without what is protected, if anything is."""
        if not self._parts and self.given is None:
            return self._corpus
        texts = [
            " ".join(" ".join(between(text, self._parts[n].fixed)).split()) if n in self._parts else text
            for n, text in enumerate(self._corpus.source_text)
            if self._known[n] is None
        ]
        return ParallelCorpus.from_lines([[text for text in texts if text]], self._task.source_tokenizer)

    def take(self, number: int, translation: Translation) -> bool:
        """Note what the search found for a sentence; return whether all that is protected is in it."""
        if self._parts:
            self.translations[number] = translation
        if number in self._parts and not accept(self._parts[number], translation.text):
            self.lost.add(number)
        return number not in self.lost

    def again(self) -> tuple[ParallelCorpus, list[str | None], list[str | None]]:
        """Return the documents of what was lost, this in pieces and all else given, and the prefixes of the pieces."""
        offsets, known = self._corpus.document_offsets.tolist(), self._known
        documents: list[list[str]] = []
        given: list[str | None] = []
        prefixes: list[str | None] = []
        numbers: list[int] = []
        for document in sorted({bisect_right(offsets, number) - 1 for number in self.lost}):
            documents.append([])
            for number in range(offsets[document], offsets[document + 1]):
                pieces, text = [self._corpus.source_text[number]], known[number]
                if number in self.lost:
                    pieces = pieces_of(self._parts[number])
                elif text is None:
                    text = self.translations[number].text
                documents[-1] += pieces
                given += [text] * len(pieces)
                prefixes += [self._prefixes[number] if self._prefixes else None, *[None] * (len(pieces) - 1)]
                numbers += [number] * len(pieces)
        corpus = ParallelCorpus.from_lines(documents, self._task.source_tokenizer)
        return replace(corpus, levels=self._corpus.levels[numbers]), given, prefixes

    def mended(self, pieces: Iterator[Translation]) -> Iterator[tuple[int, Translation]]:
        """Yield what was lost, in order: the translations of the pieces as one, whose score is their mean."""
        tokenizer = self._task.target_tokenizer
        for number in sorted(self.lost):
            part = self._parts[number]
            translations = list(islice(pieces, len(pieces_of(part))))
            piece_by_piece(part, iter([piece.text for piece in translations]))
            text = part.text or ""
            tokens = tuple(tokenizer.pieces(tokenizer.encode([text])[0]))
            sizes = [len(piece.pieces) + 1 for piece in translations]
            score = sum(piece.score * size for piece, size in zip(translations, sizes, strict=True)) / sum(sizes)
            limited = next((piece for piece in translations if piece.limited), translations[0])
            yield number, replace(limited, text=text, pieces=tokens, score=score, piece_scores=(0.0,) * len(tokens))

    def results(
        self, translating: Translating, corpus: ParallelCorpus, *, before: int = 0,
        progress: Callable[[int], object] | None = None,
    ) -> Iterator[SentenceResult]:  # fmt: skip
        """Yield the translations of all sentences that were not given, in order; `corpus` is `tagged`'s.

        From the first that lost something on they wait for the end, when this is searched again in pieces.
        """
        search = partial(translating.results, before=before)
        searched = search(corpus, self.given, prefixes=self._prefixes, fixed=self.fixed, progress=progress)
        waiting: dict[int, Translation] = {}
        for number in (n for n, text in enumerate(self._known) if text is None):
            if (staying := self.translations.get(number)) is not None:
                result = SentenceResult(number, (staying,))
            else:
                result = next(searched)
                self.take(number, result.nbest[0])
            if self.lost:
                waiting[number] = result.nbest[0]
            else:
                yield result
        if next(searched, None) is not None:
            raise ValueError("more translations than sentences")
        if self.lost:
            again, given, prefixes = self.again()
            pieces = (result.nbest[0] for result in search(translating.tagged(again, given), given, prefixes=prefixes))
            waiting |= self.mended(pieces)
            for number, best in waiting.items():
                yield SentenceResult(number, (best,))
