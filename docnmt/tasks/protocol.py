"""What training, generation and checkpoints need from a task: the shapes behind `docs/architecture.md`, "Protocols"."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn


@dataclass(frozen=True, eq=False)
class TaskState:
    """What a checkpoint must hold so that a task works without its data folder.

    Attributes:
        json: plain JSON values (vocabulary, languages, labels).
        tensors: by name, for instance the tokenizer's model as bytes; `model.*` and `optimizer.*` are taken.
    """

    json: dict[str, Any]
    tensors: dict[str, Tensor] = field(default_factory=dict)


class Batch(Protocol):
    """What a model reads in one go."""

    @property
    def num_tokens(self) -> int: ...

    def to(self, device: torch.device | str) -> Any: ...


class Dataset(Protocol):
    """The units of one split, as one architecture reads them."""

    @property
    def sizes(self) -> np.ndarray:
        """(U,) int64: what a unit costs against `--max-tokens`."""

    def batch(self, units: np.ndarray) -> Batch:
        """The batch of these units; the same units give the same batch."""

    def describe(self, units: np.ndarray) -> str:
        """Which documents and lines these are, for messages."""


class Task(Protocol):
    """What binds data, model and evaluation.

    `metrics` are the names that `evaluate` returns (`("bleu",)`), so that a misspelt one is refused before training.
    """

    metrics: tuple[str, ...]

    @property
    def fingerprint(self) -> str:
        """A hash of the data folder, compared on resume."""

    @classmethod
    def load(cls, config: Any, data_dir: Any) -> Task: ...

    @classmethod
    def restore(cls, config: Any, state: TaskState) -> Task: ...

    def state(self) -> TaskState: ...

    def build_model(self, model_class: Any, model_config: Any) -> nn.Module: ...

    def dataset(
        self, split: str, model: nn.Module, *, seed: int = 0, epoch: int = 0, training: bool = False
    ) -> Dataset: ...

    def evaluate(self, model: nn.Module, split: str, options: Mapping[str, Any]) -> dict[str, float]: ...
