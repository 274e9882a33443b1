"""The task `nli`: sentence encoders trained to tell entailment, neutrality and contradiction of a pair."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from docnmt.batching.plan import plan_batches
from docnmt.sentence_vectors.config import NliConfig
from docnmt.sentence_vectors.embeddings import Embeddings
from docnmt.sentence_vectors.folder import NliFolder, PairArrays
from docnmt.sentence_vectors.models.sentence_pair import PackedSentences, PairBatch, SentencePairModel
from docnmt.sentence_vectors.pairs import NLI_LABELS
from docnmt.tasks.protocol import TaskState


@dataclass(frozen=True, eq=False)
class NliDataset:
    """The pairs of one split."""

    split: str
    pairs: PairArrays

    @property
    def sizes(self) -> np.ndarray:
        """(U,) words of both sentences."""
        return self.pairs.sizes

    def batch(self, units: np.ndarray) -> PairBatch:
        """These pairs: first all premises, then all hypotheses."""
        sentences = [self.pairs.sentence(2 * unit + side) for side in (0, 1) for unit in units]
        return PairBatch(PackedSentences.of(sentences), torch.from_numpy(self.pairs.labels[units].astype(np.int64)))

    def describe(self, units: np.ndarray) -> str:
        """Which pairs these are, counted from 1."""
        return f"{self.split} pairs {', '.join(str(unit + 1) for unit in units[:10])}{', …' if len(units) > 10 else ''}"


class Nli:
    """Natural language inference on K types of frozen word vectors (InferLite, section 3)."""

    Config = NliConfig
    metrics = ("soft_accuracy",)
    labels = NLI_LABELS

    def __init__(
        self, embeddings: Embeddings, probability: np.ndarray, *, folder: NliFolder | None = None, fingerprint: str = ""
    ) -> None:
        self.embeddings, self.probability, self.folder = embeddings, probability, folder
        self.vectors = embeddings.vectors
        self.fingerprint = fingerprint

    @classmethod
    def load(cls, config: NliConfig, data_dir: Any) -> Nli:
        """The task of a folder written by `docnmt-preprocess --task nli`.

        Raises:
            UserError: not such a folder, or it is damaged.
        """
        folder = NliFolder.open(Path(data_dir))
        return cls(folder.embeddings, folder.probability, folder=folder, fingerprint=folder.fingerprint)

    @classmethod
    def restore(cls, config: NliConfig, state: TaskState) -> Nli:
        """The task of a checkpoint, without data."""
        names = state.json["vectors"]
        vectors = [state.tensors[f"vectors.{k}"].numpy() for k in range(len(names))]
        return cls(Embeddings(names, state.json["words"], vectors), state.tensors["probability"].numpy())

    def state(self) -> TaskState:
        """Vocabulary and vectors: what encoding a new sentence needs."""
        tensors = {f"vectors.{k}": torch.as_tensor(table) for k, table in enumerate(self.vectors)}
        return TaskState(
            {"vectors": list(self.embeddings.names), "words": list(self.embeddings.words)},
            {**tensors, "probability": torch.as_tensor(self.probability)},
        )

    def build_model(self, model_class: Any, model_config: Any) -> nn.Module:
        """The model of an architecture for these vectors and labels."""
        model: nn.Module = model_class.build(model_config, self)
        return model

    def dataset(
        self, split: str, model: nn.Module, *, seed: int = 0, epoch: int = 0, training: bool = False
    ) -> NliDataset:
        """The pairs of a split.

        Raises:
            UserError: the folder has no such split.
        """
        if self.folder is None:
            raise ValueError("a task restored from a checkpoint has no data; load it from a folder")
        return NliDataset(split, self.folder.pairs(split))

    @torch.no_grad()
    def evaluate(self, model: nn.Module, split: str, options: Mapping[str, Any]) -> dict[str, float]:
        """`soft_accuracy`: by the codes before thresholding. `accuracy` of a hashing model is by the binary codes."""
        assert isinstance(model, SentencePairModel)
        data = self.dataset(split, model)
        device = next(model.parameters()).device
        right = 0
        for units in plan_batches(data.sizes, int(options["max_tokens"]), seed=0, epoch=0, shuffle=False):
            batch = data.batch(units).to(device)
            vectors = model.encode(batch.text)
            logits = model.classify(vectors if model.hash is None else model.hash.soft(vectors))
            right += int((logits.argmax(1) == batch.labels).sum())
        return {"soft_accuracy": right / len(data.sizes)}
