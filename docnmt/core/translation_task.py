"""The task document_translation: from a data folder or a checkpoint to datasets, and from models to BLEU.
corpus of a split → changed for an epoch (subwords, tags) → units → `TranslationDataset` → `Mixture` of several corpora
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from docnmt.core.batch import (
    DroppedContexts,
    HiddenWords,
    TranslationBatch,
    collate,
    join_batches,
    learned_units,
    planned_units,
    sentence_costs,
    unit_sizes,
)
from docnmt.core.corpus import ParallelCorpus, TextArray, check_files, read_meta
from docnmt.core.data_options import DocumentTranslationConfig
from docnmt.core.formality import ToldForms, address_language, tag_numbers
from docnmt.core.search.config import BeamSearchConfig, GenerationConfig, GreedyConfig, SearchConfig
from docnmt.core.subword_sampling import resegmented
from docnmt.core.task import ModelClass, TaskState, built
from docnmt.core.tokenizer import Tokenizer, directed
from docnmt.core.units import ReadingPlan, Units, context_units, cut_units, document_units, resolution_units
from docnmt.runtime import jobs as ranks
from docnmt.runtime.progress import Progress
from docnmt.runtime.system import UsageError, UserError, read_limited

if TYPE_CHECKING:
    from docnmt.core.models.encoder_decoder import AnyTranslationModel

# A control experiment: sentences in foreign documents, so that a model's context does not belong to what it writes.


#: The seed of the order of sentences, the same in every run.
SEED = 1


def foreign_order(document_offsets: np.ndarray, seed: int = SEED) -> np.ndarray:
    """Return the sentence (S,) at each place after sentences are exchanged across documents, which keep their lengths.
    A sentence keeps about its distance from the beginning of its document: first sentences stay first, the others move
    by a factor below 2, drawn from `seed` alone."""
    offsets = np.asarray(document_offsets, dtype=np.int64)
    number = np.arange(offsets[-1]) - np.repeat(offsets[:-1], np.diff(offsets)) + 1  # in its document, from 1
    noisy = number * (1 + np.random.default_rng(seed).random(len(number)))
    order = np.empty_like(number)
    order[np.argsort(number, kind="stable")] = np.argsort(noisy)
    return order


def in_foreign_documents(corpus: ParallelCorpus) -> ParallelCorpus:
    """Reorder the subwords of both sides and the references by `foreign_order`; structure and source text stay."""
    order = foreign_order(corpus.document_offsets)
    target = None if corpus.target is None else corpus.target.take(order)
    references = [TextArray.from_lines(text[n] for n in order) for text in corpus.references]
    return replace(corpus, source=corpus.source.take(order), target=target, references=references)


# Datasets: the units of a split, the changes that training makes to corpora, and a mixture of several.


@dataclass(frozen=True, eq=False)
class TranslationDataset:
    """The units of one split for one architecture."""

    corpus: ParallelCorpus
    units: Units
    plan: ReadingPlan
    name: str
    hidden: HiddenWords | None = None
    dropped: DroppedContexts | None = None

    @cached_property
    def sizes(self) -> np.ndarray:
        """The larger of source and target length (U,) of each unit, in subwords."""
        return unit_sizes(self.corpus, self.units, self.plan)

    def batch(self, units: np.ndarray) -> TranslationBatch:
        """Return the batch of these units, with words and contexts hidden if the dataset is for training."""
        batch = collate(self.corpus, self.units, units, self.plan)
        if self.hidden is not None:
            batch = replace(batch, source=self.hidden.hide(batch.source, self.corpus, self.units, units))
        return batch if self.dropped is None else self.dropped.drop(batch, units)

    def describe(self, units: np.ndarray) -> str:
        """Describe units as `train: sentences 3-17 (document 2), …`, numbers from 1; five units at most."""
        spans = [
            f"sentences {self.units.first[u] + 1}-{self.units.last[u]} (document {self.units.document[u] + 1})"
            for u in units[:5]
        ]
        more = f" and {len(units) - 5} units more" if len(units) > 5 else ""
        return f"{self.name}: {', '.join(spans)}{more}"


@dataclass(frozen=True, eq=False)
class Mixture:
    """Units of several datasets as one dataset: `part` and `unit`, (U,) int64, are each one's dataset and number
    there."""

    parts: Sequence[TranslationDataset]
    part: np.ndarray
    unit: np.ndarray

    @classmethod
    def draw(cls, parts: Sequence[TranslationDataset], weights: Sequence[float], *, seed: int, epoch: int) -> Mixture:
        """Draw the units of an epoch: every unit of a dataset ⌊weight⌋ times, and further units, drawn without
        repetition from (seed, epoch) alone, up to weight · U in all, rounded, and at least one."""
        chosen = []
        for number, (part, weight) in enumerate(zip(parts, weights, strict=True)):
            count = len(part.sizes)
            whole, rest = divmod(max(1, round(weight * count)), count) if count else (0, 0)
            more = np.random.default_rng([seed, epoch, number]).permutation(count)[:rest]
            chosen.append(np.concatenate([np.tile(np.arange(count), whole), np.sort(more)]))
        part_of = np.repeat(np.arange(len(parts)), [len(units) for units in chosen])
        return cls(parts, part_of, np.concatenate(chosen).astype(np.int64))

    @cached_property
    def sizes(self) -> np.ndarray:
        """The larger of source and target length (U,) of each unit, in subwords."""
        sizes = np.zeros(len(self.unit), dtype=np.int64)
        for number, part in enumerate(self.parts):
            of_part = self.part == number
            sizes[of_part] = part.sizes[self.unit[of_part]]
        return sizes

    def batch(self, units: np.ndarray) -> TranslationBatch:
        """Return one batch of units of all datasets, ordered by dataset."""
        return join_batches([part.batch(chosen) for part, chosen in self._by_part(units)])

    def describe(self, units: np.ndarray) -> str:
        """Describe the corpora, documents and sentences of these units."""
        return "; ".join(part.describe(chosen) for part, chosen in self._by_part(units))

    def _by_part(self, units: np.ndarray) -> Iterator[tuple[TranslationDataset, np.ndarray]]:
        for number in np.unique(self.part[units]).tolist():
            yield self.parts[number], self.unit[units[self.part[units] == number]]


# The task.


class DocumentTranslation:
    """Translation of documents, sentence for sentence, with their structure."""

    Config = DocumentTranslationConfig
    metrics = ("bleu",)

    def __init__(
        self,
        config: DocumentTranslationConfig,
        *,
        languages: tuple[str, str],
        tokenizers: tuple[Tokenizer, Tokenizer],
        fingerprint: str = "",
        data_dir: Path | None = None,
        known_levels: int = 0,
    ) -> None:
        self.config = config
        self.known_levels = known_levels  # above the sentence, in the training text: sections, paragraphs
        self.source_lang, self.target_lang = languages
        self.source_tokenizer, self.target_tokenizer = tokenizers
        self._fingerprint, self.data_dir = fingerprint, data_dir
        self._corpora: dict[tuple[Path, str], ParallelCorpus] = {}

    @classmethod
    def load(cls, config: DocumentTranslationConfig, data_dir: Path) -> DocumentTranslation:
        """Load the task of a folder that `docnmt-preprocess` wrote."""
        meta = read_meta(data_dir, task="document_translation")
        languages = (meta["source_lang"], meta["target_lang"])
        source, target = meta["tokenizers"]["source"], meta["tokenizers"]["target"]  # one file if they are joined
        check_files(data_dir, meta, source, target)
        tokenizers = {}
        for name in {source, target}:
            model = read_limited(data_dir / name)
            try:
                tokenizers[name] = Tokenizer.from_bytes(model)
            except UserError as error:
                raise UserError(f"{data_dir / name}: {error}; preprocess again") from error
        return cls(
            config,
            languages=languages,
            tokenizers=(tokenizers[source], tokenizers[target]),
            fingerprint=meta["fingerprint"],
            data_dir=data_dir,
            known_levels=meta["files"].get("train.structure.bin", {}).get("levels", 0),
        )

    def of_folder(self, data_dir: Path) -> DocumentTranslation:
        """Return the same task with another data folder."""
        return self.load(self.config, data_dir)

    @classmethod
    def restore(cls, config: DocumentTranslationConfig, state: TaskState) -> DocumentTranslation:
        """Restore the task of a checkpoint, without a data folder."""
        source = Tokenizer.from_bytes(bytes(state.tensors["tokenizer.source"].numpy()))
        joined = "tokenizer.target" not in state.tensors
        target = source if joined else Tokenizer.from_bytes(bytes(state.tensors["tokenizer.target"].numpy()))
        return cls(
            config,
            languages=tuple(state.json["languages"]),
            tokenizers=(source, target),
            known_levels=state.json.get("levels", 0),
        )

    def state(self) -> TaskState:
        """Return what a checkpoint stores so that it translates without the data folder."""
        json: dict[str, Any] = {"languages": list(self.languages), "vocabulary": self.source_tokenizer.vocabulary()}
        if self.known_levels:
            json["levels"] = self.known_levels
        models = {"tokenizer.source": self.source_tokenizer.to_bytes()}
        if self.target_tokenizer is not self.source_tokenizer:
            json["target_vocabulary"] = self.target_tokenizer.vocabulary()
            models["tokenizer.target"] = self.target_tokenizer.to_bytes()
        arrays = {name: np.frombuffer(model, dtype=np.uint8).copy() for name, model in models.items()}
        return TaskState(json, {name: torch.from_numpy(array) for name, array in arrays.items()})

    @property
    def languages(self) -> tuple[str, str]:
        """The source and the target language."""
        return self.source_lang, self.target_lang

    def between(self, source_lang: str | None = None, target_lang: str | None = None) -> DocumentTranslation:
        """Return the same task for other languages, of a model that has tags for several, or else raise `UsageError`;
        None keeps a language."""
        languages = (source_lang or self.source_lang, target_lang or self.target_lang)
        if languages == self.languages:
            return self
        tokenizers = directed((self.source_tokenizer, self.target_tokenizer), self.languages, languages)
        return DocumentTranslation(
            self.config, languages=languages, tokenizers=tokenizers, known_levels=self.known_levels
        )

    @property
    def max_doc_tokens(self) -> int | None:
        """The most subwords of a document before models of whole documents cut it."""
        return self.config.max_doc_tokens

    @property
    def knows_formality(self) -> bool:
        """True if training used tags for forms of address, so that one can be requested."""
        return self.config.formality_share > 0

    @property
    def joined(self) -> bool:
        """True if both languages have the same vocabulary, which each may segment with its own tokenizer."""
        source, target = self.source_tokenizer, self.target_tokenizer
        return source is target or source.vocabulary() == target.vocabulary()

    @property
    def source_vocabulary_size(self) -> int:
        """The number of entries of the source vocabulary."""
        return self.source_tokenizer.vocab_size

    @property
    def target_vocabulary_size(self) -> int:
        """The number of entries of the target vocabulary."""
        return self.target_tokenizer.vocab_size

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the data folder and those of `--mix-data`."""
        others = [read_meta(Path(folder))["fingerprint"] for folder, _ in self.config.mixed]
        if not others:
            return self._fingerprint
        return hashlib.sha256(" ".join([self._fingerprint, *others]).encode()).hexdigest()[:32]

    def build_model(self, model_class: ModelClass, model_config: object) -> nn.Module:
        """Build a new model, for training or for weights to be loaded."""
        from docnmt.core.models.encoder_decoder import is_translation_model, lacking  # data alone need no model

        model = built(model_class, model_config, self)
        if not is_translation_model(model):
            name = getattr(model_class, "__qualname__", type(model_class).__name__)
            missing = ", ".join(lacking(model))
            raise UserError(f"model {name}: its build gives no translation model: it lacks {missing}")
        if self.data_dir is not None:
            self._check_training(model.reading, self.data_dir)
        return model

    def _check_training(self, plan: ReadingPlan, data_dir: Path) -> None:
        """Check that a model and data folders allow what the configuration demands of training."""
        config, mixed = self.config, [Path(folder) for folder, _ in self.config.mixed]
        cut = config.max_doc_tokens if config.unit_sentences is None else None
        given = {"--resolutions": config.resolutions, "--max-doc-tokens": cut}
        if not plan.whole_documents and (useless := [flag for flag, value in given.items() if value]):
            why = f"has no effect with an architecture that reads {plan.noun}s; it belongs to those that read documents"
            raise UsageError([f"{flag} {why}" for flag in useless])
        if plan.joined and config.unit_sentences is not None:
            raise UsageError("--unit-sentences is for architectures that write sentence by sentence, not joined ones")
        if config.formality_share:
            tag_numbers(self.source_tokenizer)
            try:
                address_language(self.target_lang)
            except UserError as error:
                raise UsageError(f"--formality-share: {error}") from None
        for folder in mixed:
            meta, where = read_meta(folder), f"--mix-data {folder}"
            if meta["task"] != "document_translation" or "train" not in meta["splits"]:
                raise UserError(f"{where}: holds no training split for translation; preprocess with --trainpref")
            languages = (meta["source_lang"], meta["target_lang"])
            if languages != self.languages:
                raise UserError(f"{where}: translates {'-'.join(languages)}, and DATA {'-'.join(self.languages)}")
            for side, tokenizer in (("source", self.source_tokenizer), ("target", self.target_tokenizer)):
                if (folder / meta["tokenizers"][side]).read_bytes() != tokenizer.to_bytes():
                    raise UserError(f"{where}: has another vocabulary than DATA; preprocess it with --srcdict DATA")
        for folder in (data_dir, *mixed) if config.subword_sampling is not None else ():
            if read_meta(folder)["options"].get("long_policy") == "truncate":
                raise UserError(
                    f"--subword-sampling: {folder} was preprocessed with --long-policy truncate, so its text is longer "
                    "than its subwords; use another policy"
                )

    def corpus(self, split: str, folder: Path | None = None) -> ParallelCorpus:
        """Return a split of the data folder, or of another one; each is opened once."""
        folder = folder or self.data_dir
        if folder is None:
            raise ValueError("this task was restored from a checkpoint and has no data folder")
        if (folder, split) not in self._corpora:
            self._corpora[folder, split] = ParallelCorpus.open(folder, split)
        return self._corpora[folder, split]

    def dataset(
        self, split: str, model: AnyTranslationModel, *, seed: int = 0, epoch: int = 0, training: bool = False
    ) -> TranslationDataset | Mixture:
        """Return a split in the units of `model`; training and validation cut documents at `--max-doc-tokens`. Training
        sees them at every one of `--resolutions`, with the folders of `--mix-data`; masks and subwords are drawn from
        (seed, epoch)."""
        plan = model.reading
        if not training:
            return self._dataset(self.corpus(split), plan, split)
        config, parts = self.config, []
        marks = getattr(self.source_tokenizer, "marks", ())  # a plug-in's tokenizer may lack them
        for number, folder in enumerate([self.data_dir, *(Path(folder) for folder, _ in config.mixed)]):
            seeds, corpus = (seed, epoch, number), self.corpus(split, folder)
            if config.subword_sampling is not None:
                tokenizers = (self.source_tokenizer, self.target_tokenizer)
                corpus = resegmented(corpus, tokenizers, config.subword_sampling, seeds)
            told = ToldForms(config.formality_share, self.target_lang, (*seeds, 2))
            corpus = told.tell(corpus, self.source_tokenizer)
            units = self._training_units(corpus, plan)
            units = learned_units(replace(units, kept=units.first), corpus)  # all that a unit writes counts
            hidden = HiddenWords(config.source_mask, plan.masked_context, seeds, plan.source_breaks, marks)
            dropped = DroppedContexts(plan.dropped_context, (*seeds, 1))  # independent of what is hidden
            parts.append(
                TranslationDataset(corpus, units, plan, f"{folder} {split}" if number else split, hidden, dropped)
            )
        if len(parts) == 1:
            return parts[0]
        return Mixture.draw(parts, [1.0, *(weight for _, weight in self.config.mixed)], seed=seed, epoch=epoch)

    def _training_units(self, corpus: ParallelCorpus, plan: ReadingPlan) -> Units:
        """Return units by `--resolutions` or `--unit-sentences`, cut at `--max-doc-tokens`; else the architecture's."""
        config, offsets = self.config, corpus.document_offsets
        costs = None if config.max_doc_tokens is None else sentence_costs(corpus)
        if config.resolutions:
            return resolution_units(offsets, config.resolutions, costs, config.max_doc_tokens)
        if config.unit_sentences is None:
            return planned_units(plan, corpus, limit=config.max_doc_tokens)
        documents = cut_units(document_units(offsets), costs, config.max_doc_tokens)
        return context_units(documents, None if plan.reads_context else 0, config.unit_sentences)

    def _dataset(
        self, corpus: ParallelCorpus, plan: ReadingPlan, name: str, window: int | None = None
    ) -> TranslationDataset:
        units = planned_units(plan, corpus, limit=self.max_doc_tokens, window=window)
        return TranslationDataset(corpus, learned_units(units, corpus), plan, name)

    def other_contexts(self, split: str, model: AnyTranslationModel) -> dict[str, TranslationDataset]:
        """Return a split in other contexts: `foreign` documents, if there are several, and `none`, a window of 0."""
        if not (plan := model.reading).reads_context:
            return {}
        corpus = self.corpus(split)
        contexts = {"none": self._dataset(corpus, plan, f"{split}, no context", window=0)}
        if corpus.num_documents > 1:
            contexts["foreign"] = self._dataset(in_foreign_documents(corpus), plan, f"{split}, foreign context")
        return contexts

    def evaluate(self, model: AnyTranslationModel, split: str, options: Mapping[str, int]) -> dict[str, float]:
        """Compute s-BLEU of a split, of all sentences with references, by the search that `docnmt-generate` runs."""
        from docnmt.core.scoring.metrics import bleu_tokenizer, evaluate, scored_sentences  # others need no sacreBLEU

        corpus = self.corpus(split)
        if not (scored := scored_sentences(corpus.references)):
            raise UserError("this split has no reference translation, so BLEU cannot be computed; judge by loss")
        search = BeamSearchConfig(beam=self.config.eval_bleu_beam)
        generation = GenerationConfig(max_tokens=options["max_tokens"])
        total = len(corpus.source.tokens) + corpus.num_sentences
        with Progress(total // ranks.world(), "validating (BLEU)", unit="subwords", lasting=False) as bar:
            translations = self._translated(model, corpus, generation, search, bar.update)
        texts = [translations[i] for i in scored]
        references = [[reference[i] for i in scored] for reference in corpus.references]
        offsets, tokenize = np.searchsorted(scored, corpus.document_offsets), bleu_tokenizer(self.target_lang)
        return {"bleu": evaluate(texts, references, offsets, tokenize=tokenize).scores["s-BLEU"]}

    def samples(self, model: AnyTranslationModel, split: str, count: int = 5) -> dict[str, str]:
        """Translate the first sentences of a split by greedy search, which reads only these of their documents; return
        a Markdown table with source and reference."""
        corpus = self.corpus(split)
        part = corpus.first_documents(int(np.searchsorted(corpus.document_offsets, count)))
        documents = [list(part.source_text[a:b]) for a, b in pairwise(part.document_offsets.tolist())]
        documents[-1:] = [document[: count - int(part.document_offsets[-2])] for document in documents[-1:]]
        shown = ParallelCorpus.from_lines(documents, self.source_tokenizer)
        shown = replace(shown, levels=part.levels[: shown.num_sentences])
        translations = self._translated(model, shown, GenerationConfig(generator="greedy"), GreedyConfig())
        columns: list[Sequence[str]] = [shown.source_text, translations, *corpus.references[:1]]
        heads = ["source", "translation", "reference"][: len(columns)]
        rows = zip(*(column[: len(translations)] for column in columns), strict=True)
        table = [heads, ["---"] * len(heads), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
        return {"translations": "\n".join(f"| {' | '.join(row)} |" for row in table)}

    def _translated(
        self, model: AnyTranslationModel, corpus: ParallelCorpus, options: GenerationConfig, search: SearchConfig,
        progress: Callable[[int], object] | None = None,
    ) -> list[str]:  # fmt: skip
        """Return translations in evaluation mode; the model's mode is restored."""
        from docnmt.core.search.translate import translate_corpus  # data alone need no search

        was_training = model.training
        model.train(False)
        try:
            results = translate_corpus([model], self, corpus, options, search, progress=progress)
            return [result.text for result in results]
        finally:
            model.train(was_training)
