"""A training run: task, model, optimizer and progress, with the operations that all parts of training share."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import torch
from torch import Tensor, nn

from docnmt.core.batch import plan_batches
from docnmt.core.models.encoder_decoder import EncoderDecoder
from docnmt.core.scoring.text_files import ModelRecord
from docnmt.core.tasks.task import Batch, Dataset, Task
from docnmt.core.training.checkpoint import load_state, optimizer_tensors, save_checkpoint, unique_state
from docnmt.core.training.config import SECTIONS, OptimizationConfig, RunConfig, TrainingConfig
from docnmt.core.training.criterions import Criterion
from docnmt.core.training.ema import MeanWeights
from docnmt.core.training.half_weights import HalfWeights
from docnmt.core.training.processor_time import ProcessorTime
from docnmt.core.training.progress_state import TrainingState
from docnmt.core.training.run_folder import RunFolder
from docnmt.modules.context_attention import tell_update
from docnmt.registry.options import to_dict
from docnmt.registry.registry import ARCHITECTURES, MODELS
from docnmt.registry.user_dir import imported
from docnmt.runtime import ranks
from docnmt.runtime.graphs import graphs_wished

if TYPE_CHECKING:  # FSDP2 takes a second to import
    from docnmt.core.training.graphed import FilledBatch, GraphedUpdates
    from docnmt.core.training.sharding import ShardedLoss


@dataclass(eq=False)
class Run:
    """A training run, on which the training loop works.

    Attributes:
        start: the model of `--finetune-from-model`.
        started_with: number of ranks at the run's first update; an update keeps as many batches if the number changes.
        sharded: the loss, if each rank has only a part of the model (`--shard`).
        mean: the running mean of the weights (`--ema`).
    """

    config: dict[str, Any]
    folder: RunFolder
    task: Task
    model: nn.Module
    criterion: Criterion
    optimizer: torch.optim.Optimizer
    device: torch.device
    state: TrainingState
    start: ModelRecord | None = None
    scores: dict[str, float] = field(default_factory=dict)
    saved: int | None = None
    saved_at: float = field(default_factory=time.monotonic)
    started_with: int = field(default_factory=ranks.world)
    sharded: ShardedLoss | None = None
    mean: MeanWeights | None = None
    processor_time: ProcessorTime = field(default_factory=ProcessorTime)
    _ahead: tuple[np.ndarray, Batch] | None = None

    @property
    def limits(self) -> RunConfig:
        """The options that may change when the run continues."""
        limits: RunConfig = self.config["run"]
        return limits

    @property
    def training(self) -> TrainingConfig:
        """The options of the training."""
        training: TrainingConfig = self.config["training"]
        return training

    @property
    def optimization(self) -> OptimizationConfig:
        """The options of optimizer and schedule."""
        optimization: OptimizationConfig = self.config["optimization"]
        return optimization

    @property
    def overdue(self) -> bool:
        """True if the last checkpoint is older than 15 minutes, by the clock of this rank."""
        return time.monotonic() - self.saved_at > 15 * 60

    @property
    def batches_an_update(self) -> int:
        """The number of batches of one update, of all ranks together."""
        return self.training.update_freq * self.started_with

    @cached_property
    def counters(self) -> list[Tensor]:
        """The model's buffers that a checkpoint stores: counters, running means."""
        kept = self.model.state_dict().keys()
        return [buffer for name, buffer in self.model.named_buffers() if name in kept]

    @cached_property
    def half_weights(self) -> HalfWeights | None:
        """On a card, what autocast would make of a translation model's weights one by one."""
        if not self.training.bf16 or self.sharded is not None or not isinstance(self.model, EncoderDecoder):
            return None
        stacks = self.model.encoder, self.model.decoder
        again = any(stack.checkpoint_activations for stack in stacks)  # in the backward pass, with other weights
        return HalfWeights(self.model, stacks) if not again and next(self.model.parameters()).is_cuda else None

    @cached_property
    def graphs(self) -> GraphedUpdates | None:
        """On a card, what computes an update as CUDA graphs, where that can be and DOCNMT_GRAPHS is not off."""
        wish = graphs_wished()
        if wish is False or (wish is None and self.device.type != "cuda"):
            return None
        from docnmt.core.training.graphed import graphed

        return graphed(self, wished=wish is not None)

    def plan(self, data: Dataset, *, shuffle: bool) -> list[np.ndarray]:
        """Return the batches of a dataset in this epoch."""
        return plan_batches(
            data.sizes,
            self.training.max_tokens,
            max_units=self.training.max_sentences,
            seed=self.training.seed,
            epoch=self.state.epoch,
            shuffle=shuffle,
        )

    def prepare(self, data: Dataset, units: np.ndarray) -> None:
        """Collate a batch, for which `batch` is asked next, while a card computes another; elsewhere nothing waits."""
        if self.device.type == "cuda":
            self._ahead = units, data.batch(units)

    def batch(self, data: Dataset, units: np.ndarray) -> Batch:
        """Return the collated batch of some units of the training data."""
        ahead, self._ahead = self._ahead, None
        return ahead[1] if ahead is not None and ahead[0] is units else data.batch(units)

    def loss(self, data: Dataset, units: np.ndarray) -> tuple[Tensor, dict[str, float | Tensor]]:
        """Return the summed loss of a batch, and its sums to log: `size`, `tokens` and the criterion's own."""
        return self.loss_of(self.batch(data, units).to(self.device))

    def loss_of(self, batch: Batch | FilledBatch) -> tuple[Tensor, dict[str, float | Tensor]]:
        """Return the same of a batch on the device."""
        halves = contextlib.nullcontext() if self.half_weights is None else self.half_weights.in_place()
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.training.bf16), halves:  # where it is safe
            loss, size, logs = self.criterion(self.model, batch) if self.sharded is None else self.sharded(batch)
        return loss, {"size": size, "tokens": batch.num_tokens, **logs}

    def tensors(self, *, optimizer: bool) -> dict[str, Tensor]:
        """Return the tensors of model and optimizer for a checkpoint; sharded ones are gathered in the first rank."""
        tensors = {f"model.{name}": tensor for name, tensor in unique_state(self.model).items()}
        if optimizer:
            tensors |= optimizer_tensors(self.optimizer, self.model)
            tensors |= {} if self.mean is None else self.mean.tensors()
        if self.sharded is None:
            return tensors
        from docnmt.core.training.sharding import whole_tensors

        return dict(whole_tensors(tensors))

    def mean_weights(self) -> contextlib.AbstractContextManager[None]:
        """Give the model the weights used in validation inside the context: those of `--ema`, or its own."""
        return contextlib.nullcontext() if self.mean is None else self.mean.in_place()

    @contextlib.contextmanager
    def whole_model(self) -> Iterator[None]:
        """Make `model` whole in every rank inside the context: under `--shard` a copy that is used and not trained."""
        if self.sharded is None:
            yield
            return
        from docnmt.core.training.sharding import whole

        held = self.model, self.sharded
        model = self.task.build_model(MODELS.get(ARCHITECTURES.get(self.training.arch).model), self.config["model"])
        with torch.no_grad():
            tensors = {name: whole(tensor) for name, tensor in unique_state(self.model).items()}
            load_state(model, tensors, self.folder.last)
        tell_update(model, self.state.update)
        self.model, self.sharded = model.to(self.device), None
        try:
            yield
        finally:
            self.model, self.sharded = held

    def save(self, path: Path, *, optimizer: bool) -> None:
        """Write a checkpoint (first rank only); without `optimizer` it can be used and averaged, not continued."""
        tensors = self.tensors(optimizer=optimizer)
        if ranks.rank():
            return
        self.folder.lock.check()
        task_state = self.task.state()
        tensors |= task_state.tensors
        training = self.training
        header = {
            "arch": training.arch,
            "model": ARCHITECTURES.get(training.arch).model,
            "criterion": training.criterion,
            "task": training.task,
            "config": {name: to_dict(self.config[name]) for name in SECTIONS},
            "task_state": task_state.json,
            "progress": self.state.to_json(),
            "fingerprint": self.task.fingerprint,
            "threads": torch.get_num_threads(),
            "ranks": self.started_with,
            "device": self.device.type,
            "scores": self.scores,
            "plugins": imported(),
            **({} if self.start is None else {"start": msgspec.to_builtins(self.start)}),
        }
        save_checkpoint(path, header, tensors)
        if path == self.folder.last:
            self.folder.settle()


def seed_everything(seed: int, update: int, batch: int = 0) -> None:
    """Seed torch for one batch of one update, on whichever rank; update 0 is for the model's initial weights."""
    entropy = [seed, update, batch] if batch else [seed, update]  # batch 0 keeps the seeds of runs of one batch
    torch.manual_seed(int(np.random.SeedSequence(entropy).generate_state(1, np.uint64)[0]))
