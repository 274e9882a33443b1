"""The interfaces of tasks, datasets and batches that training, search and checkpoints use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
import torch
from torch import Tensor, nn
from typing_extensions import TypeVar

from docnmt.runtime.system import UserError


@dataclass(frozen=True, eq=False)
class TaskState:
    """The part of a task that a checkpoint stores, so that the task works without its data folder."""

    json: dict[str, Any]  # plain JSON values (vocabulary, languages, labels)
    tensors: dict[str, Tensor] = field(default_factory=dict)  # not called `model.*`, `optimizer.*` or `ema.*`


class Batch(Protocol):
    """The units that a model reads in one step."""

    @property
    def num_tokens(self) -> int:
        """The number of tokens that `tokens_per_second` counts."""

    def to(self, device: torch.device | str) -> Self:
        """Return the same batch on another device."""


class Dataset(Protocol):
    """The units of one split, as one architecture reads them."""

    @property
    def sizes(self) -> np.ndarray:
        """The cost (U,), int64, of each unit against `--max-tokens`."""

    def batch(self, units: np.ndarray) -> Batch:
        """Return the batch of these units; the same units give the same batch."""

    def describe(self, units: np.ndarray) -> str:
        """Describe the documents and lines of these units, for messages."""


class ModelClass(Protocol):
    """The interface of registered models: builds modules from a configuration."""

    def build(self, config: Any, task: Any) -> nn.Module:  # Any: both are of types that the model names
        """Build a model with random weights."""


def built(model_class: ModelClass, config: object, task: object) -> nn.Module:
    """Build a model, of a class that may be a plug-in's."""
    if not hasattr(model_class, "build"):
        kind = model_class if isinstance(model_class, type) else type(model_class)
        raise UserError(f"model class {kind.__module__}.{kind.__qualname__}: has no build")
    return model_class.build(config, task)


ConfigT = TypeVar("ConfigT", contravariant=True, default=Any)
ModelT = TypeVar("ModelT", contravariant=True, default=Any)


class Task(Protocol[ConfigT, ModelT]):
    """A task binds data, model and evaluation: `ConfigT` are its options, `ModelT` the models that it trains. `metrics`
    are the names that `evaluate` returns (`("bleu",)`), so that a misspelt one is rejected before training."""

    metrics: tuple[str, ...]

    @property
    def fingerprint(self) -> str:
        """A hash of the data folder, compared on resume."""

    @classmethod
    def load(cls, config: ConfigT, data_dir: Path) -> Self:
        """Load the task of a folder that docnmt-preprocess wrote."""

    @classmethod
    def restore(cls, config: ConfigT, state: TaskState) -> Self:
        """Restore the task of a checkpoint, without the folder."""

    def state(self) -> TaskState:
        """Return what a checkpoint must store for `restore`."""

    def build_model(self, model_class: ModelClass, model_config: object) -> nn.Module:
        """Build a new model, `model_class.build(model_config, self)`; `UserError` if it does not fit the task's
        configuration."""

    def dataset(self, split: str, model: ModelT, *, seed: int = 0, epoch: int = 0, training: bool = False) -> Dataset:
        """Return the dataset of a split in the units of `model`."""

    def evaluate(self, model: ModelT, split: str, options: Mapping[str, int]) -> dict[str, float]:
        """Compute the task's own metrics on a split, `max_tokens` at a time; the model's mode is restored."""


@runtime_checkable
class ContextTask(Protocol[ModelT]):
    """A task whose models may read context that does not count in their loss; implementing it is optional."""

    def other_contexts(self, split: str, model: ModelT) -> Mapping[str, Dataset]:
        """Return a split's datasets in contexts that do not belong to it, by name: `foreign`, `none`; {} if no context
        is read."""


@runtime_checkable
class SampleTask(Protocol[ModelT]):
    """A task that can show sample outputs of a model in training; implementing it is optional."""

    def samples(self, model: ModelT, split: str) -> Mapping[str, str]:
        """Return the model's outputs for some of a split, in Markdown, by name; the model's mode is restored."""
