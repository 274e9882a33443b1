"""The translation task: a data folder or a checkpoint's vocabulary, and the units that a model reads of a corpus."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from docnmt.batch import PackedText
from docnmt.batching.collate import collate_source, ranges, sentence_costs
from docnmt.batching.units import (
    Units,
    context_units,
    document_units,
    last_units,
    limited_units,
    resolution_units,
    sentence_units,
    window_units,
)
from docnmt.data.corpus import ParallelCorpus
from docnmt.data.meta import read_meta
from docnmt.data.tokenizer import Tokenizer
from docnmt.tasks.config import DocumentTranslationConfig
from docnmt.tasks.mixture import Mixture
from docnmt.tasks.protocol import TaskState
from docnmt.tasks.translation_data import TrainingData, TranslationDataset, check_training


class DocumentTranslation:
    """Translate documents, sentence for sentence, with their structure."""

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
    ) -> None:
        self.config = config
        self.source_lang, self.target_lang = languages
        self.source_tokenizer, self.target_tokenizer = tokenizers
        self._fingerprint, self.data_dir = fingerprint, data_dir
        self._corpora: dict[tuple[Path, str], ParallelCorpus] = {}

    @classmethod
    def load(cls, config: DocumentTranslationConfig, data_dir: Path) -> DocumentTranslation:
        """The task of a folder that `docnmt-preprocess` wrote."""
        meta = read_meta(data_dir)
        languages = (meta["source_lang"], meta["target_lang"])
        source, target = load_tokenizers(data_dir, meta)
        return cls(
            config, languages=languages, tokenizers=(source, target), fingerprint=meta["fingerprint"], data_dir=data_dir
        )

    @classmethod
    def restore(cls, config: DocumentTranslationConfig, state: TaskState) -> DocumentTranslation:
        """The task of a checkpoint: everything but a data folder."""
        source = Tokenizer.from_bytes(bytes(state.tensors["tokenizer.source"].numpy()))
        joined = "tokenizer.target" not in state.tensors
        target = source if joined else Tokenizer.from_bytes(bytes(state.tensors["tokenizer.target"].numpy()))
        return cls(config, languages=tuple(state.json["languages"]), tokenizers=(source, target))

    def state(self) -> TaskState:
        """What a checkpoint holds so that it translates without the data folder."""
        json: dict[str, Any] = {
            "languages": [self.source_lang, self.target_lang],
            "vocabulary": self.source_tokenizer.vocabulary(),
        }
        tensors = {"tokenizer.source": _bytes(self.source_tokenizer)}
        if not self.joined:
            json["target_vocabulary"] = self.target_tokenizer.vocabulary()
            tensors["tokenizer.target"] = _bytes(self.target_tokenizer)
        return TaskState(json, tensors)

    @property
    def joined(self) -> bool:
        """One vocabulary for both languages."""
        return self.source_tokenizer is self.target_tokenizer

    @property
    def source_vocabulary_size(self) -> int:
        return self.source_tokenizer.vocab_size

    @property
    def target_vocabulary_size(self) -> int:
        return self.target_tokenizer.vocab_size

    @cached_property
    def fingerprint(self) -> str:
        """Of the data folder and those of `--mix-data`."""
        others = [read_meta(Path(folder))["fingerprint"] for folder, _ in self.config.mixed]
        if not others:
            return self._fingerprint
        return hashlib.sha256(" ".join([self._fingerprint, *others]).encode()).hexdigest()[:32]

    def build_model(self, model_class: Any, model_config: Any) -> nn.Module:
        """A new model, for training or for weights to be loaded.

        Raises:
            UserError: the model, or the folders of `--mix-data`, do not fit the task's configuration.
        """
        model: nn.Module = model_class.build(model_config, self)
        if self.data_dir is not None:
            tokenizers, languages = (self.source_tokenizer, self.target_tokenizer), (self.source_lang, self.target_lang)
            check_training(self.config, model, tokenizers, languages, self.data_dir)
        return model

    def corpus(self, split: str, folder: Path | None = None) -> ParallelCorpus:
        """A split of the data folder, or of another one, opened once."""
        folder = folder or self.data_dir
        if folder is None:
            raise ValueError("this task was restored from a checkpoint and has no data folder")
        if (folder, split) not in self._corpora:
            self._corpora[folder, split] = ParallelCorpus.open(folder, split)
        return self._corpora[folder, split]

    def units(
        self, corpus: ParallelCorpus, model: Any, *, limit: int | None = None, window: int | None = None
    ) -> Units:
        """The units of a corpus that a model reads.

        Args:
            limit: documents are cut at so many subwords.
            window: a sentence is read with at most so many before it and after it; texts of several sentences, too,
                hold so many and one more, whatever the model was trained with.
        """
        offsets = corpus.document_offsets
        if model.unit == "sentence":
            return sentence_units(offsets)
        if model.unit == "window":
            return window_units(offsets, *_window(model, window))
        costs = None if limit is None else sentence_costs(corpus)
        if window is not None and model.joined:
            return resolution_units(offsets, [window + 1], costs, limit)
        documents = document_units(offsets, costs, limit)
        return documents if window is None else context_units(documents, window)

    def last_units(self, corpus: ParallelCorpus, model: Any, *, window: int | None = None) -> Units:
        """One unit a document: its last sentence, with as much before it as the model reads at once.

        Args:
            window: at most so many sentences before it; their positions stay as they are.
        """
        first, last = corpus.document_offsets[:-1], corpus.document_offsets[1:]
        limit = self.config.max_doc_tokens
        if model.unit == "sentence":
            return last_units(first, last, 1, 0)
        if model.unit == "window":
            return last_units(first, last, *_window(model, window)[:2])
        fits = last - first
        if limit is not None:
            corpus = replace(corpus, target=None)  # as in translation; and variants must be judged in the same context
            total = np.concatenate([[0], np.cumsum(sentence_costs(corpus), dtype=np.int64)])
            fits = np.maximum(last - np.searchsorted(total, total[last] - limit), 1)
        units = last_units(first, last, fits, 0)
        return units if window is None else limited_units(units, window)

    def source(self, corpus: ParallelCorpus, units: Units, chosen: np.ndarray, model: Any) -> PackedText:
        """The source side of some units, for search."""
        return collate_source(corpus, units, chosen, position_count=model.position_count, joined=model.joined)

    def written(self, corpus: ParallelCorpus, units: Units, model: Any) -> np.ndarray:
        """(W, 2) of the texts that search writes by themselves, joined units or else sentences: the first sentence, and
        the first that is kept."""
        every = np.arange(corpus.num_sentences)
        return np.stack([units.first, units.kept] if model.joined else [every, every], axis=1)

    def places(self, units: Units, chosen: np.ndarray, model: Any) -> np.ndarray:
        """Which sentences of what `source` makes of the units `chosen` the texts are that these write."""
        if model.joined:
            return np.arange(len(chosen))
        reads = (units.source_last - units.source_first)[chosen]
        begins = np.cumsum(reads) - reads - units.source_first[chosen]
        return ranges(begins + units.first[chosen], begins + units.last[chosen])

    def dataset(
        self, split: str, model: nn.Module, *, seed: int = 0, epoch: int = 0, training: bool = False
    ) -> TranslationDataset | Mixture:
        """A split in the units of `model`; in training and validation documents are cut at `--max-doc-tokens`.

        Training sees them at every one of `--resolutions`, and the folders of `--mix-data`, as (seed, epoch) draw them:
        their words that are masked and their subwords, too.
        """
        if not training:
            return self._dataset(self.corpus(split), model, split)
        parts = []
        folders = [self.data_dir, *(Path(folder) for folder, _ in self.config.mixed)]
        for number, folder in enumerate(folders):
            made = TrainingData(self.config, (self.source_tokenizer, self.target_tokenizer), (seed, epoch, number))
            name = f"{folder} {split}" if number else split
            parts.append(self._dataset(made.corpus(self.corpus(split, folder)), model, name, made))
        if len(parts) == 1:
            return parts[0]
        return Mixture.draw(parts, [1.0, *(weight for _, weight in self.config.mixed)], seed=seed, epoch=epoch)

    def _dataset(
        self, corpus: ParallelCorpus, model: Any, name: str, made: TrainingData | None = None
    ) -> TranslationDataset:
        units = self.units(corpus, model, limit=self.config.max_doc_tokens)
        count, joined = str(model.position_count), bool(model.joined)
        if made is None:
            return TranslationDataset(corpus, units, count, name, joined)
        return TranslationDataset(corpus, made.units(corpus, units), count, name, joined, made.hidden(model))

    def evaluate(self, model: nn.Module, split: str, options: Mapping[str, Any]) -> dict[str, float]:
        """BLEU of a split, by the code that `docnmt-generate` runs."""
        from docnmt.tasks.bleu import corpus_bleu

        return {"bleu": corpus_bleu(model, self, self.corpus(split), self.config)}


def _window(model: Any, window: int | None) -> tuple[int, int, int]:
    """Sentences that a model of windows writes at once, those it reads before them, and from one window to the next.

    With `window` it reads so many and one more at once: k-to-k stays k-to-k, k-to-1 writes one. Windows overlap by as
    many sentences as in training.
    """
    size, earlier, stride = model.target_window, model.earlier, model.window_stride
    if window is None:
        return size, earlier, stride
    written = min(size, window + 1) if earlier else window + 1
    return written, window + 1 - written, max(1, written - (size - stride))


def load_tokenizers(data_dir: Path, meta: Mapping[str, Any]) -> tuple[Tokenizer, Tokenizer]:
    """Both sides' tokenizers of a data folder; the same object when the dictionary is joined."""
    names = meta["tokenizers"]
    source = Tokenizer.from_bytes((data_dir / names["source"]).read_bytes())
    joined = names["source"] == names["target"]
    return source, source if joined else Tokenizer.from_bytes((data_dir / names["target"]).read_bytes())


def _bytes(tokenizer: Tokenizer) -> torch.Tensor:
    return torch.from_numpy(np.frombuffer(tokenizer.to_bytes(), dtype=np.uint8).copy())
