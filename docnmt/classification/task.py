"""The text classification task: labelled texts as packed batches without padding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from docnmt.batch import PackedText
from docnmt.batching.plan import plan_batches
from docnmt.classification.arrays import VOCABULARIES, VOCABULARY, LabelledArrays, read_classification_meta
from docnmt.classification.config import TextClassificationConfig
from docnmt.classification.preprocess import labelled_arrays
from docnmt.classification.scores import ClassificationScores, classification_scores
from docnmt.classification.vocabulary import WordVocabulary
from docnmt.data.tokenizer import Tokenizer
from docnmt.errors import UserError
from docnmt.layout import DocumentLayout
from docnmt.tasks.protocol import TaskState


@dataclass(frozen=True, eq=False)
class TextBatch:
    """Texts in one row, each a document of one span, and their labels (B,)."""

    text: PackedText
    labels: Tensor

    @property
    def num_tokens(self) -> int:
        return len(self.text.tokens)

    def to(self, device: torch.device | str) -> TextBatch:
        return replace(self, text=self.text.to(device), labels=self.labels.to(device))


@dataclass(frozen=True, eq=False)
class TextDataset:
    """The texts of one split, of each the first `max_length` tokens.

    Attributes:
        position_count: word indices count inside their sentence (`unit`) or from the text's start (`document`).
    """

    arrays: LabelledArrays
    max_length: int | None
    position_count: str
    name: str

    @cached_property
    def lengths(self) -> np.ndarray:
        """(U,) tokens read of each text."""
        lengths: np.ndarray = np.diff(self.arrays.token_offsets)
        return np.asarray(lengths if self.max_length is None else np.minimum(lengths, self.max_length))

    @property
    def sizes(self) -> np.ndarray:
        """(U,) int64 tokens; a text without any counts as one, so that no batch is endless."""
        return np.asarray(np.maximum(self.lengths, 1))

    def batch(self, units: np.ndarray) -> TextBatch:
        """These texts, in this order."""
        lengths = self.lengths[units]
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        starts = self.arrays.token_offsets[units]
        places = np.repeat(starts - offsets[:-1], lengths) + np.arange(offsets[-1])
        positions = np.full((len(places), 4), -1, dtype=np.int64)
        sentence_offsets = self.arrays.sentences.offsets
        sentences = np.searchsorted(sentence_offsets, places, side="right") - 1
        positions[:, 1] = sentences - np.repeat(self.arrays.text_offsets[units], lengths)
        unit = self.position_count == "unit"
        positions[:, 0] = places - (sentence_offsets[sentences] if unit else np.repeat(starts, lengths))
        layout = DocumentLayout(torch.from_numpy(offsets), torch.arange(len(units) + 1))
        tokens = torch.from_numpy(self.arrays.sentences.tokens[places].astype(np.int64))
        return TextBatch(
            PackedText(tokens, layout, torch.from_numpy(positions)), torch.from_numpy(self.arrays.labels[units])
        )

    def describe(self, units: np.ndarray) -> str:
        """Which texts these are, counted from 1."""
        shown = ", ".join(str(unit + 1) for unit in units[:10])
        return f"{self.name}: texts {shown}{', …' if len(units) > 10 else ''}"


class TextClassification:
    """Label texts.

    Attributes:
        labels: the names of the classes, in the order of the model's outputs.
    """

    Config: type = TextClassificationConfig
    metrics: tuple[str, ...] = ("macro_f1",)

    def __init__(
        self,
        config: TextClassificationConfig,
        *,
        vocabulary: WordVocabulary | Tokenizer,
        labels: Sequence[str],
        fingerprint: str = "",
        data_dir: Path | None = None,
    ) -> None:
        self.config, self.vocabulary, self.labels = config, vocabulary, tuple(labels)
        self.fingerprint, self.data_dir = fingerprint, data_dir

    @classmethod
    def load(cls, config: TextClassificationConfig, data_dir: Any) -> TextClassification:
        """The task of a folder that `docnmt-preprocess --task text_classification` wrote.

        Raises:
            UserError: not such a folder, or it is damaged.
        """
        folder = Path(data_dir)
        meta = read_classification_meta(folder)
        try:
            vocabulary = VOCABULARIES[meta["vocabulary"]].from_bytes((folder / VOCABULARY).read_bytes())
        except (OSError, UnicodeDecodeError, UserError) as error:
            raise UserError(f"{folder / VOCABULARY}: cannot be read: {error}; preprocess again") from error
        return cls(
            config, vocabulary=vocabulary, labels=meta["labels"], fingerprint=meta["fingerprint"], data_dir=folder
        )

    @classmethod
    def restore(cls, config: TextClassificationConfig, state: TaskState) -> TextClassification:
        """The task of a checkpoint, without data."""
        kind = VOCABULARIES[state.json["vocabulary"]]
        vocabulary = kind.from_bytes(bytes(state.tensors["vocabulary"].numpy()))
        return cls(config, vocabulary=vocabulary, labels=state.json["labels"])

    def state(self) -> TaskState:
        """Labels and vocabulary: what labelling a new text needs."""
        content = np.frombuffer(self.vocabulary.to_bytes(), dtype=np.uint8).copy()
        kind = next(name for name, known in VOCABULARIES.items() if isinstance(self.vocabulary, known))
        return TaskState({"labels": list(self.labels), "vocabulary": kind}, {"vocabulary": torch.from_numpy(content)})

    @property
    def vocabulary_size(self) -> int:
        return self.vocabulary.vocab_size

    def build_model(self, model_class: Any, model_config: Any) -> nn.Module:
        """The model of an architecture for this vocabulary and these labels."""
        model: nn.Module = model_class.build(model_config, self)
        return model

    def dataset(
        self, split: str, model: nn.Module, *, seed: int = 0, epoch: int = 0, training: bool = False
    ) -> TextDataset:
        """The texts of a split.

        Raises:
            UserError: the folder has no such split.
        """
        if self.data_dir is None:
            raise ValueError("a task restored from a checkpoint has no data; load it from a folder")
        return self._dataset(LabelledArrays.open(self.data_dir, split), model, split)

    def texts(self, texts: Sequence[str], model: nn.Module, *, name: str = "input") -> TextDataset:
        """New texts, all with label 0."""
        return self._dataset(labelled_arrays(texts, [0] * len(texts), self.vocabulary), model, name)

    def _dataset(self, arrays: LabelledArrays, model: Any, name: str) -> TextDataset:
        return TextDataset(arrays, self.config.max_length, str(model.position_count), name)

    def evaluate(self, model: nn.Module, split: str, options: Mapping[str, Any]) -> dict[str, float]:
        """`macro_f1` of a split; the criterion logs the accuracy."""
        data = self.dataset(split, model)
        return {"macro_f1": self.scores(model, data, max_tokens=int(options["max_tokens"])).macro_f1}

    def scores(self, model: nn.Module, data: TextDataset, *, max_tokens: int) -> ClassificationScores:
        """How well the model labels a dataset."""
        predicted = label_probabilities(model, data, max_tokens=max_tokens).argmax(1)
        return classification_scores(data.arrays.labels, predicted, self.labels)


@torch.no_grad()
def label_probabilities(model: nn.Module, data: TextDataset, *, max_tokens: int) -> np.ndarray:
    """(U, C) float32 probabilities of the labels of every text, in the order of the dataset."""
    device = next(model.parameters()).device
    order = np.argsort(data.sizes, kind="stable")
    results: list[Tensor] = []
    for part in plan_batches(data.sizes[order], max_tokens, seed=0, epoch=0, shuffle=False):
        results.append(model(data.batch(order[part]).to(device)).float().softmax(-1).cpu())
    probabilities = np.empty((len(order), results[0].shape[1] if results else 0), dtype=np.float32)
    if results:
        probabilities[order] = torch.cat(results).numpy()
    return probabilities
