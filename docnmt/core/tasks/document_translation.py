"""The translation task: languages and vocabulary of a data folder or a checkpoint, and the datasets of its models."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from docnmt.core.corpus import META, ParallelCorpus, check_files, read_meta
from docnmt.core.data_options import DocumentTranslationConfig
from docnmt.core.models.encoder_decoder import AnyTranslationModel, is_translation_model, lacking
from docnmt.core.tasks.task import ModelClass, TaskState
from docnmt.core.tokenizer import Tokenizer, directed
from docnmt.runtime.errors import UserError
from docnmt.runtime.structured import read_limited

if TYPE_CHECKING:
    from docnmt.core.tasks.mixture import Mixture
    from docnmt.core.tasks.translation_data import TranslationDataset


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
        source, target = load_tokenizers(data_dir, meta)
        return cls(
            config,
            languages=languages,
            tokenizers=(source, target),
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
        json: dict[str, Any] = {
            "languages": list(self.languages),
            "vocabulary": self.source_tokenizer.vocabulary(),
        }
        if self.known_levels:
            json["levels"] = self.known_levels
        tensors = {"tokenizer.source": _bytes(self.source_tokenizer)}
        if self.target_tokenizer is not self.source_tokenizer:
            json["target_vocabulary"] = self.target_tokenizer.vocabulary()
            tensors["tokenizer.target"] = _bytes(self.target_tokenizer)
        return TaskState(json, tensors)

    @property
    def languages(self) -> tuple[str, str]:
        """The source and the target language."""
        return self.source_lang, self.target_lang

    def between(self, source_lang: str | None = None, target_lang: str | None = None) -> DocumentTranslation:
        """Return the same task for other languages, of a model that has tags for several; None keeps a language.

        Raises:
            UsageError: the model lacks a language.
        """
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
        """Build a new model, for training or for weights to be loaded.

        Raises:
            UserError: the model, or the folders of `--mix-data`, do not fit the task's configuration.
        """
        model = model_class.build(model_config, self)
        if not is_translation_model(model):
            name = getattr(model_class, "__qualname__", type(model_class).__name__)
            missing = ", ".join(lacking(model))
            raise UserError(f"model {name}: its build gives no translation model: it lacks {missing}")
        if self.data_dir is not None:
            from docnmt.core.tasks.translation_data import check_training

            tokenizers = (self.source_tokenizer, self.target_tokenizer)
            check_training(self.config, model.reading, tokenizers, self.languages, self.data_dir)
        return model

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
        """Return a split in the units of `model`; training and validation cut documents at `--max-doc-tokens`.

        Training sees them at every one of `--resolutions`, with the folders of `--mix-data`; words to mask and
        subwords, too, are drawn from (seed, epoch).
        """
        from docnmt.core.tasks.split_datasets import split_dataset

        return split_dataset(self, split, model.reading, seed=seed, epoch=epoch, training=training)

    def other_contexts(self, split: str, model: AnyTranslationModel) -> dict[str, TranslationDataset]:
        """Return a split in other contexts: `foreign` documents, if there are several, and `none`, a window of 0."""
        from docnmt.core.tasks.split_datasets import other_contexts

        return other_contexts(self, split, model.reading)

    def evaluate(self, model: AnyTranslationModel, split: str, options: Mapping[str, int]) -> dict[str, float]:
        """Compute BLEU of a split, by the code that `docnmt-generate` runs."""
        from docnmt.core.tasks.validation_bleu import corpus_bleu

        return {"bleu": corpus_bleu(model, self, self.corpus(split), self.config, max_tokens=options["max_tokens"])}

    def samples(self, model: AnyTranslationModel, split: str) -> dict[str, str]:
        """Translate the first sentences of a split."""
        from docnmt.core.tasks.validation_bleu import sample_translations

        return {"translations": sample_translations(model, self, self.corpus(split))}


def load_tokenizers(data_dir: Path, meta: Mapping[str, Any]) -> tuple[Tokenizer, Tokenizer]:
    """Load both sides' tokenizers of a data folder; they are the same object if the dictionary is joined.

    Raises:
        UserError: a tokenizer is missing or damaged.
    """
    names = meta["tokenizers"]
    check_files(data_dir, meta, *names.values())
    made = {name: _tokenizer(data_dir / name) for name in names.values()}
    sizes = {side: made[names[side]].vocab_size for side in ("source", "target")}
    if any(sizes[side] != meta["vocabulary"][side] for side in sizes):
        raise UserError(f"{data_dir / META}: its vocabularies have other sizes than its tokenizers; preprocess again")
    return made[names["source"]], made[names["target"]]


def _tokenizer(path: Path) -> Tokenizer:
    try:
        return Tokenizer.from_bytes(read_limited(path))
    except UserError as error:
        raise UserError(f"{path}: {str(error).removeprefix(f'{path}: ')}; preprocess again") from error


def _bytes(tokenizer: Tokenizer) -> torch.Tensor:
    return torch.from_numpy(np.frombuffer(tokenizer.to_bytes(), dtype=np.uint8).copy())
