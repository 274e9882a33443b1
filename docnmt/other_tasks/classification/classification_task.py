"""The text classification task: labelled texts, and the evaluation of predicted labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import nn

from docnmt.core.batch import plan_batches
from docnmt.core.corpus import check_files
from docnmt.core.tasks.task import ModelClass, TaskState
from docnmt.other_tasks.classification.config import TextClassificationConfig
from docnmt.other_tasks.classification.data import (
    VOCABULARIES,
    VOCABULARY,
    LabelledArrays,
    TextDataset,
    TextVocabulary,
    labelled_arrays,
    read_classification_meta,
)
from docnmt.other_tasks.classification.scores import classification_scores
from docnmt.runtime.errors import UserError


class TextClassification:
    """The task of labelling texts.

    Attributes:
        labels: the names of the classes, in the order of the model's outputs.
    """

    Config: type = TextClassificationConfig
    metrics: tuple[str, ...] = ("macro_f1",)

    def __init__(
        self,
        config: TextClassificationConfig,
        *,
        vocabulary: TextVocabulary,
        labels: Sequence[str],
        fingerprint: str = "",
        data_dir: Path | None = None,
    ) -> None:
        self.config, self.vocabulary, self.labels = config, vocabulary, tuple(labels)
        self.fingerprint, self.data_dir = fingerprint, data_dir

    @classmethod
    def load(cls, config: TextClassificationConfig, data_dir: str | Path) -> TextClassification:
        """Load the task of a folder that `docnmt-preprocess --task text_classification` wrote.

        Raises:
            UserError: the folder is not such a folder, or is damaged.
        """
        folder = Path(data_dir)
        meta = read_classification_meta(folder)
        check_files(folder, meta, VOCABULARY)
        try:
            vocabulary = VOCABULARIES[meta["vocabulary"]].from_bytes((folder / VOCABULARY).read_bytes())
        except (OSError, LookupError, UnicodeDecodeError, UserError) as error:
            raise UserError(f"{folder / VOCABULARY}: cannot be read: {error}; preprocess again") from error
        return cls(
            config, vocabulary=vocabulary, labels=meta["labels"], fingerprint=meta["fingerprint"], data_dir=folder
        )

    @classmethod
    def restore(cls, config: TextClassificationConfig, state: TaskState) -> TextClassification:
        """Restore the task of a checkpoint, without data."""
        kind = VOCABULARIES[state.json["vocabulary"]]
        vocabulary = kind.from_bytes(bytes(state.tensors["vocabulary"].numpy()))
        return cls(config, vocabulary=vocabulary, labels=state.json["labels"])

    def state(self) -> TaskState:
        """Return labels and vocabulary, which suffice to label new texts."""
        content = np.frombuffer(self.vocabulary.to_bytes(), dtype=np.uint8).copy()
        kind = next(name for name, known in VOCABULARIES.items() if isinstance(self.vocabulary, known))
        return TaskState({"labels": list(self.labels), "vocabulary": kind}, {"vocabulary": torch.from_numpy(content)})

    @property
    def vocabulary_size(self) -> int:
        """The number of rows of the embedding table."""
        return self.vocabulary.vocab_size

    def build_model(self, model_class: ModelClass, model_config: object) -> nn.Module:
        """Build the model of an architecture for this vocabulary and these labels."""
        return model_class.build(model_config, self)

    def dataset(
        self, split: str, model: nn.Module, *, seed: int = 0, epoch: int = 0, training: bool = False
    ) -> TextDataset:
        """Return the texts of a split.

        Raises:
            UserError: the folder has no such split.
        """
        if self.data_dir is None:
            raise ValueError("a task restored from a checkpoint has no data; load it from a folder")
        return self._dataset(LabelledArrays.open(self.data_dir, split, vocabulary=self.vocabulary_size), model, split)

    def texts(self, texts: Sequence[str], model: nn.Module, *, name: str = "input") -> TextDataset:
        """Return a dataset of new texts, all with label 0."""
        return self._dataset(labelled_arrays(texts, [0] * len(texts), self.vocabulary), model, name)

    def _dataset(self, arrays: LabelledArrays, model: nn.Module, name: str) -> TextDataset:
        return TextDataset(arrays, self.config.max_length, str(model.position_count), name)

    def evaluate(self, model: nn.Module, split: str, options: Mapping[str, object]) -> dict[str, float]:
        """Compute `macro_f1` of a split; the criterion logs the accuracy."""
        data = self.dataset(split, model)
        predicted = label_probabilities(model, data, max_tokens=int(str(options["max_tokens"]))).argmax(1)
        return {"macro_f1": classification_scores(data.arrays.labels, predicted, self.labels).macro_f1}


@torch.no_grad()
def label_probabilities(model: nn.Module, data: TextDataset, *, max_tokens: int) -> np.ndarray:
    """Return the probabilities (U, C) of the labels of every text, float32, in the order of the dataset."""
    device, order = next(model.parameters()).device, np.argsort(data.sizes, kind="stable")
    found = [np.zeros((0, 0), dtype=np.float32)]
    for part in plan_batches(data.sizes[order], max_tokens, seed=0, epoch=0, shuffle=False):
        found.append(model(data.batch(order[part]).to(device)).float().softmax(-1).cpu().numpy())
    return np.concatenate(found[1:] or found)[np.argsort(order)]
