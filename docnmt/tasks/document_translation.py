"""The translation task: a data folder or a checkpoint's vocabulary, and the units that a model reads of a corpus."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from docnmt.batch import PackedText, TranslationBatch
from docnmt.data.collate import collate, collate_source, sentence_costs, unit_sizes
from docnmt.data.corpus import ParallelCorpus
from docnmt.data.meta import read_meta
from docnmt.data.tokenizer import Tokenizer
from docnmt.data.units import Units, document_units, sentence_units, window_units
from docnmt.tasks.config import DocumentTranslationConfig
from docnmt.tasks.protocol import TaskState


@dataclass(frozen=True, eq=False)
class TranslationDataset:
    """The units of one split as one architecture reads them."""

    corpus: ParallelCorpus
    units: Units
    position_count: str
    name: str
    joined: bool = False

    @cached_property
    def sizes(self) -> np.ndarray:
        """(U,) max(source, target) subwords."""
        return unit_sizes(self.corpus, self.units)

    def batch(self, units: np.ndarray) -> TranslationBatch:
        return collate(self.corpus, self.units, units, position_count=self.position_count, joined=self.joined)

    def describe(self, units: np.ndarray) -> str:
        """`train: sentences 3-17 of document 2, …` (numbers from 1)."""
        rows = [
            f"sentences {self.units.first[u] + 1}-{self.units.last[u]} (document {self.units.document[u] + 1})"
            for u in units[:5]
        ]
        more = f" and {len(units) - 5} units more" if len(units) > 5 else ""
        return f"{self.name}: {', '.join(rows)}{more}"


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
        self.fingerprint, self.data_dir = fingerprint, data_dir
        self._corpora: dict[str, ParallelCorpus] = {}

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

    def build_model(self, model_class: Any, model_config: Any) -> nn.Module:
        model: nn.Module = model_class.build(model_config, self)
        return model

    def corpus(self, split: str) -> ParallelCorpus:
        """A split of the data folder, opened once."""
        if self.data_dir is None:
            raise ValueError("this task was restored from a checkpoint and has no data folder")
        if split not in self._corpora:
            self._corpora[split] = ParallelCorpus.open(self.data_dir, split)
        return self._corpora[split]

    def units(self, corpus: ParallelCorpus, model: Any, *, limit: int | None = None) -> Units:
        """The units of a corpus that a model reads; documents are cut at `limit` subwords, if there is one."""
        if model.unit == "sentence":
            return sentence_units(corpus.document_offsets)
        if model.unit == "window":
            return window_units(corpus.document_offsets, model.target_window, model.earlier)
        return document_units(corpus.document_offsets, None if limit is None else sentence_costs(corpus), limit)

    def source(self, corpus: ParallelCorpus, units: Units, chosen: np.ndarray, model: Any) -> PackedText:
        """The source side of some units, for search."""
        return collate_source(corpus, units, chosen, position_count=model.position_count, joined=model.joined)

    def written(self, corpus: ParallelCorpus, units: Units, model: Any) -> np.ndarray:
        """(W + 1,) where each of the texts begins that search writes by itself: a joined unit, or else a sentence."""
        return np.append(units.first, corpus.num_sentences) if model.joined else np.arange(corpus.num_sentences + 1)

    def dataset(
        self, split: str, model: nn.Module, *, seed: int = 0, epoch: int = 0, training: bool = False
    ) -> TranslationDataset:
        """A split in the units of `model`; in training and validation documents are cut at `--max-doc-tokens`."""
        corpus = self.corpus(split)
        units = self.units(corpus, model, limit=self.config.max_doc_tokens)
        return TranslationDataset(corpus, units, str(model.position_count), split, bool(model.joined))

    def evaluate(self, model: nn.Module, split: str, options: Mapping[str, Any]) -> dict[str, float]:
        """BLEU of a split, by the code that `docnmt-generate` runs."""
        from docnmt.generation.evaluate import corpus_bleu

        return {"bleu": corpus_bleu(model, self, self.corpus(split), self.config)}


def load_tokenizers(data_dir: Path, meta: Mapping[str, Any]) -> tuple[Tokenizer, Tokenizer]:
    """Both sides' tokenizers of a data folder; the same object when the dictionary is joined."""
    names = meta["tokenizers"]
    source = Tokenizer.from_bytes((data_dir / names["source"]).read_bytes())
    joined = names["source"] == names["target"]
    return source, source if joined else Tokenizer.from_bytes((data_dir / names["target"]).read_bytes())


def _bytes(tokenizer: Tokenizer) -> torch.Tensor:
    return torch.from_numpy(np.frombuffer(tokenizer.to_bytes(), dtype=np.uint8).copy())
