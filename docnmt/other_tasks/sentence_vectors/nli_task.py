"""The task `nli`: sentence encoders trained to tell entailment, neutrality and contradiction of a pair."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import nn

from docnmt.core.batch import plan_batches
from docnmt.core.corpus import check_files, read_meta, stored_array
from docnmt.core.tasks.task import ModelClass, TaskState
from docnmt.other_tasks.options import NliConfig
from docnmt.other_tasks.sentence_vectors.data import NLI_LABELS, PairDataset
from docnmt.other_tasks.sentence_vectors.embeddings import Embeddings
from docnmt.other_tasks.sentence_vectors.encoders import SentencePairModel
from docnmt.runtime.errors import UserError

TASK = "nli"


class Nli:
    """Natural language inference on K types of frozen word vectors (Kiros and Chan 2018, section 3).

    Args:
        probability: (V,) float32, relative frequency of each word in the training data.
        data_dir: the folder with the pairs; None for a task restored from a checkpoint.
    """

    Config = NliConfig
    metrics = ("soft_accuracy",)
    labels: Sequence[str] = NLI_LABELS

    def __init__(
        self, embeddings: Embeddings, probability: np.ndarray, *, data_dir: Path | None = None, fingerprint: str = ""
    ) -> None:
        self.embeddings, self.probability = embeddings, probability
        self.data_dir, self.fingerprint = data_dir, fingerprint

    @classmethod
    def load(cls, config: NliConfig, data_dir: str | Path) -> Nli:
        """Load the task of a folder written by `docnmt-preprocess --task nli`.

        Raises:
            UserError: the folder is not such a folder, or is damaged.
        """
        folder, meta = Path(data_dir), read_meta(Path(data_dir), task=TASK)
        if "probability.npy" in meta["files"]:
            raise UserError(f"{folder}: was written by an earlier version, as .npy files; preprocess again")
        check_files(folder, meta, "words.txt", "vectors.", "probability.")
        embeddings = Embeddings.open(folder, meta["vectors"], meta["files"])
        probability = stored_array(folder, "probability", meta["files"], "c")
        if probability.shape != (len(embeddings.words),) or probability.dtype != np.float32:
            raise UserError(f"{folder / 'probability.bin'}: is damaged: not a number for each word; preprocess again")
        return cls(embeddings, probability, data_dir=folder, fingerprint=str(meta["fingerprint"]))

    @classmethod
    def restore(cls, config: NliConfig, state: TaskState) -> Nli:
        """Restore the task of a checkpoint, without data."""
        names = state.json["vectors"]
        vectors = [state.tensors[f"vectors.{k}"].numpy() for k in range(len(names))]
        return cls(Embeddings(names, state.json["words"], vectors), state.tensors["probability"].numpy())

    def state(self) -> TaskState:
        """Return vocabulary and vectors, which suffice to encode new sentences."""
        tensors = {f"vectors.{k}": torch.as_tensor(table) for k, table in enumerate(self.embeddings.vectors)}
        return TaskState(
            {"vectors": list(self.embeddings.names), "words": list(self.embeddings.words)},
            {**tensors, "probability": torch.as_tensor(self.probability)},
        )

    def build_model(self, model_class: ModelClass, model_config: object) -> nn.Module:
        """Build the model of an architecture for these vectors and labels."""
        return model_class.build(model_config, self)

    def dataset(
        self, split: str, model: SentencePairModel, *, seed: int = 0, epoch: int = 0, training: bool = False
    ) -> PairDataset:
        """Return the pairs of a split.

        Raises:
            UserError: the folder has no such split, or it is damaged.
        """
        if self.data_dir is None:
            raise ValueError("a task restored from a checkpoint has no data; load it from a folder")
        meta = read_meta(self.data_dir)
        if split not in meta["splits"]:
            raise UserError(f"{self.data_dir}: has no split '{split}'; there are {', '.join(sorted(meta['splits']))}")
        check_files(self.data_dir, meta, f"{split}.")
        return PairDataset.open(self.data_dir, split, meta["files"], vocabulary=len(self.embeddings.words))

    @torch.no_grad()
    def evaluate(self, model: SentencePairModel, split: str, options: Mapping[str, object]) -> dict[str, float]:
        """Compute `soft_accuracy`, by codes before thresholding; hashing models' `accuracy` is by binary codes."""
        data = self.dataset(split, model)
        device = next(model.parameters()).device
        right = 0
        for units in plan_batches(data.sizes, int(str(options["max_tokens"])), seed=0, epoch=0, shuffle=False):
            batch = data.batch(units).to(device)
            vectors = model.encode(batch.text)
            logits = model.classify(vectors if model.hash is None else model.hash.soft(vectors))
            right += int((logits.argmax(1) == batch.labels).sum())
        return {"soft_accuracy": right / len(data.sizes)}
