"""What training, search and checkpoints need from a task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor, nn
from typing_extensions import Self, TypeVar


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
    def num_tokens(self) -> int:
        """What `tokens_per_second` counts."""

    def to(self, device: torch.device | str) -> Self:
        """The same batch on a device."""


class Dataset(Protocol):
    """The units of one split, as one architecture reads them."""

    @property
    def sizes(self) -> np.ndarray:
        """(U,) int64: what a unit costs against `--max-tokens`."""

    def batch(self, units: np.ndarray) -> Batch:
        """The batch of these units; the same units give the same batch."""

    def describe(self, units: np.ndarray) -> str:
        """Which documents and lines these are, for messages."""


class ModelClass(Protocol):
    """What a registered model is: something that builds modules from its configuration."""

    def build(self, config: Any, task: Any) -> nn.Module:  # Any: both are of types that the model names
        """A model with random weights."""


ConfigT = TypeVar("ConfigT", contravariant=True, default=Any)
ModelT = TypeVar("ModelT", contravariant=True, default=Any)


class Task(Protocol[ConfigT, ModelT]):
    """What binds data, model and evaluation: `ConfigT` are its options, `ModelT` the models that it trains.

    `metrics` are the names that `evaluate` returns (`("bleu",)`), so that a misspelt one is refused before training.
    """

    metrics: tuple[str, ...]

    @property
    def fingerprint(self) -> str:
        """A hash of the data folder, compared on resume."""

    @classmethod
    def load(cls, config: ConfigT, data_dir: Path) -> Self:
        """The task of a folder that docnmt-preprocess wrote."""

    @classmethod
    def restore(cls, config: ConfigT, state: TaskState) -> Self:
        """The task of a checkpoint, without the folder."""

    def state(self) -> TaskState:
        """What a checkpoint must hold for `restore`."""

    def build_model(self, model_class: ModelClass, model_config: object) -> nn.Module:
        """A new model, `model_class.build(model_config, self)`.

        Raises:
            UserError: it does not fit the task's own configuration.
        """

    def dataset(self, split: str, model: ModelT, *, seed: int = 0, epoch: int = 0, training: bool = False) -> Dataset:
        """A split as `model` reads it."""

    def evaluate(self, model: ModelT, split: str, options: Mapping[str, int]) -> dict[str, float]:
        """The task's own metrics on a split, `max_tokens` at a time; the model comes back in the mode it was in."""


@runtime_checkable
class ContextTask(Protocol):
    """A task whose models may read more than what they are judged on; others need not have this."""

    def other_contexts(self, split: str, model: Any) -> Mapping[str, Dataset]:  # Any: a model of the task
        """What `dataset` has of a split, in contexts that say nothing of it, by their names: `foreign`, `none`.

        Empty where the model reads no context.
        """


@runtime_checkable
class SampleTask(Protocol):
    """A task that has texts to show of a model in training; others need not have this."""

    def samples(self, model: Any, split: str) -> Mapping[str, str]:  # Any: a model of the task
        """What the model makes of some of a split, in Markdown, by name; the model comes back in the mode it was in."""
