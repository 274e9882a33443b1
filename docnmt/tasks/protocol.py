"""What training, search and checkpoints need from a task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn
from typing_extensions import Self


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

    def to(self, device: torch.device | str) -> Self: ...


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

    # Any below: every task and every model has a configuration class, and reads models, of its own.
    @classmethod
    def load(cls, config: Any, data_dir: Path) -> Self:
        """The task of a folder that docnmt-preprocess wrote."""

    @classmethod
    def restore(cls, config: Any, state: TaskState) -> Self:
        """The task of a checkpoint, without the folder."""

    def state(self) -> TaskState:
        """What a checkpoint must hold for `restore`."""

    def build_model(self, model_class: Any, model_config: Any) -> nn.Module:
        """A new model, `model_class.build(model_config, self)`.

        Raises:
            UserError: it does not fit the task's own configuration.
        """

    def dataset(self, split: str, model: Any, *, seed: int = 0, epoch: int = 0, training: bool = False) -> Dataset:
        """A split as `model` reads it."""

    def evaluate(self, model: Any, split: str, options: Mapping[str, int]) -> dict[str, float]:
        """The task's own metrics on a split, `max_tokens` at a time; the model comes back in the mode it was in."""
